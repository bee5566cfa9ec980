"""Tests of expressions that are tests of one attribute: the forms that an index can look up.

`temp * 1.8 + 32 >= 70` is TRUE for one range of temperatures. Algebra would get its end wrong
(rounding, overflow), so it is found by bisection: the evaluator's own arithmetic is asked some 64
times for each end. Integers and doubles have ranges of their own. If these differ, as at the
integers whose double is beyond 64 bits, the expression is tested beside the range.

>>> from shoal.model.expressions.structure import AttributeRef, call, derived_name
>>> plain_forms(derived_name(call("*", AttributeRef("x"), 0.1)), ">", 0.3)
((PlainTest(attribute='x', operator='>=', operand=3),),)
>>> [*whole, beside] = plain_forms(derived_name(call("*", AttributeRef("x"), 2)), ">", 10)
>>> [(sign, bound) for _, sign, bound in whole[0]], [(sign, bound) for _, sign, bound in beside]
([('>=', 5.000000000000001), ('<=', 4611686018427387903)], [('>', 4611686018427387903), ('>', 10)])
>>> plain_forms(derived_name(call("startswith", AttributeRef("s"), "50%")), "=", True)
((PlainTest(attribute='s', operator='LIKE', operand='50\\\\%%'),),)
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from shoal.model.expressions import functions
from shoal.model.expressions.structure import (
    AttributeRef,
    FunctionCall,
    ValueExpression,
    derived_expression,
)
from shoal.model.like import escape_literal
from shoal.model.values import INTEGER_MAX, INTEGER_MIN, Value, compare


class PlainTest(NamedTuple):
    """A test of an attribute, with the operator's sign."""

    attribute: str
    operator: str
    operand: Any


# Any of these conjunctions.
PlainForms = tuple[tuple[PlainTest, ...], ...]

_HOLDS: dict[str, tuple[int, ...]] = {
    "=": (0,), "<>": (-1, 1), "<": (-1,), "<=": (-1, 0), ">": (1,), ">=": (0, 1)
}  # fmt: skip
# Steps of a chain, each of which is asked some 300 times.
_MOST_STEPS = 16
_LARGEST_RANK = struct.unpack(">q", struct.pack(">d", math.inf))[0]


def plain_forms(name: str, operator: str, operand: Any) -> PlainForms:
    """The conjunctions of which one is TRUE exactly when the test of a derived attribute is."""
    expression = derived_expression(name)
    assert isinstance(expression, FunctionCall)
    return _forms(name, expression, operator, operand) or ((PlainTest(name, operator, operand),),)


def _forms(name: str, expression: FunctionCall, operator: str, operand: Any) -> PlainForms | None:
    match expression.function:
        case "startswith" | "endswith" | "contains" if operand is True:
            return _like_form(expression, operator)
        case "within" if (operator, operand) == ("=", True):
            return _band_form(name, expression)
        case "substring" if operator == "=" and isinstance(operand, str):
            return _beginning_form(expression, operand)
        case "coalesce" if operator in _HOLDS:
            return _coalesce_form(expression, operator, operand)
        case "abs" if functions.is_number(operand):
            return _abs_form(expression, operator, operand)
    if operator in _HOLDS and operator != "<>" and functions.is_number(operand):
        return _range_form(name, expression, operator, operand)
    return None


def _like_form(expression: FunctionCall, operator: str) -> PlainForms | None:
    text, part = expression.arguments
    sign = {"=": "LIKE", "<>": "NOT LIKE"}.get(operator)
    if sign is None or not isinstance(text, AttributeRef) or not isinstance(part, str):
        return None
    before = "" if expression.function == "startswith" else "%"
    behind = "" if expression.function == "endswith" else "%"
    return ((PlainTest(text.name, sign, before + escape_literal(part) + behind),),)


def _beginning_form(expression: FunctionCall, operand: str) -> PlainForms | None:
    text, start, count = expression.arguments
    if not isinstance(text, AttributeRef) or start not in (0, 1) or len(operand) != count:
        return None
    return ((PlainTest(text.name, "LIKE", f"{escape_literal(operand)}%"),),)


def _coalesce_form(expression: FunctionCall, operator: str, operand: Value) -> PlainForms | None:
    match expression.arguments:
        case (AttributeRef(name), bool() | int() | float() | str() as otherwise):
            tested = (PlainTest(name, operator, operand),)
            if compare(otherwise, operand) in _HOLDS[operator]:
                return (tested, (PlainTest(name, "IS NULL", None),))
            return (tested,)
    return None


