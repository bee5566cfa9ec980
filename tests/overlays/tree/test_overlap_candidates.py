"""Whatever overlaps is a candidate, whoever came and went before; few are, where all fix one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shoal.language import parse
from shoal.matching import overlaps
from shoal.model import Filter
from shoal.overlays.tree.overlap_candidates import OverlapCandidates
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
        )
    ]
)


@given(st.lists(st.tuples(ALIKE | conjunctions() | filters(), st.booleans())), ALIKE | filters())
def test_nothing_that_overlaps_is_missed(told: list[tuple[Filter, bool]], asked: Filter) -> None:
    candidates: OverlapCandidates[int] = OverlapCandidates()
    for number, (filter, _) in enumerate(told):
        candidates.add(number, filter)
    for number, (filter, stays) in enumerate(told):
        if not stays:
            candidates.remove(number, filter)
    kept = [number for number, (_, stays) in enumerate(told) if stays]
    found = list(candidates.of(asked))
    assert found == [number for number in kept if number in found]
    assert {number for number in kept if overlaps(told[number][0], asked)} <= set(found)


def test_a_fixed_attribute_leaves_few() -> None:
    candidates: OverlapCandidates[str] = OverlapCandidates()
    for number in range(1_000):
        candidates.add(f"S{number}", parse(f"symbol = 'S{number}' AND price > 1"))
    asked = parse("symbol = 'S7' AND price < 3")
    assert list(candidates.of(asked)) == ["S7"]
    candidates.add("all", parse("price > 5"))
    assert len(candidates.of(asked)) == 1_001
    candidates.remove("all", parse("price > 5"))
    candidates.remove("S7", parse("symbol = 'S7' AND price > 1"))
    assert list(candidates.of(asked)) == []
