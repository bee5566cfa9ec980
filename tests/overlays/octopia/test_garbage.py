"""Random messages of neighbours and clients never make a product's broker raise."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.broker.effects import (
    LinkChanged,
    LinkLoad,
    LinkState,
    Loads,
    Received,
    Requested,
    Returned,
    Send,
    Started,
)
from shoal.broker.machine import Broker
from shoal.broker.wire import COMMON, Codec
from shoal.overlays.octopia.messages import MESSAGES, Notification, SpreadCopy
from shoal.overlays.octopia.parameters import Dynamic, OctopiaParameters
from shoal.overlays.registry import strategy_factory
from tests.broker.test_machine import ANY_MESSAGE, CLIENTS, ROUTED
from tests.broker.test_machine import MESSAGES as STRATEGIES
from tests.examples import examples
from tests.garbage import feed

BROKERS = ("B0", "B1", "B2", "B3", "B4", "B5")
ROWS = (("B0", "B1"), ("B2", "B3"), ("B4", "B5"))
SOMEBODY = st.sampled_from(BROKERS)
OF_ITS_OWN = st.one_of([STRATEGIES[kind] for kind in MESSAGES])
# The sender's own messages.
OWN = st.builds(
    Notification,
    st.lists(ROUTED, max_size=3).map(tuple),
    st.integers(1, 9),
    st.integers(0, 3),
    st.sampled_from([None, (), (0,), (1, 2)]),
)
HAPPENINGS = st.lists(
    st.one_of(
        st.builds(Received, SOMEBODY, OF_ITS_OWN),
        st.builds(Received, SOMEBODY, ANY_MESSAGE),
        st.builds(Requested, CLIENTS, ANY_MESSAGE),
        st.builds(LinkChanged, SOMEBODY, st.sampled_from(LinkState)),
        st.builds(Returned, SOMEBODY, OWN),
        st.dictionaries(SOMEBODY, st.builds(LinkLoad, *3 * [st.integers(0, 40)]), max_size=4).map(
            Loads
        ),
        st.integers(1, 4_000_000),  # time passes, and timers fire
    ),
    max_size=40,
)
CODEC = Codec(COMMON + MESSAGES)


@pytest.mark.parametrize("dynamic", Dynamic)
@given(HAPPENINGS)
@settings(max_examples=examples(60))
def test_no_input_raises(dynamic: Dynamic, happenings: list[object]) -> None:
    parameters = OctopiaParameters(rows=ROWS, dynamic=dynamic, threshold=1)
    machine = Broker("B2", ("B0", "B3", "B4"), strategy_factory("octopia", parameters))
    feed(machine, happenings, CODEC, {*BROKERS} - {"B2"})


@pytest.mark.parametrize("dynamic", Dynamic)
@pytest.mark.parametrize("neighbour", ["B0", "B3", "B4"])
def test_copies_for_no_cluster_have_no_effect(dynamic: Dynamic, neighbour: str) -> None:
    parameters = OctopiaParameters(rows=ROWS, dynamic=dynamic, threshold=1)
    machine = Broker("B2", ("B0", "B3", "B4"), strategy_factory("octopia", parameters))
    copies = [Notification((), 1, owed, only) for owed in range(4) for only in (None, (), (0, 1))]
    empty = [*copies, *(SpreadCopy((), 1, clusters, (0, 1, 2)) for clusters in range(4))]
    inputs = [of(neighbour, each) for each in empty for of in (Received, Returned)]
    said: list[object] = []
    machine.handle(Started(), 0)
    for input in inputs:
        said += machine.handle(input, 1)
    sent = [each.message for each in said if isinstance(each, Send)]
    assert not [each for each in sent if isinstance(each, Notification | SpreadCopy)]
