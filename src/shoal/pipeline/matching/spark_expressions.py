r"""Value expressions as Spark SQL: one SQL text for each type that a value may have.

At most one of the texts is not null on any row, and none fails under any setting: ANSI makes no
difference. A type that a value cannot have has no text. If Spark's own operator means the same,
the text has it; the others are written with `try_` functions and CASE.

A list is a column of JSON texts; its items are variants, whose types tell integers from doubles.

>>> columns = {"a": {int: "`a`"}, "b": {float: "`b`"}}
>>> sql = ExpressionSql(columns)
>>> from shoal.language import parse_value
>>> sql.value(parse_value("a + 1"))
{<class 'int'>: 'try_add(`a`, 1L)'}
>>> sql.value(parse_value("a + b"))
{<class 'float'>: '(CAST(`a` AS DOUBLE) + `b`)'}
>>> sql.value(parse_value("length(a)"))
{}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shoal.language.literals import write_string
from shoal.model import INTEGER_MIN
from shoal.model.expressions import AttributeRef, FunctionCall, ItemRef, ValueExpression, call
from shoal.model.expressions.functions import (
    HALF_DEGREE,
    MAX_MADE_TEXT,
    SINE_SERIES,
    chord_within,
)
from shoal.model.expressions.lists import LIST_PREFIX, MAX_ITEMS, MAX_LIST_TEXT

# The SQL of a value by its Python type.
Texts = Mapping[type, str]

UNKNOWN = "CAST(NULL AS BOOLEAN)"
# A longer condition takes Spark minutes to compile, or never ends.
MAX_CONDITION = 200_000

# 2 to the 63rd, which is no integer of 64 bits.
_TOP = "9.223372036854775808E18D"
_TRIED = {
    "+": "try_add",
    "-": "try_subtract",
    "*": "try_multiply",
    "/": "try_divide",
    "%": "try_mod",
}
_FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NUMBER_PATTERN = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?\z"
_ITEM_TYPES: dict[type, tuple[str, str]] = {
    bool: ("boolean", "= 'BOOLEAN'"),
    int: ("bigint", "= 'BIGINT'"),
    float: ("double", "RLIKE '^(DECIMAL|DOUBLE|FLOAT)'"),
    str: ("string", "= 'STRING'"),
}
# Names of the places of a distance, and of an item, within their lambdas.
_PLACE, _ITEM, _VARIANT = "place", "item", "variant"


class ConditionSizeError(ValueError):
    """A condition that is too large for Spark SQL; the compiled engine takes it."""


class ExpressionSql:
    """Expressions over the columns of attributes, as SQL; `item` has the texts of a list's item."""

    def __init__(self, columns: Mapping[str, Texts], item: Texts | None = None) -> None:
        self._columns = columns
        self._item: Texts = item or {}

    def value(self, expression: ValueExpression) -> dict[type, str]:
        """The texts of a value; a condition has that of a boolean."""
        match expression:
            case AttributeRef(name):
                return dict(self._columns.get(name, {}))
            case ItemRef():
                return dict(self._item)
            case FunctionCall(function, arguments):
                return _checked(self._call(function, arguments))
            case None:
                return {}
        return {type(expression): literal(expression)}

    def condition(self, expression: ValueExpression) -> str:
        """The text of a condition; of a value, whether it is TRUE."""
        return self.value(expression).get(bool, UNKNOWN)

    def _call(self, function: str, arguments: Sequence[ValueExpression]) -> dict[type, str]:
        match function:
            case "+" | "-" | "*" | "/" | "%":
                first, *others = map(self.value, arguments)
                for each in others:
                    first = _arithmetic(function, first, each)
                return first
            case "case":
                return self._case(arguments)
            case "coalesce":
                found = [each for each in map(self.value, arguments) if each]
                return _chosen([(_is_there(each), each) for each in found], {})
            case "nullif":
                equal = self.condition(call("=", *arguments))
                return _chosen([(equal, {})], self.value(arguments[0]))
            case "least" | "greatest":
                return _extreme(function, [_numbers(self.value(each)) for each in arguments])
            case "size":
                return (
                    {int: f"CAST(array_size({items}) AS BIGINT)"}
                    if (items := self._items(arguments[0]))
                    else {}
                )
            case "order":
                below, equal = (self.condition(call(sign, *arguments)) for sign in ("<", "="))
                above = self.condition(call(">", *arguments))
                return {
                    int: f"CASE WHEN {below} THEN -1L WHEN {equal} THEN 0L WHEN {above} THEN 1L END"
                }
            case "concat":
                return self._concat(list(map(self.value, arguments)))
        if function in _OF_NUMBERS or function in _OF_TEXTS:
            return self._of_one(function, arguments)
        return {bool: self._condition(function, arguments)}

    def _of_one(self, function: str, arguments: Sequence[ValueExpression]) -> dict[type, str]:
        """Functions of one value, and constants."""
        given = self.value(arguments[0])
        constants = tuple(arguments[1:])
        if function in _OF_NUMBERS:
            return _OF_NUMBERS[function](given, *constants)
        return _OF_TEXTS[function](given[str], *constants) if str in given else {}

    def _case(self, arguments: Sequence[ValueExpression]) -> dict[type, str]:
        *branches, otherwise = arguments
        pairs = zip(branches[::2], branches[1::2], strict=True)
        return _chosen(
            [(self.condition(when), self.value(then)) for when, then in pairs],
            self.value(otherwise),
        )

    def _concat(self, parts: Sequence[Texts]) -> dict[type, str]:
        if not all(str in each for each in parts):
            return {}
        return {str: _made(f"concat({', '.join(each[str] for each in parts)})")}

    def _condition(self, function: str, arguments: Sequence[ValueExpression]) -> str:
        match function:
            case "and" | "or":
                texts = [self.condition(each) for each in arguments]
                empty = "TRUE" if function == "and" else "FALSE"
                return f"({f' {function.upper()} '.join(texts)})" if texts else empty
            case "not":
                return f"(NOT {self.condition(arguments[0])})"
            case "is_null":
                found = self.value(arguments[0])
                return f"(NOT {_is_there(found)})" if found else "TRUE"
            case "in":
                tested, *values = arguments
                given = self.value(tested)
                texts = [_compared("=", given, self.value(each)) for each in values]
                return f"({' OR '.join(texts)})"
            case "like":
                text = self.value(arguments[0]).get(str)
                return f"({text} LIKE {literal(arguments[1])})" if text else UNKNOWN
            case "startswith" | "endswith" | "contains":
                text, part = (self.value(each).get(str) for each in arguments)
                return f"{function}({text}, {part})" if text and part else UNKNOWN
            case "exists" | "forall":
                return self._quantified(function, *arguments)
            case "within":
                return self._within(arguments)
        left, right = map(self.value, arguments)
        return _compared(function, left, right)

    def _items(self, expression: ValueExpression) -> str | None:
        """An array of structs with a member for each type."""
        assert isinstance(expression, AttributeRef)
        text = self._columns.get(LIST_PREFIX + expression.name, {}).get(str)
        if text is None:
            return None
        variants = f"try_variant_get(try_parse_json({text}), '$', 'array<variant>')"
        members = ", ".join(
            f"CASE WHEN schema_of_variant({_VARIANT}) {shape} "
            f"THEN try_variant_get({_VARIANT}, '$', '{name}') END AS {name}"
            for name, shape in _ITEM_TYPES.values()
        )
        items = f"transform({variants}, {_VARIANT} -> struct({members}))"
        is_short = f"length({text}) <= {MAX_LIST_TEXT} AND array_size({variants}) <= {MAX_ITEMS}"
        return f"CASE WHEN {is_short} THEN {items} END"

    def _quantified(self, function: str, items: ValueExpression, condition: ValueExpression) -> str:
        array = self._items(items)
        if array is None:
            return UNKNOWN
        item = {each: f"{_ITEM}.{name}" for each, (name, _) in _ITEM_TYPES.items()}
        inner = ExpressionSql(self._columns, item).condition(condition)
        return f"{function}({array}, {_ITEM} -> {inner})"

    def _within(self, arguments: Sequence[ValueExpression]) -> str:
        """A distance as a polynomial of the places, each of which is named once."""
        *places, metres = arguments
        texts = [_as_double(self.value(each)).get(float) for each in places]
        if not all(texts):
            return UNKNOWN
        names = ("lat", "lon", "lat0", "lon0")
        members = ", ".join(f"{text} AS {name}" for text, name in zip(texts, names, strict=True))
        columns: dict[str, Texts] = {name: {float: f"{_PLACE}.{name}"} for name in names}
        lat, lon, lat0, lon0 = map(AttributeRef, names)
        inner = ExpressionSql(columns).condition(_nearness(lat, lon, lat0, lon0, metres))
        return f"exists(array(struct({members})), {_PLACE} -> {inner})"


