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
    behind = st.builds(Behind, brokers, some, st.lists(subscriptions, max_size=2).map(tuple))
    plain = (Prepared, Refuse, Flushed, Succeeded, Abandon, Stayed)
    return {
        **{kind: st.builds(kind, attempts) for kind in plain},
        Absent: st.builds(Absent, attempts, st.lists(brokers, max_size=3).map(tuple)),
        Prepare: st.builds(Prepare, attempts, brokers, st.lists(brokers, max_size=3).map(tuple)),
        Stop: st.builds(Stop, attempts, turns),
        Stopped: st.builds(Stopped, attempts, turns),
        Succeed: st.builds(Succeed, attempts, st.lists(behind, max_size=2).map(tuple)),
    }
