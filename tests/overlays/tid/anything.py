"""Strategies for every message about trees, valid or not."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from shoal.broker.messages import Message
from shoal.overlays.tid.messages import (
    Bind,
    Renew,
    TreeChange,
    TreeCopy,
    TreeKnown,
    TreesSaid,
    Unbind,
)

NUMBERS = st.one_of(st.integers(-2, 5), st.just(2**63 - 1))
TREES = st.sampled_from(["B0/P/0", "B2/Q/1", "B1/P/1"])


def tree_messages(
    brokers: Any, names: Any, subscriptions: Any, advertisements: Any, routed: Any
) -> dict[type[Message], st.SearchStrategy[Message]]:
    some = st.lists(advertisements, max_size=3).map(tuple)
    ids = st.lists(names, max_size=3).map(tuple)
    publications = st.lists(routed, max_size=3).map(tuple)
    return {
        TreeCopy: st.builds(TreeCopy, publications, NUMBERS, st.lists(TREES).map(tuple)),
        TreeChange: st.builds(TreeChange, TREES, NUMBERS, some, ids, st.one_of(st.just(""), TREES)),
        TreeKnown: st.builds(TreeKnown, TREES),
        TreesSaid: st.builds(TreesSaid),
        Bind: st.builds(Bind, TREES, subscriptions),
        Unbind: st.builds(Unbind, TREES, names),
        Renew: st.builds(Renew, brokers, NUMBERS),
    }