def _abs_form(expression: FunctionCall, operator: str, operand: float) -> PlainForms | None:
    """Of a bound within 64 bits; above it the lowest integer, which has no absolute value."""
    [inner] = expression.arguments
    if not isinstance(inner, AttributeRef) or not 0 < operand <= INTEGER_MAX:
        return None
    match operator:
        case "<" | "<=":
            above = PlainTest(inner.name, {"<": ">", "<=": ">="}[operator], -operand)
            return ((above, PlainTest(inner.name, operator, operand)),)
        case "=":
            return ((PlainTest(inner.name, "IN", (operand, -operand)),),)
    return None


# --- places on the map ----------------------------------------------------------------------------

# Degrees that a band is wider than it need be: a tenth of a metre, beyond any rounding.
_MARGIN = 1e-6


def _band_form(name: str, expression: FunctionCall) -> PlainForms | None:
    """Within a distance of a constant place: a band of latitudes, one of longitudes, and the test.

    Near a pole, and across 180 degrees, longitudes have no such band.
    """
    *place, metres = expression.arguments
    assert isinstance(metres, int | float)
    match place:
        case [
            AttributeRef(lat),
            AttributeRef(lon),
            int() | float() as north,
            int() | float() as east,
        ]:
            pass
        case [
            int() | float() as north,
            int() | float() as east,
            AttributeRef(lat),
            AttributeRef(lon),
        ]:
            pass
        case _:
            return None
    angle = metres / functions.EARTH_RADIUS_M
    if abs(north) > 90 or abs(east) > 180 or angle >= math.pi / 2:
        return None
    tests = _band(lat, north, math.degrees(angle))
    sine = math.sin(angle) / max(math.cos(math.radians(north)), 1e-9)
    turn = math.degrees(math.asin(sine)) if sine < 1 else 360.0
    if abs(north) + math.degrees(angle) < 89 and abs(east) + turn < 179:
        tests += _band(lon, east, turn)
    return ((*tests, PlainTest(name, "=", True)),)


def _band(attribute: str, middle: float, width: float) -> tuple[PlainTest, ...]:
    low, high = middle - width - _MARGIN, middle + width + _MARGIN
    return PlainTest(attribute, ">=", low), PlainTest(attribute, "<=", high)


# --- chains of monotone steps ---------------------------------------------------------------------


class _Step(NamedTuple):
    """A monotone function of one number; `exact` is its value on integers beyond 64 bits."""

    apply: Callable[[Any], Any]
    exact: Callable[[Any], Any]
    is_falling: bool


def _chain(expression: ValueExpression) -> tuple[str, list[_Step]] | None:
    """The attribute and the steps, first to last; None if a step is not monotone."""
    steps: list[_Step] = []
    while isinstance(expression, FunctionCall):
        found = _steps_of(expression)
        if found is None:
            return None
        expression, own = found
        steps = own + steps
        if len(steps) > _MOST_STEPS:
            return None
    return (expression.name, steps) if isinstance(expression, AttributeRef) else None


def _steps_of(expression: FunctionCall) -> tuple[ValueExpression, list[_Step]] | None:
    first, *others = expression.arguments
    match expression.function:
        case "negative":
            return first, [_Step(functions.negate, lambda x: -x, is_falling=True)]
        case "floor":
            return first, [_Step(functions.floor, _identity, is_falling=False)]
        case "ceil":
            return first, [_Step(functions.ceil, _identity, is_falling=False)]
        case "round":
            [digits] = others
            return first, [_round_step(digits)]
        case "+" | "*" | "-" | "/":
            if all(functions.is_number(each) for each in others):
                own = [_step_with(expression.function, each) for each in others]
                return (first, own) if None not in own else None  # type: ignore[return-value]
            if expression.function == "-" and functions.is_number(first):
                return others[0], [_step_from(first)]
    return None


def _identity(x: Any) -> Any:
    return x


def _round_step(digits: Any) -> _Step:
    return _Step(lambda x: functions.round_half_up(x, digits), _identity, is_falling=False)


def _step_with(sign: str, constant: Any) -> _Step | None:
    """`x sign constant`; None where it is not monotone."""
    match sign:
        case "+":
            return _Step(lambda x: functions.add(x, constant), lambda x: x + constant, False)
        case "-":
            return _Step(lambda x: functions.subtract(x, constant), lambda x: x - constant, False)
    if not constant:
        return None
    if sign == "*":
        return _Step(
            lambda x: functions.multiply(x, constant), lambda x: x * constant, constant < 0
        )
    return _Step(lambda x: functions.divide(x, constant), _identity, constant < 0)


def _step_from(constant: Any) -> _Step:
    """`constant - x`."""
    return _Step(lambda x: functions.subtract(constant, x), lambda x: constant - x, is_falling=True)


def _outcome(steps: list[_Step], x: float) -> tuple[int, Any]:
    """-1 or 1 if the value is missing below or above all numbers, else 0 and the value."""
    side = 0
    for step in steps:
        if side:
            side = -side if step.is_falling else side
            continue
        found = step.apply(x)
        if found is None:
            side = 1 if step.exact(x) > 0 else -1
        else:
            x = found
    return side, x


