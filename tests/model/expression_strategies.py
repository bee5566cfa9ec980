"""Random value expressions and attributes, with the values at which arithmetic is special."""

from __future__ import annotations

import math
import random
from typing import Any

from shoal.model.expressions import AttributeRef, ItemRef, ValueExpression, call
from shoal.model.expressions.lists import list_attribute, write_list

NAMES = ("a", "b", "c", "s", "t", "flag", "absent")
LISTS = ("tags", "temps", "absent")
_INTEGERS = (0, 1, -1, 2, 3, -7, 10, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 2**62)
_DOUBLES = (
    0.0, -0.0, 0.1, 0.5, -1.5, 2.675, 3.0, 1e15, 2.0**53, 2.0**63, -(2.0**63), 1e308, 5e-324,
    float("inf"), float("-inf"), float("nan"),
)  # fmt: skip
_TEXTS = ("", "a", "ab", "Abc ", " b", "5", "2.5", "5d", "1e400", "ß", "İ", "😀x", "%_\\", "'")
_PATTERNS = ("a%", "%b", "_b%", "%a_c%", "\\%%", "", "%")
ARITHMETIC = ("+", "-", "*", "/", "%")
_COMPARED = ("=", "<>", "<", "<=", ">", ">=")


def some_value(chance: random.Random) -> Any:
    """A value of any kind."""
    return chance.choice(
        (
            chance.choice(_INTEGERS),
            chance.choice(_DOUBLES),
            chance.choice(_TEXTS),
            chance.random() < 0.5,
        )
    )


def some_attributes(chance: random.Random) -> dict[str, Any]:
    """Attributes of any kinds, some of them missing, and lists."""
    found = {name: some_value(chance) for name in NAMES[:-1] if chance.random() < 0.85}
    for name in LISTS[:-1]:
        if chance.random() < 0.85:
            items = (chance.choice((some_value(chance), None)) for _ in range(chance.randrange(4)))
            found[name] = tuple(each for each in items if _is_finite(each))
    return found


def _is_finite(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def with_list_texts(attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes as a message has them: lists as texts under names of their own."""
    return {
        list_attribute(name) if isinstance(value, tuple) else name: (
            write_list(value) if isinstance(value, tuple) else value
        )
        for name, value in attributes.items()
    }


def some_expression(chance: random.Random, depth: int, *, in_list: bool = False) -> ValueExpression:
    """A value expression that nests so deep at most."""
    if depth == 0 or chance.random() < 0.15:
        return _leaf(chance, in_list=in_list)

    def value() -> ValueExpression:
        return some_expression(chance, depth - 1, in_list=in_list)

    def condition() -> ValueExpression:
        return some_condition(chance, depth - 1, in_list=in_list)

    match chance.randrange(12):
        case 0 | 1 | 2:
            return call(chance.choice(ARITHMETIC), value(), value())
        case 3:
            return call(chance.choice(("negative", "abs", "floor", "ceil", "double")), value())
        case 4:
            return call("round", value(), chance.choice((0, 1, 2, 15)))
        case 5:
            return call(chance.choice(("lower", "upper", "trim", "length")), value())
        case 6:
            return call("substring", value(), chance.randint(-4, 4), chance.randint(-1, 4))
        case 7:
            return call("concat", value(), value(), *([value()] if chance.random() < 0.3 else ()))
        case 8:
            return call("coalesce", value(), value())
        case 9:
            return call(chance.choice(("least", "greatest")), value(), value(), value())
        case 10:
            otherwise = None if chance.random() < 0.3 else value()
            return call("case", condition(), value(), condition(), value(), otherwise)
    if chance.random() < 0.3:
        return call("size", AttributeRef(chance.choice(LISTS)))
    return call("nullif", value(), value())


def some_condition(chance: random.Random, depth: int, *, in_list: bool = False) -> ValueExpression:
    """A condition that nests so deep at most."""

    def value() -> ValueExpression:
        return some_expression(chance, depth - 1 if depth else 0, in_list=in_list)

    def condition() -> ValueExpression:
        return some_condition(chance, depth - 1, in_list=in_list)

    match chance.randrange(9 if depth else 4):
        case 0 | 1:
            return call(chance.choice(_COMPARED), value(), value())
        case 2:
            return call(chance.choice(("startswith", "endswith", "contains")), value(), value())
        case 3:
            if chance.random() < 0.3:
                return call("is_null", value())
            if chance.random() < 0.5:
                return call("like", value(), chance.choice(_PATTERNS))
            return call("in", value(), chance.choice(_TEXTS), chance.choice(_TEXTS))
        case 4 | 5:
            return call(chance.choice(("and", "or")), condition(), condition())
        case 6:
            return call("not", condition())
        case 7 if not in_list:
            inner = some_condition(chance, depth - 1, in_list=True)
            return call(
                chance.choice(("exists", "forall")), AttributeRef(chance.choice(LISTS)), inner
            )
    return AttributeRef("flag")


def _leaf(chance: random.Random, *, in_list: bool) -> ValueExpression:
    if in_list and chance.random() < 0.5:
        return ItemRef()
    if chance.random() < 0.65:
        return AttributeRef(chance.choice(NAMES))
    while True:
        value = some_value(chance)
        if _is_finite(value):
            return value  # type: ignore[no-any-return]
