"""Ten messy files, ingested with Spark and without, and counted by DuckDB."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from shoal.pipeline.ingest import ingest_mapped, ingest_small
from tests.examples import one_in

Write = Callable[[Path], None]
ROWS = 400


class MessyFile(NamedTuple):
    """A file, its declaration, and the query by which DuckDB finds publisher, time in µs, value."""

    name: str
    write: Write
    declared: str
    query: str


def declared(
    columns: str, time: str = '{ column = "moment", format = "epoch_s" }', more: str = ""
) -> str:
    return f'publisher = ["who"]\ntime = {time}\n{more}[columns]\nwho = "string"\n{columns}\n'


def text(lines: list[str], end: str = "\n", encoding: str = "utf-8") -> Write:
    return lambda path: path.write_bytes((end.join(lines) + end).encode(encoding)) and None


def packed(lines: list[str]) -> Write:
    return lambda path: path.write_bytes(gzip.compress("\n".join(lines).encode())) and None


def parquet(table: pa.Table) -> Write:
    return lambda path: pq.write_table(table, path)


def values(number: int) -> str:
    """A number, or something that is none: each fifth value."""
    return ("", "n/a", "1.5.2", "NaN")[number // 5 % 4] if number % 5 == 0 else f"{number / 4}"


CSV = "read_csv('{path}', all_varchar = true, header = true{more})"
NUMBER = "CASE WHEN isfinite(TRY_CAST(v AS DOUBLE)) THEN TRY_CAST(v AS DOUBLE) END"
# A value that is there and no number rejects its row; a missing one does not.
PLAIN = (
    f"SELECT who, CAST(moment AS BIGINT) * 1000000, {NUMBER} FROM {CSV} "
    f"WHERE who IS NOT NULL AND TRY_CAST(moment AS BIGINT) IS NOT NULL "
    f"AND (v IS NULL OR ({NUMBER}) IS NOT NULL)"
)


def csv_rows(number: int) -> str:
    who = ("ann", "", "bob", "çé")[number % 4]
    at = "soon" if number % 17 == 0 else str(1_700_000_000 + number)
    return f"{who},{at},{values(number)}"


JSON_ROWS = [
    json.dumps(
        {
            "who": None if number % 11 == 0 else f"p{number % 3}",
            "moment": 1_700_000_000 + number,
            "in": {"v": number / 8 if number % 3 else "text"},
            "extra": [1, {"x": 2}],
        }
    )
    if number % 13
    else '{"who": "cut'
    for number in range(ROWS)
]

FILES = [
    MessyFile(
        "plain.csv",
        text(["who,moment,v", *map(csv_rows, range(ROWS))]),
        declared('v = "double"'),
        PLAIN,
    ),
    MessyFile(
        "windows.csv",
        text(["who,moment,v", *map(csv_rows, range(ROWS))], end="\r\n"),
        declared('v = "double"'),
        PLAIN,
    ),
    MessyFile(
        "marked.csv",
        text(["who,moment,v", *map(csv_rows, range(ROWS))], encoding="utf-8-sig"),
        declared('v = "double"'),
        PLAIN,
    ),
    MessyFile(
        "packed.csv.gz",
        packed(["who,moment,v", *map(csv_rows, range(ROWS))]),
        declared('v = "double"'),
        PLAIN,
    ),
    MessyFile(
        "quoted.csv",
        text(
            [
                '"who","moment","v","note"',
                *(
                    f'"a ""{number % 3}"", b",{1_700_000_000 + number},"{number}","x,y"'
                    for number in range(ROWS)
                ),
            ]
        ),
        declared('v = "integer"\nnote = "string"'),
        f"SELECT who, CAST(moment AS BIGINT) * 1000000, CAST(v AS DOUBLE) FROM {CSV}",
    ),
    MessyFile(
        "european.csv",
        text(
            [
                "who;moment;v",
                *(f"w{number % 2};{1_700_000_000 + number};{number},25" for number in range(ROWS)),
            ]
        ),
        declared('v = "double"', more='delimiter = ";"\ndecimal = ","\n'),
        "SELECT who, CAST(moment AS BIGINT) * 1000000, "
        f"CAST(replace(v, ',', '.') AS DOUBLE) FROM {CSV}",
    ),
    MessyFile(
        "zoned.csv",
        text(
            [
                "who,moment,v",
                *(
                    f"w,2026-0{1 + number % 9}-1{number % 10}T0{number % 10}:30:00.{number % 10}"
                    f"{('Z', '+05:30', '-08:00')[number % 3]},{number}"
                    for number in range(ROWS)
                ),
            ]
        ),
        declared('v = "double"', '{ column = "moment", format = "iso8601" }'),
        f"SELECT who, epoch_us(CAST(moment AS TIMESTAMPTZ)), CAST(v AS DOUBLE) FROM {CSV}",
    ),
    MessyFile(
        "nested.jsonl",
        text(JSON_ROWS),
        declared('v = { type = "double", column = "in.v" }'),
        "SELECT j->>'who', CAST(j->>'moment' AS BIGINT) * 1000000, "
        "CAST(j->'in'->>'v' AS DOUBLE) FROM "
        "(SELECT line AS t, CASE WHEN json_valid(line) THEN line::JSON END AS j FROM "
        "(SELECT unnest(string_split(rtrim(content, chr(10)), chr(10))) AS line "
        "FROM read_text('{path}'))) "
        "WHERE j IS NOT NULL AND j->>'who' IS NOT NULL AND json_type(j->'in'->'v') <> 'VARCHAR'",
    ),
    MessyFile(
        "typed.parquet",
        parquet(
            pa.table(
                {
                    "who": [
                        None if number % 7 == 0 else f"p{number % 5}" for number in range(ROWS)
                    ],
                    "moment": pa.array(
                        [1_700_000_000_000_000_123 + number * 10**9 for number in range(ROWS)],
                        pa.timestamp("ns"),
                    ),
                    "v": pa.array([number / 3 for number in range(ROWS)], pa.float32()),
                }
            )
        ),
        declared('v = "double"', '{ column = "moment" }'),
        "SELECT who, epoch_us(moment), CAST(v AS DOUBLE) FROM read_parquet('{path}') "
        "WHERE who IS NOT NULL",
    ),
    MessyFile(
        "exact.csv",
        text(
            [
                "who,moment,v",
                *(
                    f"w{number % 2},{1_700_000_000_000 + number},{2**53 + number}"
                    for number in range(ROWS)
                ),
            ]
        ),
        declared('v = "integer"', '{ column = "moment", format = "epoch_ms" }'),
        f"SELECT who, CAST(moment AS BIGINT) * 1000, CAST(v AS BIGINT) FROM {CSV}",
    ),
]


def counted(folder: Path) -> Counter[tuple[object, ...]]:
    """The publications of an ingested folder, as DuckDB reads them."""
    query = (
        "SELECT publisher, time_us, attributes.v FROM "
        f"read_parquet('{folder}/publications.parquet/*.parquet')"
    )
    return Counter(duckdb.sql(query).fetchall())


@pytest.mark.parametrize("file", one_in(3, [pytest.param(each, id=each.name) for each in FILES]))
def test_a_messy_file_has_the_rows_that_duckdb_finds(
    spark: SparkSession, tmp_path: Path, file: MessyFile
) -> None:
    path, mapping = tmp_path / file.name, tmp_path / "source.toml"
    file.write(path)
    mapping.write_text(file.declared, encoding="utf-8")
    small = ingest_small(mapping, [path], tmp_path / "small")
    large = ingest_mapped(spark, mapping, [path], tmp_path / "large")
    duckdb.sql("SET TimeZone = 'UTC'")
    more = ", delim = ';'" if file.name == "european.csv" else ""
    query = file.query.replace("{path}", str(path)).replace("{more}", more)
    expected = Counter(duckdb.sql(query).fetchall())
    assert sum(expected.values()) > 0
    assert counted(tmp_path / "small") == expected
    assert counted(tmp_path / "large") == expected
    assert small.kept == large.kept == sum(expected.values())
    assert small.rejected == large.rejected == ROWS - small.kept
