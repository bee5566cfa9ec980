"""A broker starts after its neighbours' first messages.

The process's loop may postpone the start while a busy machine gives the process no time
(`runtime/driving/timing/pauses.py`).
"""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from shoal.broker.effects import (
    Deliver,
    Input,
    LinkChanged,
    LinkState,
    Received,
    Requested,
    Send,
    SetTimer,
    Started,
    TimerFired,
)
from shoal.broker.machine import Broker
from shoal.broker.messages import Advertise, Subscribe
from shoal.overlays.dynatops.in_views import BEGIN
from shoal.overlays.registry import SYSTEMS, strategy_factory
from tests.broker.transcript import advertisement, publish, subscription

NAMES = ("A", "B", "C")
IN_VIEWS = ("dynatops", "bayeux", "geops", "hybrid", "tco")


class Ring:
    """Brokers that are linked at once; the test starts each."""

    def __init__(self, system: str) -> None:
        parameters = SYSTEMS[system].parameters(brokers=NAMES)
        factory = strategy_factory(system, parameters)
        self.machines = {name: Broker(name, (), factory) for name in NAMES}
        self.delivered: list[tuple[str, int]] = []
        self._under_way = deque[tuple[str, Input]]()
        self._now_us = 0
        for name in NAMES:
            assert any(
                isinstance(each, SetTimer) and each.key == BEGIN
                for each in self.handle(name, Started())
            )
        # The clients' subscriptions are known before neighbours are linked.
        for name in NAMES:
            wanted = Subscribe(subscription(f"s{name}", "x >= 0", f"C{name}"))
            self.handle(name, Requested(f"C{name}", wanted))
        for one in NAMES:
            for other in NAMES:
                if one != other:
                    self.handle(one, LinkChanged(other, LinkState.UP))

    def handle(self, name: str, input: Input) -> list[Any]:
        self._now_us += 1
        effects = self.machines[name].handle(input, self._now_us)
        for each in effects:
            if isinstance(each, Send):
                self._under_way.append((each.neighbour, Received(name, each.message)))
            elif isinstance(each, Deliver):
                self.delivered.append((name, each.routed.publication.sequence))
        return effects

    def settle(self) -> None:
        while self._under_way:
            self.handle(*self._under_way.popleft())

    def begin(self, *names: str) -> None:
        for name in names:
            self.handle(name, TimerFired(BEGIN))
            self.settle()


@pytest.mark.parametrize("late", NAMES)
@pytest.mark.parametrize("system", IN_VIEWS)
def test_a_broker_that_starts_after_neighbours_messages_is_ready_and_misses_nothing(
    system: str, late: str
) -> None:
    ring = Ring(system)
    ring.begin(*(name for name in NAMES if name != late))
    ring.begin(late)
    assert [name for name, each in ring.machines.items() if not each.is_ready] == []
    for number, name in enumerate(NAMES, start=1):
        publisher = f"P{name}"
        promised = Advertise(advertisement(f"a{name}", "x >= 0", publisher))
        ring.handle(name, Requested(publisher, promised))
        ring.handle(name, Requested(publisher, publish(number, publisher=publisher)))
        ring.settle()
    assert sorted(ring.delivered) == [(name, number) for name in NAMES for number in (1, 2, 3)]
