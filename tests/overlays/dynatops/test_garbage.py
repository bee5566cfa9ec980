"""Random messages of neighbours and clients never make a ring's broker raise."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.broker.effects import (
    LinkChanged,
    LinkState,
    Received,
    Requested,
    Returned,
)
from shoal.broker.machine import Broker
from shoal.broker.wire import COMMON, Codec
from shoal.overlays.dynatops.messages import MESSAGES, ToHomes, ToRoot
from shoal.overlays.registry import SYSTEMS, strategy_factory
from shoal.overlays.tco.messages import MESSAGES as TCO_MESSAGES
from shoal.overlays.tco.messages import AlongPath
from tests.broker.test_machine import ANY_MESSAGE, CLIENTS
from tests.broker.test_machine import MESSAGES as STRATEGIES
from tests.examples import examples
from tests.garbage import feed

BROKERS = ("B0", "B1", "B2", "B3", "B4")
OTHERS = st.sampled_from(("B0", "B1", "B3", "B4"))
OF_ITS_OWN = st.one_of([STRATEGIES[kind] for kind in dict.fromkeys(MESSAGES + TCO_MESSAGES)])
CARRIERS = (ToRoot, ToHomes, AlongPath)
HAPPENINGS = st.lists(
    st.one_of(
        st.builds(Received, OTHERS, OF_ITS_OWN),
        st.builds(Received, OTHERS, ANY_MESSAGE),
        st.builds(Requested, CLIENTS, ANY_MESSAGE),
        st.builds(LinkChanged, OTHERS, st.sampled_from(LinkState)),
        st.builds(Returned, OTHERS, st.one_of([STRATEGIES[each] for each in CARRIERS])),
        st.integers(1, 4_000_000),  # time passes, and timers fire
    ),
    max_size=40,
)


@pytest.mark.parametrize("system", ["dynatops", "bayeux", "geops", "hybrid", "tco"])
@given(HAPPENINGS)
@settings(max_examples=examples(60))
def test_no_input_raises(system: str, happenings: list[object]) -> None:
    factory = strategy_factory(system, None, BROKERS)
    machine = Broker("B2", ("B0", "B3", "B4"), factory)
    feed(machine, happenings, Codec(COMMON + SYSTEMS[system].messages), {*BROKERS} - {"B2"})
