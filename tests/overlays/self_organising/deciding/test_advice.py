"""What is recommended, of all that brokers advise, is a tree."""

from __future__ import annotations

import tomllib
from random import Random

import msgspec

from shoal.overlays.self_organising.deciding.advice import as_toml, recommend
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


def test_exchanges_that_go_together_are_all_taken() -> None:
    rows = [advised("C", "A", ("A", "B")), advised("D", "B", ("D", "C"))]
    advice = recommend(LINE, rows, 0)
    assert advice.links == [("A", "C"), ("B", "C"), ("B", "D")]
    assert advice.exchanges == rows


def test_of_two_for_one_link_the_one_that_saves_more_is() -> None:
    rows = [advised("A", "C", ("B", "C"), 10), advised("B", "D", ("B", "C"), 20)]
    advice = recommend(LINE, rows, 0)
    assert advice.exchanges == rows[1:]
    assert advice.links == [("A", "B"), ("B", "D"), ("C", "D")]


def test_the_last_word_on_a_link_holds_and_old_ones_do_not_count() -> None:
    row = advised("A", "C", ("A", "B"), at_us=50)
    kept = msgspec.structs.replace(row, outcome="kept", left="C", right="A", at_us=60)
    assert recommend(LINE, [row, kept], 100).exchanges == []
    assert recommend(LINE, [kept, msgspec.structs.replace(row, at_us=70)], 100).exchanges
    later = advised("B", "D", ("C", "D"), at_us=151)
    assert recommend(LINE, [row, later], 101).exchanges == [row, later]
    assert recommend(LINE, [row, later], 100).exchanges == [later]
    assert recommend(LINE, [], 100) == (LINE, [])


def test_whatever_is_advised_the_recommended_links_are_a_tree() -> None:
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


def test_what_is_printed_is_what_a_network_file_takes() -> None:
    advice = recommend([('A"', "Zoë 🦈"), ('A"', "C")], [advised("C", "Zoë 🦈", ('A"', "C"))], 0)
    printed = as_toml(advice)
    assert tomllib.loads(printed) == {"links": [['A"', "Zoë 🦈"], ["C", "Zoë 🦈"]]}
    assert printed.splitlines()[0] == (
        '# C - Zoë 🦈 instead of A" - C: 10 % less over 2 links (90 instead of 100 per interval)'
    )
