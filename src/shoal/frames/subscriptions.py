"""Subscriptions as a table: checked once, compiled where they match.

A table of subscriptions has an id (column `id`, or `subscription` as in a workload) and either a
column `filter` with the filter's text, or a conjunction in columns: a value in column `symbol`
demands `symbol = value`, `price.low` and `price.high` bound a closed range, and a null asks for
nothing. An error names row and id.

>>> from shoal.language import format_filter
>>> table = pa.table({"id": ["s1", "s2"], "symbol": ["A", None], "price.low": [None, 3.5]})
>>> subscriptions = SubscriptionFrame.of_table(table)
>>> [(id, format_filter(filter)) for id, filter in subscriptions.filters()]
[('s1', "symbol = 'A'"), ('s2', 'price >= 3.5')]
>>> subscriptions.attributes, subscriptions.index().match({"price": 4})
(('price', 'symbol'), [1])
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types

from shoal.frames.columns import binaries, flags, integers, texts
from shoal.frames.errors import TableError
from shoal.frames.exact_numbers import EXACT_INTEGERS
from shoal.frames.mixed_columns import is_mixed
from shoal.language import FilterSyntaxError, parse
from shoal.matching import MatchIndex
from shoal.model import (
    EVERYTHING,
    And,
    Expression,
    Filter,
    Operator,
    Predicate,
    Value,
    predicate,
)

ID_COLUMNS = ("id", "subscription")
FILTER = "filter"
# No attribute has this name.
EXPRESSION = "encoded filter"
# As many complaints as a person reads before going to the data.
COMPLAINTS_SHOWN = 3
# Of so few conjunctions filters are made one by one: loading them imports numba.
FEW = 2_000

_BOUNDS = {"low": Operator.GE, "high": Operator.LE}
_OPEN = {"low": -np.inf, "high": np.inf}


class SubscriptionFrame:
    """Checked subscriptions: their ids, and their filters as columns or as encoded expressions.

    Workers get Arrow; each makes its index at first use. It names subscriptions by their ids if
    these are integers, else by their rows, from 0.
    """

    def __init__(
        self, ids: pa.Array, columns: pa.Table, expressions: pa.Array | None, names: Sequence[str]
    ) -> None:
        self.ids = ids
        self.attributes = tuple(names)
        self._columns = columns
        self._expressions = expressions
        self._index: MatchIndex | None = None

    @classmethod
    def of_table(cls, table: pa.Table) -> SubscriptionFrame:
        """From texts, or from conjunctions in columns; TableError has the fault and its place."""
        id = id_column(table.column_names)
        table = _plain(table)
        check_types(id, table.schema)
        if FILTER not in table.column_names:
            return cls.of_columns(table)
        ids = table.column(id).combine_chunks()
        read = encoded(ids, table.column(FILTER).to_pylist())
        complain(read)
        return cls.of_expressions(ids, read.column(EXPRESSION))

    @classmethod
    def of_columns(cls, table: pa.Table) -> SubscriptionFrame:
        """From conjunctions in columns; TableError names a column or row that is wrong."""
        id = id_column(table.column_names)
        ids, columns = table.column(id).combine_chunks(), table.drop_columns([id])
        check_ids(ids)
        for name in columns.column_names:
            _check_column(name, columns.column(name).combine_chunks())
        names = {attribute_of(name) for name in columns.column_names}
        return cls(ids, columns, None, sorted(names))

    @classmethod
    def of_expressions(cls, ids: pa.Array, expressions: pa.Array) -> SubscriptionFrame:
        """From filters that are parsed and encoded already."""
        check_ids(ids)
        names = {name for text in decoded(expressions) for name in text.attributes}
        return cls(ids, pa.table({}), expressions, sorted(names))

    def __len__(self) -> int:
        return len(self.ids)

    def __reduce__(self) -> tuple[object, ...]:
        # The index does not travel: making it is quicker than sending it.
        return SubscriptionFrame, (self.ids, self._columns, self._expressions, self.attributes)

    @property
    def demands(self) -> Mapping[str, str]:
        """The attributes that columns demand, each with a column that does; of texts none."""
        columns = self._columns.column_names
        asking = (name for name in columns if self._columns.column(name).null_count < len(self))
        return {attribute_of(name): name for name in asking}

    def index(self) -> MatchIndex:
        """All subscriptions by their numbers, which `named` understands; made once in a process."""
        if self._index is None:
            self._index = self._build()
        return self._index

    def named(self, numbers: npt.NDArray[np.int64]) -> pa.Array:
        """The ids that the index's numbers stand for."""
        found = integers(numbers)
        return found.cast(self.ids.type) if self._has_numbers else self.ids.take(found)

    def named_one(self, numbers: Sequence[int]) -> list[str | int]:
        """The ids that numbers stand for, for one publication's."""
        if self._has_numbers:
            return list(numbers)
        return [self.ids[number].as_py() for number in numbers]

    def filters(self, most: int | None = None) -> Iterator[tuple[str | int, Filter]]:
        """Every subscription's id and filter, or those of the first, in the order of the table."""
        ids = self.ids[:most]
        if self._expressions is not None:
            filters = decoded(self._expressions[:most])
        else:
            filters = (_conjunction(row) for row in _rows(self._columns[:most], len(ids)))
        yield from zip(ids.to_pylist(), filters, strict=True)

    @property
    def _has_numbers(self) -> bool:
        return bool(pa.types.is_integer(self.ids.type))

    def _build(self) -> MatchIndex:
        index = MatchIndex()
        numbers = np.arange(len(self))
        if self._has_numbers:
            numbers = np.from_dlpack(self.ids).astype(np.int64)
        if self._expressions is not None or len(self) <= FEW:
            for number, (_, filter) in zip(numbers.tolist(), self.filters(), strict=True):
                index.add(number, filter)
            return index
        columns = {name: self._columns.column(name) for name in self._columns.column_names}
        exact = np.ones(len(self), np.bool_)
        for column in columns.values():
            exact &= _is_exact(column.combine_chunks())
        loaded = pa.table(columns | {"id": numbers})
        index.add_table(loaded if exact.all() else loaded.filter(flags(exact)))
        for row in np.flatnonzero(~exact).tolist():
            index.add(int(numbers[row]), _conjunction(self._columns.slice(row, 1).to_pylist()[0]))
        return index


