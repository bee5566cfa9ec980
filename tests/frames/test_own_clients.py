"""A user's own subscriptions and publishers, read from each kind of file, with named errors."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

from shoal.frames.errors import TableError
from shoal.frames.own_clients import (
    OwnPublisher,
    OwnSubscription,
    read_own_publishers,
    read_own_subscriptions,
)

CSV = """id,filter,broker,from,to
1,x > 3,B1,1970-01-01T00:00:01,
two,TRUE,,,1970-01-02
"""
LINES = """{"id": "1", "filter": "x > 3", "broker": "B1", "from": 1000000}

{"id": "two", "filter": "TRUE", "to": "1970-01-02"}
"""


def test_each_kind_of_file_says_the_same(tmp_path: Path) -> None:
    for name, text in (("s.csv", CSV), ("s.jsonl", LINES)):
        (tmp_path / name).write_text(text)
    frame = pd.DataFrame(
        {
            "id": ["1", "two"],
            "filter": ["x > 3", "TRUE"],
            "broker": ["B1", None],
            "from": pd.to_datetime(["1970-01-01T00:00:01Z", None]),
            "to": pd.to_datetime([None, "1970-01-02T00:00:00Z"]),
        }
    )
    frame.to_parquet(tmp_path / "s.parquet")
    for name in ("s.csv", "s.jsonl", "s.parquet"):
        first, second = read_own_subscriptions(tmp_path / name)
        assert (first.id, first.filter, first.broker) == ("1", "x > 3", "B1")
        assert first.interval_us == (1_000_000, None)
        assert (second.id, second.broker, second.interval_us) == ("two", "", (None, 86_400_000_000))


def test_publishers(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text("publisher,broker,advertisement\nkitchen,B1,\n7,,x >= 0\n")
    assert read_own_publishers(path) == [
        OwnPublisher(publisher="kitchen", broker="B1"),
        OwnPublisher(publisher="7", advertisement="x >= 0"),
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("id,filter\na,x >\n", "row 1, 'a': filter: "),
        ("id,filter\na,TRUE\na,TRUE\n", "id 'a' is there more than once"),
        ("id;filter\na;TRUE\n", "unknown column 'id;filter'; columns stand between commas, not"),
        ("id,filtre\na,TRUE\n", "unknown column 'filtre'; did you mean filter?"),
        ("id,filter\na,\n", "row 1: filter is missing"),
        ("id,filter\n", "has no rows"),
        ("id,filter,from\na,TRUE,noon\n", "row 1, 'a': 'noon' is not a time"),
        ("id,filter,from,to\na,TRUE,5,5\n", "row 1, 'a': `to` is not after `from`"),
        ("id,filter,every\na,TRUE,10\n", "row 1, 'a': $every: '10' is no interval"),
    ],
)
def test_what_cannot_be_is_named(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "s.csv"
    path.write_text(text)
    with pytest.raises(TableError, match=re.escape(problem)):
        read_own_subscriptions(path)


def test_a_row_without_times_stays() -> None:
    assert OwnSubscription(id="a", filter="TRUE").interval_us == (None, None)