class _Ranks(NamedTuple):
    """The numbers of one type in order, from the rank `low` to `high`."""

    low: int
    high: int
    at: Callable[[int], float]


def _double_at(rank: int) -> float:
    size: float = struct.unpack(">d", struct.pack(">q", abs(rank)))[0]
    return -size if rank < 0 else size


_INTEGERS = _Ranks(INTEGER_MIN, INTEGER_MAX, int)
_DOUBLES = _Ranks(-_LARGEST_RANK, _LARGEST_RANK, _double_at)


def _range_form(name: str, expression: FunctionCall, operator: str, operand: float) -> PlainForms:
    """Numbers that pass, of both types, as a range; beside it a range where the types differ."""
    whole = PlainTest(name, operator, operand)
    chain = _chain(expression)
    if chain is None:
        return ((whole,),)
    attribute, steps = chain
    integers = _true_range(steps, operator, operand, _INTEGERS)
    doubles = _true_range(steps, operator, operand, _DOUBLES)
    side, value = _outcome(steps, math.nan)
    of_nan = side == 0 and compare(value, operand) in _HOLDS[operator]
    if integers[0] > integers[1] or doubles[0] > doubles[1]:
        # Of one type nothing passes, as if the sum of two integers were always too large.
        return ((whole,),) if integers[0] <= integers[1] or doubles[0] <= doubles[1] else ()
    low, is_exact_below = _lower_end(integers[0], doubles[0])
    high, is_exact_above = _upper_end(integers[1], doubles[1])
    if low > high:
        return ((whole,),)
    forms = [_tests(attribute, low, high, of_nan=of_nan)]
    if not is_exact_below:
        forms.append((PlainTest(attribute, "<", low), whole))
    if not is_exact_above:
        forms.append((PlainTest(attribute, ">", high), whole))
    elif of_nan and high != math.inf:
        forms.append((PlainTest(attribute, ">", math.inf),))
    return tuple(forms)


def _lower_end(integer: int, double: float) -> tuple[float, bool]:
    """The least number from which on both types pass; whether below it nothing does."""
    low = min(integer, double)
    is_exact = (integer == INTEGER_MIN or integer - 1 < low) and (
        double == -math.inf or math.nextafter(double, -math.inf) < low
    )
    return (low, True) if is_exact else (max(integer, double), False)


def _upper_end(integer: int, double: float) -> tuple[float, bool]:
    """The greatest number up to which both types pass; whether above it nothing does."""
    high = max(integer, double)
    is_exact = (integer == INTEGER_MAX or integer + 1 > high) and (
        double == math.inf or math.nextafter(double, math.inf) > high
    )
    return (high, True) if is_exact else (min(integer, double), False)


def _tests(attribute: str, low: float, high: float, *, of_nan: bool) -> tuple[PlainTest, ...]:
    """The tests of a range; without an upper end NaN passes, too."""
    if low == high:
        return (PlainTest(attribute, "=", low),)
    tests = []
    if low != -math.inf:
        tests.append(PlainTest(attribute, ">=", low))
    if not (of_nan and high == math.inf):
        tests.append(PlainTest(attribute, "<=", high))
    return tuple(tests or (PlainTest(attribute, ">=", low),))


def _true_range(
    steps: list[_Step], operator: str, operand: float, ranks: _Ranks
) -> tuple[Any, Any]:
    """The first and the last number with TRUE; the first is above the last if there is none."""
    falls = sum(step.is_falling for step in steps) % 2 == 1
    low, high = (-ranks.high, -ranks.low) if falls else (ranks.low, ranks.high)

    def number(rank: int) -> float:
        return ranks.at(-rank if falls else rank)

    def first(passes: Callable[[int, Any], bool]) -> int:
        if passes(*_outcome(steps, number(low))):
            return low
        if not passes(*_outcome(steps, number(high))):
            return high + 1
        least, most = low, high
        while least < most:
            middle = (least + most) // 2
            if passes(*_outcome(steps, number(middle))):
                most = middle
            else:
                least = middle + 1
        return least

    def reaches(orders: tuple[int, ...]) -> int:
        return first(lambda side, y: side > 0 or (side == 0 and compare(y, operand) in orders))

    match operator:
        case ">=" | ">":
            begin, end = reaches(_HOLDS[operator]), first(lambda side, y: side > 0)
        case "<" | "<=":
            begin = first(lambda side, y: side >= 0)
            end = reaches((0, 1) if operator == "<" else (1,))
        case _:
            begin, end = reaches((0, 1)), reaches((1,))
    if begin >= end:
        return math.inf, -math.inf
    ends = number(begin), number(end - 1)
    return ends[::-1] if falls else ends
