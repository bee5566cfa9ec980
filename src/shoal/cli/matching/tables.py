"""`shoal match` by Spark: tables or lines in, a table of pairs or today's lines out.

Lines were read by the command and become tables here; tables are read by Spark. Printed results are
held in memory, in the order of the input; results written as a table are not.
"""

from __future__ import annotations

import contextlib
import functools
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from shoal.cli.matching.files import (
    ReadPublication,
    ReadSubscription,
    is_source,
    kind_complaints,
    warn,
)
from shoal.cli.support.errors import UserError
from shoal.cli.support.interrupts import only_noted
from shoal.cli.support.places import check_exist, check_new
from shoal.cli.support.spark import check_lasts, print_counts, spark_command
from shoal.cli.support.table_places import SparkPlace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Interval at which a stream checks for an interrupt.
LOOK_S = 0.1
# Value of --partition for dimensions chosen from the data.
AUTO = "auto"

Answer = tuple[object, Sequence[str | int]]

PairsOption = Annotated[
    str | None,
    typer.Option("--out", metavar="PLACE", help="Of tables: write the pairs there, as Parquet."),
]
PartitionOption = Annotated[
    str | None,
    typer.Option(
        "--partition",
        metavar="auto|ATTRIBUTE",
        help="By Spark: spread subscriptions that are too many for a worker.",
    ),
]
StreamOption = Annotated[
    bool,
    typer.Option(
        "--stream", help="By Spark: go on with new files of a folder or rows of a source."
    ),
]
OnceOption = Annotated[
    bool, typer.Option("--once", help="With --stream: end when all that is there is matched.")
]
SourceOption = Annotated[
    list[str] | None,
    typer.Option(
        "--source-option", metavar="KEY=VALUE", help="Spark's for the stream; may be repeated."
    ),
]


class SparkOptions(NamedTuple):
    """Options about matching on Spark."""

    out: Path | SparkPlace | None
    overwrite: bool
    master: str | None
    memory: str | None
    sql: bool
    partition: str | None
    stream: bool
    once: bool
    source_options: Sequence[str] = ()
    conf: Sequence[str] = ()

    def given(self) -> str:
        """An option that was given and is for Spark only; empty if none was."""
        chosen = {
            "--partition": self.partition,
            "--stream": self.stream,
            "--once": self.once,
            "--source-option": self.source_options,
        }
        return next((option for option, value in chosen.items() if value), "")

    def check(self, publications: Path | SparkPlace) -> None:
        """UserError for options that do not go together."""
        if self.stream and (place := next(self._elsewhere(publications), None)):
            raise UserError(
                f"{place}: --stream reads and writes folders of this machine; in Python "
                "shoal.spark.match takes streams of tables and URIs"
            )
        if isinstance(publications, SparkPlace):
            publications = Path()  # no data source
        if self.partition and self.sql:
            raise UserError("--partition goes with --engine spark; Spark SQL partitions by itself")
        if self.once and not self.stream:
            raise UserError("--once goes with --stream; a table is matched once anyway")
        if self.source_options and not self.stream:
            raise UserError("--source-option goes with --stream")
        self.source()
        if is_source(publications) and not self.stream:
            raise UserError(f"{publications} is a Python data source; that needs --stream")
        if not self.stream:
            return
        if self.out is None:
            raise UserError("--stream writes its pairs as they come; give --out DIR")
        if self.overwrite:
            raise UserError("--stream goes on where it stopped, so it cannot --overwrite")
        if not (publications.is_dir() or is_source(publications)):
            raise UserError(
                f"{publications}: --stream reads a folder of Parquet files, or MODULE:CLASS"
            )
        assert isinstance(self.out, Path)
        if self.out.exists() and not (self.out / "_checkpoints").exists():
            raise UserError(f"{self.out} exists already, and is not from a stream")

    def _elsewhere(self, publications: Path | SparkPlace) -> Iterator[SparkPlace]:
        """Places that are no paths."""
        yield from (each for each in (publications, self.out) if isinstance(each, SparkPlace))

    def source(self) -> dict[str, str]:
        """The data source's options; UserError for one that has no value."""
        options = {}
        for text in self.source_options:
            key, equals, value = text.partition("=")
            if not (key and equals):
                raise UserError(f"--source-option {text}: give KEY=VALUE")
            options[key] = value
        return options


