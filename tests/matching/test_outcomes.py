"""Outcomes remembered by the ways of publications: always what a fresh match would give."""

from __future__ import annotations

from collections.abc import Hashable
from random import Random

import pytest

from shoal.language import parse
from shoal.matching import MatchIndex, Outcomes, outcomes
from shoal.matching.filed import buckets, filters
from tests.examples import examples
from tests.seeds.random_index import RandomIndex


@pytest.mark.parametrize("few", [0, buckets.FEW])
@pytest.mark.parametrize("remembered", [20, 2_000, outcomes.MAX_REMEMBERED])
def test_an_outcome_is_made_of_what_matches_now(
    remembered: int, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcomes, "MAX_REMEMBERED", remembered)
    for module in (buckets, filters, outcomes):
        monkeypatch.setattr(module, "FEW", few)
    found = 0
    for seed in range(examples(4)):
        random, drawn = Random(seed), RandomIndex(seed)
        index, made = MatchIndex(), Outcomes(tuple[Hashable, ...])
        for _ in range(120):
            for _ in range(random.choice([1, 1, 10])):
                id = random.randrange(50)
                if id in index and random.random() < 0.5:
                    index.remove(id)
                    made.remove(id)
                else:
                    filter = drawn._filter()
                    index.add(id, filter)
                    made.add(id, filter)
            publications = [drawn._publication() for _ in range(4)] * 2
            expected = [tuple(index.match(attributes)) for attributes in publications]
            assert [made.of(attributes) for attributes in publications] == expected
            assert made.of_each(publications) == expected
            found += sum(map(len, expected))
    assert found > examples(5_000)


def test_numbers_and_strings_of_one_attribute_take_ways_of_their_own() -> None:
    made: Outcomes[tuple[Hashable, ...]] = Outcomes(tuple)
    for id, text in enumerate(["x > 1", "x > 2", "x > 'a'", "x > 'b'", "x < 'c'", "x = TRUE"]):
        made.add(id, parse(text))
    given = [1, 2, 3, 2.5, "a", "b", "c", True, None]
    found = [(), (0,), (0, 1), (0, 1), (4,), (2, 4), (2, 3), (5,), ()]
    for _ in range(2):
        assert [made.of({} if x is None else {"x": x}) for x in given] == found


def test_an_outcome_is_made_once_until_its_filters_change() -> None:
    made: Outcomes[list[Hashable]] = Outcomes(list)
    made.add("s", parse("class = 'a' AND x > 1"))
    made.add("t", parse("class = 'b' AND x > 1"))
    first = made.of({"class": "a", "x": 2, "y": 7})
    made.add("u", parse("class = 'b'"))
    assert made.of({"class": "a", "x": 3}) is first
    made.add("v", parse("class = 'a' AND x > 5"))
    assert made.of({"class": "a", "x": 3}) is not first
    assert made.of({"class": "a", "x": 6}) == ["s", "v"]
