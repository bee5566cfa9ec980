"""Every overlapping filter is a candidate through any churn; few are if all fix one attribute."""

from __future__ import annotations

from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from shoal.language import parse
from shoal.matching import overlaps
from shoal.matching.relations import overlap_candidates
from shoal.matching.relations.overlap_candidates import OverlapCandidates
from shoal.model import Filter
from tests.strategies import conjunctions, filters

# Mostly alike, so that an attribute is often fixed by all: values equal across kinds, OR, nothing.
ALIKE = st.sampled_from(
    [
        parse(text)
        for text in (
            "a = 1",
            "a = 1.0 AND b > 2",
            "a = TRUE",
            "a = 'x' AND b = 2",
            "a = 1 AND a = 2",
            "(a = 1 AND b = 2) OR (a = 1 AND b = 3)",
            "a = 1 OR a = 2",
            "a = 1 OR b = 2",
            "FALSE",
            "a IS NULL",
            "a > 1 AND a < 3",
            "a LIKE 'topic%' AND b <> 2",
            "a = 'topic/1' AND b <= 2",
            "a = 'topic/2' OR a = 'topic/2' AND b = 1",
        )
    ]
)


@given(st.lists(st.tuples(ALIKE | conjunctions() | filters(), st.booleans())), ALIKE | filters())
def test_every_overlapping_filter_is_a_candidate(
    told: list[tuple[Filter, bool]], asked: Filter
) -> None:
    for few in (0, overlap_candidates.FEW):
        find_overlapping(few, told, asked)


def find_overlapping(few: int, told: list[tuple[Filter, bool]], asked: Filter) -> None:
    candidates: OverlapCandidates[int] = OverlapCandidates()
    with mock.patch.object(overlap_candidates, "FEW", few):
        for number, (filter, _) in enumerate(told):
            candidates.add(number, filter)
        for number, (filter, stays) in enumerate(told):
            if not stays:
                candidates.remove(number, filter)
        kept = [number for number, (_, stays) in enumerate(told) if stays]
        found = list(candidates.of(asked))
    assert found == [number for number in kept if number in found]
    assert {number for number in kept if overlaps(told[number][0], asked)} <= set(found)


def test_a_fixed_attribute_leaves_few_candidates() -> None:
    candidates: OverlapCandidates[str] = OverlapCandidates()
    for number in range(1_000):
        candidates.add(f"S{number}", parse(f"symbol = 'S{number}' AND price > 1"))
    asked = parse("symbol = 'S7' AND price < 3")
    assert list(candidates.of(asked)) == ["S7"]
    # Also if not all fix it, or some leave it open.
    candidates.add("all", parse("price > 2"))
    candidates.add("dear", parse("price > 5"))
    assert list(candidates.of(asked)) == ["S7", "all"]
    candidates.remove("all", parse("price > 2"))
    candidates.remove("S7", parse("symbol = 'S7' AND price > 1"))
    assert list(candidates.of(asked)) == []


def test_bounds_leave_the_filters_that_meet_them() -> None:
    candidates: OverlapCandidates[int] = OverlapCandidates()
    texts = [f"low >= {number} AND high < {number + 2}" for number in range(1_000)]
    for number, text in enumerate(texts):
        candidates.add(number, parse(text))
    assert list(candidates.of(parse("low = 70 AND high > 69"))) == [68, 69, 70]
    # Most go, so the others close up; and others come.
    for number in range(68):
        candidates.remove(number, parse(texts[number]))
    for number in range(71, 1_000):
        candidates.remove(number, parse(texts[number]))
    for number in range(1_000, 1_100):
        candidates.add(number, parse("low > 1000 OR low > 2000"))
    candidates.add(2_000, parse("low < 71"))
    assert list(candidates.of(parse("low = 70 AND high > 69"))) == [68, 69, 70, 2_000]


def test_texts_with_equal_beginnings_are_distinguished() -> None:
    candidates: OverlapCandidates[int] = OverlapCandidates()
    for number in range(100):
        candidates.add(
            number, parse(f"topic = 'market/quotes/{number}' OR topic = 'market' AND a = {number}")
        )
        candidates.add(number + 100, parse(f"topic = 'market/quotes/{number}'"))
    candidates.add(1_000, parse("topic LIKE 'market/%'"))
    found = list(candidates.of(parse("topic = 'market/quotes/7'")))
    assert [number for number in found if number >= 100] == [107, 1_000]
