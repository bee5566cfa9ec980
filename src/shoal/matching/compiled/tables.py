"""Tables: conjunctions under the values they demand, with their ranges beside them, compiled.

>>> import numpy as np
>>> from shoal.matching.compiled.columns import ColumnBatch
>>> vocabularies = {"symbol": {"A": 0, "B": 1}}
>>> part = table_part(CompiledRows(1, {"symbol": np.array([1], np.int32)}, {}), vocabularies,
...     ["symbol"], 0,
...                   np.array([0]))
>>> part.search(ColumnBatch.of_columns({"symbol": ["A", "B"]}))(0, 2, {}).counts.tolist()
[0, 1]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.matching.compiled.columns import ColumnBatch, Doubles, code_in, doubles_around
from shoal.matching.compiled.kernels.tables import hash_keys, match_key, match_table
from shoal.matching.compiled.part import (
    NOTHING_FOUND,
    CompiledMatches,
    CompiledPart,
    CompiledRows,
    Members,
    Numbers,
    Rooms,
    Search,
    Vocabularies,
    run_kernel,
)
from shoal.model import Attributes

# A table's key is one 64-bit number; values beyond are tested like ranges of their codes.
KEY_MAXIMUM = 2**62


class EqualityTable:
    """Conjunctions that demand values of the same attributes; see `kernels.tables`."""

    def __init__(
        self,
        attributes: Sequence[str],
        vocabularies: Vocabularies,
        codes: npt.NDArray[np.int32],
        slots: _Slots,
        rows: Numbers,
    ) -> None:
        self._attributes = tuple(attributes)
        self._vocabularies = vocabularies
        self._sizes = np.array([len(vocabularies[name]) for name in attributes], np.int64)
        keys = np.zeros(len(rows), np.int64)
        for at, size in enumerate(self._sizes):
            keys = keys * size + codes[:, at]
        order = np.argsort(keys, kind="stable")
        distinct, begins = np.unique(keys[order], return_index=True)
        starts = np.append(begins, len(rows)).astype(np.int64)
        self._slots = slots.taken(order)
        self._table = (distinct, hash_keys(distinct), starts, *self._slots[1:])
        self._demanded = [
            (name, vocabularies[name], size)
            for name, size in zip(attributes, self._sizes.tolist(), strict=True)
        ]
        self._room = 1 + int(np.diff(starts).max(initial=0))
        self._codes = codes[order]
        self.rows = rows[order]

    def search(self, batch: ColumnBatch) -> Search:
        codes = np.empty((batch.size, len(self._attributes)), np.int32)
        for at, attribute in enumerate(self._attributes):
            codes[:, at] = batch.codes(attribute, self._vocabularies[attribute])
        pairs = [self._numbers(batch, name, coded) for name, coded in self._slots.columns]
        nothing = np.zeros(batch.size)
        down = up = np.column_stack([nothing, *(down for down, _ in pairs)])
        if any(low is not high for low, high in pairs):
            up = np.column_stack([nothing, *(high for _, high in pairs)])

        def find(begin: int, end: int, rooms: Rooms) -> CompiledMatches:
            points = (codes[begin:end], down[begin:end], up[begin:end])
            order = np.arange(end - begin)
            return run_kernel(self, rooms, order, match_table, (*points, self._sizes, *self._table))

        return find

    def find(self, attributes: Attributes) -> Members:
        get = attributes.get
        key = 0
        for name, vocabulary, size in self._demanded:
            code = code_in(vocabulary, get(name))
            if not 0 <= code < size:
                return NOTHING_FOUND
            key = key * size + code
        numbers = [0.0, 0.0]
        for name, is_coded in self._slots.columns:
            value = code_in(self._vocabularies[name], get(name)) if is_coded else get(name)
            numbers += doubles_around(value)
        point = np.array(numbers).reshape(-1, 2)
        found = np.empty(self._room, np.uint32)
        return found[: match_key(key, point, *self._table, found)]

    def _numbers(self, batch: ColumnBatch, attribute: str, coded: bool) -> tuple[Doubles, Doubles]:
        if not coded:
            return batch.numbers(attribute)
        codes = batch.codes(attribute, self._vocabularies[attribute]).astype(np.float64)
        return codes, codes

    def as_rows(self) -> CompiledRows:
        size = len(self.rows)
        equalities = {name: self._codes[:, at] for at, name in enumerate(self._attributes)}
        ranges: dict[str, tuple[Doubles, Doubles]] = {}
        for number, (name, is_coded) in enumerate(self._slots.columns, start=1):
            asking = np.nonzero(self._slots.tested == number)
            low, high = np.full(size, -np.inf), np.full(size, np.inf)
            low[asking[0]], high[asking[0]] = self._slots.low[asking], self._slots.high[asking]
            if is_coded:
                equalities[name] = np.where(np.isinf(low), -1, low).astype(np.int32)
            else:
                ranges[name] = low, high
        return CompiledRows(size, equalities, ranges)


class _Slots(NamedTuple):
    """Ranges beside the conjunctions of a table: `tested` counts columns from 1, 0 is no test."""

    columns: list[tuple[str, bool]]  # attribute, and whether its codes are meant
    tested: npt.NDArray[np.int16]
    low: Doubles
    high: Doubles

    def taken(self, order: Numbers) -> _Slots:
        return _Slots(self.columns, self.tested[order], self.low[order], self.high[order])


def table_part(
    rows: CompiledRows,
    vocabularies: Vocabularies,
    attributes: list[str],
    width: int,
    members: Numbers,
) -> CompiledPart:
    keyed: list[str] = []
    product = 1
    for name in attributes:
        product *= max(1, len(vocabularies[name]))
        if product < KEY_MAXIMUM:
            keyed.append(name)
    coded = attributes[len(keyed) :]
    columns: list[tuple[str, bool]] = []
    tested = np.zeros((len(members), width + len(coded)), np.int16)
    low, high = (np.zeros(tested.shape) for _ in range(2))
    used = np.zeros(len(members), np.int64)

    def ask(attribute: str, is_coded: bool, below: Doubles, above: Doubles) -> None:
        chosen = np.flatnonzero((below > -np.inf) | (above < np.inf))
        if chosen.size:
            columns.append((attribute, is_coded))
            tested[chosen, used[chosen]] = len(columns)
            low[chosen, used[chosen]] = below[chosen]
            high[chosen, used[chosen]] = above[chosen]
            used[chosen] += 1

    for name, (below, above) in rows.ranges.items():
        ask(name, False, below[members], above[members])
    for name in coded:
        demanded = rows.equalities[name][members].astype(np.float64)
        ask(name, True, demanded, demanded)
    codes = np.empty((len(members), len(keyed)), np.int32)
    for at, name in enumerate(keyed):
        codes[:, at] = rows.equalities[name][members]
    return EqualityTable(keyed, vocabularies, codes, _Slots(columns, tested, low, high), members)
