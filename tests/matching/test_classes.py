"""Outcomes by class equal those of many separate indexes, through any changes."""

from __future__ import annotations

from collections.abc import Hashable
from random import Random

import pytest

from shoal.language import parse
from shoal.matching import Classes, MatchIndex, classes, outcomes
from shoal.model import Attributes
from tests.examples import examples
from tests.seeds.random_index import RandomIndex


@pytest.mark.parametrize("is_small", [False, True])
def test_outcomes_by_class_equal_separate_indexes(
    is_small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_small:
        monkeypatch.setattr(outcomes, "MAX_REMEMBERED", 20)
        monkeypatch.setattr(classes, "MAX_CLASSIFIED", 3)
        monkeypatch.setattr(classes, "MAX_CLASSES", 2)
        monkeypatch.setattr(classes, "SAMPLE", 7)
        monkeypatch.setattr(classes, "PAUSE", 20)
    found = 0
    for seed in range(examples(4)):
        random, drawn, shared = Random(seed), RandomIndex(seed), Classes()
        pairs = [(MatchIndex(), shared.outcomes(tuple[Hashable, ...])) for _ in range(4)]
        filters = [drawn._filter() for _ in range(40)]
        under_way: list[Attributes] = []
        for _ in range(80):
            for _ in range(random.choice([0, 1, 10])):
                index, made = random.choice(pairs)
                id = random.randrange(50)
                if id in index and random.random() < 0.5:
                    index.remove(id)
                    made.remove(id)
                else:
                    filter = random.choice(filters)
                    index.add(id, filter)
                    made.add(id, filter)
            under_way = [*under_way[-8:], *(drawn._publication() for _ in range(3))]
            for attributes in under_way:
                for index, made in pairs:
                    expected = tuple(index.match(attributes))
                    assert made.of(attributes) == expected
                    found += len(expected)
    assert found > examples(5_000)


class _Watched(dict[str, int]):
    """Attributes that count reads."""

    looks = 0

    def get(self, name: str, default: int | None = None) -> int | None:  # type: ignore[override]
        self.looks += 1
        return super().get(name, default)


def test_a_publication_is_matched_once_for_all_classes() -> None:
    shared = Classes()
    made = [shared.outcomes(tuple[Hashable, ...]) for _ in range(3)]
    for number, each in enumerate(made):
        each.add("x", parse("x > 1"))
        each.add("y", parse(f"y > {number}"))
    for each in made:
        assert each.of({"x": 3, "y": 5}) == ("x", "y")
    attributes = _Watched(x=2, y=4)
    assert [each.of(attributes) for each in made] == [("x", "y")] * 3
    assert attributes.looks == 2  # at x and at y, for all three
    looks = attributes.looks
    made[0].add("z", parse("x > 1 AND z = 0"))
    assert [each.of(attributes) for each in made] == [("x", "y")] * 3
    assert attributes.looks > looks


def test_new_classes_are_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classes, "SAMPLE", 10)
    monkeypatch.setattr(classes, "PAUSE", 30)
    shared = Classes()
    for number in range(200):
        shared.add(parse(f"x > {number}"))
    of_a_class = [shared.class_of({"x": number}) is not None for number in range(60)]
    assert of_a_class == [*[True] * 9, *[False] * 20, *[True] * 10, *[False] * 20, True]
    of_a_class = [shared.class_of({"x": 7}) is not None for _ in range(40)]
    assert of_a_class == [True] * 40
