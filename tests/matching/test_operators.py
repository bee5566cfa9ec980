"""Every operator by itself, in every matcher, against naive matching through churn."""

from __future__ import annotations

import math
import random

import pytest

from shoal.language import parse
from shoal.matching import MatchIndex, matches
from shoal.matching.index import BATCH_MINIMUM
from shoal.model import And, Filter, Not, Operator, Or, Predicate, Value, predicate
from tests.strategies import NUMBERS, PATTERNS, STRINGS

INFINITE = [math.inf, -math.inf]
KINDS: list[list[Value]] = [[False, True], [*NUMBERS, *INFINITE], list(STRINGS)]
FOUND: list[Value | None] = [None, math.nan, *INFINITE, False, True, *NUMBERS, *STRINGS]
NAMES = ["a", "b", "openClose%Diff"]


def random_predicate(operator: Operator, chance: random.Random) -> Predicate:
    name = chance.choice(NAMES)
    values = chance.choice(KINDS)
    match operator:
        case Operator.IS_NULL | Operator.IS_NOT_NULL:
            return predicate(name, operator)
        case Operator.LIKE | Operator.NOT_LIKE:
            return predicate(name, operator, chance.choice(PATTERNS))
        case Operator.IN | Operator.NOT_IN:
            return predicate(name, operator, tuple(chance.choices(values, k=chance.randint(1, 4))))
        case _:
            return predicate(name, operator, chance.choice(values))


def random_filter(operator: Operator, chance: random.Random) -> Filter:
    one, other = (random_predicate(operator, chance) for _ in range(2))
    third = random_predicate(chance.choice(list(Operator)), chance)
    forms = [one, And((one, third)), Or((one, other)), Not(one), Not(And((one, third)))]
    return Filter(chance.choice(forms))


def random_publication(chance: random.Random) -> dict[str, Value]:
    drawn = {name: chance.choice(FOUND) for name in [*NAMES, "asked by nobody"]}
    return {name: value for name, value in drawn.items() if value is not None}


@pytest.mark.parametrize("operator", list(Operator), ids=lambda operator: operator.value)
def test_an_operator_equals_naive_matching_through_churn(operator: Operator) -> None:
    chance = random.Random(f"seed 1 {operator.value}")
    index, truth = MatchIndex(), {}
    for _ in range(3):
        for id in chance.sample(range(60), 40):
            if id in truth and chance.random() < 0.5:
                index.remove(id)
                del truth[id]
            else:
                truth[id] = random_filter(operator, chance)
                index.add(id, truth[id])
        publications = [random_publication(chance) for _ in range(BATCH_MINIMUM + 20)]
        offsets, ids = index.match_batch(publications)
        for number, publication in enumerate(publications):
            expected = sorted(id for id, filter in truth.items() if matches(filter, publication))
            assert sorted(index.match(publication)) == expected, publication
            assert sorted(ids[offsets[number] : offsets[number + 1]]) == expected, publication


@pytest.mark.parametrize(
    ("text", "value", "found"),
    [
        ("a LIKE '10\\%'", "10%", True),
        ("a LIKE '10!%' ESCAPE '!'", "10%", True),
        ("a LIKE '10!%' ESCAPE '!'", "100", False),
        (r"a LIKE '\\\\%'", "\\x", True),
        ("a LIKE '_'", "", False),
        ("a LIKE '%'", "", True),
        ("a = ''", "", True),
        ("a < ''", "", False),
        ("a = 9007199254740993", 9007199254740992, False),
        ("a = 9007199254740993", 9007199254740993, True),
        ("a >= 9223372036854775807", 2.0**63, True),
        ("a > 9223372036854775807", 2.0**63, True),
        ("a IN (9007199254740993)", 2.0**53, False),
        ("a = 0", -0.0, True),
        ("a = 1", True, False),
        ("a = TRUE", 1, False),
        ("a IN (TRUE)", 1.0, False),
        ("a <> 1", True, False),
        ("a >= FALSE", False, True),
        ("a > 1e308", math.nan, True),
        ("a <= 1e308", math.nan, False),
        ("a <> 0", math.nan, True),
        ("a > 1.7e308", math.inf, True),
        ("a < -1.7e308", -math.inf, True),
        ("a IS NOT NULL", math.nan, True),
    ],
)
def test_edge_cases_are_equal_in_every_matcher(text: str, value: Value, found: bool) -> None:
    filter, publication = parse(text), {"a": value, "other": 1}
    index = MatchIndex()
    index.add("s", filter)
    assert matches(filter, publication) is found
    assert index.match(publication) == ["s"] * found
    offsets, _ = index.match_batch([publication] * BATCH_MINIMUM)
    assert offsets[-1] == BATCH_MINIMUM * found
