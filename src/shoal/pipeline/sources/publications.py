"""Raw rows become publications, or rejects: nothing is dropped in between.

`apply_mapping` types the columns of a mapping, computes derived attributes and gives every row
either a publication or a reason; `publications` and `rejects` are its two halves, so their counts
add up to the rows that were read. A publisher's publications are numbered from 0 by event time,
then file name and line, whatever the partitioning.

In Parquet, NaN is a missing value, as pandas writes it; a whole number may be stored as a double.
Text is a number only as digits, sign, point and exponent: `NaN`, `inf` or Java's `1d` are refused,
and numbers too large for a double.
"""

from __future__ import annotations

import math
import re

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    DataType,
    DateType,
    DoubleType,
    FloatType,
    FractionalType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from shoal.pipeline.sources.declaration import (
    EPOCH_UNITS_PER_SECOND,
    ISO_8601,
    SPARK_TYPES,
    AttributeType,
    Mapping,
    MappingError,
    TimeRule,
)
from shoal.pipeline.sources.files import cut_text
from shoal.pipeline.sources.words import (
    AROUND_EPOCH,
    EPOCH_PLACES,
    ISO_TIME,
    NOUNS,
    NUMBER,
    NUMBER_WITH_COMMA,
)

# Letters of a datetime pattern that stand for a zone, and quoted text in a pattern.
_ZONE = "[VzOXxZ]"
_QUOTED = re.compile("'[^']*'")
_OPTIONAL_ZONE = re.compile(rf"\[[^\[\]]*{_ZONE}[^\[\]]*\]")


def apply_mapping(rows: DataFrame, mapping: Mapping, where: str) -> DataFrame:
    """Type raw rows: file, line, text, reason, publisher, time_us, attributes.

    `reason` is null exactly for the rows that are publications.  `where` names the mapping in
    the MappingError for an expression that Spark does not accept.
    """
    row_type = rows.schema["row"].dataType
    assert isinstance(row_type, StructType)
    # Each step is a projection of its own, so that no step computes the one before again.
    sources, values, problems = {}, {}, []
    for name, rule in mapping.rules.items():
        kind = row_type[str(rule.column)].dataType
        source = f"source of {name}"
        sources[source] = _present(F.col("row").getField(str(rule.column)), kind, mapping)
        values[name] = _typed(_named(source), kind, rule.type, mapping.decimal)
        problems.append(_problem(f"column '{rule.column}'", source, name, NOUNS[rule.type]))
        if rule.required:
            problems.append(F.when(_named(source).isNull(), f"column '{rule.column}' is missing"))
    typed = rows.withColumns(sources).withColumns(values)
    time, time_problem = _event_time(row_type, mapping, where, typed)
    typed = typed.withColumn("event_time", time)
    derived = {
        name: _expression(typed, rule.expression, f"{where}: derived.{name}").cast(
            SPARK_TYPES[rule.type]
        )
        for name, rule in mapping.derived.items()
    }
    problems.append(time_problem)
    # One problem hides the rest only where the row could not be taken apart at all.
    reason = F.coalesce(F.col("broken"), F.concat_ws("; ", *problems))
    return (typed.withColumns(derived) if derived else typed).select(
        "file",
        "line",
        "text",
        F.when(reason != "", reason).alias("reason"),
        F.concat_ws(mapping.separator, *(_named(name) for name in mapping.publisher)).alias(
            "publisher"
        ),
        F.unix_micros("event_time").alias("time_us"),
        F.struct(*(_named(name) for name in mapping.published)).alias("attributes"),
    )


def publications(parsed: DataFrame) -> DataFrame:
    """The rows that are publications: publisher, sequence, time_us, attributes."""
    order = Window.partitionBy("publisher").orderBy("time_us", "file", "line")
    return parsed.where("reason IS NULL").select(
        "publisher",
        (F.row_number().over(order) - 1).cast("bigint").alias("sequence"),
        "time_us",
        "attributes",
    )


