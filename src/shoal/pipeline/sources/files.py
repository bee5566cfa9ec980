"""Files as numbered raw rows, with the broken ones marked.

Every reader gives the same columns: `file`, `line` (1-based; the row number in Parquet), `text`
(the row as written), `broken` (why it cannot be taken apart, or null) and `row`, a struct of the
file's columns. A CSV record is one line: a quoted line break makes both its lines broken, so that
many cores can read one file and still number its lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # as above
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType, LongType, StringType, StructField, StructType

from shoal.frames.parquet_files import part_files
from shoal.frames.parquet_folders import NO_VALUE, FolderColumn, folder_columns
from shoal.pipeline.schemas import REJECTED_TEXT_CHARACTERS
from shoal.pipeline.sources.headers import (
    NOT_UTF_8,
    UNBALANCED,
    SourceError,
    first_line,
    header_names,
    wrong_width,
)
from shoal.pipeline.sources.json_lines import NOT_JSON, JsonLinesReader, check_lines, kind_of
from shoal.pipeline.sources.parquet_columns import (
    NANOSECONDS_AS_INTEGERS,
    lacks,
    nanosecond_columns,
    path_of,
)


def check_files(files: Sequence[Path]) -> None:
    """SourceError unless there is at least one file, and each exists."""
    if not files:
        raise SourceError("no input file was given")
    for file in files:
        if not file.exists():
            raise SourceError(f"{file} does not exist")


def numbered_lines(spark: SparkSession, files: Sequence[Path], *, name: str = "") -> DataFrame:
    """The non-blank lines of text files: file, line (1-based), text.

    Spark reads a large file in blocks; a block's first line is numbered by counting the lines of
    the blocks before it.  `name` stands for the file where that is only a temporary copy.
    """
    check_files(files)
    # Ids count up within a partition, and a block is never spread over two.
    lines = (
        spark.read.option("lineSep", "\n")
        .text([str(file) for file in files])
        .select(
            F.col("_metadata.file_path").alias("path"),
            F.col("_metadata.file_block_start").alias("block"),
            F.monotonically_increasing_id().alias("id"),
            F.rtrim(F.col("value"), F.lit("\r")).alias("text"),
        )
    )
    blocks = lines.groupBy("path", "block").agg(
        F.min("id").alias("first_id"), F.count("*").alias("lines")
    )
    offsets = blocks.select(
        "path",
        "block",
        (F.lit(name) if name else _plain_path("path")).alias("file"),
        F.expr("sum(lines) OVER (PARTITION BY path ORDER BY block) - lines - first_id + 1").alias(
            "offset"
        ),
    )
    return (
        lines.join(F.broadcast(offsets), ["path", "block"])
        .select("file", (F.col("id") + F.col("offset")).alias("line"), "text")
        .where(F.trim("text") != "")
    )


def csv_rows(
    spark: SparkSession,
    files: Sequence[Path],
    needed: Sequence[str],
    *,
    delimiter: str = ",",
    name: str = "",
) -> DataFrame:
    """The rows of CSV files with a header line each; files may differ in their columns' order."""
    check_files(files)
    of_header: dict[str, list[Path]] = {}
    for file in files:
        of_header.setdefault(first_line(file), []).append(file)
    tables = []
    for header, of_files in of_header.items():
        names = header_names(header, delimiter, needed, of_files[0])
        lines = numbered_lines(spark, of_files, name=name)
        tables.append(_split(lines, names, needed, delimiter))
    return reduce(DataFrame.unionByName, tables)


def _split(
    lines: DataFrame, names: Sequence[str], needed: Sequence[str], delimiter: str
) -> DataFrame:
    # Positions as names: a header may hold anything, and unused names may repeat.
    schema = ", ".join([f"c{position} string" for position in range(len(names))])
    options = {
        "sep": delimiter,
        "quote": '"',
        "escape": '"',
        "columnNameOfCorruptRecord": "corrupt",
        "maxCharsPerColumn": "-1",
    }
    fields = F.from_csv("text", f"{schema}, corrupt string", options)
    quotes = F.length("text") - F.length(F.translate("text", '"', ""))
    broken = (
        F.when(~F.is_valid_utf8("text"), NOT_UTF_8)
        .when(quotes % 2 == 1, UNBALANCED)
        .when(F.col("fields.corrupt").isNotNull(), wrong_width(len(names)))
        .alias("broken")
    )
    row = F.struct(*(F.col(f"fields.c{names.index(name)}").alias(name) for name in needed))
    return (
        lines.where("line > 1")
        .withColumn("fields", fields)
        .select("file", "line", F.make_valid_utf8("text").alias("text"), broken, row.alias("row"))
    )


def json_rows(spark: SparkSession, files: Sequence[Path], needed: Sequence[str]) -> DataFrame:
    """The rows of files of JSON lines, every value as the text that stands there."""
    check_files(files)
    for file in files:
        check_lines(file)
    row = StructType([StructField(name, StringType()) for name in needed])
    text = StringType()
    kinds: dict[str, DataType] = {"file": text, "line": LongType(), "text": text, "broken": text}
    schema = StructType([StructField(name, kind) for name, kind in (kinds | {"row": row}).items()])
    row_type = pa.struct([(name, pa.string()) for name in needed])

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader = JsonLinesReader(needed)
        for batch in batches:
            rows, broken = [], []
            for said, is_text in zip(
                batch.column("text").to_pylist(), batch.column("is_text").to_pylist(), strict=True
            ):
                fields = reader.read(said) if is_text else None
                rows.append(dict(zip(needed, fields or (), strict=False)))
                broken.append(None if fields is not None else NOT_JSON if is_text else NOT_UTF_8)
            columns = [batch.column(name) for name in ("file", "line", "text")]
            yield pa.RecordBatch.from_arrays(
                [*columns, pa.array(broken, pa.string()), pa.array(rows, row_type)],
                names=schema.names,
            )

    lines = numbered_lines(spark, files).select(
        "file",
        "line",
        F.make_valid_utf8("text").alias("text"),
        F.is_valid_utf8("text").alias("is_text"),
    )
    return lines.mapInArrow(read, schema)


