"""Equality tables against a test of every conjunction."""

from __future__ import annotations

import numpy as np
import pytest

from shoal.matching.compiled import tables
from shoal.matching.compiled.columns import ColumnBatch
from shoal.matching.compiled.kernels.tables import find_key, hash_keys
from shoal.matching.compiled.part import CompiledRows, chosen_rows, joined_rows
from shoal.matching.compiled.parts import compile_parts

VOCABULARIES = {name: {value: code for code, value in enumerate("xyzuvw")} for name in "st"}


def test_every_key_is_found_and_no_other() -> None:
    keys = np.unique(np.random.default_rng(1).integers(0, 2**62, 1000))
    places = hash_keys(keys)
    assert [find_key(keys, places, key) for key in keys] == list(range(len(keys)))
    assert all(find_key(keys, places, key + 1) == -1 for key in keys if key + 1 not in keys)
    assert find_key(np.empty(0, np.int64), hash_keys(np.empty(0, np.int64)), 5) == -1


@pytest.mark.parametrize("key_maximum", [2**62, 1, 6])
def test_conjunctions_of_values_and_ranges_are_found(
    key_maximum: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "KEY_MAXIMUM", key_maximum)
    random = np.random.default_rng(2)
    size = 400
    codes = {name: random.integers(-1, 6, size).astype(np.int32) for name in "st"}
    ranges = {}
    for name in "abcd":
        low = random.integers(0, 9, size).astype(float)
        high = low + random.integers(0, 4, size)
        low[random.random(size) < 0.6] = -np.inf
        high[random.random(size) < 0.6] = np.inf
        ranges[name] = low, high
    rows = CompiledRows(size, codes, ranges)
    compiled = compile_parts(rows, VOCABULARIES)
    assert sorted(np.concatenate([part.rows for part in compiled]).tolist()) == list(range(size))
    points = 200
    given: dict[str, list[object]] = {
        name: random.choice([*"xyzuvw", "unknown", None], points).tolist() for name in "st"
    }
    given |= {name: random.choice([*range(12), None, "x"], points).tolist() for name in "abc"}
    batch = ColumnBatch.of_columns(given)

    def holds(row: int, point: int) -> bool:
        for name, each in codes.items():
            if each[row] >= 0 and VOCABULARIES[name].get(given[name][point]) != each[row]:
                return False
        for name, (low, high) in ranges.items():
            if np.isfinite([low[row], high[row]]).any():
                value = given[name][point] if name in given else None
                if not isinstance(value, int) or not low[row] <= value <= high[row]:
                    return False
        return True

    answers: list[list[int]] = [[] for _ in range(points)]
    for part in compiled:
        found = part.search(batch)(0, points, {})
        for point in range(points):
            run = found.members[found.begins[point] :][: found.counts[point]]
            answers[point] += part.rows[run].tolist()
        given_back = joined_rows([part.as_rows(), chosen_rows(rows, np.empty(0, np.int64))])
        assert all((given_back.equalities[name] == codes[name][part.rows]).all() for name in codes)
        for name, bounds in ranges.items():
            for each, side in zip(given_back.ranges[name], bounds, strict=True):
                assert (each == side[part.rows]).all()
    for point in range(points):
        assert sorted(answers[point]) == [row for row in range(size) if holds(row, point)]
