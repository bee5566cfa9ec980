"""Value expressions over attributes, such as `abs(a - b)`: their structure, meaning and cost.

A value expression is a value, a reference to an attribute or to the item of a list, or a function
call; a condition is one that has a boolean. `evaluator` is its meaning on a message. A filter
refers to an expression as a derived attribute, whose name is the expression (`derived_name`): so
the index, covering and the wire treat a test of an expression as a test of an attribute.

Invariants:

- No message makes an evaluation fail: an error, a wrong kind and a missing attribute are a missing
  value (None), which is UNKNOWN as a condition.
- No conversion: `'5' > 4` and `'a' || 1` are missing. Integers and doubles are one kind, and
  compare exactly.
- The cost of an evaluation is bounded by the expression (`check_expression`), for all messages.
"""

from __future__ import annotations

from shoal.model.expressions.evaluation import evaluate_expression, evaluator
from shoal.model.expressions.structure import (
    DERIVED,
    MAX_COST,
    MAX_NESTING,
    MAX_NODES,
    ArgumentError,
    AttributeRef,
    ExpressionCostError,
    ExpressionError,
    FunctionCall,
    ItemRef,
    ValueExpression,
    call,
    check_expression,
    cost_of,
    derived_expression,
    derived_name,
    is_condition,
    is_derived,
    references,
    with_names,
)

__all__ = [
    "DERIVED",
    "MAX_COST",
    "MAX_NESTING",
    "MAX_NODES",
    "ArgumentError",
    "AttributeRef",
    "ExpressionCostError",
    "ExpressionError",
    "FunctionCall",
    "ItemRef",
    "ValueExpression",
    "call",
    "check_expression",
    "cost_of",
    "derived_expression",
    "derived_name",
    "evaluate_expression",
    "evaluator",
    "is_condition",
    "is_derived",
    "references",
    "with_names",
]
