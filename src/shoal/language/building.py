"""Builds filters and value expressions while the parser reduces: no tree, no recursion.

A piece of a text is a condition or a value; the grammar does not tell them apart, this module does.
A comparison of an attribute with a constant is a test of that attribute, a comparison of an
expression with a constant one of a derived attribute, and a comparison of two expressions a test of
their order. Calls of constants only are evaluated here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lark import Token, Transformer, v_args

from shoal.language.errors import LanguageMeaningError, shorten
from shoal.language.literals import read_number, read_quoted_name, read_string
from shoal.model import (
    And,
    Constant,
    Expression,
    FilterCostError,
    FilterError,
    Not,
    Operator,
    Or,
    Predicate,
    Value,
    compare,
    condition_value,
    kind_of,
    predicate,
)
from shoal.model.expressions import (
    MAX_NODES,
    AttributeRef,
    ExpressionError,
    FunctionCall,
    ItemRef,
    ValueExpression,
    call,
    derived_name,
    evaluate_expression,
)
from shoal.model.like import ESCAPE, canonical_pattern, is_like

# Parentheses, NOTs and calls inside each other: keeps every recursion over an expression shallow.
MAX_DEPTH = 100

COMPARISONS = {
    "=": Operator.EQ,
    "<>": Operator.NE,
    "!=": Operator.NE,
    "<": Operator.LT,
    "<=": Operator.LE,
    ">": Operator.GT,
    ">=": Operator.GE,
}
_FLIPPED = {
    Operator.EQ: Operator.EQ,
    Operator.NE: Operator.NE,
    Operator.LT: Operator.GT,
    Operator.LE: Operator.GE,
    Operator.GT: Operator.LT,
    Operator.GE: Operator.LE,
}
_HOLDS = {
    Operator.EQ: (0,),
    Operator.NE: (-1, 1),
    Operator.LT: (-1,),
    Operator.LE: (-1, 0),
    Operator.GT: (1,),
    Operator.GE: (0, 1),
}
_ARITHMETIC = frozenset("+-*/%")
# Functions by the kind of value that they take.
_OF_NUMBERS = _ARITHMETIC | {"negative", "abs", "round", "floor", "ceil"}
_OF_TEXTS = frozenset(
    ("concat", "lower", "upper", "trim", "length", "substring", "startswith", "endswith",
     "contains")
)  # fmt: skip
_COMMUTATIVE = frozenset("+*")
FUNCTIONS = (
    "abs", "array_contains", "ceil", "coalesce", "concat", "contains", "distance", "endswith",
    "exists", "floor", "forall", "greatest", "least", "length", "lower", "nullif", "round", "size",
    "startswith", "substring", "trim", "upper",
)  # fmt: skip
NO_CAST = "there is no CAST; TRY_CAST(v AS DOUBLE) reads a number, and is missing if v is none"
_ADVICE = {
    "cast": NO_CAST,
    "rlike": "there are no regular expressions; LIKE, startswith, endswith and contains test texts",
    "regexp": "there are no regular expressions; LIKE, startswith and contains test texts",
    "distance": "distance(lat, lon, lat, lon) stands in front of <= and a number of metres",
    "exists": "exists takes a list and a condition on its items: exists(tags, tag -> tag = 'a')",
    "forall": "forall takes a list and a condition on its items: forall(temps, t -> t < 50)",
    "array_contains": "array_contains takes a list and a constant: array_contains(tags, 'a')",
}
# Distance before the comparison that makes it a condition.
_DISTANCE = "distance"


class Piece(NamedTuple):
    """A part of a text: a condition, or else a value.

    depth         how deep its text nests
    size          tests that it holds
    is_literal    a constant, written or evaluated
    """

    condition: Expression | None
    value: ValueExpression
    depth: int
    size: int
    position: int
    is_literal: bool = False


class _LambdaPiece(NamedTuple):
    """A variable and a condition on it."""

    variable: str
    condition: Piece
    position: int


class _Branch(NamedTuple):
    when: Piece
    then: Piece


Argument = Piece | _LambdaPiece


def condition_of(piece: Piece) -> Expression:
    """The condition that a piece is: of a value, whether it is TRUE."""
    if piece.condition is not None:
        return piece.condition
    value = _value(piece)
    if isinstance(value, bool):
        return Constant(value)
    if piece.is_literal:
        raise LanguageMeaningError("a constant is no condition; compare it", piece.position)
    return _test(piece, Operator.EQ, True)


def _value(piece: Piece) -> ValueExpression:
    """The value that a piece is; a condition is none."""
    if piece.condition is not None:
        raise LanguageMeaningError(
            "a condition is no value here; AND, OR and NOT join conditions, "
            "CASE WHEN … THEN … END makes values of them",
            piece.position,
        )
    if isinstance(piece.value, FunctionCall) and piece.value.function == _DISTANCE:
        raise LanguageMeaningError(_ADVICE[_DISTANCE], piece.position)
    return piece.value


def _test(piece: Piece, operator: Operator, *values: Value) -> Predicate:
    """A test of a value against constants, of one kind."""
    operand: Value | tuple[Value, ...] | None = values[0] if values else None
    if operator in (Operator.IN, Operator.NOT_IN):
        operand = values
    try:
        return predicate(derived_name(_value(piece)), operator, operand)
    except FilterCostError:
        raise
    except (FilterError, ExpressionError) as error:
        raise LanguageMeaningError(str(error), piece.position) from None


def _check_kinds(literals: Sequence[Piece]) -> None:
    first = kind_of(_constant(literals[0]))
    for each in literals:
        if kind_of(_constant(each)) is not first:
            raise LanguageMeaningError("the values are of different kinds", each.position)


def _constant(piece: Piece) -> Value:
    assert isinstance(piece.value, bool | int | float | str)
    return piece.value


def _compare(left: Piece, operator: Operator, right: Piece) -> Expression:
    if _is_distance(left) or _is_distance(right):
        return _distance_test(left, operator, right)
    _value(left), _value(right)
    if left.is_literal and right.is_literal:
        _check_kinds([left, right])
        return Constant(compare(_constant(left), _constant(right)) in _HOLDS[operator])
    if right.is_literal:
        return _test(left, operator, _constant(right))
    if left.is_literal:
        return _test(right, _FLIPPED[operator], _constant(left))
    return _test(_call("order", left, right), operator, 0)


def _is_distance(piece: Piece) -> bool:
    return isinstance(piece.value, FunctionCall) and piece.value.function == _DISTANCE


def _distance_test(left: Piece, operator: Operator, right: Piece) -> Expression:
    if _is_distance(right):
        left, operator, right = right, _FLIPPED[operator], left
    is_number = type(right.value) in (int, float) and right.value >= 0  # type: ignore[operator]
    if not is_number or operator not in (Operator.LE, Operator.GT):
        raise LanguageMeaningError(_ADVICE[_DISTANCE], left.position)
    assert isinstance(left.value, FunctionCall)
    within = call("within", *left.value.arguments, right.value)
    test = _test(left._replace(value=within), Operator.EQ, True)
    return test if operator is Operator.LE else Not(test)


def _connect(connective: type[And] | type[Or], parts: tuple[Piece, ...]) -> Piece:
    operands: list[Expression] = []
    for part in parts:
        condition = condition_of(part)
        if isinstance(condition, connective):
            operands.extend(condition.operands)
        else:
            operands.append(condition)
    size = sum(part.size for part in parts)
    depth = max(part.depth for part in parts)
    return Piece(connective(tuple(operands)), None, depth, size, parts[0].position)


def _deeper(parts: Sequence[Piece], position: int) -> int:
    depth = max((part.depth for part in parts), default=0)
    if depth >= MAX_DEPTH:
        raise LanguageMeaningError(f"parentheses and NOT nest deeper than {MAX_DEPTH}", position)
    return depth + 1


def _call(function: str, *parts: Piece, at: int | None = None) -> Piece:
    """A call with values, evaluated if all are constants."""
    position = parts[0].position if at is None else at
    values = [_value(part) for part in parts]
    _check_literals(function, parts)
    depth, made = _deeper(parts, position), None
    first = values[0]
    if function in _COMMUTATIVE or function == "concat":
        if isinstance(first, FunctionCall) and first.function == function:
            # From the left, as it is written: nothing is grouped anew.
            values = [*first.arguments, *values[1:]]
            depth -= parts[0].depth >= max(part.depth for part in parts)
        elif function in _COMMUTATIVE:
            values.sort(key=_place_in_normal_form)
        if len(values) > MAX_NODES:
            raise LanguageMeaningError(f"an expression has at most {MAX_NODES} parts", position)
    try:
        made = call(function, *values)
    except ExpressionError as error:
        raise LanguageMeaningError(_ADVICE.get(function, str(error)), position) from None
    size = max(1, *(part.size for part in parts)) if parts else 1
    if all(part.is_literal for part in parts):
        found = evaluate_expression(made, {})
        if found is not None and not (isinstance(found, float) and not math.isfinite(found)):
            return Piece(None, found, 0, 1, position, is_literal=True)
    return Piece(None, made, depth, size, position)


def _place_in_normal_form(value: ValueExpression) -> tuple[bool, str]:
    """Constants behind all others; the others by their names."""
    is_constant = not isinstance(value, AttributeRef | ItemRef | FunctionCall)
    return is_constant, derived_name(value)


def _check_literals(function: str, parts: Sequence[Piece]) -> None:
    """Refuse constants of a kind with which the call is always missing."""
    for part in parts:
        if not part.is_literal:
            continue
        is_number = type(part.value) in (int, float)
        if function in _OF_NUMBERS and not is_number:
            raise LanguageMeaningError(f"{_sign(function)} takes numbers", part.position)
        if function in _OF_TEXTS and function != "substring" and not isinstance(part.value, str):
            advice = "; a logical or is OR" if function == "concat" else ""
            raise LanguageMeaningError(
                f"{_sign(function)} takes texts, and converts nothing{advice}", part.position
            )


def _sign(function: str) -> str:
    return {"negative": "-", "concat": "|| (concat)"}.get(function, function)


def _with_item(value: ValueExpression, variable: str) -> ValueExpression:
    """The expression with the item of a list in place of the variable's name."""
    match value:
        case AttributeRef(name):
            return ItemRef() if name == variable else value
        case FunctionCall(function, arguments):
            return FunctionCall(function, tuple(_with_item(each, variable) for each in arguments))
    return value


