"""Tables matched in this process, singly and compiled, against naive matching."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.frames import match_frame, matching
from shoal.frames.csv_files import read_csv
from shoal.frames.errors import TableError, TableWarning
from shoal.frames.matching import ANSWERS, answers
from shoal.frames.publications import Publications
from shoal.frames.reading import read_table_file
from shoal.frames.subscriptions import SubscriptionFrame
from shoal.language import parse
from shoal.matching import matches
from tests.examples import at_length


def draw(random: Random, publications: int, subscriptions: int) -> tuple[pa.Table, pa.Table]:
    def or_null(value: Any) -> Any:
        return None if random.random() < 0.1 else value

    rows = {
        "id": list(range(publications)),
        "x": [or_null(random.randrange(1_000)) for _ in range(publications)],
        "y": [or_null(random.uniform(0, 100)) for _ in range(publications)],
        "carrier": [or_null(random.choice(["UA", "DL", "AA"])) for _ in range(publications)],
        "late": [or_null(random.random() < 0.5) for _ in range(publications)],
    }
    texts = []
    for _ in range(subscriptions):
        low = random.randrange(1_000)
        texts.append(
            random.choice(
                [
                    f"x BETWEEN {low} AND {low + 30}",
                    f"x > {low} AND carrier = '{random.choice(['UA', 'DL'])}'",
                    f"y < {random.uniform(0, 100)} AND NOT late",
                    f"carrier LIKE '%A' OR x = {low}",
                    "carrier IS NULL",
                ]
            )
        )
    ids = [f"s{number}" for number in range(subscriptions)]
    return pa.table(rows), pa.table({"id": ids, "filter": texts})


class Lazy:
    """A table that is not there before it is collected, as Polars' LazyFrame."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def collect(self) -> pa.Table:
        return self._table


def test_a_lazy_table_is_collected_and_no_table_is_named() -> None:
    publications = pa.table({"id": [1, 2], "a": [3, 4]})
    subscriptions = pa.table({"id": ["s"], "filter": ["a > 3"]})
    found = match_frame(Lazy(publications), Lazy(subscriptions))
    assert found.to_pylist() == [{"id": 2, "subscription": "s"}]
    with pytest.raises(TableError, match=r"^publications: builtins\.int is no table"):
        match_frame(7, subscriptions)
    with pytest.raises(TableError, match=r"^subscriptions: builtins\.int is no table"):
        match_frame(publications, Lazy(5))


def test_a_test_that_no_publication_can_pass_is_warned_of() -> None:
    publications = pa.table({"id": [1, 2], "size": [3, 4]})
    subscriptions = pa.table({"id": ["s"], "filter": ["siz > 3"]})
    with pytest.warns(TableWarning, match=r"^no publication has siz, .*did you mean size\?$"):
        assert match_frame(publications, subscriptions).num_rows == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert match_frame(publications, subscriptions, warn=False).num_rows == 0


def truth(publications: pa.Table, subscriptions: pa.Table) -> list[tuple[int, str]]:
    filters = [(row["id"], parse(row["filter"])) for row in subscriptions.to_pylist()]
    return sorted(
        (row["id"], id)
        for row in publications.to_pylist()
        for id, filter in filters
        if matches(filter, {k: v for k, v in row.items() if k != "id" and v is not None})
    )


def found(pairs: pa.Table) -> list[tuple[int, str]]:
    return sorted((row["id"], row["subscription"]) for row in pairs.to_pylist())


