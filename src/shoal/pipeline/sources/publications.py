"""Publications and rejects as Spark's tables: nothing is dropped in between.

`RowParser` says what a row means.  Spark spreads it over the splits of the files, computes what a
declaration has in Spark SQL (derived attributes, an expression or other patterns of times), and
numbers each publisher's publications from 0 by event time, then file name and line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import DoubleType, StructType

from shoal.pipeline.schemas import REJECTED_TEXT_CHARACTERS
from shoal.pipeline.sources.declaration import SPARK_TYPES, Mapping, MappingError
from shoal.pipeline.sources.raw_rows import RowSource, TextSource
from shoal.pipeline.sources.row_parser import RowParser, bounds_noun, needs_format, time_noun
from shoal.pipeline.sources.times import NO_FORM, time_forms

# Letters of a datetime pattern that stand for a zone, and quoted text in a pattern.
_ZONE = "[VzOXxZ]"
_QUOTED = re.compile("'[^']*'")
_OPTIONAL_ZONE = re.compile(rf"\[[^\[\]]*{_ZONE}[^\[\]]*\]")
# Parts of time in which one publisher's publications are numbered apart.
TIME_PARTS = 32
# The columns of a row beside its attributes.
_BASE = "the row itself"
_TIME = "the time itself"


def parse_rows(spark: SparkSession, source: RowSource, mapping: Mapping, where: str) -> DataFrame:
    """Type the rows of a source: split, file, line, text, reason, publisher, time_us, attributes.

    `reason` is null exactly for the rows that are publications.  A task reads a split, once:
    `line` counts in it, and a last row, without a file, says how many lines there were.  `where`
    names the mapping in the MappingError for an expression that Spark does not accept.
    """
    parser = RowParser(mapping, where)
    _check_formats(spark, source, mapping, where)
    return typed_rows(_read(spark, source, parser), parser, mapping, where)


def typed_rows(rows: DataFrame, parser: RowParser, mapping: Mapping, where: str) -> DataFrame:
    """Compute what is Spark SQL in a mapping, of rows as `RowParser` gives them, with a `split`."""
    # Apart, since an attribute may have the name of one of them.
    rows = rows.select(F.struct("*").alias(_BASE), "columns.*")
    time, problem = _base("time_us"), F.lit(None).cast("string")
    if parser.needs_spark_time:
        time, problem = _event_time(rows, mapping, where)
    else:
        time = F.timestamp_micros(time)
    typed = rows.withColumn(_TIME, time).withColumn("event_time", F.col(_TIME))
    derived = {
        name: _expression(typed, rule.expression, f"{where}: derived.{name}").cast(
            SPARK_TYPES[rule.type]
        )
        for name, rule in mapping.derived.items()
    }
    reason = F.concat_ws("; ", _base("reason"), problem)
    # Spark Connect adds at least one column.
    return (typed.withColumns(derived) if derived else typed).select(
        *(_base(name).alias(name) for name in ("split", "file", "line", "text")),
        F.coalesce(_base("broken"), F.when(reason != "", reason)).alias("reason"),
        _base("publisher").alias("publisher"),
        F.unix_micros(_TIME).alias("time_us"),
        F.struct(
            *(
                (_named(name) if name in derived else _base("columns").getField(name)).alias(name)
                for name in mapping.published
            )
        ).alias("attributes"),
    )


def _read(spark: SparkSession, source: RowSource, parser: RowParser) -> DataFrame:
    schema = parser.schema.insert(0, pa.field("split", pa.int64()))
    splits = list(source.splits)

    def of_split(number: int) -> Iterator[pa.RecordBatch]:
        lines = 0
        for raw in source.read(splits[number]):
            yield parser.parse(raw, splits[number].name)
            lines = raw.seen
        yield pa.RecordBatch.from_pylist([{"line": lines}], parser.schema)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            for rows in of_split(number):
                columns = [pa.repeat(number, rows.num_rows), *rows.columns]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)

    count = len(splits)
    return spark.range(0, count, 1, max(count, 1)).mapInArrow(read, from_arrow_schema(schema))


def numbered_rows(parsed: DataFrame, source: RowSource) -> DataFrame:
    """The rows of `parse_rows` with `line` counted in the file, from 1.

    `parsed` should be persisted, so that no file is read again for it.
    """
    rows = parsed.where("file IS NOT NULL")
    if not any(split.start for split in source.splits):
        return rows.drop("split")
    ends = parsed.where("file IS NULL").select("split", "line").collect()
    seen = {row["split"]: row["line"] for row in ends}
    before, lines = [], 0
    for number, split in enumerate(source.splits):
        lines = lines if split.start else 0
        before.append((number, lines))
        lines += seen[number]
    offsets = parsed.sparkSession.createDataFrame(before, "split bigint, before bigint")
    return (
        rows.join(F.broadcast(offsets), "split")
        .withColumn("line", F.col("line") + F.col("before"))
        .drop("split", "before")
    )


def publications(rows: DataFrame) -> DataFrame:
    """The rows that are publications: publisher, sequence, time_us, attributes.

    Parts of one publisher's time are numbered apart, so that not all its rows pass one task.
    """
    kept = rows.where("reason IS NULL")
    shares = [place / TIME_PARTS for place in range(1, TIME_PARTS)]
    found = kept.agg(F.percentile_approx("time_us", shares)).first()
    bounds = sorted(set(found[0] or ())) if found is not None else []
    begun = F.array(*(F.lit(bound) for bound in bounds)) if bounds else F.array(F.lit(0))
    part = F.size(F.filter(begun, lambda bound: bound <= F.col("time_us")))
    kept = kept.withColumn("part", part)
    before = (
        kept.groupBy("publisher", "part")
        .agg(F.count("*").alias("rows"))
        .withColumn(
            "before",
            F.sum("rows").over(Window.partitionBy("publisher").orderBy("part")) - F.col("rows"),
        )
    )
    order = Window.partitionBy("publisher", "part").orderBy("time_us", "file", "line")
    return (
        kept.withColumn("nth", F.row_number().over(order) - 1)
        .join(before.drop("rows"), ["publisher", "part"])
        .select(
            "publisher",
            (F.col("nth") + F.col("before")).alias("sequence"),
            "time_us",
            "attributes",
        )
    )


def rejects(rows: DataFrame) -> DataFrame:
    """The rows that are not, by file and line: file, line, reason, text."""
    refused = rows.where("reason IS NOT NULL")
    return refused.select("file", "line", "reason", _cut_text()).orderBy("file", "line")


def repeats(rows: DataFrame) -> DataFrame:
    """Return publications that repeat an earlier row, of one publisher at one time, with that row.

    They are publications all the same.
    """
    kept = rows.where("reason IS NULL").withColumn("alike", _hash(rows))
    # Few rows are left to be sorted if few have the hash of another.
    shared = kept.groupBy("alike").count().where("count > 1").select("alike")
    alike = Window.partitionBy("alike", "publisher", "time_us", "attributes")
    alike = alike.orderBy("file", "line")
    return (
        kept.join(shared, "alike", "left_semi")
        .withColumn("nth", F.row_number().over(alike))
        .withColumn("first_file", F.first("file").over(alike))
        .withColumn("first_line", F.first("line").over(alike))
        .where("nth > 1")
        .select("file", "line", "first_file", "first_line", _cut_text())
        .orderBy("file", "line")
    )


def _hash(rows: DataFrame) -> Column:
    """A number that equal publications of one publisher and time share."""
    kind = rows.schema["attributes"].dataType
    assert isinstance(kind, StructType)
    # The hash of -0.0 is not that of 0.0.
    fields = [(F.col("attributes").getField(field.name), field.dataType) for field in kind]
    values = [
        each + F.lit(0.0) if isinstance(of_type, DoubleType) else each for each, of_type in fields
    ]
    return F.xxhash64("publisher", "time_us", *values)


def _cut_text() -> Column:
    return F.left("text", F.lit(REJECTED_TEXT_CHARACTERS)).alias("text")


def _base(name: str) -> Column:
    return F.col(_BASE).getField(name)


def _named(name: str) -> Column:
    return F.col("`" + name.replace("`", "``") + "`")


def _expression(typed: DataFrame, text: str, where: str) -> Column:
    try:
        expression = F.expr(text)
        # Spark looks into it only as it makes a schema.
        typed.select(expression).schema  # noqa: B018
    except (AnalysisException, ParseException) as error:
        reason = str(error).strip().partition("\n")[0]
        raise MappingError(f"{where}: {reason}") from None
    return expression


def _event_time(rows: DataFrame, mapping: Mapping, where: str) -> tuple[Column, Column]:
    """The time, and the problem with it or null, where Spark has to say."""
    rule = mapping.time
    if rule.expression is not None:
        time = _expression(rows, rule.expression, f"{where}: time.expression")
        said = F.concat(F.lit("the event time: '"), time.cast("timestamp").cast("string"))
        outside = _outside(time, said, mapping)
        return time, F.when(time.isNull(), "the event time cannot be computed").otherwise(outside)
    text, place = _base("time_text"), f"time column '{rule.column}'"
    forms = time_forms(rule.formats, mapping.decimal)
    typed_time = F.timestamp_micros(_base("time_us"))
    time = F.coalesce(
        F.when(_base("time_form") == NO_FORM, typed_time),
        *(
            _patterned(text, format, rule.zone)
            if form is None
            else F.when(_base("time_form") == number, typed_time)
            for number, (format, form) in enumerate(zip(rule.formats, forms, strict=True))
        ),
    )
    said = F.concat(F.lit(f"{place}: '"), text)
    misfit = F.concat(said, F.lit(f"' is not {time_noun(rule)}"))
    problem = F.when(time.isNull(), F.coalesce(misfit, F.lit(f"{place} is missing")))
    return time, problem.otherwise(_outside(time, said, mapping))


def _outside(time: Column, said: Column, mapping: Mapping) -> Column:
    """The problem with a time that the declaration does not allow."""
    rule, time_us = mapping.time, F.unix_micros(time.cast("timestamp"))
    low = F.lit(False) if rule.earliest_us is None else time_us < rule.earliest_us
    high = F.lit(False) if rule.before_us is None else time_us >= rule.before_us
    return F.when(low | high, F.concat(said, F.lit(f"' is not {bounds_noun(rule)}")))


def _check_formats(spark: SparkSession, source: RowSource, mapping: Mapping, where: str) -> None:
    """MappingError for a missing format, or a pattern that Spark does not know, which would fail
    later.
    """
    rule = mapping.time
    if isinstance(source, TextSource) and rule.column is not None and not rule.formats:
        raise needs_format(rule, where)
    for format, form in zip(rule.formats, time_forms(rule.formats, "."), strict=True):
        if form is not None:
            continue
        try:
            spark.sql("SELECT try_to_timestamp('', :given)", args={"given": format}).collect()
        except PySparkException as error:
            reason = str(error).strip().partition("\n")[0]
            raise MappingError(f"{where}: time.format: {format!r}: {reason}") from None


def _patterned(text: Column, format: str, zone: str) -> Column:
    """The time by one of Spark's patterns; one that does not tell its zone has this one."""
    time = F.try_to_timestamp(text, F.lit(format))
    if zone == "UTC":
        return time
    return F.when(_tells_no_zone(text, format), F.to_utc_timestamp(time, zone)).otherwise(time)


def _tells_no_zone(text: Column, format: str) -> Column:
    """Return whether a text leaves out its zone, which the pattern `format` may demand or allow."""
    if not re.search(_ZONE, _QUOTED.sub("", format)):
        return F.lit(True)
    without = _OPTIONAL_ZONE.sub("", format)
    if re.search(_ZONE, _QUOTED.sub("", without)):
        return F.lit(False)
    return F.try_to_timestamp(text, F.lit(without)).isNotNull()
