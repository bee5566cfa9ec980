"""Leaves of brokers from a graph with cycles, in every order of messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from shoal.overlays.tid.echoes import Echoes
from shoal.overlays.tid.protocol import Tid
from tests.examples import at_length
from tests.exploration.graphs import TRIANGLE, GraphLeaves
from tests.exploration.leaves import Play

EARLY = ("early",)
QUICK = {
    "two publications": Play(TRIANGLE, publications=2),
    "two publications back": Play(TRIANGLE, publications=2, publishing="C", subscribing="A"),
    "a publication, an advertisement goes": Play(TRIANGLE, publications=1, retracts=True),
    "subscriptions come and go": Play(TRIANGLE, comes="C", goes="C"),
    "a line": Play(),
}
SOAK = {
    "a line, a publication": Play(publications=1),
    "early": Play(TRIANGLE, fault=EARLY, publications=1),
    "early, an advertisement goes": Play(TRIANGLE, fault=EARLY, retracts=True),
    "early, subscriptions come and go": Play(TRIANGLE, fault=EARLY, comes="C", goes="A"),
    "a line, two publications": Play(publications=2),
}


def explored(play: Play) -> None:
    """AssertionError with the shortest path to a fault."""
    found = GraphLeaves(play).explore(2_000_000)
    assert not found.problems, "\n".join(found.problems)
    assert found.ends
    print(f"{found.states} states, {found.steps} steps, {found.ends} ends")


@pytest.mark.parametrize("play", QUICK.values(), ids=QUICK)
def test_a_leave_from_a_graph(play: Play) -> None:
    explored(play)


@pytest.mark.soak
@pytest.mark.parametrize("play", SOAK.values(), ids=SOAK)
def test_a_leave_from_a_graph_among_many(play: Play) -> None:
    explored(play)


# --- mutants: rules left out ----------------------------------------------------------------------

Patch = pytest.MonkeyPatch


def uses_a_tree_before_all_know_it(patch: Patch) -> None:
    patch.setattr(Echoes, "look", lambda self, tree, out: self._answers_to.get(tree, "") is None)


def leaves_while_trees_lead_over_it(patch: Patch) -> None:
    patch.setattr(Tid, "is_drained", lambda *arguments: True)


def sends_changes_of_trees_that_it_has_not_announced(patch: Patch) -> None:
    def change(self: Any, message: Any, hop: str | None, out: list[Any]) -> None:
        whole(self, message, hop, out)
        self.trees.all[message.tree].told = {each: None for each in self._neighbours if each != hop}

    whole = Tid._change
    patch.setattr(Tid, "_change", change)


@pytest.mark.parametrize(
    ("mutant", "play"),
    [
        (leaves_while_trees_lead_over_it, Play()),
        *at_length(
            [
                (
                    uses_a_tree_before_all_know_it,
                    Play(TRIANGLE, fault=EARLY, publications=1),
                ),
                (
                    sends_changes_of_trees_that_it_has_not_announced,
                    Play(TRIANGLE, fault=EARLY, retracts=True),
                ),
            ]
        ),
    ],
)
def test_the_judges_notice_a_rule_that_is_left_out(
    mutant: Callable[[Patch], None], play: Play, monkeypatch: Patch
) -> None:
    mutant(monkeypatch)
    found = GraphLeaves(play).explore(400_000)
    print(found.states, found.problems[-1:])
    assert found.problems
    assert not found.problems[-1].startswith(("TypeError", "AttributeError", "KeyError"))