@pytest.mark.parametrize("seed", [0, 1, *at_length(range(2, 5))])
def test_the_naive_truth(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    publications, subscriptions = draw(Random(seed), 300, 400)
    expected = truth(publications, subscriptions)
    for singly in (0, matching.SINGLY):
        monkeypatch.setattr(matching, "SINGLY", singly)
        pairs = match_frame(publications, subscriptions)
        assert found(pairs) == expected
        assert pairs.column("id").to_pylist() == sorted(pairs.column("id").to_pylist())


@pytest.mark.parametrize("rows", [1, 5, 40])
@pytest.mark.parametrize(
    "filters",
    [
        {"id": ["a", "b", "c"], "filter": ["x > 3", "x IS NULL OR z", "NOT (x < 7) AND t <> 'u'"]},
        {"id": [70, -1, 2**40], "filter": ["x = 4", "t LIKE '%v'", "y BETWEEN 0 AND 2"]},
        {"id": [3, 1, 2], "x.low": [1, None, 4], "x.high": [9, 5, None], "t": ["u", None, "v"]},
        {"id": ["p", "q"], "y.low": [0.5, None], "z": [None, True]},
        {"id": ["p", "q"], "x.low": [2**53 + 1, 0]},
    ],
)
def test_one_at_a_time_and_in_batches_are_the_same(
    filters: dict[str, list[Any]], rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(rows)
    columns = {
        "x": pa.array([random.choice([None, *range(10), 2**53]) for _ in range(rows)], pa.int64()),
        "y": pa.array([random.choice([None, 0.5, float("nan"), 3.0]) for _ in range(rows)]),
        "z": pa.array([random.choice([None, True, False]) for _ in range(rows)], pa.bool_()),
        "t": pa.array([random.choice([None, "", "u", "v"]) for _ in range(rows)], pa.string()),
    }
    publications = pa.table({"id": list(range(rows)), **columns})
    tables = []
    for singly, few in ((0, 0), (matching.SINGLY, 2_000)):
        monkeypatch.setattr(matching, "SINGLY", singly)
        monkeypatch.setattr("shoal.frames.subscriptions.FEW", few)
        tables.append(match_frame(publications, pa.table(filters)))
    assert tables[0].schema == tables[1].schema
    assert found(tables[0]) == found(tables[1])


@pytest.mark.parametrize("wrap", [lambda table: table.to_pandas(), lambda table: table])
def test_whatever_speaks_arrow(wrap: Callable[[pa.Table], Any]) -> None:
    publications, subscriptions = draw(Random(9), 50, 30)
    # As pandas has them, nulls and all.
    given = wrap(publications)
    if isinstance(given, pd.DataFrame):
        given["x"] = given["x"].astype("Int64")
    pairs = match_frame(given, wrap(subscriptions))
    assert found(pairs) == truth(publications, subscriptions)


def test_many_pairs_come_in_pieces() -> None:
    publications = pa.table({"id": list(range(5_000)), "x": [1] * 5_000})
    subscriptions = pa.table({"id": list(range(500)), "filter": ["x = 1"] * 500})
    wanted = SubscriptionFrame.of_table(subscriptions)
    parts = list(answers(Publications.of(publications, wanted), wanted))
    assert len(parts) > 2
    assert sum(len(part.column(ANSWERS).flatten()) for part in parts) == 2_500_000
    assert [id for part in parts for id in part.column("0").to_pylist()] == list(range(5_000))


def test_conjunctions_in_columns_and_a_key_of_two() -> None:
    publications = pa.table(
        {"publisher": ["a", "a"], "sequence": [1, 2], "attributes": [{"x": 5}, {"x": 50}]}
    )
    subscriptions = pa.table({"subscription": [7, 8], "x.low": [10, None], "x.high": [None, 9.5]})
    assert match_frame(publications, subscriptions).to_pylist() == [
        {"publisher": "a", "sequence": 1, "subscription": 8},
        {"publisher": "a", "sequence": 2, "subscription": 7},
    ]


def test_nothing_matches_nothing() -> None:
    publications = pa.table({"id": pa.array([], pa.int64()), "x": pa.array([], pa.int64())})
    subscriptions = pa.table({"id": ["a"], "filter": ["x = 1"]})
    assert match_frame(publications, subscriptions).num_rows == 0
    nobody = pa.table({"id": pa.array([], pa.string()), "filter": pa.array([], pa.string())})
    assert match_frame(pa.table({"id": [1]}), nobody).num_rows == 0


def test_types_that_are_widened() -> None:
    publications = pa.table(
        {
            "id": [1],
            "small": pa.array([3], pa.uint8()),
            "half": pa.array([0.5], pa.float32()),
            "text": pa.array(["a"]).dictionary_encode(),
            "large": pa.array(["b"], pa.large_string()),
            "when": pa.array([0], pa.timestamp("us")),
        }
    )
    texts = ["small = 3", "half = 0.5", "text = 'a'", "large = 'b'"]
    subscriptions = pa.table({"id": texts, "filter": texts})
    assert [id for _, id in found(match_frame(publications, subscriptions))] == sorted(texts)
    wrong = pa.table({"id": ["a"], "filter": ["when = '1970-01-01'"]})
    with pytest.raises(TableError, match=r"attribute 'when' is timestamp.*cast the column first"):
        match_frame(publications, wrong)


@pytest.mark.parametrize(
    ("publications", "subscriptions", "complaint"),
    [
        ({"x": [1]}, {"id": ["a"], "filter": ["x = 1"]}, "publications: there is no column 'id'"),
        ({"id": [1]}, {"filter": ["x = 1"]}, "subscriptions: there is no column 'id'"),
        ({"id": [1]}, {"id": ["a"], "filter": ["x ="]}, r"row 1 \(id 'a'\): filter, "),
        ({"id": [1]}, {"id": ["a", "a"], "filter": ["x = 1"] * 2}, "id 'a' stands in row 1 too"),
        ({"id": [1]}, {"id": [1.5], "filter": ["x = 1"]}, "column 'id' is double"),
        ({"id": [1]}, {"id": ["a"], "filter": [1]}, "column 'filter' is int64"),
        ({"id": [1], "a": [1]}, {"id": [1], "b.low": [3]}, "'b.low' demands the attribute 'b'"),
        ({"id": [1], "attributes": [1]}, {"id": ["a"], "filter": ["x = 1"]}, "must be a struct"),
        ({"id": [1], "x": [2**63]}, {"id": ["a"], "filter": ["x = 1"]}, "beyond 64 bits"),
    ],
)
def test_what_is_wrong_is_named(
    publications: dict[str, Any], subscriptions: dict[str, Any], complaint: str
) -> None:
    if publications.get("x") == [2**63]:
        publications = publications | {"x": pa.array([2**63], pa.uint64())}
    with pytest.raises(TableError, match=complaint):
        match_frame(pa.table(publications), pa.table(subscriptions))


def test_a_csv_has_the_types_that_all_its_values_have(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text(
        "id,count,share,is_late,day,mixed,none,note\n"
        '1,3,0.5,true,2013-01-01,1,,"a ""b"",\nc"\n'
        "2,,2,false,2013-01-02,x,,NA\n"
    )
    assert read_table_file(path, inside="").to_pylist() == [
        {
            "id": 1, "count": 3, "share": 0.5, "is_late": True, "day": "2013-01-01",
            "mixed": "1", "none": None, "note": 'a "b",\nc',
        },
        {
            "id": 2, "count": None, "share": 2.0, "is_late": False, "day": "2013-01-02",
            "mixed": "x", "none": None, "note": "NA",
        },
    ]  # fmt: skip


@pytest.mark.parametrize("singly", [True, False])
def test_integers_of_a_csv_that_no_double_is_are_exact(
    tmp_path: Path, singly: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not singly:
        monkeypatch.setattr(matching, "SINGLY", 0)
    file = tmp_path / "p.csv"
    values = ("9007199254740993", "9007199254740992", "0.5", "", "-9223372036854775807",
              "+9007199254740995", "18446744073709551617", "1e300")  # fmt: skip
    rows = dict(enumerate(values, 1))
    file.write_text("id,v,w\n" + "".join(f"{id},{v},1\n" for id, v in rows.items()))
    filters = {
        "big": "v = 9007199254740993", "low": "v = 9007199254740992", "none": "v IS NULL",
        "above": "v > 9007199254740992 AND w = 1", "least": "v < -9223372036854775806",
        "beyond": "v = 18446744073709551616.0",
    }  # fmt: skip
    wanted = pa.table({"id": [*filters], "filter": [*filters.values()]})
    found = match_frame(read_csv(file), wanted).to_pylist()
    pairs = {name: [row["id"] for row in found if row["subscription"] == name] for name in filters}
    assert pairs == {
        "big": [1], "low": [2], "none": [4], "above": [1, 6, 7, 8], "least": [5], "beyond": [7]
    }  # fmt: skip


def test_what_a_csv_of_subscriptions_demands_is_exact_or_refused(tmp_path: Path) -> None:
    file = tmp_path / "s.csv"
    file.write_text("id,v\na,9007199254740993\nb,0.5\n")
    with pytest.raises(TableError, match="column 'v' has values of several types"):
        SubscriptionFrame.of_table(read_csv(file))


def test_objects_of_no_one_type_are_refused_by_name() -> None:
    mixed = pd.DataFrame({"id": [1, 2], "v": pd.Series([2**53 + 1, 0.5], dtype=object)})
    with pytest.raises(TableError, match=r"publications: .* column v "):
        match_frame(mixed, pa.table({"id": ["a"], "filter": ["v = 0.5"]}))


def test_fields_of_structs_are_attributes() -> None:
    inner = pd.DataFrame({
        "id": [1, 2, 3], "position.lon": [1.0, 2.0, 3.0],
        "position": [{"lat": 50.5, "lon": 0.0, "o": {"x": 1}}, {"lat": 1.0, "o": None}, None],
    })  # fmt: skip
    filters = ["`position.lat` > 20", "`position.lon` = 2", "`position.o.x` IS NULL"]
    wanted = pa.table({"id": ["a", "b", "c"], "filter": filters})
    found = [(row["id"], row["subscription"]) for row in match_frame(inner, wanted).to_pylist()]
    assert found == [(1, "a"), (2, "b"), (2, "c"), (3, "c")]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="does not exist"):
        read_table_file(tmp_path / "no.csv", inside="")
    (tmp_path / "bad.csv").write_text("a,b\n1\n")
    with pytest.raises(TableError, match=r"bad\.csv, row 1: expected 2 columns, got 1"):
        read_table_file(tmp_path / "bad.csv", inside="")
    (tmp_path / "empty").mkdir()
    with pytest.raises(TableError, match="has no Parquet file"):
        read_table_file(tmp_path / "empty", inside="p.parquet")


def test_the_names_of_folders_are_columns(tmp_path: Path) -> None:
    for name in ("code=01001/n=1", "code=K%C3%B6ln/n=2"):
        (tmp_path / name).mkdir(parents=True)
        pq.write_table(pa.table({"id": [1]}), tmp_path / name / "part.parquet")
    rows = read_table_file(tmp_path, inside="").to_pylist()
    assert rows == [{"id": 1, "code": "01001", "n": 1}, {"id": 1, "code": "Köln", "n": 2}]


def test_a_folder_of_parquet_is_one_table(tmp_path: Path) -> None:
    folder = tmp_path / "w" / "publications.parquet"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"id": [1], "x": pa.array([1], pa.int32())}), folder / "part-0.parquet")
    pq.write_table(pa.table({"id": [2], "x": pa.array([2], pa.int64())}), folder / "part-1.parquet")
    (folder / "_SUCCESS").write_text("")
    table = read_table_file(tmp_path / "w", inside="publications.parquet")
    assert table.to_pydict() == {"id": [1, 2], "x": [1, 2]}
