"""Any message of a broker that leaves a tree, sensible or not."""

from __future__ import annotations

from hypothesis import strategies as st

from shoal.broker.messages import Message
from shoal.model import Subscription
from shoal.overlays.tree.messages import (
    Abandon,
    Absent,
    Behind,
    Flushed,
    Prepare,
    Prepared,
    Refuse,
    Stayed,
    Stop,
    Stopped,
    Succeed,
    Succeeded,
)


def leaving_messages(
    brokers: st.SearchStrategy[str],
    names: st.SearchStrategy[str],
    subscriptions: st.SearchStrategy[Subscription],
) -> dict[type[Message], st.SearchStrategy[Message]]:
    attempts, turns = st.integers(-1, 3), st.integers(-1, 3)
    some = st.lists(names, max_size=3).map(tuple)
    several = st.lists(brokers, max_size=3).map(tuple)
    rows = st.lists(subscriptions, max_size=2).map(tuple)
    behind = st.builds(Behind, brokers, some, rows, some)
    moves = st.lists(st.tuples(names, turns), max_size=2).map(tuple)
    steads = st.lists(st.tuples(brokers, turns), max_size=2).map(tuple)
    plain = (Refuse, Flushed, Abandon)
    return {
        **{kind: st.builds(kind, attempts) for kind in plain},
        Absent: st.builds(Absent, attempts, st.dictionaries(brokers, steads, max_size=3)),
        Prepare: st.builds(Prepare, attempts, brokers, several, several),
        Prepared: st.builds(Prepared, attempts, several),
        Succeeded: st.builds(Succeeded, attempts, turns),
        Stayed: st.builds(Stayed, attempts, several),
        Stop: st.builds(Stop, attempts, turns),
        Stopped: st.builds(Stopped, attempts, turns),
        Succeed: st.builds(Succeed, attempts, st.lists(behind, max_size=2).map(tuple), moves),
    }
