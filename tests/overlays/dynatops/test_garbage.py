"""Whatever neighbours and clients say, a broker of a ring goes on."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.broker.effects import (
    Deliver,
    LinkChanged,
    LinkState,
    Received,
    Requested,
    Returned,
    Send,
    SetTimer,
    Started,
    TimerFired,
)
from shoal.broker.machine import Broker
from shoal.broker.wire import COMMON, Codec
from shoal.overlays.dynatops.messages import MESSAGES, ToHomes, ToRoot
from shoal.overlays.registry import strategy_factory
from tests.broker.test_machine import ANY_MESSAGE, CLIENTS
from tests.broker.test_machine import MESSAGES as STRATEGIES
from tests.examples import examples

BROKERS = ("B0", "B1", "B2", "B3", "B4")
OTHERS = st.sampled_from(("B0", "B1", "B3", "B4"))
OF_ITS_OWN = st.one_of([STRATEGIES[kind] for kind in MESSAGES])
HAPPENINGS = st.lists(
    st.one_of(
        st.builds(Received, OTHERS, OF_ITS_OWN),
        st.builds(Received, OTHERS, ANY_MESSAGE),
        st.builds(Requested, CLIENTS, ANY_MESSAGE),
        st.builds(LinkChanged, OTHERS, st.sampled_from(LinkState)),
        st.builds(Returned, OTHERS, st.one_of(STRATEGIES[ToRoot], STRATEGIES[ToHomes])),
        st.integers(1, 4_000_000),  # time passes, and timers fire
    ),
    max_size=40,
)
CODEC = Codec(COMMON + MESSAGES)


@pytest.mark.parametrize("system", ["dynatops", "bayeux", "geops"])
@given(HAPPENINGS)
@settings(max_examples=examples(60))
def test_no_input_raises(system: str, happenings: list[object]) -> None:
    factory = strategy_factory(system, None, BROKERS)
    machine = Broker("B2", ("B0", "B3", "B4"), factory)
    now_us, timers = 0, {}
    for happening in [Started(), *happenings]:
        due = []
        if isinstance(happening, int):
            now_us += happening
            due = [key for key, at_us in timers.items() if at_us <= now_us]
            inputs = [TimerFired(key) for key in due]
        else:
            inputs = [happening]
        for key in due:
            del timers[key]
        for input in inputs:
            for effect in machine.handle(input, now_us):  # type: ignore[arg-type]
                match effect:
                    case SetTimer(key, at_us):
                        timers[key] = at_us
                    case Send(neighbour, message):
                        assert neighbour != "B2"
                        CODEC.encode(message)
                    case Deliver(subscriptions=subscriptions):
                        assert set(subscriptions) <= {"n1", "n2", "n3"}
