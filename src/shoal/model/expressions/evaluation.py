"""The meaning of a value expression on the attributes of a message, as a function.

>>> from shoal.model.expressions.structure import AttributeRef, call
>>> warmer = evaluator(call("-", AttributeRef("inside"), AttributeRef("outside")))
>>> warmer({"inside": 21.5, "outside": 4}), warmer({"inside": "21.5", "outside": 4})
(17.5, None)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from shoal.model.expressions import functions
from shoal.model.expressions.lists import items_of
from shoal.model.expressions.structure import (
    AttributeRef,
    FunctionCall,
    ItemRef,
    ValueExpression,
)
from shoal.model.like import is_like
from shoal.model.values import Value, compare

# Of the attributes of a message, and of the item of a list, which is missing outside of one.
_Evaluation = Callable[[Mapping[str, Any], Any], Any]

_ONE: dict[str, Callable[[Any], Any]] = {
    "negative": functions.negate,
    "abs": functions.absolute,
    "floor": functions.floor,
    "ceil": functions.ceil,
    "lower": functions.lower,
    "upper": functions.upper,
    "trim": functions.trim,
    "length": functions.length,
    "double": functions.as_double,
}
_TWO: dict[str, Callable[[Any, Any], Any]] = {
    "+": functions.add,
    "-": functions.subtract,
    "*": functions.multiply,
    "/": functions.divide,
    "%": functions.remainder,
    "order": functions.order,
}
_SEVERAL: dict[str, Callable[[list[Any]], Any]] = {
    "concat": functions.concat,
    "least": functions.least,
    "greatest": functions.greatest,
}
_COMPARISONS: dict[str, Callable[[int], bool]] = {
    "=": lambda order: order == 0,
    "<>": lambda order: order != 0,
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
}
_TEXT_TESTS: dict[str, Callable[[str, str], bool]] = {
    "startswith": str.startswith,
    "endswith": str.endswith,
    "contains": str.__contains__,
}


def evaluate_expression(expression: ValueExpression, attributes: Mapping[str, Any]) -> Value | None:
    """The value on these attributes; None is a missing one, or UNKNOWN."""
    return evaluator(expression)(attributes)


def evaluator(expression: ValueExpression) -> Callable[[Mapping[str, Any]], Value | None]:
    """A function of the attributes of a message: the value, or None."""
    evaluate = _evaluation(expression)
    return lambda attributes: evaluate(attributes, None)


def _evaluation(expression: ValueExpression) -> _Evaluation:
    match expression:
        case AttributeRef(name):
            return lambda attributes, item: attributes.get(name)
        case ItemRef():
            return lambda attributes, item: item
        case FunctionCall(function, arguments):
            return _call_of(function, arguments)
    return lambda attributes, item: expression


def _call_of(function: str, arguments: tuple[ValueExpression, ...]) -> _Evaluation:
    if function in _ONE:
        return _of_one(_ONE[function], _evaluation(arguments[0]))
    if function in _TWO:
        return _of_two(_TWO[function], list(map(_evaluation, arguments)))
    if function in _COMPARISONS:
        return _comparison(_COMPARISONS[function], *map(_evaluation, arguments))
    if function in _TEXT_TESTS:
        return _text_test(_TEXT_TESTS[function], *map(_evaluation, arguments))
    if function in _SEVERAL:
        combine, parts = _SEVERAL[function], list(map(_evaluation, arguments))
        return lambda attributes, item: combine([each(attributes, item) for each in parts])
    match function:
        case "and" | "or":
            return _connective(list(map(_evaluation, arguments)), deciding=function == "or")
        case "case":
            return _case(list(map(_evaluation, arguments)))
        case "coalesce":
            return _coalesce(list(map(_evaluation, arguments)))
        case "exists" | "forall":
            return _lambda(arguments, deciding=function == "exists")
        case "within":
            return _within(arguments)
    return _with_constants(function, arguments)


def _of_one(apply: Callable[[Any], Any], argument: _Evaluation) -> _Evaluation:
    return lambda attributes, item: apply(argument(attributes, item))


def _of_two(apply: Callable[[Any, Any], Any], parts: Sequence[_Evaluation]) -> _Evaluation:
    """Two arguments, or more from the left."""
    first, second, *others = parts
    if not others:
        return lambda attributes, item: apply(first(attributes, item), second(attributes, item))

    def evaluate(attributes: Mapping[str, Any], item: Any) -> Any:
        found = apply(first(attributes, item), second(attributes, item))
        for each in others:
            found = apply(found, each(attributes, item))
        return found

    return evaluate


def _comparison(holds: Callable[[int], bool], left: _Evaluation, right: _Evaluation) -> _Evaluation:
    def evaluate(attributes: Mapping[str, Any], item: Any) -> bool | None:
        found = functions.order(left(attributes, item), right(attributes, item))
        return None if found is None else holds(found)  # type: ignore[arg-type]  # -1, 0 or 1

    return evaluate


def _text_test(
    holds: Callable[[str, str], bool], left: _Evaluation, right: _Evaluation
) -> _Evaluation:
    def evaluate(attributes: Mapping[str, Any], item: Any) -> bool | None:
        text, part = left(attributes, item), right(attributes, item)
        return holds(text, part) if type(text) is str and type(part) is str else None

    return evaluate


def _connective(parts: Sequence[_Evaluation], *, deciding: bool) -> _Evaluation:
    return lambda attributes, item: _first_deciding(
        (part(attributes, item) for part in parts), deciding
    )


def _first_deciding(results: Iterator[Any], deciding: bool) -> bool | None:
    """An OR of results if TRUE is `deciding`, else an AND; none is asked for beyond that one."""
    is_unknown = False
    for found in results:
        if type(found) is not bool:
            is_unknown = True
        elif found is deciding:
            return found
    return None if is_unknown else not deciding


def _case(parts: Sequence[_Evaluation]) -> _Evaluation:
    *branches, otherwise = parts
    pairs = list(zip(branches[::2], branches[1::2], strict=True))

    def evaluate(attributes: Mapping[str, Any], item: Any) -> Any:
        for when, then in pairs:
            if when(attributes, item) is True:
                return then(attributes, item)
        return otherwise(attributes, item)

    return evaluate


def _coalesce(parts: Sequence[_Evaluation]) -> _Evaluation:
    def evaluate(attributes: Mapping[str, Any], item: Any) -> Any:
        for part in parts:
            found = part(attributes, item)
            if found is not None:
                return found
        return None

    return evaluate


def _lambda(arguments: tuple[ValueExpression, ...], *, deciding: bool) -> _Evaluation:
    """`exists` is an OR over the items, `forall` an AND; a missing list is UNKNOWN."""
    name, condition = _list_name(arguments[0]), _evaluation(arguments[1])

    def evaluate(attributes: Mapping[str, Any], _item: Any) -> bool | None:
        items = items_of(attributes, name)
        if items is None:
            return None
        return _first_deciding((condition(attributes, each) for each in items), deciding)

    return evaluate


def _list_name(expression: ValueExpression) -> str:
    assert isinstance(expression, AttributeRef)
    return expression.name


def _within(arguments: tuple[ValueExpression, ...]) -> _Evaluation:
    *places, metres = arguments
    assert isinstance(metres, int | float)
    coordinates, most = list(map(_evaluation, places)), functions.chord_within(metres)

    def evaluate(attributes: Mapping[str, Any], item: Any) -> bool | None:
        found = functions.chord(*(each(attributes, item) for each in coordinates))
        return None if found is None else found <= most

    return evaluate


def _with_constants(function: str, arguments: tuple[ValueExpression, ...]) -> _Evaluation:
    """Functions some of whose arguments are constants or lists, and those of any kind of value."""
    first = _evaluation(arguments[0])
    constants: tuple[Any, ...] = arguments[1:]
    match function:
        case "round":
            digits = constants[0]
            return lambda a, item: functions.round_half_up(first(a, item), digits)
        case "substring":
            start, count = constants
            return lambda a, item: functions.substring(first(a, item), start, count)
        case "like":
            pattern = constants[0]
            return lambda a, item: (
                is_like(found, pattern) if type(found := first(a, item)) is str else None
            )
        case "in":
            return lambda a, item: _is_in(first(a, item), constants)
        case "is_null":
            return lambda a, item: first(a, item) is None
        case "not":
            return lambda a, item: not found if type(found := first(a, item)) is bool else None
        case "nullif":
            second = _evaluation(arguments[1])
            return lambda a, item: (
                None if functions.order(found := first(a, item), second(a, item)) == 0 else found
            )
        case "size":
            name = _list_name(arguments[0])
            return lambda a, item: None if (items := items_of(a, name)) is None else len(items)
    raise AssertionError(f"no function: {function}")


def _is_in(value: Any, constants: tuple[Any, ...]) -> bool | None:
    """An OR of equalities."""
    if value is None:
        return None
    orders = {compare(value, each) for each in constants}
    if 0 in orders:
        return True
    return None if None in orders else False