def parquet_rows(spark: SparkSession, files: Sequence[Path], needed: Sequence[str]) -> DataFrame:
    """The rows of Parquet files or folders; `line` counts the rows of each file from 1."""
    check_files(files)
    in_nanoseconds = nanosecond_columns(files, needed)
    if in_nanoseconds:
        spark.conf.set(NANOSECONDS_AS_INTEGERS, "true")
    table, folders = read_parquet(spark, files)
    schema = pa.schema(list(_shape(table.schema)))
    paths = {name: path_of(schema, name) for name in needed}
    if missing := [name for name, path in paths.items() if path is None and name not in folders]:
        raise SourceError(lacks(files[0], missing, [*table.columns, *folders]))
    columns = [
        _declared(folders[name]).alias(name)
        if path is None
        else _without_nanoseconds(_quoted(path), in_nanoseconds[name]).alias(name)
        if name in in_nanoseconds
        else F.col(_quoted(path)).alias(name)
        for name, path in paths.items()
    ]
    return table.select(
        _plain_path("_metadata.file_path").alias("file"),
        (F.col("_metadata.row_index") + 1).alias("line"),
        F.to_json(F.struct(*columns)).alias("text"),
        F.lit(None).cast("string").alias("broken"),
        F.struct(*columns).alias("row"),
    )


class FolderText(NamedTuple):
    """A column of folders' names, as text; and its known properties."""

    text: Column
    column: FolderColumn


def read_parquet(
    spark: SparkSession, files: Sequence[Path]
) -> tuple[DataFrame, dict[str, FolderText]]:
    """The columns of Parquet files or folders, with `_metadata`; and those that are folders' names.

    Spark would make numbers of `code=01001`, and reads escaped characters as Latin-1.
    """
    folders: dict[str, FolderColumn] = {}
    for file in files:
        for name, column in folder_columns(file).items():
            folders.setdefault(name, column).values.update(column.values)
    table = spark.read.parquet(*(str(file) for file in files))
    if not folders:
        return table.select("*", "_metadata"), {}
    parts = (part for file in files for part in part_files(file))
    within = {name for part in parts for name in pq.read_schema(part).names}
    kept = [F.col(_quoted([name])) for name in table.columns if name in within]
    path = _plain_path("_metadata.file_path")
    texts = {name: FolderText(_folder_text(path, each), each) for name, each in folders.items()}
    return table.select(*kept, "_metadata"), texts


def _folder_text(path: Column, column: FolderColumn) -> Column:
    """Return the value of the folder `name=…`, as `folder_values` does."""
    said = F.regexp_extract(path, f".*/{re.escape(column.raw_name)}=([^/]*)/", 1)
    text = F.coalesce(F.try_url_decode(F.replace(said, F.lit("+"), F.lit("%2B"))), said)
    return F.when((said != "") & (said != NO_VALUE), text)


def _declared(folder: FolderText) -> Column:
    """A folder's column to be declared: a text, or a date, which is the same text."""
    return folder.text.cast("date") if folder.column.has_dates else folder.text


def _shape(kind: StructType) -> pa.StructType:
    """The names of a table's columns, and of the fields of its structs."""
    return pa.struct(
        [
            (
                field.name,
                _shape(field.dataType) if isinstance(field.dataType, StructType) else pa.null(),
            )
            for field in kind
        ]
    )


def _quoted(path: Sequence[str]) -> str:
    return ".".join("`" + part.replace("`", "``") + "`" for part in path)


def _without_nanoseconds(column: str, has_zone: bool) -> Column:
    """The time of an integer in nanoseconds since 1970, whole microseconds of it."""
    time = F.timestamp_micros(F.expr(f"({column} - pmod({column}, 1000)) div 1000"))
    return time if has_zone else time.cast("timestamp_ntz")


def table_rows(
    spark: SparkSession, files: Sequence[Path], needed: Sequence[str], *, delimiter: str = ","
) -> DataFrame:
    """The rows of CSV, Parquet or JSON files, by the ending of the names (a folder is Parquet)."""
    check_files(files)
    kind = kind_of(files)
    if kind == "CSV":
        return csv_rows(spark, files, needed, delimiter=delimiter)
    return (json_rows if kind == "JSON" else parquet_rows)(spark, files, needed)


def cut_text() -> str:
    """Return the SQL expression for `text`, cut to the length in a rejects table."""
    return f"left(text, {REJECTED_TEXT_CHARACTERS}) AS text"


def _plain_path(column: str) -> Column:
    # Spark gives a URI: file:/a%20b.csv.  A plus sign stands for itself there.
    encoded = F.regexp_replace(F.col(column), r"\+", "%2B")
    return F.url_decode(F.regexp_replace(encoded, "^file:/+", "/"))
