"""Counters beside a simulated network: words at brokers, deliveries, a host's queues."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from shoal.broker.effects import Effect, Loads, Started, WatchLoads
from shoal.broker.messages import Advertise, Carrier, Message
from shoal.broker.strategy import Strategy
from shoal.experiments.octopia.repeated import RepeatedEffects
from shoal.model import BrokerId
from shoal.overlays.octopia.messages import BitSet, HomeChange
from shoal.overlays.tid.messages import Bind, TreeChange
from shoal.simulation.trace import DeliveryEvent

SECOND_US = 1_000_000


class Tap(Protocol):
    """Stands in front of a broker's system."""

    def received(self, broker: BrokerId, message: Message, now_us: int) -> None: ...

    def loads(self, broker: BrokerId, loads: Loads, now_us: int) -> None: ...

    def is_watched(self, broker: BrokerId) -> bool: ...


def tapped(
    kind: type[Strategy], tap: Tap, window_us: int, repeats_from_us: int | None
) -> type[Strategy]:
    """Return the system, with `tap` called with its inputs.

    From `repeats_from_us` on effects are repeated (`RepeatedEffects`), if it is given.
    """

    class Tapped(kind):  # type: ignore[misc, valid-type]  # a class that is given
        _repeated: RepeatedEffects | None = None

        def receive(
            self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
        ) -> None:
            tap.received(self.broker, message, now_us)
            if repeats_from_us is None:
                super().receive(neighbour, message, now_us, out)
                return
            if self._repeated is None:
                self._repeated = RepeatedEffects(self.broker, self, repeats_from_us)
            self._repeated.receive(neighbour, message, now_us, out, super().receive)

        def loads(self, loads: Loads, now_us: int, out: list[Effect]) -> None:
            tap.loads(self.broker, loads, now_us)
            super().loads(loads, now_us, out)

        def start(self, started: Started, now_us: int, out: list[Effect]) -> None:
            super().start(started, now_us, out)
            if tap.is_watched(self.broker) and not any(type(each) is WatchLoads for each in out):
                out.append(WatchLoads(window_us))

    return Tapped


class Words:
    """Spread of each advertisement and subscription, and the number of messages."""

    def __init__(self) -> None:
        self.messages = 0
        self._first_us: dict[tuple[str, BrokerId], int] = {}

    def received(self, broker: BrokerId, message: Message, now_us: int) -> None:
        match message:
            case Advertise(advertisement):
                name = advertisement.id
            case TreeChange() if message.added:
                name = message.added[0].id
            case HomeChange() if message.added:
                name = message.added[0].id
            case Bind(_, subscription):
                name = subscription.id
            case BitSet():
                self.messages += 1
                return
            case _:
                return
        self.messages += 1
        self._first_us.setdefault((name, broker), now_us)

    def loads(self, broker: BrokerId, loads: Loads, now_us: int) -> None: ...

    def is_watched(self, broker: BrokerId) -> bool:
        return False

    def delays_us(self, said_us: dict[str, int]) -> list[int]:
        """Of each that went anywhere: until the last broker that had not had it has it."""
        last: dict[str, int] = {}
        for (name, _), at_us in self._first_us.items():
            last[name] = max(last.get(name, 0), at_us)
        return [at_us - said_us[name] for name, at_us in last.items() if name in said_us]


class MessagesByBroker:
    """Messages other than publications, by the broker that receives them, from a time on."""

    def __init__(self) -> None:
        self.from_us: int | None = None
        self.counts: dict[BrokerId, int] = {}

    def received(self, broker: BrokerId, message: Message, now_us: int) -> None:
        is_counted = self.from_us is not None and now_us >= self.from_us
        if is_counted and not isinstance(message, Carrier):
            self.counts[broker] = self.counts.get(broker, 0) + 1

    def loads(self, broker: BrokerId, loads: Loads, now_us: int) -> None: ...

    def is_watched(self, broker: BrokerId) -> bool:
        return False


class Queues:
    """Copies that went over links, and one host's output queues to the other clusters."""

    def __init__(self, host: BrokerId, others: Iterable[BrokerId], from_us: int) -> None:
        self.copies = 0
        self._host = host
        self._others = tuple(others)
        self._from_us = from_us
        self.waiting: list[tuple[int, int]] = []

    def received(self, broker: BrokerId, message: Message, now_us: int) -> None:
        if isinstance(message, Carrier):
            self.copies += len(message.publications)

    def loads(self, broker: BrokerId, loads: Loads, now_us: int) -> None:
        if broker == self._host and now_us >= self._from_us:
            here = [loads.links[each].waiting for each in self._others if each in loads.links]
            self.waiting.append((now_us - self._from_us, sum(here)))

    def is_watched(self, broker: BrokerId) -> bool:
        return broker == self._host

    def mean_until(self, until_us: int) -> float:
        """Return how much waits, in the mean over that time.

        Each figure holds until the next one: windows without traffic are left out.
        """
        held_us = 0
        for (at_us, waiting), (end_us, _) in pairwise([*self.waiting, (until_us, 0)]):
            held_us += waiting * max(0, min(end_us, until_us) - at_us)
        return held_us / until_us


class CountingDeliveries:
    """In place of a trace's list: a large network's would fill the memory."""

    def __init__(self, first_burst: int) -> None:
        self._first_burst = first_burst
        self.is_of_burst = array("b")
        self.delivered_us = array("q")
        self.delays_us = array("q")
        self.overtaken = 0
        self._last: dict[tuple[str, str], int] = {}

    def __len__(self) -> int:
        return len(self.delays_us)

    def append(self, row: DeliveryEvent) -> None:
        publication = row.publication
        source: Any = publication.attributes["source"]
        self.is_of_burst.append(source >= self._first_burst)
        self.delivered_us.append(row.delivered_us)
        self.delays_us.append(row.delivered_us - publication.published_us)
        way = row.client, publication.publisher
        if publication.sequence < self._last.get(way, -1):
            self.overtaken += 1
        else:
            self._last[way] = publication.sequence

    def figures(self, from_us: int, consecutive: int) -> tuple[dict[str, float], list[float]]:
        """Means and shares; and the greatest delay, in s, of each so many in a row."""
        order = np.argsort(np.frombuffer(self.delivered_us, np.int64), kind="stable")
        delays = np.frombuffer(self.delays_us, np.int64)[order] / SECOND_US
        at = (np.frombuffer(self.delivered_us, np.int64)[order] - from_us) / SECOND_US
        burst = np.frombuffer(self.is_of_burst, np.int8)[order].astype(bool)
        series = [float(part.max()) for part in _parts(delays, consecutive)]
        ends = [float(part[-1]) for part in _parts(at, consecutive)]
        late = [end for end, most in zip(ends, series, strict=True) if most >= 1]
        found = {
            "mean_s": float(delays.mean()),
            "burst_mean_s": float(delays[burst].mean()) if burst.any() else 0.0,
            "beside_mean_s": float(delays[~burst].mean()) if (~burst).any() else 0.0,
            "most_s": float(delays.max()),
            "within_1_s": float((delays < 1).mean()),
            "stable_s": max(late, default=0.0),
            "overtaken": self.overtaken / len(delays),
        }
        return found, series


def _parts(values: Any, length: int) -> list[Any]:
    return [values[start : start + length] for start in range(0, len(values), length)]