def match_by_spark(
    subscriptions: Path | SparkPlace | Sequence[ReadSubscription],
    publications: Path | SparkPlace | Sequence[ReadPublication],
    options: SparkOptions,
) -> Iterator[Answer]:
    """Return each publication's name and the ids of its subscriptions."""
    check_files(subscriptions, publications)
    if not options.stream and not isinstance(options.out, SparkPlace):
        read = [each for each in (subscriptions, publications) if isinstance(each, Path)]
        check_new(options.out, overwrite=options.overwrite, inputs=read)
    answers: list[Answer] = []
    counts: dict[str, object] = {}
    with spark_command(
        "match",
        master=options.master,
        memory=options.memory,
        conf=options.conf,
    ) as (spark, status):
        check_lasts(spark, options.out)
        status.update("Spark SQL evaluates the filters" if options.sql else "matching on Spark")
        if options.stream:
            assert isinstance(publications, Path)
            counts = _stream(spark, subscriptions, publications, options)
        else:
            wanted, given = _subscriptions(spark, subscriptions), _publications(spark, publications)
            warn(_complaints(subscriptions, publications, wanted, given))
            if options.out is None:
                answers = _answers(given, wanted, _engine(options))
            else:
                counts = _write(given, wanted, options)
    if options.out is not None:
        print_counts(f"pairs -> {options.out}", counts)
    yield from answers


@contextlib.contextmanager
def table_errors(**files: Path) -> Iterator[None]:
    """Report errors in a table as UserError; `files` has the file of each by its name.

    A table does not know its file, and says `subscriptions, row 3: ...`.
    """
    from shoal.frames.errors import TableError
    from shoal.frames.parquet_files import ParquetError

    try:
        yield
    except (TableError, ParquetError) as error:
        text = str(error)
        for name, file in files.items():
            named = str(file).replace("\\", r"\\")
            text = re.sub(rf"^{name}(?=[:,] )", named, text, flags=re.MULTILINE)
        raise UserError(text) from None


def check_files(*given: Path | SparkPlace | Sequence[object]) -> None:
    """UserError for a path that is not there, or a file that should be Parquet and is not."""
    from shoal.frames.parquet_files import ParquetError, check_parquet

    for path in given:
        if not isinstance(path, Path) or is_source(path):
            continue
        check_exist(path)
        if path.is_dir() or path.suffix == ".parquet":
            try:
                check_parquet(path)
            except ParquetError as error:
                hint = "; a folder is read as Parquet: name CSV files" if path.is_dir() else ""
                raise UserError(f"{error}{hint}") from None


def _complaints(
    subscriptions: Path | SparkPlace | Sequence[ReadSubscription],
    publications: Path | SparkPlace | Sequence[ReadPublication],
    wanted: DataFrame,
    given: DataFrame,
) -> Iterable[str]:
    """Return tests that no publication can pass; lines were read already, tables have Spark's
    types.
    """
    from shoal.frames.kind_checks import complaints
    from shoal.pipeline.matching.table_checks import demands, table_complaints

    if isinstance(publications, Path | SparkPlace):
        return table_complaints(given, wanted)
    if not isinstance(subscriptions, Path | SparkPlace):
        return kind_complaints(subscriptions, publications)
    rows = [each.attributes for each in publications]
    return complaints(demands(wanted, {name for row in rows for name in row}), rows)


def _engine(options: SparkOptions) -> Callable[..., DataFrame]:
    """Return the function that makes pairs of publications and subscriptions."""
    if options.sql:
        from shoal.pipeline.matching.matching_job import judged_pairs

        return functools.partial(judged_pairs, warn=False)
    if options.partition:
        from shoal.pipeline.matching.partitioned_matching import match_partitioned

        chosen = None if options.partition == AUTO else options.partition
        return functools.partial(match_partitioned, dimension=chosen, warn=False)
    from shoal.pipeline.matching.compiled_matching import match_tables

    return functools.partial(match_tables, warn=False)


