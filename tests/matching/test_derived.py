"""Filters with expressions in every way to match, against a naive twin."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from shoal.language import format_filter, parse
from shoal.matching import Classes, MatchIndex, Outcomes, covers, matches, overlaps
from shoal.matching.derived import MAX_SHARED, MAX_SHARED_COST
from shoal.model import (
    And,
    Expression,
    Filter,
    FilterError,
    Not,
    Operator,
    Or,
    Predicate,
    predicate,
)
from shoal.model.expressions import (
    AttributeRef,
    ValueExpression,
    call,
    derived_expression,
    derived_name,
)
from tests.model.expression_strategies import (
    NAMES,
    some_attributes,
    some_condition,
    some_expression,
    with_list_texts,
)
from tests.model.naive_expressions import naive_value

_SIGNS = ("=", "<>", "<", "<=", ">", ">=")
_CONSTANTS: tuple[Any, ...] = (0, 1, -1, 2.5, 0.3, 2**53, -(2**63), "a", "ab", True, False)


def _some_chain(chance: random.Random) -> ValueExpression:
    """Steps on one attribute, most of which have forms that an index can look up."""
    found: ValueExpression = AttributeRef(chance.choice(NAMES))
    for _ in range(chance.randint(1, 3)):
        match chance.randrange(5):
            case 0:
                found = call(chance.choice(("negative", "floor", "ceil", "abs")), found)
            case 1:
                found = call("round", found, 1)
            case 2:
                found = call("coalesce", found, chance.choice((0, 2.5, "a")))
            case _:
                sign, constant = chance.choice("+-*/"), chance.choice((1, -2, 0.1, 1.8, 2**40))
                found = call(sign, found, constant)
    return found


def _some_test(chance: random.Random) -> Expression:
    shape = chance.randrange(6)
    if shape == 0:
        name = chance.choice(NAMES)
    elif shape <= 2:
        name = derived_name(_some_chain(chance))
    elif shape == 3:
        expression = some_condition(chance, 2)
        if not isinstance(expression, AttributeRef):
            return predicate(derived_name(expression), Operator.EQ, True)
        name = expression.name
    else:
        expression = some_expression(chance, 2)
        is_value = not hasattr(expression, "arguments")
        name = "a" if is_value else derived_name(expression)
    match chance.randrange(8):
        case 0:
            return predicate(name, chance.choice((Operator.IS_NULL, Operator.IS_NOT_NULL)))
        case 1:
            return predicate(name, chance.choice((Operator.LIKE, Operator.NOT_LIKE)), "a%")
        case 2:
            return predicate(name, chance.choice((Operator.IN, Operator.NOT_IN)), (1, 2.5))
    return predicate(name, Operator(chance.choice(_SIGNS)), chance.choice(_CONSTANTS))


def some_filter(chance: random.Random, depth: int = 2) -> Expression:
    match chance.randrange(4) if depth else 3:
        case 0:
            return Not(some_filter(chance, depth - 1))
        case 1 | 2:
            parts = tuple(some_filter(chance, depth - 1) for _ in range(2))
            return chance.choice((And, Or))(parts)
    while True:
        with suppress(FilterError):  # too costly
            return _some_test(chance)


def _naive(expression: Expression, attributes: dict[str, Any]) -> bool | None:
    match expression:
        case Not(operand):
            found = _naive(operand, attributes)
            return None if found is None else not found
        case And(operands) | Or(operands):
            deciding = isinstance(expression, Or)
            parts = [_naive(each, attributes) for each in operands]
            return deciding if deciding in parts else None if None in parts else not deciding
        case Predicate(attribute, operator, operand):
            value = naive_value(derived_expression(attribute), attributes)
            return _naive_test(value, operator.value, operand)
    raise AssertionError(expression)


def _naive_test(value: Any, operator: str, operand: Any) -> bool | None:
    if operator.startswith("IS"):
        return (value is None) is (operator == "IS NULL")
    item: dict[str, Any] = {"value": value}
    name = AttributeRef("value")
    if operator.endswith("IN"):
        found = naive_value(call("in", name, *operand), item)
    elif operator.endswith("LIKE"):
        found = naive_value(call("like", name, operand), item)
    else:
        return naive_value(call(operator, name, operand), item)  # type: ignore[no-any-return]
    return None if found is None else found is not operator.startswith("NOT")


def _judge(seed: int, filters: int, messages: int) -> None:
    chance = random.Random(seed)
    index, outcomes, classes = MatchIndex(), Outcomes(tuple), Classes()
    classified = classes.outcomes(tuple)
    given: dict[int, Filter] = {}
    for number in range(filters):
        made = Filter(some_filter(chance))
        given[number] = made
        for each in (index, outcomes, classified):
            each.add(number, made)
    for number in range(0, filters, 7):
        for each in (index, outcomes, classified):
            each.remove(number)
        del given[number]
    publications, wanted = [], []
    for _ in range(messages):
        attributes = some_attributes(chance)
        message = with_list_texts(attributes)
        publications.append(message)
        truth = {n for n, each in given.items() if _naive(each.expression, attributes) is True}
        wanted.append(truth)
        assert {n for n, each in given.items() if matches(each, message)} == truth
        assert set(index.match(message)) == truth, message
        assert index.matches_any(message) is bool(truth)
        assert set(outcomes.of(message)) == truth
        assert set(classified.of(message)) == truth
        index.weigh(message)
    offsets, ids = index.match_batch(_columns(publications))
    for number, truth in enumerate(wanted):
        assert set(ids[offsets[number] : offsets[number + 1]].tolist()) == truth
    for found, truth in zip(index.match_each(publications), wanted, strict=True):
        assert set(found) == truth


def _columns(publications: list[dict[str, Any]]) -> dict[str, Any]:
    names = {name for each in publications for name in each}
    return {
        name: np.array([each.get(name) for each in publications], object) for name in sorted(names)
    }


def test_all_ways_to_match_agree_with_the_naive_twin() -> None:
    _judge(3, 150, 40)


def test_beyond_the_shared_expressions_all_ways_agree() -> None:
    _judge(4, 700, 8)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_many_filters_agree_with_the_naive_twin(seed: int) -> None:
    _judge(100 + seed, 1_000, 300)


def test_filters_that_share_an_expression_cost_one_evaluation() -> None:
    index = MatchIndex()
    for number in range(1_000):
        index.add(number, parse(f"a - b > {number}"))
    read: list[str] = []

    class Counting(dict[str, Any]):
        def get(self, name: str, default: Any = None) -> Any:
            read.append(name)
            return super().get(name, default)

    assert len(index.match(Counting(a=10, b=4.5))) == 6
    assert read.count("b") == 1


def test_chains_of_one_attribute_need_no_evaluation() -> None:
    index = MatchIndex()
    for number in range(1_000):
        index.add(number, parse(f"temp * 1.8 + {number} >= 1000"))
    assert not index.derived
    assert len(index.match({"temp": 20.0})) == 36


def test_items_of_lists_are_looked_up() -> None:
    index = MatchIndex()
    for number in range(500):
        index.add(number, parse(f"array_contains(tags, {number}) AND b > 1"))
        index.add(f"t{number}", parse(f"array_contains(tags, 't{number}')"))
    index.add("true", parse("array_contains(tags, TRUE)"))
    index.add("not", parse("NOT array_contains(tags, 't0') AND c"))
    message = {"$list.tags": '["t7",7,7.0,1,null,"x"]', "b": 5, "c": True}
    assert index.match(message) == ["t7", 7, 1]
    assert index.match({**message, "$list.tags": "[true,8]"}) == ["true", 8]
    assert index.match({**message, "$list.tags": '["x"]'}) == ["not"]
    tests, found = index.weigh(message)
    assert (tests < 400, found) == (True, 1)
    offsets, ids = index.match_batch([message] * 200)
    assert ids[offsets[199] :].tolist() == ["t7", 7, 1]
    for number in range(500):
        index.remove(number)
        index.remove(f"t{number}")
    assert index.match({"$list.tags": "[1,true]"}) == ["true"]


def test_room_for_shared_expressions_is_given_back() -> None:
    index = MatchIndex()
    for number in range(MAX_SHARED + 10):
        index.add(number, parse(f"a * {number + 2} - b > 5"))
    assert len(index.match({"a": 10, "b": 1})) == MAX_SHARED + 10
    for number in range(MAX_SHARED + 10):
        index.remove(number)
    assert not index.derived
    index.add("last", parse("a - b > 5"))
    assert index.derived
    assert index.match({"a": 10, "b": 1}) == ["last"]


@pytest.mark.parametrize(
    ("one", "other", "covered"),
    [
        ("a - b > 5", "a - b > 6", True),
        ("a - b > 6", "a - b > 5", False),
        ("b + a > 5", "a + b >= 5.5 AND c = 1", True),
        ("a < b", "a < b AND c", True),
        ("a <= b", "a < b", True),
        ("a * 2 > 10", "a * 2.0 > 10.5 AND a < 1000", True),
        ("startswith(s, 'ab')", "s LIKE 'abc%'", True),
        ("exists(tags, t -> t = 'a')", "array_contains(tags, 'a')", True),
        ("coalesce(a, 0) < 5", "a IS NULL", True),
    ],
)
def test_covering_is_exact_on_one_attribute_derived_or_not(
    one: str, other: str, covered: bool
) -> None:
    assert covers(parse(one), parse(other)) is covered


def test_overlap_is_no_only_where_ranges_of_one_attribute_are_disjoint() -> None:
    assert not overlaps(parse("a - b > 5"), parse("a - b < 5"))
    assert not overlaps(parse("a * 2 > 10"), parse("a < 4"))
    assert not overlaps(parse("a = b"), parse("a <> b AND c"))
    assert overlaps(parse("a - b > 5"), parse("b - a > 5"))


@pytest.mark.parametrize("seed", range(3))
def test_covering_and_overlap_are_sound(seed: int) -> None:
    chance = random.Random(seed)
    filters = [Filter(some_filter(chance, 1)) for _ in range(30)]
    messages = [with_list_texts(some_attributes(chance)) for _ in range(60)]
    truth = [[matches(each, message) for message in messages] for each in filters]
    for one, ones in zip(filters, truth, strict=True):
        for other, others in zip(filters, truth, strict=True):
            pairs = list(zip(ones, others, strict=True))
            if covers(one, other):
                assert all(a for a, b in pairs if b), (format_filter(one), format_filter(other))
            if not overlaps(one, other):
                assert not any(a and b for a, b in pairs)


def test_costly_expressions_are_not_evaluated_for_every_message() -> None:
    index = MatchIndex()
    for number in range(200):
        costly = " || ".join(["lower(s)"] * 60)
        index.add(number, parse(f"room = {number} AND length({costly} || '{number}') > 5"))
    assert index._shared.cost <= MAX_SHARED_COST
    assert index.match({"room": 3, "s": "abc"}) == [3]
    assert index.match({"room": 199, "s": "abc"}) == [199]
    tests, _ = index.weigh({"room": 3, "s": "abc"})
    assert tests >= index._shared.cost // 4 > 0
