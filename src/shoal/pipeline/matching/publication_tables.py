"""Publications as a table: which columns name a row, and which are its attributes.

A row is named by its key: column `id`, or `publisher` and `sequence` as in shoal's own tables.
Attributes are the fields of the struct column `attributes` or, where there is none, all other
columns, and within them the fields of structs; null means that a publication lacks the attribute.
A column of arrays is a list, which list functions of filters read. Narrow integers and floats are
widened; a column of another type is an error only if a subscription
asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    CharType,
    DataType,
    DecimalType,
    FractionalType,
    IntegralType,
    StringType,
    StructType,
    VarcharType,
)

from shoal.attributes import MAX_DEPTH
from shoal.frames import publications as publications_tables
from shoal.frames.errors import TableError
from shoal.model.expressions.lists import list_attribute
from shoal.pipeline.matching.spark_filters import MEMBER_TYPES, member_name
from shoal.pipeline.schemas import ATTRIBUTES

_MEMBERS = {member_name(each): data_type for each, data_type in MEMBER_TYPES.items()}

TypedColumn = tuple[Column, DataType]


def key_columns(publications: DataFrame, chosen: Sequence[str] | None = None) -> tuple[str, ...]:
    """The columns that name a publication; TableError if they are not there."""
    return publications_tables.key_columns(publications.columns, chosen)


def attribute_columns(
    publications: DataFrame, key: Sequence[str], asked: Iterable[str]
) -> dict[str, Column]:
    """Those of the attributes asked for that the table has, each with a type that values have."""
    there = attribute_types(publications, key)
    lists = {
        list_attribute(name): column
        for name, (column, kind) in there.items()
        if isinstance(kind, ArrayType)
    }
    found = {}
    for name in asked:
        if name in there:
            found[name] = _typed(name, *there[name])
        elif name in lists:
            found[name] = F.to_json(lists[name])
    return found


def attribute_types(publications: DataFrame, key: Sequence[str]) -> dict[str, TypedColumn]:
    """All attributes of a table: the column of each, and its type."""
    nested = ATTRIBUTES in publications.columns and ATTRIBUTES not in key
    if nested:
        schema = publications.schema[ATTRIBUTES].dataType
        if not isinstance(schema, StructType):
            raise TableError(
                f"publications: column {ATTRIBUTES!r} is {schema.simpleString()}; it must be a "
                "struct with a field per attribute"
            )
        whole = F.col(ATTRIBUTES)
        return _with_inner({f.name: (whole.getField(f.name), f.dataType) for f in schema})
    return _with_inner(
        {
            each.name: (F.col(quoted(each.name)), each.dataType)
            for each in publications.schema
            if each.name not in key
        }
    )


def _with_inner(columns: dict[str, TypedColumn]) -> dict[str, TypedColumn]:
    """And the fields of structs, `position.lat`, unless a column is called so."""
    found, level = dict(columns), columns
    for _ in range(MAX_DEPTH - 1):
        level = {
            f"{name}.{field.name}": (column.getField(field.name), field.dataType)
            for name, (column, kind) in level.items()
            if isinstance(kind, StructType) and not _is_mixed(kind)
            for field in kind
        }
        found = level | found
    return found


def attributes_frame(
    publications: DataFrame, key: Sequence[str], asked: Iterable[str]
) -> DataFrame:
    """The key columns, and the attributes asked for in one struct."""
    columns = attribute_columns(publications, key, asked)
    fields = [column.alias(name) for name, column in columns.items()]
    return publications.select(
        *(F.col(quoted(name)) for name in key), F.struct(*fields).alias(ATTRIBUTES)
    )


def quoted(name: str) -> str:
    """A column's name as Spark reads it, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def _typed(name: str, column: Column, kind: DataType) -> Column:
    match kind:
        case StringType() | CharType() | VarcharType() | BooleanType():
            return column
        case IntegralType():
            return column.cast("bigint")
        case DecimalType():
            pass
        case FractionalType():
            return column.cast("double")
        case StructType() if _is_mixed(kind):
            return column
    raise TableError(
        f"publications: attribute {name!r} is {kind.simpleString()}, and a filter asks for it; an "
        "attribute is a string, an integer, a double or a boolean: cast the column first"
    )


def _is_mixed(kind: StructType) -> bool:
    """Return whether a struct has a member for each type of one attribute's values."""
    return bool(kind.names) and all(_MEMBERS.get(member.name) == member.dataType for member in kind)
