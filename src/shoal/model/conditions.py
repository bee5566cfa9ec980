"""Conditions as value expressions, as they stand within CASE, `exists` and `forall`.

>>> from shoal.model.filters import Operator, predicate
>>> condition_value(predicate("a", Operator.GT, 5))
FunctionCall(function='>', arguments=(AttributeRef(name='a'), 5))
"""

from __future__ import annotations

from typing import cast

from shoal.model.expressions import FunctionCall, ValueExpression, call, derived_expression
from shoal.model.filters import And, Constant, Expression, Not, Operator, Or, Predicate
from shoal.model.values import Value

# Operators whose complement is written with NOT.
_NEGATED = {
    Operator.NOT_LIKE: Operator.LIKE,
    Operator.NOT_IN: Operator.IN,
    Operator.IS_NOT_NULL: Operator.IS_NULL,
}


def condition_value(expression: Expression) -> ValueExpression:
    """The expression that has TRUE, FALSE or UNKNOWN (None) as the condition does."""
    match expression:
        case Constant(value):
            return value
        case Not(operand):
            return call("not", condition_value(operand))
        case And(operands):
            return call("and", *map(condition_value, operands))
        case Or(operands):
            return call("or", *map(condition_value, operands))
        case Predicate(attribute, operator, operand):
            return _test_value(derived_expression(attribute), operator, operand)


def _test_value(
    tested: ValueExpression, operator: Operator, operand: Value | tuple[Value, ...] | None
) -> ValueExpression:
    if operator in _NEGATED:
        return call("not", _test_value(tested, _NEGATED[operator], operand))
    match operator:
        case Operator.IS_NULL:
            return call("is_null", tested)
        case Operator.IN:
            return call("in", tested, *cast(tuple[Value, ...], operand))
        case Operator.LIKE:
            return call("like", tested, cast(str, operand))
    if isinstance(tested, FunctionCall) and tested.function == "order" and operand == 0:
        return call(operator.value, *tested.arguments)
    if operand is True and operator is Operator.EQ:
        return tested
    return call(operator.value, tested, cast(Value, operand))
