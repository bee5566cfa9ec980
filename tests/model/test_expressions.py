"""Value expressions: their meaning against a naive twin, their names, and their bounds."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from shoal.language import FilterSyntaxError, format_value, parse_value
from shoal.model import FilterError, Operator, predicate
from shoal.model.expressions import (
    DERIVED,
    MAX_COST,
    AttributeRef,
    ExpressionError,
    FunctionCall,
    ItemRef,
    ValueExpression,
    call,
    check_expression,
    cost_of,
    derived_expression,
    derived_name,
    evaluate_expression,
)
from tests.model.expression_strategies import (
    some_attributes,
    some_condition,
    some_expression,
    with_list_texts,
)
from tests.model.naive_expressions import naive_value

MAXIMUM = 2**63 - 1


@pytest.mark.parametrize(
    ("text", "attributes", "value"),
    [
        ("a + 1", {"a": MAXIMUM}, None),
        ("a + 1", {"a": float(MAXIMUM)}, float(2**63)),
        ("-a", {"a": -MAXIMUM - 1}, None),
        ("abs(a)", {"a": -MAXIMUM - 1}, None),
        ("a / 2", {"a": 5}, 2.5),
        ("a / b", {"a": 5, "b": -0.0}, None),
        ("a % b", {"a": -7, "b": 2}, -1),
        ("a % 0", {"a": 7}, None),
        ("a * a", {"a": 1e200}, math.inf),
        ("a - 1", {"a": "5"}, None),
        ("a || 'b'", {"a": "a"}, "ab"),
        ("a || 'b'", {"a": 1}, None),
        ("concat(a, a)", {"a": "x" * 8_193}, None),
        ("concat(a, a)", {"a": "x" * 8_192}, "x" * 16_384),
        ("round(a, 2)", {"a": 2.675}, 2.68),
        ("round(a, 2)", {"a": -2.675}, -2.68),
        ("round(a, 1)", {"a": 7}, 7),
        ("floor(a)", {"a": -0.5}, -1),
        ("ceil(a)", {"a": 1e300}, None),
        ("length(a)", {"a": "😀"}, 1),
        ("upper(a)", {"a": "ß"}, "SS"),
        ("trim(a)", {"a": " \ta "}, "\ta"),
        ("substring(a, 0, 2)", {"a": "hello"}, "he"),
        ("substring(a, -10, 7)", {"a": "hello"}, "he"),
        ("substring(a, -3, 2)", {"a": "hello"}, "ll"),
        ("coalesce(a, 2.5)", {"a": 5}, 5),
        ("nullif(a, 'x')", {"a": 5}, 5),
        ("nullif(a, 5.0)", {"a": 5}, None),
        ("least(a, b, c)", {"a": 5, "b": "1", "c": 5.0}, 5),
        ("greatest(a, b)", {"a": 5, "b": math.inf}, math.inf),
        ("TRY_CAST(a AS DOUBLE)", {"a": "5"}, 5.0),
        ("TRY_CAST(a AS DOUBLE)", {"a": " 5"}, None),
        ("TRY_CAST(a AS DOUBLE)", {"a": "5d"}, None),
        ("CASE WHEN a > 5 THEN 'high' ELSE 0 END", {"a": 6}, "high"),
        ("CASE WHEN a > 5 THEN 'high' ELSE 0 END", {"a": "6"}, 0),
        ("CASE a WHEN 5 THEN 'five' END", {"a": 5.0}, "five"),
        ("CASE a WHEN 5 THEN 'five' END", {"a": 6}, None),
        ("size(a)", {"$list.a": '["x",null]'}, 2),
        ("size(a)", {"a": "xy", "$list.a": "xy"}, None),
        ("size(a)", {"$list.a": str([0] * 257)}, None),
        ("a.b - 1", {"a.b": 3}, 2),
        ("a-b", {"a": 3, "b": 1}, 2),
        ("a + b * c", {"a": 1, "b": 2, "c": 3}, 7),
        ("(a + b) * -c", {"a": 1, "b": 2, "c": 3}, -9),
        ("2 - 3 - 4", {}, -5),
        ("case - end", {"case": 3, "end": 1}, 2),
        ("length + 1", {"length": 3}, 4),
    ],
)
def test_an_expression_has_the_value_of_its_definition(
    text: str, attributes: dict[str, Any], value: Any
) -> None:
    found = evaluate_expression(parse_value(text), attributes)
    assert found == value
    assert type(found) is type(value)


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and (one == other or (one != one and other != other))


def _judge(seed: int, pairs: int) -> None:
    chance = random.Random(seed)
    for number in range(pairs):
        make = some_condition if number % 2 else some_expression
        expression = make(chance, chance.randrange(1, 5))
        for _ in range(3):
            attributes = some_attributes(chance)
            found = evaluate_expression(expression, with_list_texts(attributes))
            wanted = naive_value(expression, attributes)
            assert _same(found, wanted), (expression, attributes, found, wanted)


def test_random_expressions_have_the_value_of_the_naive_twin() -> None:
    _judge(1, 1_500)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_many_random_expressions_have_the_value_of_the_naive_twin(seed: int) -> None:
    _judge(100 + seed, 30_000)


def _read_again(text: str) -> ValueExpression:
    """The expression of a text; None if it has constants of a wrong kind, which are refused."""
    try:
        return parse_value(text)
    except FilterSyntaxError as error:
        wanted = ("takes", "different kinds", "a constant is no condition")
        if not any(each in str(error) for each in wanted):
            raise
        return None


def test_names_and_texts_read_back_as_the_same_expression() -> None:
    chance = random.Random(2)
    for _ in range(700):
        expression = some_expression(chance, chance.randrange(1, 4))
        if not isinstance(expression, FunctionCall) or cost_of(expression) > MAX_COST:
            continue
        assert derived_expression(derived_name(expression)) == expression
        again = _read_again(format_value(expression))
        if again is None:
            continue
        attributes = with_list_texts(some_attributes(chance))
        one = evaluate_expression(expression, attributes)
        assert _same(evaluate_expression(again, attributes), one), format_value(expression)
        # The text is in normal form after one reading.
        assert format_value(parse_value(format_value(again))) == format_value(again)


def test_constants_are_folded_and_operands_of_sums_ordered() -> None:
    assert parse_value("2 * 3 + 1") == 7
    assert (
        parse_value("b + a")
        == parse_value("a + b")
        == call("+", AttributeRef("a"), AttributeRef("b"))
    )
    assert parse_value("5 + a") == call("+", AttributeRef("a"), 5)
    # Not regrouped: sums of doubles are not associative.
    assert parse_value("a + (b + c)") != parse_value("a + b + c")


def _nested(text: str, times: int) -> str:
    return "abs(" * times + text + ")" * times


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_nested("a", 200), "nest deeper than 100"),
        ("a" + " - a" * 200, "nest deeper than 100"),
        (" + ".join(["a"] * 2_000), "at most 1000 parts"),
        (" || ".join(["a"] * 2_000), "at most 1000 parts"),
        ("coalesce(" + ", ".join(["lower(a)"] * 300) + ")", f"at most {MAX_COST}"),
        ("CASE WHEN exists(l, x -> contains(a, x)) THEN 1 END", f"at most {MAX_COST}"),
        ("round(a, 16)", "0 to 15 decimals"),
        ("substring(a, b, 1)", "whole numbers"),
        ("CASE WHEN exists(a, x -> exists(b, y -> y = x)) THEN 1 END", "within each other"),
        ("1 + TRUE", "+ takes numbers"),
        ("1 --1", "-- begins a comment"),
        ("CAST(a AS DOUBLE)", "TRY_CAST"),
        ("a > 5", "unexpected >"),
        ("1 + (a > 5)", "a condition is no value"),
        ("sqrt(a)", "there is no function sqrt"),
    ],
)
def test_a_wrong_or_costly_expression_is_refused_with_advice(text: str, message: str) -> None:
    with pytest.raises(FilterSyntaxError, match=message.replace("+", r"\+")):
        parse_value(text)


def test_a_long_sum_is_one_call_and_costs_its_parts() -> None:
    expression = parse_value(" + ".join(["a"] * 900))
    assert cost_of(expression) == 901
    assert evaluate_expression(expression, {"a": 2}) == 1_800


@pytest.mark.parametrize(
    "expression",
    [
        ItemRef(),
        call("+", AttributeRef(""), 1),
        call("+", 2**64, 1),
        call("+", float("inf"), 1),
        call("like", AttributeRef("a"), "\\x"),
    ],
)
def test_a_wrong_structure_from_elsewhere_is_refused(expression: ValueExpression) -> None:
    with pytest.raises(ExpressionError):
        check_expression(expression)


@pytest.mark.parametrize(
    "name",
    [
        DERIVED,
        DERIVED + "5",
        DERIVED + '["attribute","a"]',
        DERIVED + '["call","+",[1]]',
        DERIVED + '["call","eval",["x"]]',
        DERIVED + ' ["call","abs",[["attribute","a"]]]',
        DERIVED + '["call","abs",[' * 30_000,
        DERIVED + '["call","round",[["attribute","a"],1.0]]',
    ],
)
def test_a_damaged_name_of_a_derived_attribute_is_refused(name: str) -> None:
    with pytest.raises(FilterError):
        predicate(name, Operator.GT, 5)
