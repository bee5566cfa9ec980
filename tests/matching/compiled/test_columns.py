"""Columns of a batch: rounding, codes of strings, and wrong shapes."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from shoal.matching.compiled.columns import ColumnBatch, CompiledColumn

NAN = math.nan


def numbers(given: object) -> list[list[float]]:
    return [each.tolist() for each in CompiledColumn("a", given).numbers()]


@pytest.mark.parametrize(
    ("given", "down", "up"),
    [
        (np.array([1, 2**53 + 1, -(2**63)]), [1, 2**53, -(2**63)], [1, 2**53 + 2, -(2**63)]),
        (np.array([2**63 - 1]), [2.0**63 - 1024], [2.0**63]),
        (np.array([1.5, -math.inf]), [1.5, -math.inf], [1.5, -math.inf]),
        (np.array([NAN]), [math.inf], [math.inf]),
        ([1, 2.5, NAN, 2**53 + 1], [1, 2.5, math.inf, 2**53], [1, 2.5, math.inf, 2**53 + 2]),
        (np.array([7], np.int8), [7], [7]),
        (pa.array([1.5, 2.5]), [1.5, 2.5], [1.5, 2.5]),
    ],
)
def test_numbers_are_rounded_both_ways(given: object, down: list[float], up: list[float]) -> None:
    assert numbers(given) == [down, up]


@pytest.mark.parametrize(
    "given",
    [
        [None, "1", True],
        np.array(["x", "y", "z"]),
        np.array([True, False, True]),
        np.ma.array([1.0, 2.0, 3.0], mask=[1, 1, 1]),
        np.ma.array([1, 2, "x"], mask=[1, 1, 0], dtype=object),
        pa.array([None, None, None], pa.float64()),
    ],
)
def test_other_values_are_nan(given: object) -> None:
    assert all(math.isnan(each) for side in numbers(given) for each in side)


def test_a_masked_column_of_the_caller_stays_as_it_is() -> None:
    values = np.array([1.0, 2.0])
    CompiledColumn("a", np.ma.array(values, mask=[True, False])).numbers()
    assert values.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("given", "codes"),
    [
        (["x", True, 1, 1.0, None, "z"], [0, 1, -1, -1, -1, -1]),
        (np.array(["x", "z"]), [0, -1]),
        (np.array([True, False]), [1, -1]),
        (np.array([1, 0]), [-1, -1]),
        (np.ma.array(["x", "x"], mask=[False, True]), [0, -1]),
        (pa.array(["x", None]), [0, -1]),
    ],
)
def test_codes_are_of_strings_and_booleans(given: object, codes: list[int]) -> None:
    assert CompiledColumn("a", given).codes({"x": 0, True: 1}).tolist() == codes


def test_a_batch_gives_publications_back() -> None:
    given = {
        "a": np.ma.array([1, 2], mask=[True, False]),
        "s": ["x", None],
        "b": np.array([1.5, 2]),
    }
    batch = ColumnBatch.of_columns(given)
    assert [batch.attributes(at) for at in (0, 1)] == [{"s": "x", "b": 1.5}, {"a": 2, "b": 2.0}]
    assert all(type(value) in (int, float, str) for value in batch.attributes(1).values())


def test_columns_of_different_length_are_named() -> None:
    with pytest.raises(ValueError, match="one length: 'a' 1, 'b' 2"):
        ColumnBatch.of_columns({"a": [1], "b": [1, 2]})


def test_a_column_of_another_type_is_named() -> None:
    with pytest.raises(TypeError, match=r"'a'.*datetime64"):
        ColumnBatch.of_columns({"a": np.array(["2020-01-01"], "datetime64[D]")})