def decoded(expressions: pa.Array) -> Iterator[Filter]:
    """The filters that `parsed_subscriptions` encoded."""
    decoder = msgspec.msgpack.Decoder(Expression)
    return (Filter(decoder.decode(each.as_buffer())) for each in expressions)


def id_column(columns: Sequence[str]) -> str:
    """Return the column with the ids; TableError if there is none, or a name occurs twice."""
    repeated = [name for name, times in Counter(columns).items() if times > 1]
    if repeated:
        raise TableError(f"subscriptions: there are two columns {repeated[0]!r}")
    for name in ID_COLUMNS:
        if name in columns:
            return name
    raise TableError(
        f"subscriptions: there is no column 'id' (or 'subscription'); the columns are "
        f"{', '.join(columns) or 'none'}"
    )


def encoded(ids: pa.Array, filters: Iterable[str | None]) -> pa.RecordBatch:
    """Columns `id`, `EXPRESSION` for `decoded`, and `wrong`: null, or why there is none."""
    expressions, wrong = [], []
    for text in filters:
        expression, complaint = _parsed(text)
        expressions.append(expression)
        wrong.append(complaint)
    return pa.RecordBatch.from_arrays(
        [ids, binaries(expressions), texts(wrong)],
        ["id", EXPRESSION, "wrong"],
    )


def _parsed(text: str | None) -> tuple[bytes | None, str | None]:
    if text is None:
        return None, "the filter is null"
    try:
        filter = parse(text)
    except FilterSyntaxError as error:
        return None, f"filter, {error}"
    return msgspec.msgpack.encode(filter.expression), None


def complain(read: pa.Table | pa.RecordBatch) -> None:
    """TableError with the first of the rows of `encoded` that are wrong."""
    wrong = pa.chunked_array(read.column("wrong")).combine_chunks()
    if wrong.null_count == len(wrong):
        return
    rows = np.flatnonzero(wrong.is_valid().to_numpy(zero_copy_only=False)).tolist()
    ids = read.column("id")
    lines = [
        f"subscriptions, row {row + 1} (id {ids[row].as_py()!r}): {wrong[row].as_py()}"
        for row in rows[:COMPLAINTS_SHOWN]
    ]
    if len(rows) > len(lines):
        lines.append(f"... and {len(rows) - len(lines):,} more rows are wrong")
    raise TableError("\n".join(lines))


