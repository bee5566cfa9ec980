"""A broker's staging area: rows on its disk, their lists, and the tasks that publish them.

Rows are published in slices of the loop, within a window; the next rows wait while the broker takes
no publications, and for as long as earlier ones are not settled.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from shoal.ledger import Ledger, LedgerMeasure
from shoal.log.errors import LogError
from shoal.log.offsets import write_whole
from shoal.log.records import LogRecord, read_head, read_records
from shoal.log.staging.attempts import (
    ATTEMPT_BYTES,
    MOST_ATTEMPTS,
    AttemptId,
    StagedAttempts,
)
from shoal.log.staging.parts import Attempt, BatchLists, DecidedBatch, PartState
from shoal.log.staging.staged_rows import StagedRow, decode_rows
from shoal.mqtt.access import Permissions
from shoal.mqtt.broker_topics import is_brokers_own
from shoal.mqtt.codec.properties import NO_PROPERTIES, Properties
from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.row_publisher import MOST_OPEN, PREFIX, RowPublisher
from shoal.runtime.front_ends.mqtt_front_end import MqttFrontEnd
from shoal.runtime.storage.log_writer import LogWriter

FOLDER = "staged"
LISTS = "lists"
# Rows that are published in one slice of the loop, and before their number is noted on disk.
SLICE_ROWS = 100
NOTED_ROWS = MOST_OPEN // 2
# Interval of looks at rows that are not settled, and at what is over.
POLL_S = 0.01
TIDY_S = 60.0
NEEDS_STORAGE = (
    "exactly once needs the broker's journal ([storage] in the network file); say "
    "delivery = at_least_once"
)

_log = logging.getLogger(__name__)


class RowRefusedError(ValueError):
    """A row cannot be published; the text names it and the reason."""


class StagingArea:
    """One broker's; LogError where its folder cannot be used."""

    def __init__(self, front_end: MqttFrontEnd, log: LogWriter, most_bytes: int) -> None:
        self._front_end = front_end
        self._clients = front_end.clients
        self._clock = front_end.node.clock
        self._log = log
        self._folder = log.log.folder / FOLDER
        self.attempts = StagedAttempts(self._folder, most_bytes, self._clock.now_us())
        self.lists = _read_lists(self.broker, self._folder)
        self._saving = asyncio.Lock()
        self._publishing: dict[str, asyncio.Task[None]] = {}
        self._problems: dict[str, str] = {}
        self._tidying: asyncio.TimerHandle | None = None

    @property
    def broker(self) -> str:
        return self._front_end.node.id

    @property
    def status(self) -> dict[str, Any]:
        """Bytes of staged rows, and a row for each query."""
        return {"bytes": self.attempts.bytes, "queries": self.rows()}

    def rows(self) -> list[dict[str, Any]]:
        """Each query's last batch here, and rows that wait for a list."""
        waiting: dict[str, int] = {}
        for id, size in self.attempts.sizes.items():
            part = self.lists.part(id.query)
            if part is None or id not in part.ids():
                waiting[id.query] = waiting.get(id.query, 0) + size.rows
        parts = {part.query: part for part in self.lists.parts()}
        return [
            {
                "query": query,
                "user": part.user if part is not None else "",
                "batch": part.batch if part is not None else None,
                "rows": part.rows if part is not None else 0,
                "published": part.done if part is not None else 0,
                "waiting": waiting.get(query, 0),
                "problem": self._problems.get(query, ""),
            }
            for query in sorted(parts.keys() | waiting.keys())
            for part in [parts.get(query)]
        ]

    def register(self, ledger: Ledger) -> None:
        """Enter the attempts in the memory ledger; their rows are on disk."""

        def attempts() -> LedgerMeasure:
            count = len(self.attempts.sizes)
            return LedgerMeasure(count, count * ATTEMPT_BYTES, MOST_ATTEMPTS)

        ledger.register("attempts of Spark's tasks", attempts)

    def start(self) -> None:
        """Go on with the lists that a kill has interrupted."""
        unfinished = {part.query for part in self.lists.parts() if not part.is_published}
        for client_id in self._clients.sessions.client_ids():
            name = client_id.removeprefix(PREFIX)
            if name != client_id and name not in unfinished:
                self._publisher(name, "").end(self._clock.now_us())
        for part in self.lists.parts():
            self._publish_decided(part)
        self._tidy()

    async def stop(self) -> None:
        """Stop; the next start goes on."""
        if self._tidying is not None:
            self._tidying.cancel()
        tasks = list(self._publishing.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- requests -----------------------------------------------------------------------------

    async def stage(
        self,
        id: AttemptId,
        user: str,
        permissions: Permissions,
        at: int,
        data: bytes,
        *,
        is_last: bool,
    ) -> int:
        """Add rows to an attempt; returns how many it has.

        RowRefusedError for a row that this user may not publish, ValueError for rows that cannot be
        read; LogError, OSError where they cannot be kept.
        """
        if self._clients.journal is None:
            raise LogError(NEEDS_STORAGE)
        self.lists.check_user(id.query, user)
        rows = decode_rows(data)
        for number, row in enumerate(rows, at):
            if refusal := self._refusal(row, permissions):
                raise RowRefusedError(f"row {number}, for topic {row.topic!r}: {refusal}")
            if not number % SLICE_ROWS:
                await asyncio.sleep(0)
        count = self.attempts.count(id)
        if rows:
            count = self.attempts.append(id, at, len(rows), data, self._clock.now_us())
        if is_last and count:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, self.attempts.sync, id)
        return count

    async def offer(
        self, query: str, user: str, batch: int, names: Sequence[str]
    ) -> DecidedBatch | None:
        """Keep attempts beyond their age; returns the list of this batch or a later one, if any."""
        present = [each for each in names if self.attempts.count(AttemptId(query, batch, each))]
        self.lists.offer(query, user, batch, present, self._clock.now_us())
        await self._save(query)
        return self.lists.decided(query, batch)

    async def decide(
        self, query: str, user: str, batch: int, attempts: Sequence[Attempt]
    ) -> DecidedBatch:
        """Keep a list as the query's home, unless there is one; returns the one that stands."""
        found = self.lists.decide(query, user, batch, attempts, self._clock.now_us())
        await self._save(query)
        return found

    async def publish(
        self, query: str, user: str, batch: int, attempts: Sequence[Attempt], wait_s: float
    ) -> tuple[int, int]:
        """Publish this broker's part of a list; its rows that are published by then, and all."""
        now_us, log = self._clock.now_us(), self._log.log
        part = self.lists.begin(query, user, batch, attempts, self.attempts.sizes, log.next, now_us)
        if part.batch > batch:
            return 0, 0
        await self._save(query)
        self._publish_decided(part)
        task = self._publishing.get(query)
        if task is not None:
            await asyncio.wait([task], timeout=wait_s)
        if problem := self._problems.get(query):
            raise LogError(problem)
        found = self.lists.part(query)
        assert found is not None
        return found.done, found.rows

    async def forget(self, query: str, user: str) -> bool:
        """Drop a query with its rows; whether there was any."""
        self.lists.check_user(query, user)
        ids = [id for id in self.attempts.sizes if id.query == query]
        known = self.lists.part(query) is not None or self.lists.decided(query, 0) is not None
        task = self._publishing.pop(query, None)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        if f"{PREFIX}{query}" in self._clients.sessions:
            self._publisher(query, user).end(self._clock.now_us())
        self.lists.forget(query)
        self._problems.pop(query, None)
        for id in ids:
            self.attempts.remove(id)
        await self._save(query)
        return known or bool(ids)

    def _refusal(self, row: StagedRow, permissions: Permissions) -> str:
        """Why a row cannot be published; empty if it can."""
        limits, topic = self._clients.limits, row.topic
        if not topic or any(each in topic for each in "+#\0"):
            return "no topic to publish to"
        if is_brokers_own(topic) or not permissions.may_publish(topic):
            return "the rules do not allow this user to publish to it"
        if topic.count("/") >= limits.maximum_topic_levels:
            return f"more than {limits.maximum_topic_levels} levels"
        if len(topic.encode()) > 65_535 or row.qos not in (0, 1, 2):
            return "no topic or QoS of MQTT"
        if len(topic) + len(row.payload) > limits.maximum_packet_size - 1_024:
            return f"larger than a packet may be ({limits.maximum_packet_size:,} bytes)"
        return ""

    # --- publishing ---------------------------------------------------------------------------

    def _publisher(self, query: str, user: str) -> RowPublisher:
        return RowPublisher(self._clients, query, user, self._clock.now_us())

    def _publish_decided(self, part: PartState) -> None:
        if part.is_decided and not part.is_published and part.query not in self._publishing:
            self._problems.pop(part.query, None)
            task = asyncio.create_task(self._publish_part(part))
            self._publishing[part.query] = task
            task.add_done_callback(lambda done: self._ended(part.query, done))

    def _ended(self, query: str, task: asyncio.Task[None]) -> None:
        if self._publishing.get(query) is task:
            del self._publishing[query]
        if not task.cancelled() and (error := task.exception()) is not None:
            self._problems[query] = f"staged rows of query {query} cannot be published: {error}"
            _log.error("staged rows cannot be published", extra={"problem": str(error)})

    async def _publish_part(self, part: PartState) -> None:
        publisher, done = self._publisher(part.query, part.user), part.done
        publisher.release_but(range(done, part.rows))
        logged = done + await self._logged_since(part, publisher)
        rows = self._rows(part)
        while done < part.rows:
            end = min(part.rows, done + NOTED_ROWS)
            for first in range(done, end, SLICE_ROWS):
                await self._until(self._takes_publications)
                for row in range(first, min(end, first + SLICE_ROWS)):
                    self._publish_row(publisher, row, next(rows), is_logged=row < logged)
                self._front_end.carry_out(self._clients.take_effects())
                self._front_end.node.schedule_flush()
                await asyncio.sleep(0)
            for row in range(done, end):
                await self._until(lambda row=row: publisher.is_settled(row))  # type: ignore[misc]
            await self._flushed()
            done = end
            self.lists.advance(part.query, done, self._log.log.next, self._clock.now_us())
            await self._save(part.query)
            publisher.release_but(range(done, part.rows))
        publisher.end(self._clock.now_us())
        self._front_end.node.schedule_flush()
        for id in part.ids():
            self.attempts.remove(id)

    def _publish_row(
        self, publisher: RowPublisher, number: int, row: StagedRow, *, is_logged: bool
    ) -> None:
        """Publish and log a row, unless the run before a kill has done either."""
        now_us, clients = self._clock.now_us(), self._clients
        properties = NO_PROPERTIES
        if row.content_type is not None or row.user_properties:
            properties = Properties(
                content_type=row.content_type, user_properties=row.user_properties
            )
        message = PublishedMessage(
            *(row.topic, row.payload, publisher.client_id, now_us, row.qos, row.retain),
            properties=properties,
        )
        note = clients.at_publication
        if publisher.has(number):
            if not is_logged and note is not None:
                note(message)
            return
        if is_logged:
            clients.at_publication = None
        try:
            publisher.publish(number, message, now_us)
        finally:
            clients.at_publication = note

    def _rows(self, part: PartState) -> Iterator[StagedRow]:
        """The rows of a part that are not done, read as they are used."""
        passed = part.done
        iterators = []
        for each, id in zip(part.attempts, part.ids(), strict=True):
            if passed < each.rows:
                iterators.append(self.attempts.rows(id, passed))
            passed = max(0, passed - each.rows)
        return chain.from_iterable(iterators)

    async def _logged_since(self, part: PartState, publisher: RowPublisher) -> int:
        """How many rows of a part the log has behind those that are done.

        The journal and the log are two files: a kill between them leaves rows in one of them.
        """
        log, found = self._log.log, 0
        if part.logged_from >= log.next:
            return 0
        for block in log.blocks(max(part.logged_from, log.first)):
            head = read_head(block)
            for offset, record in enumerate(read_records(block), head.first):
                if offset >= part.logged_from and isinstance(record, LogRecord):
                    found += record.publisher == publisher.client_id
            await asyncio.sleep(0)
        return found

    def _takes_publications(self) -> bool:
        clients = self._clients
        return not (
            clients.is_held
            or clients.spreading.is_on
            or clients.is_sharing
            or clients.reason_to_refuse(self._clock.now_us())
        )

    async def _flushed(self) -> None:
        """Return when all that has happened so far is in the journal and in the log."""
        node, before = self._front_end.node, self._front_end.recorded
        while self._front_end.recorded == before or self._is_failing:
            node.schedule_flush()
            await asyncio.sleep(0 if not self._is_failing else POLL_S)

    @property
    def _is_failing(self) -> bool:
        journal = self._clients.journal
        return journal is not None and journal.is_failing

    @staticmethod
    async def _until(is_so: Callable[[], bool]) -> None:
        while not is_so():
            await asyncio.sleep(POLL_S)

    # --- the folder ---------------------------------------------------------------------------

    async def _save(self, query: str) -> None:
        """Put a query's lists on the disk as they are; OSError where it has no room."""
        path, loop = self._folder / LISTS / f"{query}.json", asyncio.get_running_loop()
        async with self._saving:
            path.parent.mkdir(parents=True, exist_ok=True)
            if data := self.lists.encode(query):
                await loop.run_in_executor(None, write_whole, path, data)
            else:
                path.unlink(missing_ok=True)

    def _tidy(self) -> None:
        loop, now_us = asyncio.get_running_loop(), self._clock.now_us()
        self._tidying = loop.call_later(TIDY_S, self._tidy)
        over = [
            id for id, size in self.attempts.sizes.items() if self.lists.is_over(id, size, now_us)
        ]
        for id in over:
            try:
                self.attempts.remove(id)
            except OSError as error:
                _log.error("staged rows remain", extra={"problem": str(error)})
        for query in self.lists.old(now_us):
            self.lists.forget(query)
            (self._folder / LISTS / f"{query}.json").unlink(missing_ok=True)


def _read_lists(broker: str, folder: Path) -> BatchLists:
    place = folder / LISTS
    files = place.glob("*.json")
    try:
        return BatchLists(broker, (each.read_bytes() for each in files))
    except ValueError as error:
        raise LogError(f"{place}: no lists of batches: {error}; move it away") from None
