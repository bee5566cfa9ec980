"""A Python data source with as many publications as a file says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition


class Span(InputPartition):
    """Numbers from `first` up to, but not including, `end`."""

    def __init__(self, first: int, end: int) -> None:
        self.first = first
        self.end = end


class Counting(DataSource):
    """Publications 0, 1, 2, …, each with its last digit as attribute `a`; option `file`."""

    @classmethod
    def name(cls) -> str:
        return "counting"

    def schema(self) -> str:
        return "id bigint, a bigint"

    def streamReader(self, schema: object) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        return _Reader(Path(self.options["file"]))


class _Reader(DataSourceStreamReader):
    def __init__(self, file: Path) -> None:
        self._file = file

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"next": 0}

    def latestOffset(self, *given: object) -> dict[str, int]:  # noqa: N802
        return {"next": int(self._file.read_text())}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[Span]:
        middle = (start["next"] + end["next"]) // 2
        return [Span(start["next"], middle), Span(middle, end["next"])]

    def read(self, partition: Span) -> Iterator[tuple[int, int]]:
        return ((number, number % 10) for number in range(partition.first, partition.end))