def check_types(id: str, schema: pa.Schema) -> None:
    """TableError unless ids are strings or integers, and filters, if there are, texts."""
    kind = schema.field(id).type
    if not (pa.types.is_integer(kind) or _is_text(kind)):
        raise TableError(f"subscriptions: column {id!r} is {kind}; an id is a string or an integer")
    if FILTER in schema.names and not _is_text(schema.field(FILTER).type):
        kind = schema.field(FILTER).type
        raise TableError(f"subscriptions: column {FILTER!r} is {kind}; a filter is a text")


def check_ids(ids: pa.Array) -> None:
    """TableError if an id is null or there twice."""
    if ids.null_count:
        row = ids.is_null().to_numpy(zero_copy_only=False).argmax()
        raise TableError(f"subscriptions, row {row + 1}: the id is null")
    if pa.types.is_integer(ids.type):
        ordered = np.sort(np.from_dlpack(ids))
        is_unique = bool((ordered[1:] > ordered[:-1]).all())
    else:
        is_unique = len(ids.unique()) == len(ids)
    if is_unique:
        return
    first: dict[object, int] = {}
    for row, id in enumerate(ids.to_pylist(), start=1):
        if id in first:
            raise TableError(f"subscriptions, row {row}: id {id!r} stands in row {first[id]} too")
        first[id] = row


def _check_column(name: str, values: pa.Array) -> None:
    """A bound is a number below infinity on its side; a demanded value is any attribute value."""
    side = side_of(name)
    kind = values.type
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if is_mixed(kind):
        raise TableError(
            f"subscriptions: column {name!r} has values of several types; "
            "write what it demands as texts in a column 'filter'"
        )
    if side and not is_number:
        raise TableError(f"subscriptions: column {name!r} is {kind}; a bound is a number")
    if not (is_number or _is_text(kind) or pa.types.is_boolean(kind)):
        raise TableError(
            f"subscriptions: column {name!r} is {kind}; a value is a string, an integer, a "
            "double or a boolean: cast it, or leave the column out"
        )
    if pa.types.is_floating(kind):
        _check_numbers(name, side, values)


def _check_numbers(name: str, side: str, values: pa.Array) -> None:
    numbers = np.from_dlpack(values.cast(pa.float64()).fill_null(0.0))
    allowed = np.isfinite(numbers)
    if side:
        allowed |= numbers == _OPEN[side]
    if not allowed.all():
        row = int(allowed.argmin())
        raise TableError(
            f"subscriptions, row {row + 1}, column {name!r}: {numbers[row]} demands what no filter "
            "can; use a number, or null to ask for nothing"
        )


def _plain(table: pa.Table) -> pa.Table:
    """Return the table with plain texts: also for a column of categories, of views, or without any
    value.

    Of no type is a column of a CSV that has a header alone.
    """
    for place, field in enumerate(table.schema):
        column, kind = table.column(place), field.type
        if pa.types.is_dictionary(kind):
            column = column.cast(kind.value_type)
        elif pa.types.is_string_view(kind) or (
            pa.types.is_null(kind) and field.name in (FILTER, *ID_COLUMNS)
        ):
            column = column.cast(pa.string())
        table = table.set_column(place, field.name, column)
    return table


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def side_of(column: str) -> str:
    """Return the bound of a range that a column has: low, high, or neither."""
    name, _, side = column.rpartition(".")
    return side if name and side in _OPEN else ""


def attribute_of(column: str) -> str:
    """Return the attribute of a conjunctions' column."""
    return column.rpartition(".")[0] if side_of(column) else column


def _is_exact(values: pa.Array) -> npt.NDArray[np.bool_]:
    """Return a mask of values that, as a bound, are doubles; missing ones count."""
    if not pa.types.is_integer(values.type):
        return np.ones(len(values), np.bool_)
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
    exact: npt.NDArray[np.bool_] = (numbers > -EXACT_INTEGERS) & (numbers < EXACT_INTEGERS)
    return exact


def _rows(columns: pa.Table, size: int) -> list[dict[str, Value | None]]:
    rows: list[dict[str, Value | None]] = (
        columns.to_pylist() if columns.num_columns else [{}] * size
    )
    return rows


def _conjunction(row: Mapping[str, Value | None]) -> Filter:
    """Return a row's demands as a filter."""
    tests: list[Predicate] = []
    for column, value in row.items():
        side = side_of(column)
        if value is None or (side and value == _OPEN[side]):
            continue
        operator = _BOUNDS[side] if side else Operator.EQ
        tests.append(predicate(attribute_of(column), operator, value))
    if len(tests) == 1:
        return Filter(tests[0])
    return Filter(And(tuple(tests))) if tests else EVERYTHING
