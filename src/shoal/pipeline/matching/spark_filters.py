"""A filter as a condition for Spark SQL, over columns of the types that the data really has.

If every predicate suits its column, the condition is the filter's own text: Spark judges the user's
text. Otherwise SQL would convert or fail, and the condition spells out the filter's meaning
instead: a value of another kind is unknown, a missing column is a missing attribute, and integers
and doubles compare exactly (Spark would compare both as doubles). Expressions are always spelt out
(`spark_expressions`).

A column is a string, bigint, double or boolean; or, where publications mix types, a struct with a
member per type, named by the type, of which at most one is not null.

>>> from pyspark.sql.types import LongType, StructType
>>> columns = StructType().add("dep_delay", LongType())
>>> spark_condition("dep_delay > 30 and not 90 < dep_delay", columns)
'dep_delay > 30 and not 90 < dep_delay'
>>> spark_condition("dep_delay > 30.5 OR carrier = 'UA'", columns)
'(`dep_delay` > 30L OR CAST(NULL AS BOOLEAN))'
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from pyspark.sql.types import (
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from shoal.language import parse
from shoal.language.literals import write_string
from shoal.model import (
    INTEGER_MAX,
    INTEGER_MIN,
    And,
    Attributes,
    Constant,
    Expression,
    Kind,
    Not,
    Operator,
    Or,
    Predicate,
    Value,
    condition_value,
)
from shoal.model.expressions import is_derived
from shoal.pipeline.matching.spark_expressions import ExpressionSql

MEMBER_TYPES: dict[type, DataType] = {
    bool: BooleanType(),
    int: LongType(),
    float: DoubleType(),
    str: StringType(),
}
_PYTHON_TYPES = {data_type.typeName(): python for python, data_type in MEMBER_TYPES.items()}
_KINDS: dict[type, Kind] = {
    bool: Kind.BOOLEAN,
    int: Kind.NUMBER,
    float: Kind.NUMBER,
    str: Kind.STRING,
}
# Spark calls the function of this name even where there is a column, unless it is in back-quotes.
_TAKEN_FOR_FUNCTIONS = frozenset(("current_path",))
_UNKNOWN = "CAST(NULL AS BOOLEAN)"
_MOST = (Operator.GT, Operator.LE)


class _SparkColumn(NamedTuple):
    """A typed column, as SQL names it; a member is one of several that share an attribute."""

    name: str
    type: type
    is_member: bool


def member_name(python_type: type) -> str:
    """Return the name of the member of a mixed column that holds values of this Python type."""
    return MEMBER_TYPES[python_type].simpleString()


def mixed_column(name: str, types: Sequence[type]) -> StructField:
    """The column of an attribute with values of these types: plain if it is one type only."""
    if len(types) == 1:
        return StructField(name, MEMBER_TYPES[types[0]])
    members = StructType()
    for each in types:
        members = members.add(member_name(each), MEMBER_TYPES[each])
    return StructField(name, members)


def mixed_value(
    attributes: Attributes, field: StructField
) -> Value | tuple[Value | None, ...] | None:
    """The value of an attribute as its column holds it."""
    value = attributes.get(field.name)
    if value is None or not isinstance(field.dataType, StructType):
        return value
    own = member_name(type(value))
    return tuple(value if member == own else None for member in field.dataType.names)


def spark_condition(text: str, columns: StructType) -> str:
    """Return the text itself, or its meaning spelt out; FilterSyntaxError for a wrong filter."""
    typed = {field.name: _typed_columns(field) for field in columns}
    expression = parse(text).expression
    return text if _suits(expression, typed) else _spell_out(expression, typed)


def _typed_columns(field: StructField) -> tuple[_SparkColumn, ...]:
    name = _quote(field.name)
    if isinstance(field.dataType, StructType):
        return tuple(
            _SparkColumn(f"{name}.{_quote(member.name)}", _python_type(member), True)
            for member in field.dataType
        )
    return (_SparkColumn(name, _python_type(field), False),)


def _python_type(field: StructField) -> type:
    try:
        return _PYTHON_TYPES[field.dataType.typeName()]
    except KeyError:
        raise ValueError(
            f"column {field.name!r} is {field.dataType.simpleString()}; an attribute is a string, "
            "bigint, double or boolean"
        ) from None


def _quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _suits(expression: Expression, typed: dict[str, tuple[_SparkColumn, ...]]) -> bool:
    """Return whether Spark's own reading of the text, on these columns, is a filter's."""
    match expression:
        case Constant():
            return True
        case Not():
            return _suits(expression.operand, typed)
        case And() | Or():
            return all(_suits(operand, typed) for operand in expression.operands)
        case Predicate() if is_derived(expression.attribute):
            return False
        case Predicate():
            columns = typed.get(expression.attribute, ())
            if len(columns) != 1 or columns[0].is_member:
                return False
            if expression.attribute.lower() in _TAKEN_FOR_FUNCTIONS:
                return False
            own = columns[0].type
            return all(_fits(value, own) for value in _operands(expression))


def _operands(tested: Predicate) -> tuple[Value, ...]:
    match tested.operand:
        case None:
            return ()
        case tuple():
            return tested.operand
        case _:
            return (tested.operand,)


def _fits(value: Value, column_type: type) -> bool:
    if column_type is float and type(value) is int:
        return float(value) == value
    return type(value) is column_type


def _spell_out(expression: Expression, typed: dict[str, tuple[_SparkColumn, ...]]) -> str:
    match expression:
        case Constant():
            return str(expression.value).upper()
        case Not():
            return f"(NOT {_spell_out(expression.operand, typed)})"
        case And() | Or():
            texts = [_spell_out(operand, typed) for operand in expression.operands]
            return f"({(' AND ' if isinstance(expression, And) else ' OR ').join(texts)})"
        case Predicate() if is_derived(expression.attribute):
            by_type = {
                name: {each.type: each.name for each in columns} for name, columns in typed.items()
            }
            return ExpressionSql(by_type).condition(condition_value(expression))
        case Predicate():
            return _spell_out_predicate(expression, typed.get(expression.attribute, ()))


def _spell_out_predicate(tested: Predicate, columns: tuple[_SparkColumn, ...]) -> str:
    if tested.kind is None:
        absent = " AND ".join(f"{column.name} IS NULL" for column in columns) or "TRUE"
        return f"({absent})" if tested.operator is Operator.IS_NULL else f"(NOT ({absent}))"
    tests = [_test(column, tested) for column in columns if _KINDS[column.type] is tested.kind]
    if len(tests) < 2:
        return tests[0] if tests else _UNKNOWN
    # At most one of the columns has a value; the tests of the others are NULL.
    return f"COALESCE({', '.join(tests)})"


def _test(column: _SparkColumn, tested: Predicate) -> str:
    if column.type is int:
        return _integer_test(column.name, tested)
    if column.type is float:
        return _double_test(column.name, tested)
    literals = [_literal(value) for value in _operands(tested)]
    if isinstance(tested.operand, tuple):
        return f"{column.name} {tested.operator.value} ({', '.join(literals)})"
    return f"{column.name} {tested.operator.value} {literals[0]}"


def _literal(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, str):
        return write_string(value)
    return f"{value}L" if isinstance(value, int) else f"{value!r}D"


def _always(column: str, *, answer: bool) -> str:
    """The answer for every value of the column, NULL where it has none."""
    return f"{column} {'=' if answer else '<>'} {column}"


def _listed(column: str, tested: Predicate, values: Sequence[int | float]) -> str:
    """Equality or membership, its negation too, with those of the values that there can be."""
    wanted = tested.operator in (Operator.EQ, Operator.IN)
    if not values:
        return _always(column, answer=not wanted)
    literals = ", ".join(map(_literal, values))
    return f"{column} {'IN' if wanted else 'NOT IN'} ({literals})"


def _integer_test(column: str, tested: Predicate) -> str:
    """A bigint column against numbers that need not be integers."""
    operands = [value for value in _operands(tested) if not isinstance(value, str)]
    if tested.operator in (Operator.EQ, Operator.NE, Operator.IN, Operator.NOT_IN):
        exact = [int(value) for value in operands if math.isfinite(value) and value == int(value)]
        return _listed(column, tested, [n for n in exact if INTEGER_MIN <= n <= INTEGER_MAX])
    operand, operator = operands[0], tested.operator
    # `> 2.5` is `> 2` and `>= 2.5` is `>= 3`; the complements likewise.
    bound = math.floor(operand) if operator in _MOST else math.ceil(operand)
    if not INTEGER_MIN <= bound <= INTEGER_MAX:
        below_all = bound < INTEGER_MIN
        upwards = operator in (Operator.GT, Operator.GE)
        return _always(column, answer=below_all is upwards)
    return f"{column} {operator.value} {_literal(bound)}"


def _double_test(column: str, tested: Predicate) -> str:
    """A double column against numbers that need not be doubles."""
    operands = [value for value in _operands(tested) if not isinstance(value, str)]
    if tested.operator in (Operator.EQ, Operator.NE, Operator.IN, Operator.NOT_IN):
        return _listed(column, tested, [float(v) for v in operands if float(v) == v])
    operand, operator = operands[0], tested.operator
    nearest = float(operand)
    if nearest == operand:
        return f"{column} {operator.value} {_literal(nearest)}"
    # No double equals the operand: go by the nearest one on the side that is asked for.
    if operator in (Operator.GT, Operator.GE):
        above = nearest if nearest > operand else math.nextafter(nearest, math.inf)
        return f"{column} >= {_literal(above)}"
    below = nearest if nearest < operand else math.nextafter(nearest, -math.inf)
    return f"{column} <= {_literal(below)}"