def _joined(condition: Expression, *parts: Piece, size: int = 1) -> Piece:
    """A condition on parts of a text: as many tests as the largest of them, or `size`."""
    largest = max(size, *(part.size for part in parts)) if len(parts) > 1 else parts[0].size
    depth = max(part.depth for part in parts)
    return Piece(condition, None, depth, max(size, largest), parts[0].position)


def _function(function: str, arguments: list[Argument], position: int) -> Piece:
    """A call by name."""
    if function not in FUNCTIONS:
        message = f"there is no function {shorten(function)}"
        raise LanguageMeaningError(_ADVICE.get(function, message), position)
    pieces = [each for each in arguments if isinstance(each, Piece)]
    if function in ("exists", "forall"):
        return _quantified(function, arguments, position)
    if len(pieces) < len(arguments):
        raise LanguageMeaningError(f"{function} takes no condition on items", position)
    if not pieces:
        raise LanguageMeaningError(f"{function} takes arguments", position)
    if function == "array_contains":
        if len(pieces) != 2 or not pieces[1].is_literal:
            raise LanguageMeaningError(_ADVICE[function], position)
        equal = call("=", ItemRef(), pieces[1].value)
        return _checked_call("exists", (pieces[0].value, equal), pieces, position)
    if function == "distance":
        if len(pieces) != 4:
            raise LanguageMeaningError(_ADVICE[function], position)
        made = FunctionCall(_DISTANCE, tuple(map(_value, pieces)))
        return Piece(None, made, _deeper(pieces, position), 1, position)
    return _call(function, *pieces, at=position)


