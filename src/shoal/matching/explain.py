"""Explains why a filter does, or does not, match: its verdict, part by part, with the values found.

Every part of the filter is TRUE, FALSE or UNKNOWN under SQL's three-valued logic, as
`semantics.evaluate` defines it, and only TRUE matches. The explanation is a tree of the same shape
as the filter; each predicate in it has the value found and the reason for the verdict. Its text
shows only the parts that stand between the publication and a match.

>>> from shoal.language import parse
>>> why = explain(parse("carrier = 'UA' AND (dep_delay > 30 OR NOT on_time)"),
...     {"carrier": "UA", "dep_delay": "late", "on_time": True})
>>> why.verdict.value, why.parts[1].parts[0].reason
('UNKNOWN', "dep_delay is the string 'late', compared with a number")
>>> print(why.text())
UNKNOWN  carrier = 'UA' AND (dep_delay > 30 OR NOT on_time = TRUE): 1 of 2 parts is not TRUE
  UNKNOWN  dep_delay > 30 OR NOT on_time = TRUE: no part is TRUE, 1 of 2 is UNKNOWN
    UNKNOWN  dep_delay > 30: dep_delay is the string 'late', compared with a number
    FALSE    NOT on_time = TRUE: the operand of NOT is TRUE
      TRUE     on_time = TRUE: on_time is TRUE
"""

from __future__ import annotations

import difflib
import enum
from collections.abc import Sequence
from typing import Any

import msgspec

from shoal.language import format_filter, format_value
from shoal.language.literals import write_name, write_string
from shoal.matching.derived import value_reader
from shoal.matching.given import checked
from shoal.matching.semantics import evaluate, evaluate_predicate
from shoal.model import (
    And,
    Attributes,
    Constant,
    Expression,
    Filter,
    FilterError,
    Kind,
    Not,
    Operator,
    Or,
    Predicate,
    Value,
    check_attributes,
    kind_of,
)
from shoal.model.expressions import (
    AttributeRef,
    FunctionCall,
    ItemRef,
    ValueExpression,
    derived_expression,
    evaluate_expression,
    is_condition,
    is_derived,
    references,
)
from shoal.model.expressions.lists import items_of

# Similarity of two names from which on one may be a misspelling of the other.
_ALIKE = 0.8
# A reason quotes no more of a value, or of a filter's text, than a line can hold.
_QUOTED_CHARACTERS = 80
# Parts of an expression that a reason names.
_MOST_PARTS = 4


class FilterVerdict(enum.Enum):
    """Truth value of a filter, or of a part of one, on one publication."""

    TRUE = "TRUE"
    FALSE = "FALSE"
    UNKNOWN = "UNKNOWN"


_VERDICTS = {True: FilterVerdict.TRUE, False: FilterVerdict.FALSE, None: FilterVerdict.UNKNOWN}


