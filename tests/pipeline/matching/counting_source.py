"""A Python data source with as many publications as a file says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    InputPartition,
    SimpleDataSourceStreamReader,
)

# Rows that a bounded reader gives at a time.
AT_A_TIME = 3


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


class Bounded(Counting):
    """The same, a few at a time, by a reader that goes on from where a batch ended."""

    @classmethod
    def name(cls) -> str:
        return "bounded"

    def streamReader(self, schema: object) -> DataSourceStreamReader:  # noqa: N802
        return _BoundedReader(Path(self.options["file"]))


class _BoundedReader(_Reader):
    def latestOffset(self, *given: object) -> dict[str, int]:  # noqa: N802
        start, _ = given
        assert isinstance(start, dict)
        return {"next": min(int(self._file.read_text()), start["next"] + AT_A_TIME)}


class Simple(Counting):
    """The same, a few at a time, by a simple reader."""

    @classmethod
    def name(cls) -> str:
        return "simple"

    def streamReader(self, schema: object) -> DataSourceStreamReader:  # noqa: N802
        return DataSource.streamReader(self, schema)  # type: ignore[arg-type]

    def simpleStreamReader(self, schema: object) -> SimpleDataSourceStreamReader:  # noqa: N802
        return _SimpleReader(Path(self.options["file"]))


class _SimpleReader(SimpleDataSourceStreamReader):
    def __init__(self, file: Path) -> None:
        self._file = file

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"next": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[int, int]], dict[str, int]]:
        end = {"next": min(int(self._file.read_text()), start["next"] + AT_A_TIME)}
        return self.readBetweenOffsets(start, end), end

    def readBetweenOffsets(  # noqa: N802
        self, start: dict[str, int], end: dict[str, int]
    ) -> Iterator[tuple[int, int]]:
        return ((number, number % 10) for number in range(start["next"], end["next"]))
