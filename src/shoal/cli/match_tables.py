"""`shoal match` by Spark: tables or lines in, a table of pairs or today's lines out.

Lines were read by the command and become tables here; tables are read by Spark.  What is printed
is held in memory, in the order of the input; what is written as a table is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from shoal.cli.match_files import ReadPublication, ReadSubscription
from shoal.cli.spark import print_counts, spark_command

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Answer = tuple[object, Sequence[str | int]]


class SparkOptions(NamedTuple):
    """Where the pairs go (None: they are printed), and what does the work."""

    out: Path | None
    overwrite: bool
    master: str
    memory: str


def match_by_spark(
    subscriptions: Path | Sequence[ReadSubscription],
    publications: Path | Sequence[ReadPublication],
    options: SparkOptions,
    *,
    sql: bool,
) -> Iterator[Answer]:
    """What to print: each publication's name and the ids of its subscriptions."""
    with spark_command(
        "match",
        options.out,
        overwrite=options.overwrite,
        master=options.master,
        memory=options.memory,
    ) as (spark, status):
        from shoal.pipeline.compiled_matching import match_tables
        from shoal.pipeline.matching_job import judged_pairs

        status.update("Spark SQL evaluates the filters" if sql else "matching on Spark")
        wanted = _subscriptions(spark, subscriptions)
        given = _publications(spark, publications)
        engine = judged_pairs if sql else match_tables
        if options.out is None:
            answers = _answers(given, wanted, engine)
        else:
            counts = _write(given, wanted, engine, options.out, overwrite=options.overwrite)
    if options.out is None:
        yield from answers
    else:
        print_counts(f"pairs -> {options.out}", counts)


def _subscriptions(
    spark: SparkSession, subscriptions: Path | Sequence[ReadSubscription]
) -> DataFrame:
    if isinstance(subscriptions, Path):
        from shoal.pipeline.table_files import read_table_file

        return read_table_file(spark, subscriptions, inside="subscriptions.parquet")
    rows = [(each.id, each.text) for each in subscriptions]
    return spark.createDataFrame(rows, "id string, filter string")


def _publications(spark: SparkSession, publications: Path | Sequence[ReadPublication]) -> DataFrame:
    if isinstance(publications, Path):
        from shoal.pipeline.table_files import read_table_file

        return read_table_file(spark, publications, inside="publications.parquet")
    from shoal.pipeline.matching_job import publications_frame

    attributes = [each.attributes for each in publications]
    return publications_frame(spark, attributes, ids=[each.id for each in publications])


def _write(
    publications: DataFrame,
    subscriptions: DataFrame,
    engine: Callable[..., DataFrame],
    out: Path,
    *,
    overwrite: bool,
) -> dict[str, object]:
    from shoal.pipeline.tables import new_folder, write_table

    with new_folder(out, overwrite=overwrite) as folder:
        write_table(engine(publications, subscriptions), folder)
    return {
        "publications": publications.count(),
        "subscriptions": subscriptions.count(),
        "pairs": publications.sparkSession.read.parquet(str(out)).count(),
    }


def _answers(
    publications: DataFrame, subscriptions: DataFrame, engine: Callable[..., DataFrame]
) -> list[Answer]:
    from pyspark.sql import functions as F  # noqa: N812

    from shoal.pipeline.publication_tables import key_columns

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
