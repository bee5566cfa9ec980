"""Figures of one broker that change every second: rates, load, memory, delivery delay, links."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import msgspec

from shoal.model import BrokerId
from shoal.runtime.driving.quotas import allowed_processors


class LinkQueues(Protocol):
    """Per neighbour: the messages that ever entered the queue to it, and those in it."""

    def queues(self) -> Mapping[BrokerId, tuple[int, int]]: ...


class LinkFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One link, as this end sees it.

    `messages_per_s` and `bytes_out_per_s` are sent to the neighbour, `bytes_in_per_s` received;
    `waiting_bytes` are not acknowledged by it, `spooled_bytes` of them on disk. `delay_ms` is the
    time of a message to it, None until it is measured.
    """

    neighbour: BrokerId
    state: str
    messages_per_s: float
    bytes_in_per_s: float
    bytes_out_per_s: float
    waiting_bytes: int
    spooled_bytes: int
    delay_ms: float | None


class BrokerFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one broker.

    `in_per_s` are publications that the broker handles, `published_per_s` those of its own
    clients, `deliveries_per_s` deliveries to its clients. `processor` is the share of one core, or
    of what its container allows if that is less. Delays are in milliseconds, of the last minute or
    two, of messages that entered at this broker.
    """

    at_us: int
    uptime_s: float
    ready: bool
    draining: bool
    in_per_s: float
    published_per_s: float
    out_per_s: float
    deliveries_per_s: float
    dropped_per_s: float
    processor: float
    memory_bytes: int
    disk_free_bytes: int | None
    clients: int
    sessions: int
    subscriptions: int
    queued_bytes: int
    dropped: int
    p50_ms: float | None
    p99_ms: float | None
    p99_elsewhere_ms: float | None
    delays: list[int]
    certificate_days: float | None
    links: list[LinkFigures]


class RateMeter:
    """Turns totals into rates, over the time since they were last read."""

    def __init__(self) -> None:
        self._before: dict[str, float] = {}
        self._at_s = time.monotonic()
        self._busy_s = time.process_time()

    def read(
        self,
        figures: Mapping[str, Any],
        queues: Mapping[BrokerId, tuple[int, int]],
        delays: list[int],
        now_us: int,
    ) -> BrokerFigures:
        """The broker's figures now; rates of the first reading are 0.

        `figures` are the broker's (`BrokerService.figures`), `queues` those of its links, `delays`
        the histogram of delivery delays of the last minutes, by `latency.BUCKETS`.
        """
        now_s, busy_s = time.monotonic(), time.process_time()
        passed_s = max(1e-3, now_s - self._at_s)
        processor = (busy_s - self._busy_s) / passed_s / min(1.0, allowed_processors())
        self._at_s, self._busy_s = now_s, busy_s
        totals = dict(_totals(figures, queues))
        before, self._before = self._before, totals

        def rate(key: str) -> float:
            # A link that began again counts from 0.
            return round(max(0.0, totals[key] - before.get(key, totals[key])) / passed_s, 2)

        mqtt, journal = figures["mqtt"], figures["journal"] or figures["log"]
        here, elsewhere = (figures["latency"][where] for where in ("here", "elsewhere"))
        ends_s = min((row["ends_s"] for row in figures["certificates"]), default=None)
        return BrokerFigures(
            at_us=now_us,
            uptime_s=figures["uptime_s"],
            ready=figures["ready"],
            draining=bool(figures["clients"].get("is_draining")),
            in_per_s=rate("in"),
            published_per_s=rate("published"),
            out_per_s=rate("out"),
            deliveries_per_s=rate("deliveries"),
            dropped_per_s=rate("dropped"),
            processor=round(processor, 4),
            memory_bytes=_memory_bytes(),
            disk_free_bytes=None if journal is None else journal["free_bytes"],
            clients=mqtt["connected"],
            sessions=mqtt["sessions"],
            subscriptions=mqtt["subscriptions"],
            queued_bytes=mqtt["queued_bytes"],
            dropped=mqtt["dropped"],
            p50_ms=_milliseconds(here["p50_s"]),
            p99_ms=_milliseconds(here["p99_s"]),
            p99_elsewhere_ms=_milliseconds(elsewhere["p99_s"]),
            delays=delays,
            certificate_days=None if ends_s is None else round((ends_s - time.time()) / 86_400, 1),
            links=[
                LinkFigures(
                    neighbour=link["neighbour"],
                    state=link["state"],
                    messages_per_s=rate(f"messages {link['neighbour']}"),
                    bytes_in_per_s=rate(f"bytes in {link['neighbour']}"),
                    bytes_out_per_s=rate(f"bytes out {link['neighbour']}"),
                    waiting_bytes=link["buffered_bytes"],
                    spooled_bytes=link["spooled_bytes"],
                    delay_ms=None if link["delay_us"] is None else link["delay_us"] / 1000,
                )
                for link in figures["links"]
            ],
        )


def _totals(
    figures: Mapping[str, Any], queues: Mapping[BrokerId, tuple[int, int]]
) -> Iterable[tuple[str, float]]:
    counts, mqtt = figures["counts"], figures["mqtt"]
    alone = not figures["links"]
    yield "in", mqtt["publications"] if alone else counts.get("publications_in", 0)
    yield "published", mqtt["publications"]
    yield "out", counts.get("messages_out", 0)
    yield "deliveries", mqtt["deliveries"]
    yield "dropped", mqtt["dropped"]
    for link in figures["links"]:
        neighbour = link["neighbour"]
        entered, waiting = queues.get(neighbour, (0, 0))
        yield f"messages {neighbour}", entered - waiting
        yield f"bytes in {neighbour}", link["bytes_in"]
        yield f"bytes out {neighbour}", link["bytes_out"]


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(1e3 * seconds, 3)


def _memory_bytes() -> int:
    """Resident memory of this process; 0 where the system does not tell it in /proc."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 - 10 µs instead of 30
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
