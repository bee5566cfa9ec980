"""Filters and value expressions as texts, with no more parentheses than they need.

>>> from shoal.model.expressions import AttributeRef, call
>>> a, b = AttributeRef("a"), AttributeRef("b")
>>> format_value(call("*", call("-", a, call("-", b, 1)), 2))
'(a - (b - 1)) * 2'
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shoal.language.literals import write_name, write_number, write_string
from shoal.model import (
    And,
    Constant,
    Expression,
    Filter,
    FilterError,
    Not,
    Operator,
    Or,
    Predicate,
    Value,
)
from shoal.model.expressions import (
    AttributeRef,
    FunctionCall,
    ItemRef,
    ValueExpression,
    derived_expression,
    is_condition,
    is_derived,
    references,
)


def format_filter(filter: Filter) -> str:
    """The filter's text, with no more parentheses than it needs.

    `parse` reads it back where it is not too long or deep for it, as what was granted may be once
    it is written out: what must come back is stored as an expression.

    FilterError for what the language cannot write: an infinity, an attribute without name.
    """
    try:
        return _format(filter.expression, 0)
    except ValueError as error:
        raise FilterError(str(error)) from None


def _format(expression: Expression, tightness: int) -> str:
    """Text of an expression inside one that binds so tightly: 0 nothing or OR, 1 AND, 2 NOT."""
    match expression:
        case Constant():
            return "TRUE" if expression.value else "FALSE"
        case Predicate():
            return _format_predicate(expression)
        case Not():
            return f"NOT {_format(expression.operand, 2)}"
        case And() | Or():
            conjunctive = isinstance(expression, And)
            if not expression.operands:
                return "TRUE" if conjunctive else "FALSE"
            own = 1 if conjunctive else 0
            texts = (_format(operand, own) for operand in expression.operands)
            text = (" AND " if conjunctive else " OR ").join(texts)
            return f"({text})" if own < tightness else text


def _format_predicate(tested: Predicate) -> str:
    if not is_derived(tested.attribute):
        return _test(write_name(tested.attribute), tested)
    expression = derived_expression(tested.attribute)
    assert isinstance(expression, FunctionCall)
    if expression.function == "order" and tested.operand == 0 and tested.operand is not None:
        return _compared(tested.operator.value, expression.arguments, _NO_ITEM)
    if tested.operand is True and tested.operator in (Operator.EQ, Operator.NE):
        is_bare = is_condition(expression) or expression.function not in _SIGNS
        if is_bare and tested.operator is Operator.EQ:
            return format_value(expression)
        if is_bare:
            return f"NOT {_write(expression, _NOT, _NO_ITEM)}"
    return _test(_write(expression, _COMPARED + 1, _NO_ITEM), tested)


def _test(tested: str, test: Predicate) -> str:
    start = f"{tested} {test.operator.value}"
    match test.operand:
        case None:
            return start
        case tuple():
            return f"{start} ({', '.join(map(write_value, test.operand))})"
        case _:
            return f"{start} {write_value(test.operand)}"


def write_value(value: Value) -> str:
    """A value as a literal; ValueError for infinities and NaN."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return write_string(value) if isinstance(value, str) else write_number(value)


# --- value expressions ------------------------------------------------------------------------

# How tightly an operator binds.
_OR, _AND, _NOT, _COMPARED, _SUM, _PRODUCT, _SIGN, _ATOM = range(8)
_SIGNS = {"+": _SUM, "-": _SUM, "concat": _SUM, "*": _PRODUCT, "/": _PRODUCT, "%": _PRODUCT}
_COMPARISON_SIGNS = frozenset(("=", "<>", "<", "<=", ">", ">="))
# Outside of a condition on items.
_NO_ITEM = ""


def format_value(expression: ValueExpression) -> str:
    """The text of a value expression, which `parse_value` reads back."""
    return _write(expression, _OR, _NO_ITEM)


def _write(expression: ValueExpression, tightness: int, item: str) -> str:
    """The text of an expression inside an operator that binds so tightly."""
    match expression:
        case AttributeRef(name):
            return write_name(name)
        case ItemRef():
            return item
        case FunctionCall(function, arguments):
            own, text = _write_call(function, arguments, item)
            return f"({text})" if own < tightness else text
        case None:
            return "NULL"
    return write_value(expression)


