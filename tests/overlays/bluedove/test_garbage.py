"""Random messages of neighbours and clients never make a cluster's broker raise."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.broker.effects import (
    CancelTimer,
    Deliver,
    Effect,
    LinkChanged,
    LinkState,
    Received,
    Requested,
    SetTimer,
    Started,
    TimerFired,
    TimerKey,
)
from shoal.broker.machine import Broker
from shoal.matching.segments import Dimension
from shoal.overlays.bluedove.parameters import BlueDoveParameters
from shoal.overlays.registry import strategy_factory
from tests.broker.test_machine import ANY_MESSAGE, CLIENTS
from tests.examples import examples

BROKERS = ("B0", "B1", "B2", "B3")
TWO = (Dimension(attribute="a", low=-1, high=5), Dimension(attribute="b", low="a", high="z"))
SETTINGS = {
    "both": BlueDoveParameters(dimensions=TWO, dispatchers=("B0", "B1"), matchers=("B1", "B2")),
    "dispatcher": BlueDoveParameters(
        dimensions=TWO, dispatchers=("B1",), matchers=("B0", "B2"), elastic=True
    ),
    "matcher": BlueDoveParameters(dimensions=TWO, dispatchers=("B0",), matchers=("B1", "B2")),
    "joiner": BlueDoveParameters(dimensions=TWO, dispatchers=("B0",), matchers=("B2",)),
    "replica": BlueDoveParameters(
        dimensions=TWO, dispatchers=("B0",), matchers=("B1", "B2"), replicated=True
    ),
}
HAPPENINGS = st.lists(
    st.one_of(
        st.builds(Received, st.sampled_from(BROKERS), ANY_MESSAGE),
        st.builds(Requested, CLIENTS, ANY_MESSAGE),
        st.builds(LinkChanged, st.sampled_from(BROKERS), st.sampled_from(LinkState)),
        st.integers(1, 4_000_000),  # time passes, and timers fire
    ),
    max_size=40,
)


class Driver:
    """Gives inputs to a broker, and fires its timers in order."""

    def __init__(self, machine: Broker) -> None:
        self._machine = machine
        self._timers: dict[TimerKey, int] = {}
        self._now_us = 0

    def bring(self, input: object) -> list[Effect]:
        effects = self._machine.handle(input, self._now_us)  # type: ignore[arg-type]
        for effect in effects:
            match effect:
                case SetTimer(key, at_us):
                    self._timers[key] = at_us
                case CancelTimer(key):
                    self._timers.pop(key, None)
        return effects

    def wait(self, duration_us: int) -> None:
        until_us = self._now_us + duration_us
        while self._timers:
            at_us, key = min((at_us, key) for key, at_us in self._timers.items())
            if at_us > until_us:
                break
            self._now_us = max(self._now_us, at_us)
            del self._timers[key]
            self.bring(TimerFired(key))
        self._now_us = until_us


@pytest.mark.parametrize("role", SETTINGS)
@given(HAPPENINGS)
@settings(max_examples=examples(50))
def test_no_input_raises(role: str, happenings: list[object]) -> None:
    factory = strategy_factory("bluedove", SETTINGS[role])
    driver = Driver(Broker("B1", ("B0", "B2"), factory))
    driver.bring(Started())
    for happening in happenings:
        if isinstance(happening, int):
            driver.wait(happening)
            continue
        for effect in driver.bring(happening):
            if isinstance(effect, Deliver):
                assert effect.client in ("P", "Q", "C")
    driver.wait(20_000_000)