def literal(value: Any) -> str:
    """A constant as SQL: integers as bigint, all other numbers as double."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, str):
        return write_string(value)
    if value == INTEGER_MIN and isinstance(value, int):
        return f"({INTEGER_MIN + 1}L - 1L)"
    return f"{value}L" if isinstance(value, int) else f"{value!r}D"


def _checked(texts: dict[type, str]) -> dict[type, str]:
    if sum(map(len, texts.values())) > MAX_CONDITION:
        raise ConditionSizeError(
            f"as SQL the condition has more than {MAX_CONDITION} characters; the compiled engine "
            "takes it"
        )
    return texts


def _first_there(texts: Sequence[str]) -> str:
    return f"coalesce({', '.join(texts)})" if len(texts) > 1 else texts[0]


def _is_there(texts: Texts) -> str:
    return f"({' OR '.join(f'{text} IS NOT NULL' for text in texts.values())})"


def _chosen(branches: Sequence[tuple[str, Texts]], otherwise: Texts) -> dict[type, str]:
    """A CASE for each type."""
    types = [
        each for each in _ITEM_TYPES if any(each in t for _, t in branches) or each in otherwise
    ]
    return {
        each: "CASE "
        + " ".join(
            f"WHEN {condition} THEN {texts.get(each, 'NULL')}" for condition, texts in branches
        )
        + f" ELSE {otherwise.get(each, 'NULL')} END"
        for each in types
    }


def _numbers(texts: Texts) -> dict[type, str]:
    return {each: text for each, text in texts.items() if each in (int, float)}


def _double(texts: Texts, of: type) -> str:
    return texts[of] if of is float else f"CAST({texts[of]} AS DOUBLE)"


def _arithmetic(sign: str, left: Texts, right: Texts) -> dict[type, str]:
    found: dict[type, str] = {}
    if int in left and int in right and sign != "/":
        found[int] = f"{_TRIED[sign]}({left[int]}, {right[int]})"
    doubles = []
    for one in _numbers(left):
        for other in _numbers(right):
            if one is other is int and sign != "/":
                continue
            a, b = _double(left, one), _double(right, other)
            is_tried = sign in "/%"
            doubles.append(f"{_TRIED[sign]}({a}, {b})" if is_tried else f"({a} {sign} {b})")
    if doubles:
        found[float] = _first_there(doubles)
    return found


def _compared(sign: str, left: Texts, right: Texts) -> str:
    """A comparison within a kind: integers against doubles exactly."""
    texts = [f"({left[each]} {sign} {right[each]})" for each in left if each in right]
    if int in left and float in right:
        texts.append(_compared_exactly(sign, left[int], right[float]))
    if float in left and int in right:
        texts.append(_compared_exactly(_FLIPPED[sign], right[int], left[float]))
    return _first_there(texts) if texts else UNKNOWN


def _compared_exactly(sign: str, whole: str, double: str) -> str:
    """An integer against a double: with the integer next to it on the side that is asked for.

    Spark itself makes a double of the integer. NaN is above all.
    """
    is_whole = f"({whole} = floor({double}) AND floor({double}) = ceil({double}))"
    near = {
        "=": is_whole,
        "<>": f"(NOT {is_whole})",
        "<": f"{whole} < ceil({double})",
        "<=": f"{whole} <= floor({double})",
        ">": f"{whole} > floor({double})",
        ">=": f"{whole} >= ceil({double})",
    }[sign]
    if_above, if_below = str(sign in ("<", "<=", "<>")), str(sign in (">", ">=", "<>"))
    return (
        f"CASE WHEN {whole} IS NULL OR {double} IS NULL THEN {UNKNOWN} "
        f"WHEN {double} >= {_TOP} THEN {if_above.upper()} "
        f"WHEN {double} < -{_TOP} THEN {if_below.upper()} ELSE {near} END"
    )


def _extreme(function: str, parts: Sequence[dict[type, str]]) -> dict[type, str]:
    there = [each for each in parts if each]
    types = {each for part in there for each in part}
    if len(types) == 1:
        own = types.pop()
        texts = [part[own] for part in there]
        return {own: f"{function}({', '.join(texts)})" if len(texts) > 1 else texts[0]}
    best: dict[type, str] = there[0] if there else {}
    for each in there[1:]:
        is_better = _compared("<" if function == "least" else ">", each, best)
        best = _chosen(
            [
                (f"NOT {_is_there(each)}", best),
                (f"(NOT {_is_there(best)} OR {is_better})", each),
            ],
            best,
        )
    return best


def _negative(given: Texts) -> dict[type, str]:
    found: dict[type, str] = {}
    if int in given:
        found[int] = f"try_subtract(0L, {given[int]})"
    if float in given:
        found[float] = f"(- {given[float]})"
    return found


def _absolute(given: Texts) -> dict[type, str]:
    found: dict[type, str] = {}
    if int in given:
        found[int] = f"if({given[int]} >= 0L, {given[int]}, try_subtract(0L, {given[int]}))"
    if float in given:
        found[float] = f"abs({given[float]})"
    return found


def _round(given: Texts, digits: Any) -> dict[type, str]:
    found: dict[type, str] = {int: given[int]} if int in given else {}
    if float in given:
        found[float] = f"round({given[float]}, {digits})"
    return found


def _whole(function: str) -> Callable[[Texts], dict[type, str]]:
    def write(given: Texts) -> dict[type, str]:
        texts = [given[int]] if int in given else []
        if double := given.get(float):
            is_within = f"{double} >= -{_TOP} AND {double} < {_TOP}"
            texts.append(f"CASE WHEN {is_within} THEN {function}({double}) END")
        return {int: _first_there(texts)} if texts else {}

    return write


def _as_double(given: Texts) -> dict[type, str]:
    texts = [_double(given, each) for each in _numbers(given)]
    return {float: _first_there(texts)} if texts else {}


def _try_cast(given: Texts) -> dict[type, str]:
    texts = list(_as_double(given).values())
    if text := given.get(str):
        is_number = f"{text} RLIKE {write_string(_NUMBER_PATTERN)}"
        texts.append(f"CASE WHEN {is_number} THEN try_cast({text} AS DOUBLE) END")
    return {float: _first_there(texts)} if texts else {}


def _made(text: str) -> str:
    return f"CASE WHEN length({text}) <= {MAX_MADE_TEXT} THEN {text} END"


_OF_NUMBERS: dict[str, Callable[..., dict[type, str]]] = {
    "negative": _negative,
    "abs": _absolute,
    "round": _round,
    "floor": _whole("floor"),
    "ceil": _whole("ceil"),
    "double": _try_cast,
}
_OF_TEXTS: dict[str, Callable[..., dict[type, str]]] = {
    "lower": lambda text: {str: _made(f"lower({text})")},
    "upper": lambda text: {str: _made(f"upper({text})")},
    "trim": lambda text: {str: f"trim({text})"},
    "length": lambda text: {int: f"CAST(length({text}) AS BIGINT)"},
    "substring": lambda text, start, count: {str: f"substring({text}, {start}, {count})"},
}


def _nearness(
    latitude: ValueExpression,
    longitude: ValueExpression,
    latitude0: ValueExpression,
    longitude0: ValueExpression,
    metres: Any,
) -> ValueExpression:
    """The distance test with + and * alone, in the order in which `functions.chord` has them."""

    def sine(angle: ValueExpression) -> ValueExpression:
        square = call("*", angle, angle)
        total: ValueExpression = SINE_SERIES[-1]
        for factor in reversed(SINE_SERIES[:-1]):
            total = call("+", factor, call("*", square, total))
        return call("*", angle, total)

    def cosine(angle: ValueExpression) -> ValueExpression:
        return sine(call("*", call("-", 90.0, call("abs", angle)), 2 * HALF_DEGREE))

    north = sine(call("*", call("-", latitude, latitude0), HALF_DEGREE))
    turn = call("abs", call("-", longitude, longitude0))
    east = sine(call("*", call("least", turn, call("-", 360.0, turn)), HALF_DEGREE))
    cosines = call("*", cosine(latitude), cosine(latitude0))
    chord = call("+", call("*", north, north), call("*", cosines, call("*", east, east)))
    ranges = ((latitude, 90.0), (latitude0, 90.0), (longitude, 180.0), (longitude0, 180.0))
    on_map = call("and", *(_between(each, most) for each, most in ranges))
    return call("<=", call("case", on_map, chord, None), chord_within(metres))


def _between(value: ValueExpression, most: float) -> ValueExpression:
    return call("and", call(">=", value, -most), call("<=", value, most))
