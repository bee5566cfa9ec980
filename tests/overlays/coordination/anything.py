"""Any message about a change of links, sensible or not."""

from __future__ import annotations

from hypothesis import strategies as st

from shoal.broker.messages import Message
from shoal.model import Subscription
from shoal.overlays.coordination.messages import (
    Abort,
    Decide,
    Facts,
    Flushed,
    GoElsewhere,
    Installed,
    LeaveWanted,
    LinkChange,
    NotNow,
    Prepare,
    Query,
    Ready,
    RefuseChange,
    Side,
)


def change_messages(
    brokers: st.SearchStrategy[str],
    names: st.SearchStrategy[str],
    subscriptions: st.SearchStrategy[Subscription],
) -> dict[type[Message], st.SearchStrategy[Message]]:
    numbers = st.integers(-1, 3)
    keys = st.tuples(brokers, numbers)
    some = st.lists(names, max_size=3).map(tuple)
    several = st.lists(brokers, max_size=3).map(tuple)
    rows = st.lists(subscriptions, max_size=2).map(tuple)
    sides = st.lists(st.builds(Side, brokers, some, rows), max_size=2).map(tuple)
    moves = st.lists(st.tuples(names, numbers), max_size=2).map(tuple)
    # Some that make sense at B1, a neighbour of B0 and B2.
    sensible = st.sampled_from(
        [
            LinkChange("B0", 1, "B1", ("B2",)),
            LinkChange("B3", 1, "B2", ("B1",)),
            LinkChange("B1", 1, "B0", ()),
        ]
    )
    changes = st.one_of(
        sensible, st.builds(LinkChange, brokers, numbers, brokers, several, st.booleans())
    )
    return {
        **{kind: st.builds(kind, keys) for kind in (Abort, Installed, Flushed)},
        LeaveWanted: st.builds(LeaveWanted, numbers, several),
        NotNow: st.builds(NotNow, numbers, names),
        Query: st.builds(Query, changes),
        Prepare: st.builds(Prepare, changes),
        Ready: st.builds(Ready, keys, numbers, st.builds(Facts, sides, moves)),
        RefuseChange: st.builds(RefuseChange, keys, names, st.booleans()),
        Decide: st.builds(Decide, changes, numbers),
        GoElsewhere: st.builds(GoElsewhere, brokers),
    }