def _quantified(function: str, arguments: list[Argument], position: int) -> Piece:
    match arguments:
        case [Piece() as items, _LambdaPiece(variable, condition)]:
            tested = condition_value(condition_of(condition))
            tested = _with_item(tested, variable)
            return _checked_call(function, (items.value, tested), [items, condition], position)
    raise LanguageMeaningError(_ADVICE[function], position)


def _checked_call(
    function: str, values: tuple[ValueExpression, ...], parts: Sequence[Piece], position: int
) -> Piece:
    try:
        made = call(function, *values)
    except ExpressionError as error:
        raise LanguageMeaningError(_ADVICE.get(function, str(error)), position) from None
    size = max((part.size for part in parts), default=1)
    return Piece(None, made, _deeper(parts, position), size, position)


def _case(
    position: int, tested: Piece | None, branches: list[_Branch], otherwise: Piece | None
) -> Piece:
    parts = [part for branch in branches for part in branch]
    values: list[ValueExpression] = []
    for when, then in branches:
        condition = condition_of(when) if tested is None else _compare(tested, Operator.EQ, when)
        values += [condition_value(condition), _value(then)]
    values.append(None if otherwise is None else _value(otherwise))
    parts += [each for each in (tested, otherwise) if each is not None]
    return _checked_call("case", tuple(values), parts, position)