def _write_call(
    function: str, arguments: tuple[ValueExpression, ...], item: str
) -> tuple[int, str]:
    """How tightly a call binds, and its text."""
    if function in _SIGNS and len(arguments) > 1:
        own, sign = _SIGNS[function], "||" if function == "concat" else function
        first, *others = arguments
        texts = [_write(first, own, item), *(_write(each, own + 1, item) for each in others)]
        return own, f" {sign} ".join(texts)
    if function in _COMPARISON_SIGNS:
        return _COMPARED, _compared(function, arguments, item)
    match function:
        case "negative":
            text = _write(arguments[0], _SIGN, item)
            return _SIGN, f"-({text})" if text.startswith("-") else f"-{text}"
        case "and" | "or":
            own = _AND if function == "and" else _OR
            if not arguments:
                return _ATOM, "TRUE" if function == "and" else "FALSE"
            return own, f" {function.upper()} ".join(
                _write(each, own + 1, item) for each in arguments
            )
        case "not":
            return _write_negation(arguments[0], item)
        case "is_null":
            return _COMPARED, f"{_write(arguments[0], _SUM, item)} IS NULL"
        case "like":
            text = _write(arguments[0], _SUM, item)
            return _COMPARED, f"{text} LIKE {_write(arguments[1], _ATOM, item)}"
        case "in":
            return _COMPARED, _write_membership("IN", arguments, item)
        case "case":
            return _ATOM, _write_case(arguments, item)
        case "double":
            return _ATOM, f"TRY_CAST({_write(arguments[0], _SUM, item)} AS DOUBLE)"
        case "exists" | "forall":
            return _ATOM, _write_quantified(function, arguments)
        case "within":
            *places, metres = (_write(each, _OR, item) for each in arguments)
            return _COMPARED, f"distance({', '.join(places)}) <= {metres}"
    return _ATOM, f"{function}({_listed(arguments, item)})"


def _listed(arguments: Iterable[ValueExpression], item: str) -> str:
    return ", ".join(_write(each, _OR, item) for each in arguments)


def _compared(sign: str, arguments: Sequence[ValueExpression], item: str) -> str:
    left, right = (_write(each, _SUM, item) for each in arguments)
    return f"{left} {sign} {right}"


def _write_membership(word: str, arguments: Sequence[ValueExpression], item: str) -> str:
    tested, *values = arguments
    return f"{_write(tested, _SUM, item)} {word} ({_listed(values, item)})"


def _write_negation(negated: ValueExpression, item: str) -> tuple[int, str]:
    if isinstance(negated, FunctionCall):
        tested = _write(negated.arguments[0], _SUM, item) if negated.arguments else ""
        match negated.function:
            case "is_null":
                return _COMPARED, f"{tested} IS NOT NULL"
            case "in":
                return _COMPARED, _write_membership("NOT IN", negated.arguments, item)
            case "like":
                pattern = _write(negated.arguments[1], _ATOM, item)
                return _COMPARED, f"{tested} NOT LIKE {pattern}"
    return _NOT, f"NOT {_write(negated, _NOT, item)}"


def _write_case(arguments: Sequence[ValueExpression], item: str) -> str:
    *branches, otherwise = (_write(each, _OR, item) for each in arguments)
    pairs = zip(branches[::2], branches[1::2], strict=True)
    text = " ".join(f"WHEN {when} THEN {then}" for when, then in pairs)
    end = "" if arguments[-1] is None else f" ELSE {otherwise}"
    return f"CASE {text}{end} END"


def _write_quantified(function: str, arguments: Sequence[ValueExpression]) -> str:
    items, condition = arguments
    if function == "exists" and isinstance(condition, FunctionCall):
        equal, of = condition.function, condition.arguments
        if (
            equal == "="
            and of[0] == ItemRef()
            and not isinstance(of[1], FunctionCall | AttributeRef)
        ):
            return f"array_contains({_write(items, _OR, '')}, {_write(of[1], _OR, '')})"
    taken, item = set(references(condition)), "item"
    while item in taken:
        item += "_"
    return f"{function}({_write(items, _OR, '')}, {item} -> {_write(condition, _OR, item)})"
