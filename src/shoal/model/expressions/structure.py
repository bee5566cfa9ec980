"""The structure of value expressions, their names as derived attributes, and their cost.

A derived attribute's name is `DERIVED` and the expression as JSON: no message has an attribute of
that name, and equal expressions have one name.

>>> difference = call("-", AttributeRef("a"), AttributeRef("b"))
>>> derived_name(difference)
'$=["call","-",[["attribute","a"],["attribute","b"]]]'
>>> derived_expression(derived_name(difference)) == difference, cost_of(difference)
(True, 3)
>>> call("round", AttributeRef("a"), 16)
Traceback (most recent call last):
shoal.model.expressions.structure.ArgumentError: round takes a value, and 0 to 15 decimals
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from shoal.ledger import remembered
from shoal.model.expressions.lists import LIST_PREFIX, MAX_ITEMS
from shoal.model.like import elements
from shoal.model.values import INTEGER_MAX, INTEGER_MIN, Value, check_value

# Beginning of the names of derived attributes; no message gives such a name.
DERIVED = "$="
# Bounds of one expression: its nodes; its nesting, for recursions; its cost (see `cost_of`).
MAX_NODES = 1_000
MAX_NESTING = 100
MAX_COST = 50_000
# Cost of a function that goes through a text: of 16,384 characters, 64 at a time.
TEXT_COST = 256
# A constant of a condition on items: it may be joined with each of them.
_SHORT_TEXT = 64
# Decimals of `round`.
MAX_DECIMALS = 15
# Characters of a name: no expression of so many nodes needs more, but for its texts.
_MAX_NAME = 131_072
# Names are made and read again for each filter that has them.
_REMEMBERED_NAMES = 4_096
_REMEMBERED_CHARACTERS = 2_000


class ExpressionError(ValueError):
    """A value expression that cannot be: too large, too costly, or with wrong arguments."""


class ExpressionCostError(ExpressionError):
    """A value expression whose evaluation may cost more than `MAX_COST`."""


class ArgumentError(ExpressionError):
    """A call of a function with arguments that it does not take."""


class AttributeRef(msgspec.Struct, frozen=True, array_like=True, tag="attribute"):
    """The value of an attribute of the message."""

    name: str


class ItemRef(msgspec.Struct, frozen=True, array_like=True, tag="item"):
    """The item of a list under test, in the condition of `exists` and `forall`."""


class FunctionCall(msgspec.Struct, frozen=True, array_like=True, tag="call"):
    """A function or an operator with its arguments. Build with `call(...)`, which checks them."""

    function: str
    arguments: tuple[ValueExpression, ...]


ValueExpression = AttributeRef | ItemRef | FunctionCall | Value | None


class _Signature(NamedTuple):
    """Bounds of the number of arguments, whether the result is a condition, and the own cost."""

    least: int
    most: int
    usage: str
    is_condition: bool = False
    cost: int = 1


_MANY = MAX_NODES
_COMPARED = _Signature(2, 2, "compares two values", is_condition=True)
_TEXTS = _Signature(2, 2, "takes two texts", is_condition=True, cost=TEXT_COST)
_ITEMS = _Signature(2, 2, "takes a list and a condition", is_condition=True)
_SIGNATURES: dict[str, _Signature] = {
    "+": _Signature(2, _MANY, "takes two values"),
    "-": _Signature(2, 2, "takes two values"),
    "*": _Signature(2, _MANY, "takes two values"),
    "/": _Signature(2, 2, "takes two values"),
    "%": _Signature(2, 2, "takes two values"),
    "negative": _Signature(1, 1, "takes one value"),
    "abs": _Signature(1, 1, "takes one value"),
    "round": _Signature(2, 2, "takes a value, and 0 to 15 decimals"),
    "floor": _Signature(1, 1, "takes one value"),
    "ceil": _Signature(1, 1, "takes one value"),
    "lower": _Signature(1, 1, "takes one text", cost=TEXT_COST),
    "upper": _Signature(1, 1, "takes one text", cost=TEXT_COST),
    "trim": _Signature(1, 1, "takes one text", cost=TEXT_COST),
    "length": _Signature(1, 1, "takes one text"),
    "substring": _Signature(
        3, 3, "takes a text, a start and a length; both are whole numbers", cost=TEXT_COST
    ),
    "concat": _Signature(1, _MANY, "takes texts", cost=TEXT_COST),
    "coalesce": _Signature(1, _MANY, "takes values"),
    "nullif": _Signature(2, 2, "takes two values"),
    "least": _Signature(2, _MANY, "takes two values or more"),
    "greatest": _Signature(2, _MANY, "takes two values or more"),
    "double": _Signature(1, 1, "takes one value", cost=TEXT_COST),
    "size": _Signature(1, 1, "takes a list"),
    # Conditions and values in turn, and the value of ELSE.
    "case": _Signature(3, _MANY, "takes conditions and values"),
    # -1, 0 or 1: the comparison of two values, as one derived attribute for all operators.
    "order": _Signature(2, 2, "takes two values"),
    "=": _COMPARED,
    "<>": _COMPARED,
    "<": _COMPARED,
    "<=": _COMPARED,
    ">": _COMPARED,
    ">=": _COMPARED,
    "and": _Signature(0, _MANY, "takes conditions", is_condition=True),
    "or": _Signature(0, _MANY, "takes conditions", is_condition=True),
    "not": _Signature(1, 1, "takes a condition", is_condition=True),
    "is_null": _Signature(1, 1, "takes one value", is_condition=True),
    "like": _Signature(2, 2, "takes a text and a pattern", is_condition=True, cost=TEXT_COST),
    "in": _Signature(2, 1 + 65_536, "takes a value and constants", is_condition=True),
    "startswith": _TEXTS,
    "endswith": _TEXTS,
    "contains": _TEXTS,
    "exists": _ITEMS,
    "forall": _ITEMS,
    # Latitude and longitude of two places in degrees, and a constant distance in metres.
    "within": _Signature(
        5, 5, "takes four coordinates and a number of metres", is_condition=True, cost=100
    ),
}
_LAMBDAS = frozenset(("exists", "forall"))
_LISTS = _LAMBDAS | {"size"}


def call(function: str, *arguments: ValueExpression) -> FunctionCall:
    """A call with arguments that the function takes; else ArgumentError."""
    signature = _SIGNATURES.get(function)
    if signature is None:
        raise ArgumentError(f"there is no function {function}")
    if not signature.least <= len(arguments) <= signature.most:
        raise ArgumentError(f"{function} {signature.usage}")
    if not _suit(function, arguments):
        raise ArgumentError(f"{function} {signature.usage}")
    return FunctionCall(function, arguments)


def _suit(function: str, arguments: tuple[ValueExpression, ...]) -> bool:
    """Return whether arguments that must be constants, or lists, are."""
    constants = arguments[1:]
    match function:
        case "round":
            return type(constants[0]) is int and 0 <= constants[0] <= MAX_DECIMALS
        case "substring":
            return all(type(each) is int and abs(each) <= INTEGER_MAX for each in constants)
        case "in":
            return all(isinstance(each, bool | int | float | str) for each in constants)
        case "like":
            return isinstance(constants[0], str)
        case "within":
            return type(metres := arguments[4]) in (int, float) and metres >= 0  # type: ignore[operator]
        case "case":
            return len(arguments) % 2 == 1
        case _ if function in _LISTS:
            return isinstance(arguments[0], AttributeRef)
    return True


def is_condition(expression: ValueExpression) -> bool:
    """Return whether an expression is a condition by its function, or TRUE or FALSE."""
    if isinstance(expression, FunctionCall):
        return _SIGNATURES[expression.function].is_condition
    return isinstance(expression, bool)


def references(expression: ValueExpression) -> Iterator[str]:
    """The names of the attributes in an expression, in order; a name may come again.

    A list's is that of the attribute that holds it.
    """
    if isinstance(expression, AttributeRef):
        yield expression.name
    elif isinstance(expression, FunctionCall):
        arguments = expression.arguments
        if expression.function in _LISTS and isinstance(arguments[0], AttributeRef):
            yield LIST_PREFIX + arguments[0].name
            arguments = arguments[1:]
        for each in arguments:
            yield from references(each)


def with_names(expression: ValueExpression, rename: Callable[[str], str]) -> ValueExpression:
    """The expression over attributes of other names."""
    match expression:
        case AttributeRef(name):
            return AttributeRef(rename(name))
        case FunctionCall(function, arguments):
            return FunctionCall(function, tuple(with_names(each, rename) for each in arguments))
    return expression


def cost_of(expression: ValueExpression) -> int:
    """The cost of an evaluation at the limits of a message, in nodes.

    A function that goes through a text counts as one node for 64 characters of the longest text,
    and a condition on items as often as the longest list has items. The texts of all items of a
    list are together no longer than one text, so a text function of an item alone counts once.
    """
    if not isinstance(expression, FunctionCall):
        return 1
    own, inner = _own_cost(expression), sum(map(cost_of, expression.arguments))
    if expression.function not in _LAMBDAS:
        return own + inner
    return own + MAX_ITEMS * _item_cost(expression.arguments[1]) + _shared_cost(expression)


def _own_cost(expression: FunctionCall) -> int:
    own = _SIGNATURES[expression.function].cost
    if expression.function == "like" and "_" in (pattern := str(expression.arguments[1])):
        # A run of characters with `_` among them is looked for at each place anew.
        own *= 1 + len(pattern) // 4
    return own


def _calls_in(expression: ValueExpression) -> Iterator[FunctionCall]:
    if isinstance(expression, FunctionCall):
        yield expression
        for each in expression.arguments:
            yield from _calls_in(each)


def _is_of_items(expression: ValueExpression) -> bool:
    """Return whether the texts in an expression are those of an item, and short constants."""
    match expression:
        case FunctionCall(_, arguments):
            return all(map(_is_of_items, arguments))
        case AttributeRef():
            return False
        case str():
            return len(expression) <= _SHORT_TEXT
    return True


def _item_cost(condition: ValueExpression) -> int:
    """The cost of a condition on one item, without what is shared among items."""
    if not isinstance(condition, FunctionCall):
        return 1
    own = 1 if _is_of_items(condition) else _own_cost(condition)
    return own + sum(map(_item_cost, condition.arguments))


def _shared_cost(expression: FunctionCall) -> int:
    """The cost of going through the texts of all items."""
    return sum(_own_cost(each) for each in _calls_in(expression.arguments[1]) if _is_of_items(each))


def check_expression(expression: ValueExpression) -> None:
    """ExpressionError for a wrong structure: from elsewhere, or grown too large or too costly."""
    _check_size(expression)
    _check(expression, in_lambda=False)
    cost = cost_of(expression)
    if cost > MAX_COST:
        raise ExpressionCostError(
            f"an evaluation of the expression may cost {cost} steps; at most {MAX_COST}"
        )


def _check_size(expression: ValueExpression) -> None:
    """Check nodes and nesting without recursion."""
    nodes, level = 0, [expression]
    for _ in range(MAX_NESTING):
        # Values of IN are counted as the texts of a filter are, not as nodes.
        inner = [
            argument
            for each in level
            if isinstance(each, FunctionCall)
            for argument in each.arguments[: 1 if each.function == "in" else None]
        ]
        nodes += len(level)
        if nodes > MAX_NODES:
            raise ExpressionError(f"an expression has at most {MAX_NODES} parts")
        if not inner:
            return
        level = inner
    raise ExpressionError(f"an expression nests deeper than {MAX_NESTING}")


def _check(expression: ValueExpression, *, in_lambda: bool) -> None:
    match expression:
        case FunctionCall(function, arguments):
            call(function, *arguments)
            is_lambda = function in _LAMBDAS
            if is_lambda and in_lambda:
                raise ExpressionError("exists and forall cannot stand within each other")
            if function == "like":
                _check_pattern(arguments[1])
            for each in arguments:
                _check(each, in_lambda=in_lambda or is_lambda)
        case AttributeRef(name):
            if not name or name.startswith(DERIVED):
                raise ExpressionError(f"{name!r} is no name of an attribute")
        case ItemRef():
            if not in_lambda:
                raise ExpressionError("an item stands only in the condition of exists and forall")
        case None:
            pass
        case _:
            _check_constant(expression)


def _check_constant(value: Value) -> None:
    try:
        check_value(value, "a constant")
    except ValueError as error:
        raise ExpressionError(str(error)) from None
    if isinstance(value, float) and not math.isfinite(value):
        raise ExpressionError(f"{value} is no constant")
    if type(value) is int and not INTEGER_MIN <= value <= INTEGER_MAX:
        raise ExpressionError(f"integer {value} does not fit in 64 bits")


def _check_pattern(pattern: object) -> None:
    try:
        elements(str(pattern))
    except ValueError as error:
        raise ExpressionError(str(error)) from None


# --- names ------------------------------------------------------------------------------------

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(ValueExpression).decode


def is_derived(name: str) -> bool:
    """Return whether a name is that of a derived attribute."""
    return name.startswith(DERIVED)


def derived_name(expression: ValueExpression) -> str:
    """The name of the attribute that an expression is: of a reference, the attribute's own."""
    if isinstance(expression, AttributeRef):
        return expression.name
    return DERIVED + _encode(expression).decode()


def derived_expression(name: str) -> ValueExpression:
    """The expression that a name stands for; ExpressionError if it is damaged or too costly."""
    return (_remembered if len(name) <= _REMEMBERED_CHARACTERS else _read)(name)


def _read(name: str) -> ValueExpression:
    if not name.startswith(DERIVED):
        return AttributeRef(name)
    if len(name) > _MAX_NAME:
        raise ExpressionError(f"an expression of {len(name)} characters; at most {_MAX_NAME}")
    try:
        found = _decode(name[len(DERIVED) :])
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise ExpressionError(f"a derived attribute that is no expression: {error}") from None
    check_expression(found)
    if not isinstance(found, FunctionCall) or derived_name(found) != name:
        raise ExpressionError("a derived attribute is a call, written without spaces")
    return found


_remembered: Callable[[str], ValueExpression] = remembered(
    "expressions of derived attributes", most=_REMEMBERED_NAMES, bytes_each=4_000
)(_read)
