"""Conjunctions of numeric tests that are alike but for their constants: shapes and constants.

>>> from shoal.language import parse
>>> [conjunction] = parse("a + 2 * b > 5").normal_form
>>> form = vector_form(conjunction, frozenset(test.attribute for test in conjunction))
>>> form.constants, form.shape.is_complete
((2.0, 5.0), True)
>>> form.shape.tests[0].expression
('+', ('*', ('attribute', 'b'), ('constant', True)), ('attribute', 'a'))
"""

from __future__ import annotations

from typing import Any, NamedTuple

from shoal.model import Conjunction, Operator, Predicate
from shoal.model.expressions import (
    AttributeRef,
    FunctionCall,
    ValueExpression,
    derived_expression,
)
from shoal.model.expressions.functions import chord_within, is_number

# Below this, sums and products of integers that are doubles are exact.
EXACT = 2**53
# Tests and constants of a conjunction, and operators and values; beyond them the scalar evaluator
# tests.
MOST_NODES, MOST_COST = 64, 256

# Nested tuples: a function with its arguments, an attribute, or the type of a constant.
ExpressionShape = tuple[Any, ...]

ATTRIBUTE, CONSTANT = "attribute", "constant"
_SIGNS = ("=", "<>", "<", "<=", ">", ">=")
_ARITHMETIC = frozenset("+-*/%")
_OF_ONE = frozenset(("negative", "abs", "floor", "ceil"))


class ComparedShape(NamedTuple):
    """A test without its constants: an expression's, the operator and the first column."""

    sign: str
    expression: ExpressionShape
    first: int

    @property
    def is_plain(self) -> bool:
        """Whether it is the test of an attribute."""
        return bool(self.expression[0] == ATTRIBUTE)


class FormShape(NamedTuple):
    """The tests that vector instructions take; `is_complete` if a conjunction has no others."""

    tests: tuple[ComparedShape, ...]
    is_complete: bool

    @property
    def cost(self) -> int:
        """The number of operators and values."""
        return sum([1 + _nodes(test.expression) for test in self.tests])


class VectorForm(NamedTuple):
    """The form of a conjunction, and its constants."""

    shape: FormShape
    constants: tuple[float, ...]


def vector_form(conjunction: Conjunction, evaluated: frozenset[str]) -> VectorForm | None:
    """The form of a conjunction; None if vector instructions are of no use for it.

    Of the derived attributes the `evaluated` ones are worked out; others are attributes.
    """
    tests: list[ComparedShape] = []
    constants: list[float] = []
    is_complete, is_worth = True, False
    for tested in sorted(conjunction, key=lambda tested: tested.attribute in evaluated):
        before = len(constants)
        expression = _tested_shape(tested, evaluated, constants)
        if expression is None or len(constants) > MOST_NODES:
            del constants[before:]
            is_complete = False
            continue
        is_worth = is_worth or tested.attribute in evaluated or bool(tests)
        tests.append(ComparedShape(_sign(tested), expression, before))
    if not is_worth or len(tests) > MOST_NODES:
        return None
    shape = FormShape(tuple(tests), is_complete)
    return None if shape.cost > MOST_COST else VectorForm(shape, tuple(constants))


def _sign(tested: Predicate) -> str:
    return tested.operator.value


def _tested_shape(
    tested: Predicate, evaluated: frozenset[str], constants: list[float]
) -> ExpressionShape | None:
    """The shape of a test's expression; appends the constants, the operand last."""
    is_derived = tested.attribute in evaluated
    expression = derived_expression(tested.attribute) if is_derived else None
    if isinstance(expression, FunctionCall) and expression.function == "within":
        if (tested.operator, tested.operand) != (Operator.EQ, True):
            return None
        return _within_shape(expression, constants)
    if tested.operator.value not in _SIGNS or not _is_exact(tested.operand):
        return None
    shape = _shape(expression, constants) if is_derived else (ATTRIBUTE, tested.attribute)
    if shape is not None:
        constants.append(float(tested.operand))  # type: ignore[arg-type]  # a number
    return shape


def _within_shape(expression: FunctionCall, constants: list[float]) -> ExpressionShape | None:
    *places, metres = expression.arguments
    shapes = [_shape(each, constants) for each in places]
    if None in shapes:
        return None
    assert isinstance(metres, int | float)
    constants.append(chord_within(metres))
    return ("within", *shapes)


def _shape(expression: ValueExpression, constants: list[float]) -> ExpressionShape | None:
    match expression:
        case AttributeRef(name):
            return (ATTRIBUTE, name)
        case FunctionCall("order", (AttributeRef(), AttributeRef())):
            # They may be two strings, or two booleans.
            return None
        case FunctionCall(function, arguments):
            is_known = function in _ARITHMETIC or function in _OF_ONE or function == "order"
            shapes = [_shape(each, constants) for each in arguments] if is_known else [None]
            return None if None in shapes else (function, *shapes)
    if not _is_exact(expression):
        return None
    constants.append(float(expression))  # type: ignore[arg-type]  # a number
    return (CONSTANT, type(expression) is int)


def _is_exact(value: object) -> bool:
    """Whether a constant is a double exactly, and stays one in a sum of a few."""
    return is_number(value) and (type(value) is float or -EXACT < value < EXACT)  # type: ignore[operator]


def _nodes(shape: ExpressionShape) -> int:
    if shape[0] in (ATTRIBUTE, CONSTANT):
        return 1
    # A distance has two polynomials, of 11 steps of three operators each.
    return (70 if shape[0] == "within" else 1) + sum(map(_nodes, shape[1:]))
