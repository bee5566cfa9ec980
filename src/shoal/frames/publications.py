"""Publications as a table in memory: which columns name a row, and which are its attributes.

A row is named by its key: column `id`, or `publisher` and `sequence` as in shoal's own tables.
Attributes are the fields of the struct column `attributes` or, where there is none, all other
columns, and within them the fields of structs, `position.lat`; null means that a publication lacks
the attribute.  A column of lists is read by the list functions of filters.  Narrow integers and
floats are widened, dictionaries of texts are texts; a column of another type is an error only if a
filter asks for it.

>>> table = pa.table({"id": [1], "gate": pa.array([3], pa.int8()), "when": [None]})
>>> wanted = SubscriptionFrame.of_table(pa.table({"id": [7], "filter": ["gate > 2"]}))
>>> Publications.of(table, wanted).attributes.schema.types
[DataType(int64)]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types

from shoal.attributes import MAX_DEPTH
from shoal.attributes.objects import as_value
from shoal.frames.columns import texts
from shoal.frames.errors import TableError
from shoal.frames.mixed_columns import is_mixed, plain_value
from shoal.frames.spelling import did_you_mean
from shoal.frames.subscriptions import FILTER, ID_COLUMNS, SubscriptionFrame
from shoal.model import Value
from shoal.model.expressions.lists import MAX_ITEMS, list_attribute, write_list

KEYS = (("id",), ("publisher", "sequence"))
SUBSCRIPTION = "subscription"
ATTRIBUTES = "attributes"
# Batches of about as many rows: the answers of one are held at once.
BATCH_ROWS = 65_536


class Publications:
    """The keys of a table, those of its attributes that are asked for, and the names of all."""

    def __init__(self, keys: pa.Table, attributes: pa.Table, known: Sequence[str] = ()) -> None:
        self.keys = keys
        self.attributes = attributes
        self.known = known

    @classmethod
    def of(
        cls, table: pa.Table, wanted: SubscriptionFrame, key: Sequence[str] | None = None
    ) -> Publications:
        """Return the attributes that subscriptions need from a table.

        TableError for a key that is not there, a type that no attribute can have, and columns of
        subscriptions that demand an attribute that no publication has.
        """
        key = key_columns(table.column_names, key)
        there = attribute_columns(table, key)
        for attribute, column in wanted.demands.items():
            if attribute not in there:
                hint = did_you_mean(attribute, list(there), (FILTER, *ID_COLUMNS))
                raise TableError(
                    f"subscriptions: column {column!r} demands the attribute {attribute!r}, which "
                    f"publications do not have{hint}"
                )
        lists = {
            list_attribute(name): column
            for name, column in there.items()
            if pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
        }
        columns = {name: _typed(name, there[name]) for name in wanted.attributes if name in there}
        columns |= {
            name: _list_texts(lists[name])
            for name in wanted.attributes
            if name in lists and name not in there
        }
        return cls(table.select(key), pa.table(columns), list(there))

    def __len__(self) -> int:
        return int(self.keys.num_rows)

    @property
    def names(self) -> Sequence[str]:
        return list(self.attributes.column_names)

    @property
    def key_fields(self) -> Sequence[pa.Field]:
        return list(self.keys.schema)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The keys' columns, then those of the attributes."""
        columns = [*self.keys.columns, *self.attributes.columns]
        names = [f"{number}" for number in range(len(columns))]
        whole = pa.Table.from_arrays(columns, names).combine_chunks()
        yield from whole.to_batches(max_chunksize=BATCH_ROWS)

    def first(self, most: int | None) -> Publications:
        """The first rows; all without a number."""
        return Publications(self.keys[:most], self.attributes[:most], self.known)

    def rows(self) -> Iterator[tuple[object, dict[str, Value]]]:
        """Each publication's name and its attributes, without those that are missing."""
        names = row_names(self.keys)
        rows = self.attributes.to_pylist() if self.attributes.num_columns else [{}] * len(self)
        for name, row in zip(names, rows, strict=True):
            values = ((attribute, plain_value(value)) for attribute, value in row.items())
            yield name, {attribute: value for attribute, value in values if value is not None}


def row_names(keys: pa.Table | pa.RecordBatch) -> Iterator[object]:
    """Return each row's name: its key, as an object if that has several columns."""
    if keys.num_columns == 1:
        yield from keys.column(0).to_pylist()
    else:
        yield from keys.to_pylist()


def key_columns(columns: Sequence[str], chosen: Sequence[str] | None = None) -> tuple[str, ...]:
    """The columns that name a publication; TableError if they are not there."""
    if chosen is None:
        found = [key for key in KEYS if all(name in columns for name in key)]
        if not found:
            raise TableError(
                "publications: there is no column 'id', nor 'publisher' and 'sequence'; the "
                f"columns are {', '.join(columns) or 'none'}"
            )
        return found[0]
    for name in chosen:
        if name not in columns:
            raise TableError(f"publications: there is no column {name!r}")
    if not chosen:
        raise TableError("publications: no column was chosen to name them")
    if SUBSCRIPTION in chosen:
        raise TableError(f"publications: a key cannot be called {SUBSCRIPTION!r}; rename it")
    return tuple(chosen)


def attribute_columns(table: pa.Table, key: Sequence[str]) -> dict[str, pa.ChunkedArray]:
    """All attributes of a table, whatever their types."""
    if ATTRIBUTES in table.column_names and ATTRIBUTES not in key:
        nested = table.column(ATTRIBUTES)
        if not pa.types.is_struct(nested.type):
            raise TableError(
                f"publications: column {ATTRIBUTES!r} is {nested.type}; it must be a struct with a "
                "field per attribute"
            )
        columns = dict(zip([each.name for each in nested.type], nested.flatten(), strict=True))
    else:
        columns = {name: table.column(name) for name in table.column_names if name not in key}
    return _with_inner(columns)


def _with_inner(columns: dict[str, pa.ChunkedArray]) -> dict[str, pa.ChunkedArray]:
    """And the fields of structs, `position.lat`, unless a column is called so."""
    found, level = dict(columns), columns
    for _ in range(MAX_DEPTH - 1):
        level = {
            f"{name}.{field.name}": inner
            for name, column in level.items()
            if pa.types.is_struct(column.type) and not is_mixed(column.type)
            for field, inner in zip(column.type, column.flatten(), strict=True)
        }
        found = level | found
    return found


def _list_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of lists as attributes have them; a list that is too long is missing."""
    return pa.chunked_array(
        [
            texts(
                None
                if items is None or len(items) > MAX_ITEMS
                else write_list(map(as_value, items))
                for items in chunk.to_pylist()
            )
            for chunk in column.chunks
        ],
        pa.string(),
    )


def _typed(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column with a type that attribute values have; TableError if there is none."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    if (
        is_mixed(kind)
        or pa.types.is_null(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_string(kind)
    ):
        return column
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return column.cast(pa.string())
    if pa.types.is_floating(kind):
        return column.cast(pa.float64())
    if pa.types.is_integer(kind):
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid:
            raise TableError(
                f"publications: attribute {name!r} has integers beyond 64 bits with a sign"
            ) from None
    raise TableError(
        f"publications: attribute {name!r} is {kind}, and a filter asks for it; an attribute is a "
        "string, an integer, a double or a boolean: cast the column first"
    )
