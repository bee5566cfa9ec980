"""Fields of a row as a publication, or the reason that it is none.

A field is a text, or a value of a column's Arrow type; an empty text is a missing one.
"""

from __future__ import annotations

from collections.abc import Mapping as Names
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types

from shoal.pipeline.sources.declaration import Mapping
from shoal.pipeline.sources.small.values import as_text, time_reader, value_reader
from shoal.pipeline.sources.words import NOUNS, not_a_time, not_of_type


class Parsed(NamedTuple):
    """A row: where it stands, and its publication, or the reason that it is none."""

    file: str
    line: int
    text: str
    reason: str
    publisher: str = ""
    time_us: int = 0
    values: tuple[Any, ...] = ()


class SourceRow:
    """Makes a publication of a row's fields, or a reason.

    `places` says at which place in a row a column stands, `kinds` which Arrow type it has if it is
    no text. NeedsSparkError for a column that only Spark can convert.
    """

    def __init__(
        self,
        mapping: Mapping,
        places: Names[str, int],
        kinds: Names[str, pa.DataType] | None = None,
    ) -> None:
        self._mapping = mapping
        self._missing = {"", *mapping.null_values}
        of = kinds or {}
        self._rules = [
            (
                str(rule.column),
                places[str(rule.column)],
                value_reader(of.get(str(rule.column), pa.string()), rule.type, mapping.decimal),
                NOUNS[rule.type],
                rule.required,
            )
            for rule in mapping.rules.values()
        ]
        self._time = str(mapping.time.column)
        self._time_at = places[self._time]
        self._time_us = time_reader(
            of.get(self._time, pa.string()), mapping.time.formats, mapping.decimal
        )
        names = list(mapping.rules)
        self._publisher = [names.index(name) for name in mapping.publisher]
        self._published = [names.index(name) for name in mapping.published]

    def parse(self, file: str, line: int, text: str, fields: Sequence[Any]) -> Parsed:
        """Return the result of the row with these `fields`."""
        values: list[Any] = []
        problems: list[str] = []
        for column, place, read, noun, required in self._rules:
            said = fields[place]
            value = None
            if said not in self._missing:
                value = read(said)
                if value is None:
                    problems.append(not_of_type(column, as_text(said), noun))
            elif required:
                problems.append(f"column '{column}' is missing")
            values.append(value)
        said = fields[self._time_at]
        time_us = None
        if said in self._missing:
            problems.append(f"time column '{self._time}' is missing")
        else:
            time_us = self._time_us(said)
            if time_us is None:
                formats = self._mapping.time.formats
                problems.append(not_a_time(self._time, as_text(said), formats))
        if problems or time_us is None:
            return Parsed(file, line, text, "; ".join(problems))
        publisher = self._mapping.separator.join(as_text(values[at]) for at in self._publisher)
        chosen = tuple(values[at] for at in self._published)
        return Parsed(file, line, text, "", publisher, time_us, chosen)
