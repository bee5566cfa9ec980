"""Writes events at a live broker as Parquet tables, in the form of the pipeline's runs.

Each table is a folder, such as `deliveries.parquet`, to which every broker of the network may add
files.  Rows are gathered in memory and written, off the loop, as a file of their own when there
are enough of them or they are old enough; a file is there whole or not at all. Rows that a killed
broker had not written are lost: a trace is for learning, not for accounting. Arrow is imported when
there are rows to write.

| table | one row for |
| --- | --- |
| publications | each publication that a client of this broker published |
| deliveries | each delivery to a client of this broker, once per subscription |
| selections | each decision about where a publisher should be |
| migrations | each move of a publisher that is finished |
| failed_migrations | each move of a publisher that failed |
| refusals | each message or request that was refused |
| further ones | records of brokers of one system (`System.records`) |
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from shoal.broker.effects import Deliver
from shoal.broker.messages import Publish
from shoal.model import BrokerId
from shoal.overlays.trace_tables import RECORDS, TRACE_TABLES
from shoal.runtime.network_sections import TraceSection

# Tables that a live broker writes.
WRITTEN = ("publications", "deliveries", *RECORDS)
_TABLES: Mapping[type, str] = {row: name for name, row in RECORDS.items()}
_SUFFIX = ".parquet"

_log = logging.getLogger(__name__)


class TraceWriter:
    """Gathers one broker's rows and writes them into `section.folder`."""

    def __init__(self, section: TraceSection, broker: BrokerId, started_us: int) -> None:
        self._section = section
        self._broker = broker
        self._folder = Path(section.folder)
        self._prefix = f"{broker}-{started_us}-"
        self._rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in WRITTEN}
        self._numbers = itertools.count(1)
        self._writing: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Make the folders, and write from now on; OSError where that cannot be."""
        for name in WRITTEN:
            (self._folder / f"{name}{_SUFFIX}").mkdir(parents=True, exist_ok=True)
        self._schedule_tick()

    async def stop(self) -> None:
        """Write pending rows."""
        if self._timer is not None:
            self._timer.cancel()
        self._write_all()
        await asyncio.gather(*self._writing)

    # --- rows ---------------------------------------------------------------------------------

    def published(self, request: Publish) -> None:
        """A client of this broker published."""
        self._add(
            "publications",
            [
                (each.publisher, each.sequence, each.published_us, self._broker)
                for each in request.publications
            ],
        )

    def delivered(self, delivery: Deliver, now_us: int) -> None:
        """The broker delivered to a client."""
        publication = delivery.routed.publication
        before = publication.publisher, publication.sequence
        after = (
            *(delivery.client, self._broker),
            *(publication.published_us, now_us, delivery.hops),
        )
        self._add("deliveries", [(*before, each, *after) for each in delivery.subscriptions])

    def record(self, record: msgspec.Struct) -> None:
        """The broker's machine, or a client of it, wrote a record."""
        table = _TABLES.get(type(record))
        if table is not None:
            fields = msgspec.structs.asdict(record)
            self._add(table, [tuple(fields[name] for name in TRACE_TABLES[table])])

    def _add(self, table: str, rows: list[tuple[Any, ...]]) -> None:
        gathered = self._rows[table]
        gathered += rows
        if len(gathered) >= self._section.rows:
            self._write(table)

    # --- files --------------------------------------------------------------------------------

    def _schedule_tick(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._section.seconds, self._write_on)

    def _write_on(self) -> None:
        self._write_all()
        self._schedule_tick()

    def _write_all(self) -> None:
        for table in self._rows:
            self._write(table)

    def _write(self, table: str) -> None:
        rows, self._rows[table] = self._rows[table], []
        if rows:
            path = self._folder / f"{table}{_SUFFIX}" / f"{self._prefix}{next(self._numbers):06}"
            task = asyncio.create_task(self._write_file(table, rows, path))
            self._writing.add(task)
            task.add_done_callback(self._writing.discard)

    async def _write_file(self, table: str, rows: list[tuple[Any, ...]], path: Path) -> None:
        try:
            await asyncio.to_thread(self._write_now, table, rows, path)
        except OSError as error:  # a full disk must not stop a broker
            _log.error("trace not written", extra={"path": str(path), "problem": str(error)})

    def _write_now(self, table: str, rows: list[tuple[Any, ...]], path: Path) -> None:
        from shoal.runtime.operations.trace_files import write_rows

        # Spark ignores files whose names begin with a dot.
        partial = path.with_name(f".{path.name}.partial")
        write_rows(partial, TRACE_TABLES[table], rows)
        partial.rename(path.with_name(path.name + _SUFFIX))
        ours = re.compile(rf"{re.escape(self._broker)}-\d+-\d+{re.escape(_SUFFIX)}")
        files = sorted(each for each in path.parent.iterdir() if ours.fullmatch(each.name))
        for oldest in files[: -self._section.keep]:
            oldest.unlink(missing_ok=True)