def _stream(
    spark: SparkSession,
    subscriptions: Path | SparkPlace | Sequence[ReadSubscription],
    publications: Path,
    options: SparkOptions,
) -> dict[str, object]:
    from shoal.frames.compaction import rows_in
    from shoal.pipeline.matching.matching_stream import (
        LatestSubscriptions,
        files_version,
        match_stream,
        read_source,
        read_stream,
    )
    from shoal.pipeline.matching.table_checks import table_complaints

    assert isinstance(options.out, Path)

    def wanted(session: SparkSession) -> DataFrame:
        return _subscriptions(session, subscriptions)

    if options.sql or options.partition:
        engine = _engine(options)

        def pairs(batch: DataFrame) -> DataFrame:
            return engine(batch, wanted(batch.sparkSession))
    else:

        def version() -> object:
            # A table elsewhere is read for each batch; lines were read by the command.
            if isinstance(subscriptions, SparkPlace):
                return object()
            return files_version(subscriptions) if isinstance(subscriptions, Path) else None

        latest = LatestSubscriptions(spark, wanted, version)

        def pairs(batch: DataFrame) -> DataFrame:
            return latest(batch)

    if is_source(publications):
        stream = read_source(spark, str(publications), options.source())
    else:
        stream = read_stream(spark, publications, options.source())
    warn(table_complaints(stream, _subscriptions(spark, subscriptions)))
    query = match_stream(stream, pairs, options.out, only_what_is_there=options.once)
    with only_noted() as interrupts:
        while query.isActive and not interrupts:
            time.sleep(LOOK_S)
    if interrupts:
        query.stop()
    query.awaitTermination()
    batches = sorted(options.out.glob("batch=*"))
    return {"batches": len(batches), "pairs": sum(map(rows_in, batches))}


def _subscriptions(
    spark: SparkSession, subscriptions: Path | SparkPlace | Sequence[ReadSubscription]
) -> DataFrame:
    if isinstance(subscriptions, Path | SparkPlace):
        return _table(spark, subscriptions, "subscriptions.parquet")
    rows = [(each.id, each.text) for each in subscriptions]
    return spark.createDataFrame(rows, "id string, filter string")


def _table(spark: SparkSession, place: Path | SparkPlace, inside: str) -> DataFrame:
    from shoal.spark.places import read

    return read(place if isinstance(place, Path) else place.text, spark=spark, inside=inside)


def _publications(
    spark: SparkSession, publications: Path | SparkPlace | Sequence[ReadPublication]
) -> DataFrame:
    if isinstance(publications, Path | SparkPlace):
        return _table(spark, publications, "publications.parquet")
    from shoal.pipeline.matching.matching_job import publications_frame

    attributes = [each.attributes for each in publications]
    return publications_frame(spark, attributes, ids=[str(each.id) for each in publications])


def _write(
    publications: DataFrame, subscriptions: DataFrame, options: SparkOptions
) -> dict[str, object]:
    from shoal.spark.places import read, write

    assert options.out is not None
    place = options.out if isinstance(options.out, Path) else options.out.text
    pairs = _engine(options)(publications, subscriptions)
    write(pairs, place, mode="overwrite" if options.overwrite else "error")
    return {
        "publications": publications.count(),
        "subscriptions": subscriptions.count(),
        "pairs": read(place, spark=publications.sparkSession).count(),
    }


def _answers(
    publications: DataFrame, subscriptions: DataFrame, engine: Callable[..., DataFrame]
) -> list[Answer]:
    from pyspark.sql import functions as F  # noqa: N812

    from shoal.pipeline.matching.publication_tables import key_columns

    key = key_columns(publications)
    place = "place"
    while place in publications.columns:
        place += "_"
    # Two jobs read the places, and they must not depend on how the files are split.
    placed = publications.withColumn(place, F.monotonically_increasing_id()).persist()
    try:
        answers: dict[int, tuple[object, list[str | int]]] = {}
        for row in placed.select(place, *key).orderBy(place).collect():
            name = row[1] if len(key) == 1 else dict(zip(key, row[1:], strict=True))
            answers[row[0]] = name, []
        pairs = engine(placed, subscriptions, key=[place, *key]).toArrow()
        found = (pairs.column(name).to_pylist() for name in (place, "subscription"))
        for at, id in zip(*found, strict=True):
            answers[at][1].append(id)
    finally:
        placed.unpersist()
    return list(answers.values())
