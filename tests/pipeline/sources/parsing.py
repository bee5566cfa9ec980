"""Rows of files, parsed as `shoal ingest` does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from shoal.pipeline.sources.declaration import Mapping, decode_mapping
from shoal.pipeline.sources.local_rows import local_rows
from shoal.pipeline.sources.publications import numbered_rows, parse_rows
from shoal.pipeline.sources.raw_rows import RowSource, open_source
from shoal.pipeline.sources.row_parser import RowParser


def parse_files(files: Sequence[Path], text: str) -> list[dict[str, Any]]:
    """The rows without Spark, by the declaration `text`."""
    mapping = decode_mapping(text, "m.toml")
    source = open_source(files, mapping.file_columns, delimiter=mapping.delimiter)
    rows: list[dict[str, Any]] = local_rows(source, RowParser(mapping, "m.toml")).to_pylist()
    return rows


def spark_rows(
    spark: SparkSession, files: Sequence[Path], mapping: Mapping, where: str
) -> DataFrame:
    """The rows by Spark, numbered."""
    source = open_source(files, mapping.file_columns, delimiter=mapping.delimiter)
    return numbered_rows(parse_rows(spark, source, mapping, where), source)


def raw_rows(source: RowSource) -> list[dict[str, Any]]:
    """The raw rows of a source: file, line in its split, text, broken, and its columns."""
    found: list[dict[str, Any]] = []
    for split in source.splits:
        for raw in source.read(split):
            columns = {"line": raw.lines, "text": raw.texts, "broken": raw.broken} | raw.columns
            rows = pa.table(columns).to_pylist()
            found += [{"file": split.name, **row} for row in rows]
    return found