@v_args(inline=True)
class Builder(Transformer[Token, Any]):
    """Pieces of a filter, from the grammar's rules."""

    def start(self, part: Piece) -> Piece:
        return part._replace(condition=condition_of(part))

    def value(self, part: Piece) -> Piece:
        _value(part)
        return part

    def disjunction(self, *parts: Piece) -> Piece:
        return _connect(Or, parts)

    def conjunction(self, *parts: Piece) -> Piece:
        return _connect(And, parts)

    def negated(self, token: Token, part: Piece) -> Piece:
        position = token.start_pos or 0
        return Piece(Not(condition_of(part)), None, _deeper([part], position), part.size, position)

    def parenthesis(self, token: Token, part: Piece) -> Piece:
        return part._replace(depth=_deeper([part], token.start_pos or 0))

    def comparison(self, left: Piece, sign: Token, right: Piece) -> Piece:
        return _joined(_compare(left, COMPARISONS[sign], right), left, right)

    def between(self, tested: Piece, negation: Token | None, low: Piece, high: Piece) -> Piece:
        if low.is_literal and high.is_literal:
            _check_kinds([low, high])
        if negation:
            outside = (_compare(tested, Operator.LT, low), _compare(tested, Operator.GT, high))
            return _joined(Or(outside), tested, low, high, size=2)
        inside = (_compare(tested, Operator.GE, low), _compare(tested, Operator.LE, high))
        return _joined(And(inside), tested, low, high, size=2)

    def membership(
        self, tested: Piece, negation: Token | None, _: Token, *literals: Piece
    ) -> Piece:
        _check_kinds(literals)
        values = tuple(map(_constant, literals))
        if tested.is_literal:
            _check_kinds([tested, *literals])
            found = any(compare(_constant(tested), each) == 0 for each in values)
            return _joined(Constant(found is not bool(negation)), tested)
        operator = Operator.NOT_IN if negation else Operator.IN
        return _joined(_test(tested, operator, *values), tested)

    def like(
        self, tested: Piece, negation: Token | None, pattern: Piece, escape: Piece | None
    ) -> Piece:
        escape_character = escape.value if escape else ESCAPE
        assert isinstance(pattern.value, str)
        assert isinstance(escape_character, str)
        # Spark counts UTF-16 units.
        if escape and (len(escape_character) != 1 or escape_character > "\uffff"):
            raise LanguageMeaningError("ESCAPE takes one character", escape.position)
        try:
            canonical = canonical_pattern(pattern.value, escape_character)
        except ValueError as error:
            raise LanguageMeaningError(str(error), pattern.position) from None
        if tested.is_literal:
            if not isinstance(tested.value, str):
                raise LanguageMeaningError("LIKE takes texts", tested.position)
            found = is_like(tested.value, canonical)
            return _joined(Constant(found is not bool(negation)), tested)
        operator = Operator.NOT_LIKE if negation else Operator.LIKE
        return _joined(_test(tested, operator, canonical), tested)

    def presence(self, tested: Piece, negation: Token | None) -> Piece:
        if tested.is_literal:
            return _joined(Constant(bool(negation)), tested)
        operator = Operator.IS_NOT_NULL if negation else Operator.IS_NULL
        return _joined(_test(tested, operator), tested)

    def binary(self, left: Piece, sign: Token, right: Piece) -> Piece:
        if sign == "||" and (left.condition is not None or right.condition is not None):
            raise LanguageMeaningError("|| joins texts; a logical or is OR", sign.start_pos or 0)
        function = "concat" if sign == "||" else str(sign)
        return _call(function, left, right)

    def negative(self, sign: Token, part: Piece) -> Piece:
        return _call("negative", part, at=sign.start_pos or 0)

    def function(self, name: Token, _: Token, *arguments: Argument | None) -> Piece:
        given = [each for each in arguments if each is not None]
        return _function(name.lower(), given, name.start_pos or 0)

    def item_condition(self, name: Token, _: Token, condition: Piece) -> _LambdaPiece:
        return _LambdaPiece(str(name), condition, name.start_pos or 0)

    def try_cast(self, token: Token, _: Token, part: Piece, kind: Token) -> Piece:
        if kind.upper() != "DOUBLE":
            raise LanguageMeaningError("TRY_CAST reads a DOUBLE", kind.start_pos or 0, ("DOUBLE",))
        return _call("double", part, at=token.start_pos or 0)

    def branch(self, when: Piece, then: Piece) -> _Branch:
        return _Branch(when, then)

    def case(self, token: Token, *parts: _Branch | Piece | None) -> Piece:
        branches = [each for each in parts if isinstance(each, _Branch)]
        tested = parts[0] if isinstance(parts[0], Piece) else None
        otherwise = parts[-1] if isinstance(parts[-1], Piece) else None
        return _case(token.start_pos or 0, tested, branches, otherwise)

    def attribute(self, token: Token) -> Piece:
        name = read_quoted_name(token) if token.type == "QUOTED_NAME" else str(token)
        return Piece(None, AttributeRef(name), 0, 1, token.start_pos or 0)

    def string(self, token: Token) -> Piece:
        return self.literal(token)

    def literal(self, token: Token) -> Piece:
        position = token.start_pos or 0
        read: Callable[[str], Value]
        match token.type:
            case "NUMBER":
                read = read_number
            case "STRING":
                read = read_string
            case _:
                return Piece(None, token.type == "TRUE", 0, 1, position, is_literal=True)
        try:
            return Piece(None, read(token), 0, 1, position, is_literal=True)
        except ValueError as error:
            raise LanguageMeaningError(str(error), position) from None
