"""Filters judged in batches of publications equal their definition."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from shoal.language import parse
from shoal.matching.semantics import matches
from shoal.pipeline.small.judge import SmallJudge
from tests.examples import at_length
from tests.pipeline.matching.test_matching_job import random_texts

PUBLICATIONS = 3_000
VALUES: dict[str, tuple[Any, ...]] = {
    "a": (None, *range(-3, 12), 2**53, 2**53 + 1, -(2**63), 2**63 - 1),
    "b": (None, 0.0, -0.0, 0.5, 1.0, 2.5, 7.0, 1e300, math.inf, -math.inf, math.nan, 2.0**53),
    "c": (None, "", "a", "ab", "b", "abc", "é", "\U0001f600", "%", "x_y", "B"),
    "A": (None, True, False),
}
TYPES = {"a": pa.int64(), "b": pa.float64(), "c": pa.string(), "A": pa.bool_()}
MORE = (
    "b = 1", "b <> 1", "b > 9007199254740992", "a > 9007199254740992.0", "a = 2.5", "a <= 2.5",
    "NOT a IN (1, 2, 5)", "a NOT IN (1, 2.5)", "c NOT LIKE 'a%'", "c LIKE '%b%'", "NOT c LIKE '_'",
    "a IS NULL", "a IS NOT NULL AND NOT b IS NULL", "NOT (a > 3 OR b > 1)", "z IS NULL", "z > 1",
    "NOT z > 1", "a = 'x'", "NOT a = 'x'", "A OR c = 'b'", "NOT A", "TRUE", "FALSE", "NOT FALSE",
    "a > 1 OR TRUE", "a > 1 AND FALSE", "NOT (a > 1 AND b > 1)", "a BETWEEN 2 AND 5 AND NOT A",
)  # fmt: skip


@pytest.mark.parametrize("seed", [0, *at_length(range(1, 3))])
def test_it_says_what_the_definition_says(seed: int) -> None:
    chance = Random(seed)
    rows = [
        {name: chance.choice(values) for name, values in VALUES.items()}
        for _ in range(PUBLICATIONS)
    ]
    columns = {
        name: pa.chunked_array(
            [pa.array([row[name] for row in part], kind) for part in halves(rows)]
        )
        for name, kind in TYPES.items()
    }
    judge = SmallJudge(columns, PUBLICATIONS)
    given = [{name: value for name, value in row.items() if value is not None} for row in rows]
    parts = (slice(0, 1), slice(1, 1_700), slice(1_700, PUBLICATIONS))
    hits = 0
    for text in (*MORE, *random_texts(40)):
        wanted = parse(text)
        said = [number for part in parts for number in judge.matched(wanted.expression, part)]
        assert said == [n for n, attributes in enumerate(given) if matches(wanted, attributes)], (
            text
        )
        hits += len(said)
    assert PUBLICATIONS < hits < 60 * PUBLICATIONS


def halves(rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    return rows[: len(rows) // 3], rows[len(rows) // 3 :]
