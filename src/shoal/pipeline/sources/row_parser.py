"""Makes publications, or rejects with reasons, of raw rows: the one definition of a row's meaning.

In Parquet, NaN is a missing value, as pandas writes it; a whole number may be stored as a double.
Text is a number only as digits, sign, point and exponent: `NaN`, `inf` or Java's `1d` are refused,
and numbers too large for a double.
"""

from __future__ import annotations

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.compute as pc  # type: ignore[import-untyped]  # as above

from shoal.pipeline.sources.declaration import Mapping, MappingError, TimeRule
from shoal.pipeline.sources.raw_rows import RawRows
from shoal.pipeline.sources.times import time_forms, time_zone, times_of
from shoal.pipeline.sources.values import ARROW_TYPES, as_texts, present, typed
from shoal.pipeline.sources.words import NOUNS

_NO_TEXT = pa.scalar(None, pa.string())


def problem(said: pa.Array, place: str, noun: str) -> pa.Array:
    """The problem of each text that is not null: `column 'wind': 'calm' is not a number`."""
    return pc.binary_join_element_wise(f"{place}: '", said, f"' is not {noun}", "")


def time_noun(rule: TimeRule) -> str:
    """The form of a time, in the words of a reason."""
    return f"a time of the form {' or '.join(rule.formats)}"


def bounds_noun(rule: TimeRule) -> str:
    """The allowed times, in the words of a reason; empty if all are."""
    from_on = f"from {rule.earliest}" if rule.earliest is not None else ""
    until = f"before {rule.before}" if rule.before is not None else ""
    both = " and ".join(filter(None, (from_on, until)))
    return f"a time {both}{'' if until else ' on'}" if both else ""


def needs_format(rule: TimeRule, where: str) -> MappingError:
    """The error for times of text without a format."""
    return MappingError(f"{where}: time.format: column {rule.column!r} is text and needs one")


class RowParser:
    """Parses rows by a mapping, which `where` names in a MappingError.

    A batch has the columns of `schema`: file, line, text; reason, null for a publication;
    publisher, time_us; and `columns`, a struct of the mapping's columns. If `needs_spark_time`,
    Spark has yet to judge the time: `time_text` is what the row says, and `time_form` the place of
    the format that gave `time_us`.
    """

    def __init__(self, mapping: Mapping, where: str) -> None:
        self._mapping = mapping
        self._forms = time_forms(mapping.time.formats, mapping.decimal)
        # Numbers of Parquet have a point, whatever texts have.
        self._number_forms = time_forms(mapping.time.formats, ".")
        self._where = where
        try:
            time_zone(mapping.time.zone)
        except ValueError as error:
            raise MappingError(f"{where}: time.zone: {error}") from None
        self.needs_spark_time = mapping.time.expression is not None or None in self._forms
        attributes = [(name, ARROW_TYPES[rule.type]) for name, rule in mapping.rules.items()]
        self.schema = pa.schema(
            {
                **dict.fromkeys(("file", "line", "text", "broken", "reason"), pa.string()),
                "line": pa.int64(),
                "publisher": pa.string(),
                "time_us": pa.int64(),
                "time_text": pa.string(),
                "time_form": pa.int32(),
                "columns": pa.struct(attributes),
            }
        )

    def parse(self, raw: RawRows, file: str) -> pa.RecordBatch:
        """The result of some rows."""
        mapping, count = self._mapping, len(raw.lines)
        problems: list[pa.Array] = []
        values: dict[str, pa.Array] = {}
        for name, rule in mapping.rules.items():
            source = present(raw.columns[str(rule.column)], mapping.null_values)
            values[name] = typed(source, rule.type, mapping.decimal)
            place = f"column '{rule.column}'"
            self._add_misfits(problems, source, values[name], place, NOUNS[rule.type])
            if rule.required:
                _add(problems, source.is_null(), f"{place} is missing")
        times = self._times(raw, problems)
        parts = [as_texts(values[name]).fill_null("") for name in mapping.publisher]
        # One problem hides the rest only where the row could not be taken apart at all.
        reason = pc.coalesce(raw.broken, _joined(problems)) if problems else raw.broken
        columns = pa.StructArray.from_arrays(list(values.values()), list(values))
        publisher = pc.binary_join_element_wise(*parts, mapping.separator)
        found = [pa.repeat(pa.scalar(file), count), raw.lines, raw.texts, raw.broken, reason]
        return pa.RecordBatch.from_arrays([*found, publisher, *times, columns], schema=self.schema)

    def _times(self, raw: RawRows, problems: list[pa.Array]) -> tuple[pa.Array, ...]:
        rule, count = self._mapping.time, len(raw.lines)
        nothing = pa.nulls(count, pa.string())
        if rule.column is None:
            return pa.nulls(count, pa.int64()), nothing, pa.nulls(count, pa.int32())
        source = present(raw.columns[rule.column], self._mapping.null_values)
        kind = source.type
        is_text = pa.types.is_string(kind)
        if not rule.formats and not pa.types.is_temporal(kind) and not pa.types.is_null(kind):
            raise needs_format(rule, self._where)
        forms = self._forms if is_text else self._number_forms
        times, which = times_of(source, forms, rule.zone)
        if self.needs_spark_time:
            return times, as_texts(source), which
        place = f"time column '{rule.column}'"
        self._add_misfits(problems, source, times, place, time_noun(rule))
        _add(problems, source.is_null(), f"{place} is missing")
        if bounds := bounds_noun(rule):
            timed = pc.if_else(times.is_valid(), source, pa.scalar(None, kind))
            self._add_misfits(problems, timed, self._within(times), place, bounds)
        return times, nothing, which

    def _within(self, times: pa.Array) -> pa.Array:
        """The times, null where the declaration does not allow them."""
        rule = self._mapping.time
        kept = times
        if rule.earliest_us is not None:
            kept = pc.if_else(pc.less(times, rule.earliest_us), None, kept)
        if rule.before_us is not None:
            kept = pc.if_else(pc.greater_equal(times, rule.before_us), None, kept)
        return kept

    @staticmethod
    def _add_misfits(
        problems: list[pa.Array], source: pa.Array, value: pa.Array, place: str, noun: str
    ) -> None:
        """Add the problem of each value that could not be converted."""
        misfits = pc.and_(source.is_valid(), value.is_null())
        if pc.any(misfits).as_py():
            said = pc.if_else(misfits, source, pa.scalar(None, source.type))
            problems.append(problem(as_texts(said), place, noun))


def _joined(problems: list[pa.Array]) -> pa.Array:
    """The problems of each row, or null."""
    # Arrow leaves out rows in which all are null if it is to skip nulls.
    ended = [pc.binary_join_element_wise(each, "; ", "").fill_null("") for each in problems]
    joined = pc.binary_join_element_wise(*ended, "")
    return pc.if_else(pc.equal(joined, ""), _NO_TEXT, pc.replace_substring_regex(joined, "; $", ""))


def _add(problems: list[pa.Array], where: pa.Array, text: str) -> None:
    if pc.any(where).as_py():
        problems.append(pc.if_else(where, text, _NO_TEXT))