class Explanation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One part of a filter: its text, its verdict, and why.

    `attribute` and `found` are those of a predicate; `found` is None where the attribute is
    missing.  `parts` are the operands of AND, OR and NOT.
    """

    part: str
    verdict: FilterVerdict
    reason: str
    operator: str
    attribute: str | None = None
    found: Value | None = None
    parts: tuple[Explanation, ...] = ()

    def text(self, *, everything: bool = False) -> str:
        """Lines, indented; with only those parts that would have to change for a match.

        Of a filter that matches, and with `everything`, all parts.
        """
        shown = everything or self.verdict is FilterVerdict.TRUE
        return "\n".join(self._lines(0, FilterVerdict.TRUE, everything=shown))

    def _lines(self, depth: int, wanted: FilterVerdict, *, everything: bool) -> list[str]:
        indent = "  " * depth
        part = _shortened(self.part)
        lines = [f"{indent}{self.verdict.value:<7}  {part}: {self.reason}"]
        if self.operator == "NOT":
            wanted = FilterVerdict.FALSE if wanted is FilterVerdict.TRUE else FilterVerdict.TRUE
        for each in self.parts:
            if everything or each.verdict is not wanted:
                lines += each._lines(depth + 1, wanted, everything=everything)
        return lines

    def to_dict(self) -> dict[str, Any]:
        """The tree as plain dictionaries and lists, for JSON: NaN and infinities are None."""
        tree: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return tree


def explain(filter: Filter, attributes: Attributes) -> Explanation:
    """Return why a publication with these attributes matches the filter, or does not.

    ValueError for attributes that no publication may carry, TypeError for values of other types.
    """
    attributes = checked(attributes)
    check_attributes({name: value for name, value in attributes.items() if value is not None})
    return _explain(filter.expression, attributes)


def _explain(expression: Expression, attributes: Attributes) -> Explanation:
    match expression:
        case Predicate():
            return _explain_predicate(expression, attributes)
        case Constant():
            reason, operator = "a constant", "constant"
            parts: tuple[Explanation, ...] = ()
        case Not():
            parts = (_explain(expression.operand, attributes),)
            reason, operator = f"the operand of NOT is {parts[0].verdict.value}", "NOT"
        case And() | Or():
            parts = tuple(_explain(each, attributes) for each in expression.operands)
            operator = "AND" if isinstance(expression, And) else "OR"
            reason = _reason_of_and(parts) if operator == "AND" else _reason_of_or(parts)
    return Explanation(
        part=_text(expression),
        verdict=_VERDICTS[evaluate(expression, attributes)],
        reason=reason,
        operator=operator,
        parts=parts,
    )


def _reason_of_and(parts: Sequence[Explanation]) -> str:
    failed = sum(part.verdict is not FilterVerdict.TRUE for part in parts)
    if not failed:
        return "every part is TRUE"
    return f"{failed} of {len(parts)} parts {'is' if failed == 1 else 'are'} not TRUE"


def _reason_of_or(parts: Sequence[Explanation]) -> str:
    met = sum(part.verdict is FilterVerdict.TRUE for part in parts)
    if met:
        return f"{met} of {len(parts)} parts {'is' if met == 1 else 'are'} TRUE"
    unknown = sum(part.verdict is FilterVerdict.UNKNOWN for part in parts)
    if not unknown:
        return "every part is FALSE"
    return f"no part is TRUE, {unknown} of {len(parts)} {'is' if unknown == 1 else 'are'} UNKNOWN"


def _explain_predicate(tested: Predicate, attributes: Attributes) -> Explanation:
    value = value_reader(tested.attribute)(attributes)
    result = evaluate_predicate(tested, value)
    if is_derived(tested.attribute):
        return _explain_derived(tested, value, result, attributes)
    name = _name(tested.attribute)
    if value is None:
        reason = f"{name} is missing{_other_spelling(tested.attribute, attributes)}"
    elif tested.kind is None:
        reason = f"{name} is there: {_write(value)}"
    elif kind_of(value) is not tested.kind:
        kind = kind_of(value).value
        reason = f"{name} is the {kind} {_write(value)}, compared with a {tested.kind.value}"
    elif result:
        reason = f"{name} is {_write(value)}{_remark(tested, value)}"
    else:
        reason = f"{name} is {_write(value)}, {_denial(tested)}{_remark(tested, value)}"
    return Explanation(
        part=_text(tested),
        verdict=_VERDICTS[result],
        reason=reason,
        operator=tested.operator.value,
        attribute=tested.attribute,
        found=value,
    )


def _explain_derived(
    tested: Predicate, value: Value | None, result: bool | None, attributes: Attributes
) -> Explanation:
    """Of a test of an expression: its value, and the values of the attributes in it."""
    expression = derived_expression(tested.attribute)
    name = _shortened(format_value(expression))
    is_order = isinstance(expression, FunctionCall) and expression.function == "order"
    if value is None:
        missing = [
            _missing_part(each, attributes) for each in _missing_parts(expression, attributes)
        ]
        whole = "the two do not compare" if is_order else f"{name} has no value"
        reason = "; ".join((whole, *missing))
    elif is_order or is_condition(expression):
        reason = "the condition is TRUE" if result else "the condition is FALSE"
    elif tested.kind is None or result:
        reason = f"{name} is {_write(value)}"
    elif kind_of(value) is not tested.kind:
        kind = kind_of(value).value
        reason = f"{name} is the {kind} {_write(value)}, compared with a {tested.kind.value}"
    else:
        reason = f"{name} is {_write(value)}, {_denial(tested)}"
    return Explanation(
        part=_text(tested),
        verdict=_VERDICTS[result],
        reason=reason + _inner_values(expression, attributes),
        operator=tested.operator.value,
        attribute=name,
        found=value,
    )


def _missing_parts(expression: ValueExpression, attributes: Attributes) -> list[ValueExpression]:
    """The innermost parts without a value: for them the whole has none."""
    if not isinstance(expression, FunctionCall):
        return []
    found: list[ValueExpression] = []
    for each in expression.arguments:
        is_part = isinstance(each, AttributeRef | FunctionCall) and not _has_items(each)
        if is_part and not _is_there(each, attributes):
            found += _missing_parts(each, attributes) or [each]
    return found[:_MOST_PARTS]


def _is_there(part: ValueExpression, attributes: Attributes) -> bool:
    """Return whether a part has a value, or is a list."""
    if evaluate_expression(part, attributes) is not None:
        return True
    return isinstance(part, AttributeRef) and items_of(attributes, part.name) is not None


def _has_items(expression: ValueExpression) -> bool:
    """Return whether an expression has a value only for an item of a list."""
    match expression:
        case ItemRef():
            return True
        case FunctionCall(_, arguments):
            return any(map(_has_items, arguments))
    return False


def _missing_part(expression: ValueExpression, attributes: Attributes) -> str:
    text = f"{_shortened(format_value(expression))} is missing"
    if isinstance(expression, AttributeRef):
        text += _other_spelling(expression.name, attributes)
    return text


def _inner_values(expression: ValueExpression, attributes: Attributes) -> str:
    """The attributes in an expression with their values."""
    names = list(dict.fromkeys(references(expression)))
    there = [name for name in names if attributes.get(name) is not None]
    shown = ", ".join(f"{_name(name)} = {_write(attributes[name])}" for name in there[:_MOST_PARTS])
    return f" ({shown})" if shown else ""


def _denial(tested: Predicate) -> str:
    """Return the test that a value of the right kind fails, as text."""
    operand = _write_operand(tested.operand)
    match tested.operator:
        case Operator.EQ:
            return f"not {operand}"
        case Operator.NE:
            return f"which equals {operand}"
        case Operator.LIKE:
            return f"which does not have the form {operand}"
        case Operator.NOT_LIKE:
            return f"which has the form {operand}"
        case Operator.IN:
            return f"which is none of {operand}"
        case Operator.NOT_IN:
            return f"which is one of {operand}"
        case operator:
            return f"which is not {operator.value} {operand}"


def _remark(tested: Predicate, value: Value) -> str:
    """Return a note on a surprising comparison."""
    if value != value:
        return " (NaN is above every number, and equal to itself)"
    operands = tested.operand if isinstance(tested.operand, tuple) else (tested.operand,)
    if isinstance(value, str):
        return _remark_on_text(tested, value, [each for each in operands if isinstance(each, str)])
    if tested.kind is Kind.NUMBER and any(
        each is not None and value != each and float(value) == float(each) for each in operands
    ):
        return " (compared exactly, beyond what a double can tell apart)"
    return ""


def _remark_on_text(tested: Predicate, value: str, operands: Sequence[str]) -> str:
    if tested.operator not in (Operator.EQ, Operator.IN) or value in operands:
        return ""
    if any(each.casefold() == value.casefold() for each in operands):
        return " (only the case of letters differs)"
    if any(each.strip() == value.strip() for each in operands):
        return " (only spaces around it differ)"
    return ""


def _other_spelling(name: str, attributes: Attributes) -> str:
    """The attribute that was perhaps meant."""
    for other in attributes:
        if other.casefold() == name.casefold():
            return f"; there is {_name(other)}, and names are case-sensitive"
    alike = difflib.get_close_matches(name, attributes, n=1, cutoff=_ALIKE)
    return f"; there is {_name(alike[0])}" if alike else ""


def _text(expression: Expression) -> str:
    try:
        return format_filter(Filter(expression))
    except FilterError:
        # Built by hand with values that no text can express, such as an infinity.
        return repr(expression)


def _name(attribute: str) -> str:
    return write_name(attribute) if attribute else "the attribute without name"


def _write_operand(operand: Value | tuple[Value, ...] | None) -> str:
    if isinstance(operand, tuple):
        return _shortened(f"({', '.join(map(_write, operand))})")
    assert operand is not None
    return _write(operand)


def _write(value: Value) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return write_string(_shortened(value))
    return "NaN" if value != value else repr(value)


def _shortened(text: str) -> str:
    return text if len(text) <= _QUOTED_CHARACTERS else text[: _QUOTED_CHARACTERS - 1] + "…"