def rejects(parsed: DataFrame) -> DataFrame:
    """The rows that are not: file, line, reason, text."""
    return parsed.where("reason IS NOT NULL").selectExpr("file", "line", "reason", cut_text())


def repeats(parsed: DataFrame) -> DataFrame:
    """Return publications that repeat an earlier row, of one publisher at one time, with that row.

    They are publications all the same.
    """
    alike = Window.partitionBy("publisher", "time_us", "attributes").orderBy("file", "line")
    return (
        parsed.where("reason IS NULL")
        .withColumn("nth", F.row_number().over(alike))
        .withColumn("first_file", F.first("file").over(alike))
        .withColumn("first_line", F.first("line").over(alike))
        .where("nth > 1")
        .selectExpr("file", "line", "first_file", "first_line", cut_text())
    )


def _named(name: str) -> Column:
    return F.col("`" + name.replace("`", "``") + "`")


def _present(source: Column, kind: DataType, mapping: Mapping) -> Column:
    if isinstance(kind, FloatType | DoubleType):
        return F.when(~F.isnan(source), source)
    if isinstance(kind, StringType):
        return F.when(~source.isin(["", *mapping.null_values]), source)
    return source


def _typed(source: Column, kind: DataType, wanted: AttributeType, decimal: str) -> Column:
    target = SPARK_TYPES[wanted]
    if isinstance(kind, StringType) and wanted != "string":
        text = F.trim(source)
        if wanted == "double" and decimal == ",":
            text = F.when(text.rlike(NUMBER_WITH_COMMA), F.translate(text, ",", "."))
        elif wanted == "double":
            text = F.when(text.rlike(NUMBER), text)
        number = text.try_cast(target)
        # A larger number would be infinite.
        return F.when(F.abs(number) < F.lit(math.inf), number) if wanted == "double" else number
    value = source.try_cast(target)
    if isinstance(kind, FractionalType) and wanted == "integer":
        # A double of 2^63 becomes the largest integer, which as a double is 2^63 again.
        return F.when((value == source) & (source < 2.0**63), value)
    return value


def _problem(place: str, source: str, value: str, noun: str) -> Column:
    text = _named(source).cast("string")
    said = F.concat(F.lit(f"{place}: '"), text, F.lit(f"' is not {noun}"))
    return F.when(text.isNotNull() & _named(value).isNull(), said)


def _expression(typed: DataFrame, text: str, where: str) -> Column:
    try:
        expression = F.expr(text)
        typed.select(expression)
    except (AnalysisException, ParseException) as error:
        reason = str(error).strip().partition("\n")[0]
        raise MappingError(f"{where}: {reason}") from None
    return expression


def _event_time(
    row_type: StructType, mapping: Mapping, where: str, typed: DataFrame
) -> tuple[Column, Column]:
    rule = mapping.time
    missing = F.col("event_time").isNull()
    if rule.expression is not None:
        time = _expression(typed, rule.expression, f"{where}: time.expression")
        return time, F.when(missing, "the event time cannot be computed")
    kind = row_type[str(rule.column)].dataType
    source = _present(F.col("row").getField(str(rule.column)), kind, mapping)
    _check_time(typed.sparkSession, rule, where)
    said = F.concat(
        F.lit(f"time column '{rule.column}': '"),
        source.cast("string"),
        F.lit(f"' is not a time of the form {' or '.join(rule.formats)}"),
    )
    return _parsed_time(source, kind, mapping, where), F.when(
        missing, F.coalesce(said, F.lit(f"time column '{rule.column}' is missing"))
    )


