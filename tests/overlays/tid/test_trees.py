"""A broker's knowledge of trees, against a naive twin and with bounded work."""

from __future__ import annotations

from random import Random

import pytest

from shoal.overlays.tid.trees import SourceTrees
from tests.broker.transcript import subscription
from tests.unread import Unread


@pytest.mark.parametrize("seed", range(5))
def test_a_bindings_change_reads_no_other_bindings(seed: int) -> None:
    random, trees = Random(seed), SourceTrees()
    tree = trees.grow("T", "B1", 1, (), ())
    assert tree is not None
    entries = tree.entries = Unread()
    bound: set[tuple[str, str | None]] = set()
    for _ in range(300):
        id, hop = f"s{random.randrange(6)}", random.choice((None, "B2", "B3"))
        was_bound = any(each == id for each, _ in bound)
        if random.random() < 0.5:
            is_new = trees.bind(tree, subscription(id, "x > 0"), hop)
            assert is_new == (not was_bound)
            bound.add((id, hop))
        else:
            is_gone = trees.unbind(tree, id, hop)
            was_here = (id, hop) in bound
            bound.discard((id, hop))
            assert is_gone == (was_here and not any(each == id for each, _ in bound))
        assert set(entries.rows()) == bound
        assert {each for each, _ in bound} == {each for each in tree.bound if tree.is_bound(each)}
