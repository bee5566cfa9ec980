"""A batch of publications as columns: the input of an index's compiled parts.

A column is a numpy array (masked where the attribute is missing), a list with None for missing, an
Arrow array or a pandas series. A column of objects is inspected when it is asked for (see `given`).
Parts ask it for numbers or for codes of the values that filters demand; both are made once per
batch. Every double has one rule: a missing number, or a value of another kind, is NaN here and
passes no test; the value NaN itself is greater than every other number, which infinity is good
enough for, as no part tests against an infinite bound. An integer that no double equals has two
doubles, the next one down and up, which keeps comparisons exact.

>>> import numpy as np
>>> batch = ColumnBatch.of_columns({"price": np.array([3, 2**53 + 1]), "symbol": ["A", None]})
>>> down, up = batch.numbers("price")
>>> (up - down).tolist(), batch.codes("symbol", {"A": 0}).tolist(), batch.attributes(0)
([0.0, 2.0], [0, -1], {'price': 3, 'symbol': 'A'})
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.matching.derived import derived_reader
from shoal.matching.given import PLAIN_TYPES, checked, plain_value
from shoal.model import INTEGER_MAX, INTEGER_MIN, Attributes, Value
from shoal.model.expressions import derived_expression, is_derived, references

Doubles = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

# Below this every integer is a double.
EXACT_INTEGERS = 2**53


class CompiledColumn:
    """One attribute's values in a batch; a column of one type has its `values` in that type."""

    def __init__(self, name: str, given: Any) -> None:
        self._name = name
        self.values, self.missing = _plain(name, given)
        self._numbers: tuple[Doubles, Doubles] | None = None

    def numbers(self) -> tuple[Doubles, Doubles]:
        """The values rounded down and up to doubles: one array twice, unless that matters."""
        if self._numbers is None:
            values = self.values
            if values.dtype == object:
                unusual = self._unusual(np.arange(len(values)))
                values = values.copy() if unusual else values
                for at in unusual:
                    values[at] = plain_value(self._name, values[at])
            down, up = _doubles(self._name, values)
            if self.missing is not None:
                if down is self.values:
                    down = up = down.copy()
                down[self.missing] = np.nan
                up[self.missing] = np.nan
            self._numbers = down, up
        return self._numbers

    def codes(self, vocabulary: Mapping[Value, int]) -> npt.NDArray[np.int32]:
        """Return the codes of strings and booleans; -1 for values that are not in the
        vocabulary.
        """
        size = len(self.values)
        kind = self.values.dtype.kind
        if kind not in "bUO":
            return np.full(size, -1, np.int32)
        values = self.values.tolist()
        if kind == "O" and (True in vocabulary or False in vocabulary):
            # To a dictionary 1 is TRUE.
            values = [value if type(value) in (str, bool) else None for value in values]
        try:
            codes = np.fromiter(map(vocabulary.get, values, repeat(-1)), np.int32, size)
        except TypeError:  # an unhashable object is no attribute value, and the error says so
            for at in self._unusual(np.arange(size)):
                plain_value(self._name, self.values[at])
            raise
        if kind == "O":
            # Types need a check only for values that were not found.
            for at in self._unusual(np.flatnonzero(codes < 0)):
                codes[at] = code_in(vocabulary, plain_value(self._name, self.values[at]))
        if self.missing is not None:
            codes[self.missing] = -1
        return codes

    def value(self, at: int) -> Value | None:
        if self.missing is not None and self.missing[at]:
            return None
        return plain_value(self._name, self.values[at])

    def listed(self) -> list[Value | None]:
        """All values, None where one is missing."""
        if self.values.dtype.kind in "uO":
            return [self.value(at) for at in range(len(self.values))]
        values: list[Value | None] = self.values.tolist()
        if self.missing is not None:
            for at in np.flatnonzero(self.missing).tolist():
                values[at] = None
        return values

    def _unusual(self, places: npt.NDArray[np.intp]) -> list[int]:
        """Return those of the places with values that are there, and not of our own types."""
        values = self.values[places].tolist()
        if PLAIN_TYPES.issuperset(map(type, values)):
            return []
        unusual = (
            at
            for at, value in zip(places.tolist(), values, strict=True)
            if type(value) not in PLAIN_TYPES
        )
        return [at for at in unusual if self.missing is None or not self.missing[at]]


