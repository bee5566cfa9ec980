"""All events of one broker: looks at its figures each second, and feeds the readers' streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

import msgspec

from shoal.broker.happenings import Happening
from shoal.broker.links.controls import BrokerLocation
from shoal.model import BrokerId
from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.notices import Notice
from shoal.mqtt.sessions.delivering.backlog import Backlog
from shoal.runtime.bounded_lines import LogBucket
from shoal.runtime.events.alerts import POOR, Alert, AlertBook, alerts_of
from shoal.runtime.events.happenings import of_location, of_notice
from shoal.runtime.events.rates import LinkQueues, RateMeter
from shoal.runtime.events.ring import BrokerEvent, EventRing
from shoal.runtime.events.worst_clients import WorstClients
from shoal.runtime.traffic.latency import Latencies

LOOK_S = 1.0
# The worst clients are sent each so many looks.
TOP_LOOKS = 5
# Happenings and drops that are kept for readers that come later.
KEPT = 500
# Drops of a second that are events; the rest is counted.
DROPS_BURST, DROPS_PER_S = 100.0, 100.0
HAPPENINGS_BURST, HAPPENINGS_PER_S = 50.0, 50.0
# A client that lost a message within this time has an alert.
LOSING_US = 60 * 1_000_000
# Alerts about single clients; `top` has more of them.
MOST_CLIENT_ALERTS = 3

Figures = Callable[[], Mapping[str, Any]]


class BrokerEvents:
    """The events of one broker; `start` and `stop` are called with its event loop."""

    def __init__(
        self,
        figures: Figures,
        about: Callable[[Mapping[str, Any]], Mapping[str, Any]],
        links: LinkQueues,
        latencies: Latencies,
        backlog: Backlog,
        now_us: Callable[[], int],
        incarnation: int,
    ) -> None:
        """`figures` are those of the metrics, `about` makes the event `broker` of them."""
        self._figures, self._about = figures, about
        self._links = links
        self._latencies = latencies
        self._now_us = now_us
        self._ring = EventRing(f"{incarnation:x}", KEPT)
        self._alerts = AlertBook()
        self._meter = RateMeter()
        self._worst = WorstClients(backlog)
        self._drops = LogBucket(DROPS_BURST, DROPS_PER_S, now_us())
        self._happenings = LogBucket(HAPPENINGS_BURST, HAPPENINGS_PER_S, now_us())
        # Whole states by their kind, each with the number of its change.
        self._states: dict[str, tuple[int, BrokerEvent]] = {}
        self._changes = 0
        self._looks = 0
        self._timer: asyncio.TimerHandle | None = None
        self._news = asyncio.Event()
        self._is_stopped = False

    def start(self) -> None:
        self._observe_broker()

    def stop(self) -> None:
        """End all streams."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
        self._wake()

    # --- sources ------------------------------------------------------------------------------

    def happened(self, happening: Happening) -> None:
        """Report an event; beyond 50 a second events are counted only."""
        if not self._happenings.take(self._now_us()):
            return
        left_out, self._happenings.left_out = self._happenings.left_out, 0
        row = msgspec.to_builtins(happening)
        self._ring.append("happened", row | {"left_out": left_out} if left_out else row)
        self._wake()

    def noticed(self, notice: Notice) -> None:
        """Report a notice of the audit log."""
        self.happened(of_notice(notice, self._now_us()))

    def located(self, where: BrokerLocation) -> None:
        """Report a broker that joined, moved or left."""
        self.happened(of_location(where))

    def dropped(self, client: str, message: PublishedMessage, why: str) -> None:
        """Report a message that a client will not get; beyond 100 a second they are counted."""
        now_us = self._now_us()
        self._worst.has_lost(client, why, now_us)
        if not self._drops.take(now_us):
            return
        left_out, self._drops.left_out = self._drops.left_out, 0
        row = {
            "at_us": now_us,
            "client": client,
            "why": why,
            "topic": message.topic[:200],
            "publisher": message.publisher,
            "key": None if message.key is None else f"{message.key[0]}/{message.key[1]}",
        }
        self._ring.append("dropped", row | {"left_out": left_out} if left_out else row)
        self._wake()

    # --- states -------------------------------------------------------------------------------

    def _observe_broker(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._observe_broker)
        figures, now_us = self._figures(), self._now_us()
        read = self._meter.read(
            figures, self._links.queues(), self._latencies.lately(now_us), now_us
        )
        self._set("broker", self._about(figures))
        worst = self._worst.look(now_us)
        self._find_alerts(figures, now_us)
        self._set("figures", msgspec.to_builtins(read))
        if self._looks % TOP_LOOKS == 0:
            self._set("top", {"clients": msgspec.to_builtins(worst)})
        self._looks += 1
        self._wake()

    def worst_clients(self) -> list[dict[str, Any]]:
        """The clients that lose or wait most, the worst first, for an answer."""
        found: list[dict[str, Any]] = msgspec.to_builtins(self._worst.look(self._now_us()))
        return found

    def alerts(self, figures: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The alerts of these figures, the worst and oldest first, for an answer; streams get them
        with the next look.
        """
        self._find_alerts(figures, self._now_us())
        found: list[dict[str, Any]] = msgspec.to_builtins(self._alerts.rows)
        return found

    def _find_alerts(self, figures: Mapping[str, Any], now_us: int) -> None:
        found = [*alerts_of(figures, now_us), *self._losing(now_us)]
        if self._alerts.update(found, now_us) or "alerts" not in self._states:
            self._set("alerts", {"alerts": msgspec.to_builtins(self._alerts.rows)})

    def _losing(self, now_us: int) -> Iterator[Alert]:
        """Alerts of the clients that lost messages within the last minute, the latest first."""
        losing = [
            (client, why)
            for client, (at_us, why) in reversed(self._worst.lost.items())
            if at_us > now_us - LOSING_US
        ]
        for client, why in losing[:MOST_CLIENT_ALERTS]:
            yield Alert(
                key=f"client {client}",
                level=POOR,
                text=f"{client} loses messages",
                effect=why,
                advice="look at the client: it reads slower than its subscriptions bring",
                client=client,
            )
        if len(losing) > MOST_CLIENT_ALERTS:
            more = len(losing) - MOST_CLIENT_ALERTS
            yield Alert(key="clients", level=POOR, text=f"{more:,} more clients lose messages")

    def _set(self, kind: str, data: Mapping[str, Any]) -> None:
        """Replace a state; readers get it if it is another, as `figures` are by their time."""
        known = self._states.get(kind)
        if known is not None and known[1].data == data:
            return
        self._changes += 1
        self._states[kind] = self._changes, BrokerEvent(kind, data)

    # --- streams ------------------------------------------------------------------------------

    async def stream(self, since: str = "") -> AsyncIterator[BrokerEvent]:
        """All states, the happenings after `since`, and then what comes, until the broker stops.

        A reader that is too slow for the ring misses its oldest events, and is told the number by
        an event `missed`.
        """
        seen_changes = 0
        first = self._ring.after(since)
        seen = self._ring.count - len(first)
        while not self._is_stopped:
            news = self._news
            states = sorted(each for each in self._states.values() if each[0] > seen_changes)
            seen_changes = states[-1][0] if states else seen_changes
            events = self._ring.beyond(seen)
            missed, seen = self._ring.count - seen - len(events), self._ring.count
            for _, state in states:
                yield state
            if missed:
                yield BrokerEvent("missed", {"events": missed})
            for event in events:
                yield event
            await news.wait()

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()


def about_broker(
    name: BrokerId, place: tuple[float, float] | None, figures: Mapping[str, Any]
) -> dict[str, Any]:
    """The content of the event `broker`: facts that rarely change."""
    keys = ("network", "system", "version", "protocol", "listening", "brokers")
    return {"broker": name, "place": place, **{key: figures[key] for key in keys}}