def _check_time(spark: SparkSession, rule: TimeRule, where: str) -> None:
    """MappingError for a pattern or a zone that Spark does not know; they would fail later."""
    probes = [("zone", rule.zone, "to_utc_timestamp(timestamp'2000-01-01 00:00:00', :given)")]
    probes += [
        ("format", format, "try_to_timestamp('', :given)")
        for format in rule.formats
        if format not in (*EPOCH_UNITS_PER_SECOND, ISO_8601)
    ]
    for key, given, probe in probes:
        try:
            spark.sql(f"SELECT {probe}", args={"given": given}).collect()
        except PySparkException as error:
            reason = str(error).strip().partition("\n")[0]
            raise MappingError(f"{where}: time.{key}: {given!r}: {reason}") from None


def _parsed_time(source: Column, kind: DataType, mapping: Mapping, where: str) -> Column:
    rule = mapping.time
    if isinstance(kind, TimestampType):
        return source
    if isinstance(kind, DateType | TimestampNTZType):
        return _in_zone(source.cast("timestamp"), F.lit(True), rule.zone)
    if not rule.formats:
        raise MappingError(f"{where}: time.format: column {rule.column!r} is text and needs one")
    # A double has the text of its shortest decimal, which a float does not have.
    source = source.cast("double") if isinstance(kind, FloatType) else source
    decimal = mapping.decimal if isinstance(kind, StringType) else "."
    return F.coalesce(
        *(_time_of_form(source, format, rule.zone, decimal) for format in rule.formats)
    )


def _time_of_form(source: Column, format: str, zone: str, decimal: str) -> Column:
    """The time that `source` says in this format, null where it says none."""
    if units := EPOCH_UNITS_PER_SECOND.get(format):
        return F.timestamp_micros(_since_1970(source, len(str(1_000_000 // units)) - 1, decimal))
    text = source.cast("string")
    if format == ISO_8601:
        # Java names the groups of a pattern otherwise.
        pattern = ISO_TIME.replace("(?P<", "(?<")
        # Spark knows no zone behind minutes.
        whole = F.regexp_replace(text, r"^(.{10}[T ]\d\d:\d\d)([Z+-])", "$1:00$2")
        time = F.when(text.rlike(pattern), whole.try_cast("timestamp"))
        local = ~text.rlike(r"(Z|[+-][0-9:]+)$") | (F.length(text) == len("2026-01-31"))
        return _in_zone(time, local, zone)
    return _in_zone(F.try_to_timestamp(text, F.lit(format)), _tells_no_zone(text, format), zone)


def _since_1970(source: Column, places: int, decimal: str) -> Column:
    """Return the whole microseconds of a number with its point so many places too far left."""
    text = F.btrim(source.cast("string"), F.lit(AROUND_EPOCH))
    form = NUMBER_WITH_COMMA if decimal == "," else NUMBER
    text = F.when(text.rlike(form), F.translate(text, ",", "."))
    exponent = F.regexp_extract(text, "[eE](.*)$", 1)
    moved = F.when(exponent == "", F.lit(places)).otherwise(
        F.try_add(exponent.try_cast("int"), F.lit(places))
    )
    number = F.concat(F.regexp_extract(text, "^[^eE]*", 0), F.lit("E"), moved.cast("string"))
    return F.floor(number.try_cast(f"decimal(38, {EPOCH_PLACES})")).try_cast("bigint")


def _in_zone(time: Column, local: Column, zone: str) -> Column:
    """`time`, read as UTC; where it is `local`, it does not tell its zone, and has this one."""
    return time if zone == "UTC" else F.when(local, F.to_utc_timestamp(time, zone)).otherwise(time)


def _tells_no_zone(text: Column, format: str) -> Column:
    """Return whether a text leaves out its zone, which the pattern `format` may demand or allow."""
    if not re.search(_ZONE, _QUOTED.sub("", format)):
        return F.lit(True)
    without = _OPTIONAL_ZONE.sub("", format)
    if re.search(_ZONE, _QUOTED.sub("", without)):
        return F.lit(False)
    return F.try_to_timestamp(text, F.lit(without)).isNotNull()
