"""Unions of filters match exactly what their parts match, through churn."""

from __future__ import annotations

from random import Random

import pytest

from shoal.language import parse
from shoal.matching import Merging, covers, matches
from shoal.matching.relations.merging import MOST_MERGED
from shoal.model import Filter

OTHERS = ("", "symbol = 'A'", "symbol = 'B'")


def random_filter(chance: Random) -> Filter:
    """Of few kinds, with ends among few values, so that many adjoin."""
    low, width = chance.randint(0, 30), chance.randint(0, 6)
    tests = [chance.choice(OTHERS)]
    tests += chance.choice(
        (
            [
                f"x {chance.choice(('>', '>='))} {low}",
                f"x {chance.choice(('<', '<='))} {low + width}",
            ],
            [f"x BETWEEN {low} AND {low + width}", f"w > {chance.randint(0, 1)}"],
            [f"x > {low + 25}"],
            [f"x <= {low - 25}"],
            [f"x = {low}"],
            [f"name >= '{low:02}'", f"name < '{low + width:02}'"],
            [f"(x < {low} OR y > {low})"],
        )
    )
    return parse(" AND ".join(filter(None, tests)))


def naive(filters: list[Filter]) -> set[Filter]:
    """The unions of all filters, anew."""
    merging: Merging[int] = Merging()
    found: set[Filter] = set()
    for number, each in enumerate(filters):
        change = merging.add(number, each)
        found = found - {*change.gone} | {*change.new}
    return found


def check(unions: set[Filter], filters: list[Filter], chance: Random) -> None:
    for union in unions:
        parts = [each for each in filters if covers(union, each)]
        assert len(parts) > 1
        assert not any(covers(part, union) for part in parts)
        for _ in range(20):
            event = {
                "x": chance.choice([chance.randint(-1, 38), chance.randint(-2, 76) / 2]),
                "w": chance.randint(0, 3),
                "y": 0,
                "name": f"{chance.randint(0, 38):02}",
                "symbol": chance.choice("AB"),
            }
            assert matches(union, event) == any(matches(each, event) for each in parts)


def test_unions_match_what_their_parts_match_through_churn() -> None:
    chance = Random(1)
    merging: Merging[int] = Merging()
    there: dict[int, Filter] = {}
    unions: set[Filter] = set()
    most = 0
    for step in range(600):
        id = chance.randrange(60)
        if id in there and chance.random() < 0.5:
            del there[id]
            change = merging.remove(id)
        else:
            there[id] = random_filter(chance)
            change = merging.add(id, there[id])
        assert unions.isdisjoint(change.new)
        assert unions.issuperset(change.gone)
        unions = unions - {*change.gone} | {*change.new}
        most = max(most, len(unions))
        if not step % 10:
            assert unions == naive(list(there.values()))
            check(unions, list(there.values()), chance)
    assert most > 4
    assert unions.issuperset(merging.remove(*there).gone)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        # They meet where one ends and the other begins, between doubles and integers, too.
        (("x <= 5 AND x > 0", "x > 5 AND x < 9"), ["x > 0 AND x < 9"]),
        (("x < 5 AND x > 0", "x > 5 AND x < 9"), []),
        (("a < 'c' AND a > 'a'", "a >= 'c' AND a < 'e'"), ["a > 'a' AND a < 'e'"]),
        # One end may be open, not both: that is no conjunction of comparisons.
        (("x > 3 AND x < 5", "x >= 4"), ["x > 3"]),
        (("x < 5", "x > 3", "x > 4 AND x < 7", "x > -3 AND x < 9"), ["x < 9"]),
        # Where one covers all of them, or they differ elsewhere, there is nothing to say.
        (("x > 3 AND x < 5", "x > 2"), []),
        (("x > 3 AND x < 5 AND s = 'A'", "x > 4 AND x < 9 AND s = 'B'"), []),
        (("x > 3 AND x < 5", "x > 4 AND x < 9 OR y = 1"), []),
        (("x > 3 AND x < 5", "x > 4 AND x < 'a'"), []),
    ],
)
def test_worked_cases_of_unions(texts: tuple[str, ...], expected: list[str]) -> None:
    for order in (texts, texts[::-1]):
        assert naive(list(map(parse, order))) == set(map(parse, expected))


def test_the_number_of_merged_filters_is_bounded() -> None:
    merging: Merging[int] = Merging()
    for number in range(2 * MOST_MERGED):
        merging.add(number, parse(f"x >= {number} AND x <= {number + 1}"))
    assert merging.remove(0).new == (parse(f"x >= 1 AND x <= {MOST_MERGED + 1}"),)
