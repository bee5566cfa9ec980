"""Places of tables, and the session that reads them.

| place | example | what it is |
| --- | --- | --- |
| a DataFrame | `flights` | itself |
| a path | `Path("pairs")`, `data/flights.csv` | a folder of Parquet, or a file by its ending |
| a URI `file:` | `file:///data/pairs` | the same path |
| another URI | `s3a://lake/pairs` | a folder of Parquet, which Spark reads |
| with a format | `delta+s3a://lake/pairs` | the same in that format of Spark |
| a table | `lake.db.pairs`, `db.pairs`; `pairs` if there is no such path | of Spark's catalog |

shoal writes paths itself, so that a folder comes into being whole. It passes other places through
to Spark, whose connectors (S3, Delta, Iceberg) decide what they promise.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, TypeAlias

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from shoal.frames.errors import TableError
from shoal.frames.folders import new_folder
from shoal.frames.table_places import is_uri, path_in
from shoal.pipeline.session import SQL_SETTINGS
from shoal.pipeline.table_files import read_table_file
from shoal.pipeline.tables import write_table
from shoal.spark.source import Source

# A table, or where it is.
Place: TypeAlias = DataFrame | str | os.PathLike[str]
Mode = Literal["error", "overwrite", "append"]

# The settings that decide what a filter's text, or an expression of a mapping, means.
_DECISIVE = (
    "spark.sql.session.timeZone",
    "spark.sql.ansi.enabled",
    "spark.sql.caseSensitive",
    "spark.sql.variable.substitute",
)


class SettingError(ValueError):
    """A setting of the session would change a result; the text names it, and `prepare` sets it."""


def prepare(spark: SparkSession) -> SparkSession:
    """Give a session the settings that results depend on, and the data source `shoal`.

    The settings are UTC, ANSI SQL, names with case and no substitution of variables, all of
    `spark.sql`; besides, Spark compiles no method that Java would interpret, moves tables by Arrow,
    and shortens the texts of plans. Other settings stay. Returns the same session, classic or of
    Spark Connect.
    """
    for key, value in SQL_SETTINGS.items():
        if key in _DECISIVE or spark.conf.isModifiable(key):
            spark.conf.set(key, value)
    spark.dataSource.register(Source)
    return spark


def check_prepared(spark: SparkSession, function: str) -> None:
    """SettingError unless the session has the settings of `prepare`."""
    for key in _DECISIVE:
        value, wanted = spark.conf.get(key), SQL_SETTINGS[key]
        if value != wanted:
            raise SettingError(
                f"{function}: {key} is {value}, and results would differ; call "
                "shoal.spark.prepare(spark) first"
            )


def session_of(*places: object) -> SparkSession:
    """The session of the first DataFrame among these, else the active one; TableError for none."""
    for place in places:
        if isinstance(place, DataFrame):
            return place.sparkSession
    spark = SparkSession.getActiveSession()
    if spark is None:
        raise TableError("there is no Spark session; make one, or give a DataFrame")
    return spark


def read(
    place: Place,
    *,
    spark: SparkSession | None = None,
    format: str | None = None,
    inside: str = "",
) -> DataFrame:
    """The table at a place, of a session, the active one unless `spark` is given.

    `place` is a DataFrame (which is returned), a path, a URI or a table of Spark's catalog:
    `Path("pairs")`, `"data/flights.csv"`, `"file:///data/pairs"`, `"s3a://lake/pairs"`,
    `"lake.db.pairs"`. A text of one to three names with dots between them is a table, unless it
    ends in `.parquet`, `.csv` or `.csv.gz`, or a file of that name is there; any other is a path.
    `format` is that of a URI other than `file:`, Parquet unless given (`"delta"`, say). In a folder
    or URI of several tables, `inside` names the one (`"publications.parquet"`); in a schema of the
    catalog that is a table (`publications`). TableError for a place where there is no table.
    """
    if isinstance(place, DataFrame):
        return place
    spark = session_of() if spark is None else spark
    path = _path(place)
    if path is not None:
        # Java's working folder is the one that Python had when Spark started.
        return read_table_file(spark, path.absolute(), inside=inside or path.name)
    text = str(place)
    if is_uri(text):
        return _load(spark, text, format or "", inside)
    for name in (text, f"{text}.{inside.removesuffix('.parquet')}" if inside else ""):
        if name and table_exists(spark, name):
            return spark.table(name)
    raise TableError(f"{text}: there is no such file, and no such table in Spark's catalog")


def table_exists(spark: SparkSession, name: str) -> bool:
    """Return whether the catalog has this table; none has names of more parts than it allows."""
    try:
        return spark.catalog.tableExists(name)
    except AnalysisException:
        return False


def _load(spark: SparkSession, uri: str, format: str, inside: str) -> DataFrame:
    """The table at a URI, or the one in it."""
    format, uri = format_of(format, uri)
    reader = spark.read.format(format)
    if inside:
        try:
            return reader.load(f"{uri.rstrip('/')}/{inside}")
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
    return reader.load(uri)


def write(
    table: DataFrame, place: str | os.PathLike[str], *, mode: Mode = "error", format: str = ""
) -> None:
    """Write a table to a path, a URI or a table of Spark's catalog; `read` says which is which.

    A path, or a URI `file:`, becomes a folder of Parquet, whole or not at all. Other places are
    passed to Spark, with `format`: Parquet for a URI, the catalog's own for a table. A text of one
    word (`pairs`) is a path; write `default.pairs` for a table. `mode` is `"error"` (if something
    is there), `"overwrite"`, or `"append"`, which paths do not have. TableError for a folder that
    is there, or that workers do not see; AnalysisException, Spark's, for other places.
    """
    path = _path(place, writes=True)
    if path is not None:
        if mode == "append":
            raise TableError(f"{path}: a folder is written whole; append to a table or another URI")
        if format not in ("", "parquet"):
            raise TableError(f"{path}: shoal writes Parquet there; use DataFrame.write for others")
        with new_folder(path, overwrite=mode == "overwrite") as folder:
            write_table(table, folder)
        return
    writer = table.write.mode(mode)
    text = str(place)
    if is_uri(text):
        kind, uri = format_of(format, text)
        writer.format(kind).save(uri)
    else:
        (writer.format(format) if format else writer).saveAsTable(text)


def format_of(format: str, uri: str) -> tuple[str, str]:
    """The format at a URI, which may say it in front, and the URI that Spark takes.

    >>> format_of("", "delta+s3a://lake/pairs"), format_of("", "s3a://lake/pairs")
    (('delta', 's3a://lake/pairs'), ('parquet', 's3a://lake/pairs'))
    """
    kind, plus, rest = uri.partition("+")
    has_kind = plus and kind.isalpha()
    return format or (kind if has_kind else "parquet"), rest if has_kind else uri


def local_path(place: object) -> Path | None:
    """The path that a place is on this machine's disks; None for another place."""
    return None if isinstance(place, DataFrame) else _path(place)


def _path(place: object, *, writes: bool = False) -> Path | None:
    return Path(place) if isinstance(place, os.PathLike) else path_in(str(place), writes=writes)