class ColumnBatch:
    """Publications side by side; those of a batch made from columns are never all built."""

    def __init__(
        self,
        columns: dict[str, CompiledColumn],
        size: int,
        publications: Sequence[Attributes] | None,
    ) -> None:
        self.size = size
        self._columns = columns
        self._publications = publications
        self._codes: dict[str, npt.NDArray[np.int32]] = {}

    @classmethod
    def of_columns(cls, given: Mapping[str, Any]) -> ColumnBatch:
        """ValueError if the columns are not of one length, TypeError for types none of ours."""
        columns = {name: CompiledColumn(name, values) for name, values in given.items()}
        sizes = {name: len(column.values) for name, column in columns.items()}
        if len(set(sizes.values())) > 1:
            lengths = ", ".join(f"{name!r} {size}" for name, size in sizes.items())
            raise ValueError(f"the columns of a batch must have one length: {lengths}")
        return cls(columns, next(iter(sizes.values()), 0), None)

    @classmethod
    def of_publications(cls, publications: Sequence[Attributes]) -> ColumnBatch:
        """Columns are made of an attribute when the first part asks for it."""
        return cls({}, len(publications), [checked(each) for each in publications])

    def numbers(self, attribute: str) -> tuple[Doubles, Doubles]:
        column = self._column(attribute)
        if column is None:
            nothing = np.full(self.size, np.nan)
            return nothing, nothing
        return column.numbers()

    def codes(self, attribute: str, vocabulary: Mapping[Value, int]) -> npt.NDArray[np.int32]:
        """As `CompiledColumn.codes`; a batch must always be asked with the same vocabulary."""
        known = self._codes.get(attribute)
        if known is None:
            column = self._column(attribute)
            known = np.full(self.size, -1, np.int32) if column is None else column.codes(vocabulary)
            self._codes[attribute] = known
        return known

    def attributes(self, at: int) -> Attributes:
        """One publication, as the parts that are not compiled want it."""
        if self._publications is not None:
            return self._publications[at]
        values = ((name, column.value(at)) for name, column in self._columns.items())
        return {name: value for name, value in values if value is not None}

    def publications(self) -> Sequence[Attributes]:
        """All publications."""
        if self._publications is not None:
            return self._publications
        names = list(self._columns)
        rows = zip(*[column.listed() for column in self._columns.values()], strict=True)
        return [
            {name: value for name, value in zip(names, row, strict=True) if value is not None}
            for row in rows
        ]

    def _column(self, attribute: str) -> CompiledColumn | None:
        column = self._columns.get(attribute)
        if column is None and is_derived(attribute):
            column = CompiledColumn(attribute, self._evaluated(attribute))
            self._columns[attribute] = column
        if column is None and self._publications is not None:
            values = [publication.get(attribute) for publication in self._publications]
            column = self._columns[attribute] = CompiledColumn(attribute, values)
        return column

    def _evaluated(self, attribute: str) -> list[Value | None]:
        """The values of a derived attribute."""
        evaluate = derived_reader(attribute)
        if self._publications is not None:
            return list(map(evaluate, self._publications))
        names = [
            name
            for name in dict.fromkeys(references(derived_expression(attribute)))
            if name in self._columns
        ]
        if not names:
            return [evaluate({})] * self.size
        rows = zip(*(self._columns[name].listed() for name in names), strict=True)
        return [evaluate(dict(zip(names, row, strict=True))) for row in rows]


def _plain(name: str, given: Any) -> tuple[npt.NDArray[Any], Mask | None]:
    """A one-dimensional array of a type that we know, and where it has no value."""
    if hasattr(given, "to_pylist"):  # an Arrow array
        given = given.to_pylist() if given.null_count else given.to_numpy(zero_copy_only=False)
    elif hasattr(given, "isna"):  # a pandas series, maybe of one of pandas' own types
        mask = np.asarray(given.isna())
        is_plain = isinstance(given.dtype, np.dtype)
        values = given.to_numpy() if is_plain else np.fromiter(given, object, len(given))
        given = np.ma.array(values, mask=mask) if mask.any() else values
    if isinstance(given, np.ma.MaskedArray):
        missing: Mask | None = np.ma.getmaskarray(given)
        values = given.data
    elif isinstance(given, np.ndarray):
        values, missing = given, None
    elif isinstance(given, str | bytes) or not hasattr(given, "__len__"):
        raise TypeError(f"column {name!r}: {type(given).__name__} is no column of values")
    else:
        values, missing = np.fromiter(given, object, len(given)), None
    if values.ndim != 1:
        raise ValueError(f"column {name!r}: an array of {values.ndim} dimensions; a column has 1")
    kind = values.dtype.kind
    if kind not in "biufUO" or (kind == "f" and values.dtype.itemsize > 8):
        raise TypeError(
            f"column {name!r}: {values.dtype} is not a type of values; "
            "use booleans, integers, doubles, strings or objects"
        )
    return values, missing


def _doubles(name: str, values: npt.NDArray[Any]) -> tuple[Doubles, Doubles]:
    kind = values.dtype.kind
    if kind == "f":
        down = values if values.dtype == np.float64 else values.astype(np.float64)
        if down.size and np.isnan(down.min()):
            down = np.where(np.isnan(down), np.inf, down)
        return down, down
    if kind in "iu":
        down = values.astype(np.float64)
        large = np.flatnonzero(np.abs(down) >= EXACT_INTEGERS)
        if not large.size:
            return down, down
        up = down.copy()
        for at in large.tolist():
            down[at], up[at] = doubles_around(plain_value(name, values[at]))
        return down, up
    if kind in "bU":
        nothing = np.full(len(values), np.nan)
        return nothing, nothing
    try:
        pairs = [doubles_around(value) for value in values.tolist()]
    except OverflowError:
        for value in values.tolist():
            plain_value(name, value)  # the one at fault is named
        raise
    together = np.array(pairs, dtype=np.float64).reshape(len(pairs), 2)
    down, up = np.ascontiguousarray(together[:, 0]), np.ascontiguousarray(together[:, 1])
    return (down, down) if np.array_equal(down, up, equal_nan=True) else (down, up)


def doubles_around(value: Value | None) -> tuple[float, float]:
    """A value rounded down and up to doubles, as `CompiledColumn.numbers` has it.

    OverflowError for an integer beyond 64 bits.
    """
    if type(value) is float:
        return (value, value) if value == value else (math.inf, math.inf)
    if type(value) is not int:
        return (math.nan, math.nan)
    if not INTEGER_MIN <= value <= INTEGER_MAX:
        raise OverflowError("an integer beyond 64 bits")
    near = float(value)
    if near == value:
        return near, near
    if near > value:
        return math.nextafter(near, -math.inf), near
    return near, math.nextafter(near, math.inf)


def code_in(vocabulary: Mapping[Value, int], value: Value | None) -> int:
    """The code of a value, as `CompiledColumn.codes` has it."""
    # To a dictionary 1 is TRUE.
    return vocabulary.get(value, -1) if type(value) is str or type(value) is bool else -1
