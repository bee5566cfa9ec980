"""Tables of conjunctions that are alike but for their constants, against the scalar evaluator."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from shoal.language import parse
from shoal.matching import MatchIndex
from shoal.matching.derived import FIRST_SHARED, MAX_SHARED
from shoal.matching.filed.alike import FEW, AlikeTable
from shoal.matching.filed.filters import FiledFilters
from shoal.matching.predicates import compile_conjunction
from shoal.matching.vector_forms import vector_form
from shoal.model import And, Conjunction, Filter, Operator, predicate
from shoal.model.expressions import AttributeRef, FunctionCall, ValueExpression, call, derived_name
from tests.model.expression_strategies import some_attributes

_SIGNS = ("=", "<>", "<", "<=", ">", ">=")
_ODD = (0, 1, -3, 7, 2**53 - 1, -(2**53) + 1, 2**31, 0.0, -0.0, 0.1, 2.5, 1e308, -1e-300, 2.0**60)


def _some_shape(chance: random.Random, depth: int) -> Callable[[], ValueExpression]:
    """A random structure: each call has constants of its own in it, of the same types."""
    if depth == 0 or chance.random() < 0.2:
        name, kind = chance.choice("abc"), chance.randrange(3)
        if kind == 0:
            return lambda: AttributeRef(name)
        if kind == 1:
            integers = [each for each in _ODD if type(each) is int]
            return lambda: chance.choice((chance.randint(-9, 9), chance.choice(integers)))
        doubles = [each for each in _ODD if type(each) is float]
        return lambda: chance.choice((chance.uniform(-9, 9), chance.choice(doubles)))
    function = chance.choice(("+", "-", "*", "/", "%", "negative", "abs", "floor", "ceil", "order"))
    first = _some_shape(chance, depth - 1)
    if function in ("negative", "abs", "floor", "ceil"):
        return lambda: call(function, first())
    second = _some_shape(chance, depth - 1)
    return lambda: call(function, first(), second())


def _some_distance(chance: random.Random) -> ValueExpression:
    metres = chance.choice((0, 1.0, 5e5, 5_000_000, 3e7))
    places = chance.uniform(-95, 95), chance.uniform(-185, 185)
    return call("within", AttributeRef("a"), AttributeRef("b"), *places, metres)


def _conjunctions(chance: random.Random, count: int) -> list[Conjunction]:
    """Conjunctions of one form."""
    sign, shape = Operator(chance.choice(_SIGNS)), _some_shape(chance, 3)
    is_distance = chance.random() < 0.2
    low = chance.random() < 0.3
    found: list[Conjunction] = []
    while len(found) < count:
        expression = _some_distance(chance) if is_distance else shape()
        if not isinstance(expression, FunctionCall):
            return []
        name = derived_name(expression)
        operand = chance.choice((chance.randint(-9, 9), chance.uniform(-9, 9), chance.choice(_ODD)))
        test = predicate(name, Operator.EQ, True) if is_distance else predicate(name, sign, operand)
        bounds = [predicate("c", Operator.GE, chance.randint(-20, 5))] if low else []
        found.append((*bounds, test))
    return found


def _some_message(chance: random.Random) -> dict[str, Any]:
    """Often numbers that a place or a sum has; sometimes any values."""
    if chance.random() < 0.3:
        return some_attributes(chance)
    values = (chance.randint(-90, 90), chance.uniform(-90, 90), chance.choice(_ODD))
    return {name: chance.choice(values) for name in "abc"}


def _judge(seed: int, tables: int) -> int:
    """Compare tables with tests one by one; how many rows were TRUE by vector instructions."""
    chance, sure = random.Random(seed), 0
    for _ in range(tables):
        conjunctions = _conjunctions(chance, 60)
        made: dict[Any, AlikeTable] = {}
        rows: dict[int, tuple[Any, Conjunction]] = {}
        for number, conjunction in enumerate(conjunctions):
            evaluated = frozenset(test.attribute for test in conjunction if test.attribute != "c")
            form = vector_form(conjunction, evaluated)
            if form is None:
                continue
            table = made.setdefault(form.shape, AlikeTable(form.shape))
            table.add((number, 0), form.constants, compile_conjunction(conjunction))
            rows[number] = form.shape, conjunction
        for number in chance.sample(sorted(rows), len(rows) // 4):
            shape, _ = rows.pop(number)
            made[shape].remove((number, 0))
        for _ in range(12):
            message = _some_message(chance)
            truth = {n for n, (_, each) in rows.items() if compile_conjunction(each)(message)}
            found = [id for table in made.values() for id in table.search(message)]
            assert len(found) == len(set(found))
            assert set(found) == truth, (message, [rows[n] for n in truth ^ set(found)])
            weighed = [table.weigh(message.get) for table in made.values()]
            certain = sum(each for _, _, each in weighed)
            assert certain <= len(truth) <= certain + sum(tests for tests, _, _ in weighed)
            sure += certain
    return sure


def test_tables_of_alike_conjunctions_have_the_scalar_evaluators_matches() -> None:
    assert _judge(1, 40) > 400


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
def test_many_tables_have_the_scalar_evaluators_matches(seed: int) -> None:
    _judge(100 + seed, 2_000)


def _own(number: int, **more: Any) -> Filter:
    """`a + number * b > 10 * number`, beside other tests."""
    sum = call("+", AttributeRef("a"), call("*", AttributeRef("b"), number + 2))
    tests = [predicate(name, Operator.EQ, value) for name, value in more.items()]
    return Filter(And((predicate(derived_name(sum), Operator.GT, 10 * number), *tests)))


def test_expressions_of_their_own_are_few_tests() -> None:
    index = FiledFilters()
    for number in range(2_000):
        index.add(number, _own(number))
    assert index.match({"a": 1, "b": 1}) == [0]
    assert len(index.match({"a": 0.5, "b": 10.0})) == 1_999 + 1
    tests, found = index.weigh({"a": 0.5, "b": 10.0})
    assert tests < 150 < found
    # Beyond 2^53 vector instructions are not exact: each is tested.
    tests, _ = index.weigh({"a": 2**60, "b": 1})
    assert tests > 1_900
    assert index.match({"a": 2**60 + 1, "b": 1})[:2] == [0, 1]
    assert index.match({"a": "1", "b": 1}) == index.match({"b": 1}) == []


def test_attributes_of_any_kind_are_compared_with_each_other() -> None:
    order = derived_name(call("order", AttributeRef("a"), AttributeRef("b")))
    below = predicate(order, Operator.LT, 0)
    index = FiledFilters()
    for number in range(2 * MAX_SHARED):  # no room is left for shared expressions
        index.add(("full", number), parse(f"c + {number // 2} * d > 1"))
    assert len(index.derived) == MAX_SHARED
    for number in range(3 * FEW):
        index.add(number, Filter(And((below, predicate("size", Operator.GT, number)))))
    for a, b in (("x", "y"), (False, True), (1, 2.5)):
        assert len(index.match({"a": a, "b": b, "size": 3 * FEW})) == 3 * FEW
        assert index.match({"a": b, "b": a, "size": 3 * FEW}) == []


def test_an_expression_is_shared_from_its_second_test_on() -> None:
    index = MatchIndex()
    for number in range(100):
        index.add(number, _own(number))
    before = len(index.derived)
    index.add("again", _own(70))
    assert len(index.derived) == before + 1
    assert {"again", 70} <= set(index.match({"a": 1_000, "b": 1}))
    index.remove("again")
    assert len(index.derived) == before
    for number in range(100):
        index.remove(number)
    assert (len(index.derived), index._shared._alone) == (0, {})


def test_rows_leave_a_table_with_their_filters() -> None:
    index = FiledFilters()
    for number in range(3 * FEW):
        index.add(number, _own(number, room=5))
    for number in range(0, 3 * FEW, 2):
        index.remove(number)
    wanted = {number for number in range(1, 3 * FEW, 2) if 7 + (number + 2) * 9.5 > 10 * number}
    assert set(index.match({"room": 5, "a": 7, "b": 9.5})) == wanted
    for number in range(1, 3 * FEW, 2):
        index.remove(number)
    assert (index.match({"room": 5, "a": 7, "b": 9.5}), index._work, index._expressed) == ([], 0, 0)


@pytest.mark.parametrize("filters", [5, 100])
def test_the_cost_of_expressions_that_are_tested_one_by_one_counts(filters: int) -> None:
    index = FiledFilters()
    # Integers from 2^53 on are tested one by one.
    message = {"a": 2**60, "b": 2**60}
    shared = 0
    for number in range(FIRST_SHARED + filters):
        if number == FIRST_SHARED:
            shared = sum(index.weigh(message))
        index.add(number, parse(" + ".join([f"a * {number}.5 - b"] * 20) + " > 1"))
    assert sum(index.weigh(message)) - shared > filters * 20
