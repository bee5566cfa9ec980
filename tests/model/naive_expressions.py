"""A naive twin of the evaluator of value expressions: straight from the definitions, and slow.

It walks the expression, works with fractions and decimals, and lists all items and branches.
"""

from __future__ import annotations

import math
import re
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction
from typing import Any

from shoal.model.expressions import AttributeRef, FunctionCall, ItemRef, ValueExpression

_LONGEST = 16_384
_TOP = 2**63


def naive_value(expression: ValueExpression, attributes: dict[str, Any], item: Any = None) -> Any:
    """The value, None if it is missing or UNKNOWN."""
    match expression:
        case AttributeRef(name):
            value = attributes.get(name)
            return None if isinstance(value, tuple) else value
        case ItemRef():
            return item
        case FunctionCall(function, arguments):
            return _call(function, arguments, attributes, item)
    return expression


def _call(function: str, arguments: tuple[Any, ...], attributes: dict[str, Any], item: Any) -> Any:
    if function in ("exists", "forall", "size"):
        return _of_list(function, arguments, attributes)
    values = [naive_value(each, attributes, item) for each in arguments]
    match function:
        case "+" | "-" | "*" | "/" | "%":
            found = values[0]
            for value in values[1:]:
                found = _arithmetic(function, found, value)
            return found
        case "=" | "<>" | "<" | "<=" | ">" | ">=":
            return _compared(function, *values)
        case "order":
            return next(
                (n for n, s in ((-1, "<"), (0, "="), (1, ">")) if _compared(s, *values)), None
            )
        case "and" | "or":
            return _joined(function == "or", values)
        case "not":
            return not values[0] if isinstance(values[0], bool) else None
        case "is_null":
            return values[0] is None
        case "in":
            return _joined(True, [_compared("=", values[0], each) for each in values[1:]])
        case "case":
            *branches, last = values
            chosen = [v for c, v in zip(branches[::2], branches[1::2], strict=True) if c is True]
            return [*chosen, last][0]
        case "coalesce":
            return next((value for value in values if value is not None), None)
        case "nullif":
            return None if _compared("=", *values) is True else values[0]
        case "least" | "greatest":
            numbers = [value for value in values if _is_number(value)]
            best = numbers[0] if numbers else None
            for value in numbers:
                if _compared("<" if function == "least" else ">", value, best):
                    best = value
            return best
    if function in ("negative", "abs", "round", "floor", "ceil", "double"):
        return _of_number(function, *values)
    return _of_text(function, values)


def _of_list(function: str, arguments: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    items = attributes.get(arguments[0].name)
    if not isinstance(items, tuple):
        return None
    if function == "size":
        return len(items)
    return _joined(function == "exists", [naive_value(arguments[1], attributes, i) for i in items])


def _joined(deciding: bool, values: list[Any]) -> bool | None:
    if any(value is deciding for value in values):
        return deciding
    return None if any(not isinstance(value, bool) for value in values) else not deciding


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _place(number: float) -> tuple[bool, Any]:
    """The place of a number in order: NaN above all."""
    if math.isnan(number):
        return True, 0
    return False, Fraction(number) if math.isfinite(number) else number


def _compared(sign: str, a: Any, b: Any) -> bool | None:
    if _is_number(a) and _is_number(b):
        a, b = _place(a), _place(b)
    elif a is None or type(a) is not type(b):
        return None
    return {"=": a == b, "<>": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[sign]


def _fit(number: int) -> int | None:
    return number if -_TOP <= number < _TOP else None


def _arithmetic(sign: str, a: Any, b: Any) -> Any:
    if not (_is_number(a) and _is_number(b)) or (sign in "/%" and b == 0):
        return None
    if isinstance(a, int) and isinstance(b, int) and sign != "/":
        if sign == "%":
            return _fit(int(a - b * math.trunc(Fraction(a, b))))
        return _fit({"+": a + b, "-": a - b, "*": a * b}[sign])
    a, b = float(a), float(b)
    match sign:
        case "+":
            return a + b
        case "-":
            return a + -b
        case "*":
            return a * b
        case "/":
            return a / b
    if not math.isfinite(a) or math.isnan(b):
        return math.nan
    if math.isinf(b):
        return a
    return math.copysign(float(abs(Fraction(a)) % abs(Fraction(b))), a)


def _of_number(function: str, value: Any, *digits: int) -> Any:
    if function == "double" and isinstance(value, str):
        is_json = re.fullmatch(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", value)
        return float(value) if is_json else None
    if not _is_number(value):
        return None
    match function:
        case "double":
            return float(value)
        case "negative":
            return _fit(-value) if isinstance(value, int) else -value
        case "abs":
            return _fit(abs(value)) if isinstance(value, int) else abs(value)
        case "round":
            if isinstance(value, int) or not math.isfinite(value):
                return value
            with localcontext(prec=800):
                step = Decimal(1).scaleb(-digits[0])
                return float(Decimal(repr(value)).quantize(step, ROUND_HALF_UP))
    if not math.isfinite(value):
        return None
    down = Fraction(value).__floor__() if function == "floor" else Fraction(value).__ceil__()
    return _fit(down)


def _of_text(function: str, values: list[Any]) -> Any:
    whole = 1 if function in ("substring", "like") else len(values)
    if not all(isinstance(value, str) for value in values[:whole]):
        return None
    text = values[0]
    match function:
        case "lower" | "upper":
            return _short(getattr(text, function)())
        case "trim":
            return re.sub(r"\A +| +\Z", "", text)
        case "length":
            return len(list(text))
        case "concat":
            return _short("".join(values))
        case "startswith":
            return text[: len(values[1])] == values[1]
        case "endswith":
            return text[max(0, len(text) - len(values[1])) :] == values[1]
        case "contains":
            return any(text[at : at + len(values[1])] == values[1] for at in range(len(text) + 1))
        case "substring":
            start, count = values[1:]
            first = start if start > 0 else len(text) + start + 1 if start else 1
            places = range(first, first + count)
            return "".join(c for place, c in enumerate(text, start=1) if place in places)
        case "like":
            return bool(re.fullmatch(_as_regex(values[1]), text, re.DOTALL))
    raise AssertionError(function)


def _as_regex(pattern: str) -> str:
    pieces = re.findall(r"\\.|.", pattern, re.DOTALL)
    return "".join({"%": ".*", "_": "."}.get(piece) or re.escape(piece[-1]) for piece in pieces)


def _short(text: str) -> str | None:
    return text if len(text) <= _LONGEST else None
