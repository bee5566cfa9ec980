"""The exchanges recommended from all brokers' advice keep the links a tree."""

from __future__ import annotations

import tomllib
from random import Random

import msgspec
import pytest

from shoal.overlays.self_organising.deciding.advice import as_toml, recommend
from shoal.overlays.self_organising.parameters import Heuristic, SelfOrganisingParameters
from shoal.overlays.self_organising.records import ProposalRecord
from shoal.overlays.shapes import check_tree

LINE = [("A", "B"), ("B", "C"), ("C", "D")]


def advised(
    left: str, right: str, old: tuple[str, str], saving: float = 10, at_us: int = 1
) -> ProposalRecord:
    return ProposalRecord(
        broker=right,
        at_us=at_us,
        outcome="advised",
        reason="",
        left=left,
        right=right,
        old_left=old[0],
        old_right=old[1],
        hops=2,
        cost_now=100.0,
        cost_then=100.0 - saving,
    )


def test_compatible_exchanges_are_all_recommended() -> None:
    rows = [advised("C", "A", ("A", "B")), advised("D", "B", ("D", "C"))]
    advice = recommend(LINE, rows, 0)
    assert advice.links == [("A", "C"), ("B", "C"), ("B", "D")]
    assert advice.exchanges == rows


def test_of_two_exchanges_of_one_link_the_better_is_recommended() -> None:
    rows = [advised("A", "C", ("B", "C"), 10), advised("B", "D", ("B", "C"), 20)]
    advice = recommend(LINE, rows, 0)
    assert advice.exchanges == rows[1:]
    assert advice.links == [("A", "B"), ("B", "D"), ("C", "D")]


def test_the_latest_advice_on_a_link_counts_and_old_advice_does_not() -> None:
    row = advised("A", "C", ("A", "B"), at_us=50)
    kept = msgspec.structs.replace(row, outcome="kept", left="C", right="A", at_us=60)
    assert recommend(LINE, [row, kept], 100).exchanges == []
    assert recommend(LINE, [kept, msgspec.structs.replace(row, at_us=70)], 100).exchanges
    later = advised("B", "D", ("C", "D"), at_us=151)
    assert recommend(LINE, [row, later], 101).exchanges == [row, later]
    assert recommend(LINE, [row, later], 100).exchanges == [later]
    assert recommend(LINE, [], 100) == (LINE, [])


def test_recommended_links_are_a_tree_for_any_advice() -> None:
    for seed in range(60):
        random = Random(seed)
        brokers = [f"B{number}" for number in range(8)]
        links = [(brokers[random.randrange(n)], brokers[n]) for n in range(1, 8)]
        rows = [
            advised(*random.sample(brokers, 2), random.choice(links), random.randrange(50))
            for _ in range(12)
        ]
        advice = recommend(links, rows, 0)
        check_tree(brokers, advice.links)
        assert len(set(advice.links)) == 7


def test_recommendations_together_respect_the_bound_of_links() -> None:
    line = [*LINE, ("D", "E")]
    rows = [advised("A", "D", ("A", "B"), 30), advised("C", "E", ("D", "E"), 20)]
    rows.append(advised("B", "D", ("B", "C"), 10))
    assert recommend(line, rows, 0).exchanges == rows
    may_have = SelfOrganisingParameters(max_degree=2)
    assert recommend(line, rows[1:2], 0, may_have).exchanges == []
    # D has three with the first, two without its link to E, and three again.
    assert recommend(line, rows, 0, SelfOrganisingParameters(max_degree=3)).exchanges == rows
    assert recommend(line, rows[:1], 0, may_have).exchanges == []
    # An exchange at its own end does not increase the number.
    assert recommend(LINE, [advised("A", "C", ("B", "C"))], 0, may_have).exchanges != []


def test_exchanges_ruled_out_by_the_operator_are_not_recommended() -> None:
    row = advised("A", "C", ("A", "B"))
    for rules in (
        SelfOrganisingParameters(pinned=(("B", "A"),)),
        SelfOrganisingParameters(forbidden=(("C", "A"),)),
    ):
        assert recommend(LINE, [row], 0, rules) == (LINE, [])


@pytest.mark.parametrize(
    ("heuristic", "words"),
    [
        (Heuristic.COST, "10 % less over 2 links (90 instead of 100 for all of them)"),
        (Heuristic.INTEREST, "its ends share 100 in an interval, not 90"),
    ],
)
def test_savings_are_given_as_the_heuristic_weighs_them(heuristic: Heuristic, words: str) -> None:
    advice = recommend(LINE, [advised("C", "A", ("B", "A"))], 0)
    printed = as_toml(advice, heuristic, ["so it is"]).splitlines()
    assert printed[0] == f"# A - C instead of A - B: {words}"
    assert printed[2:4] == ["# so it is", "links = ["]


def test_printed_links_are_valid_in_a_network_file() -> None:
    advice = recommend([('A"', "Zoë 🦈"), ('A"', "C")], [advised("C", "Zoë 🦈", ('A"', "C"))], 0)
    printed = as_toml(advice)
    assert tomllib.loads(printed) == {"links": [['A"', "Zoë 🦈"], ["C", "Zoë 🦈"]]}
    assert printed.splitlines()[0] == (
        '# C - Zoë 🦈 instead of A" - C: 10 % less over 2 links (90 instead of 100 per interval)'
    )
