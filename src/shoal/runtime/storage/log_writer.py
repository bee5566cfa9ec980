"""Writes a broker's log before acknowledgements go out, with one write for each flush.

When the disk takes no record, `full` decides: "refuse" refuses publications above QoS 0 and closes
the connections that await an answer, as the journal does; "skip" acknowledges them. Either way the
publications that the log lacks are counted, and a gap in the log says so once it is written again.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Callable
from itertools import count
from typing import Any, Literal

import msgspec

from shoal.ledger import Ledger, LedgerMeasure
from shoal.log.publication_log import PublicationLog
from shoal.log.records import Entry, LogGap, LogRecord
from shoal.log.selections import ALL_TOPICS, RecordSelection
from shoal.mqtt.broker_clients import BrokerClients
from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.replaying.past_messages import record_of
from shoal.runtime.node import Node
from shoal.runtime.storage.journal_files import Sync

Full = Literal["refuse", "skip"]
# Interval of syncs, of retention, and of retries after a failure.
TICK_S = 1.0
REFUSAL = "the log cannot be written"

_log = logging.getLogger(__name__)


class LogPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The records of a log, their safety, and the rule for a disk that takes none.

    Publications on `topics`, at this QoS or above; `sync` as of the journal.
    """

    topics: tuple[str, ...] = (ALL_TOPICS,)
    qos: int = 0
    sync: Sync = "second"
    full: Full = "refuse"


def keeping(policy: LogPolicy) -> Callable[[PublishedMessage], bool] | None:
    """Return what tells whether a log keeps a publication; None if it keeps all."""
    if ALL_TOPICS in policy.topics and not policy.qos:
        return None
    selection = RecordSelection(policy.topics)
    return lambda message: message.qos >= policy.qos and selection.has_topic(message.topic)


class LogWriter:
    """The log of one broker, on its loop."""

    def __init__(
        self, node: Node, clients: BrokerClients, log: PublicationLog, policy: LogPolicy
    ) -> None:
        self.log = log
        self._node = node
        self._clients = clients
        self._policy = policy
        self._keeps = keeping(policy)
        # Numbers of publications that travel in no network.
        self._numbers = count(node.clock.now_us())
        self._gathered: list[Entry] = []
        self._gap: LogGap | None = None
        self._news = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._syncing: asyncio.Future[None] | None = None
        self._is_unsynced = self._cannot_retain = False
        for problem in log.warnings:
            _log.warning("the log has lost its end", extra={"problem": problem})
        if clients.front_end is not None:
            for message in clients.front_end.retransmitted_above(log.last_number):
                self.note(message)
        clients.at_publication = self.note

    def register(self, ledger: Ledger) -> None:
        """Enter the index in the memory ledger."""
        ledger.register(
            "index of the log", lambda: LedgerMeasure(*self.log.index_size, self.log.index_size[0])
        )

    @property
    def status(self) -> dict[str, Any]:
        """Bounds, bytes, missing publications, and how far behind readers are."""
        log = self.log
        return {
            "first": log.first,
            "next": log.next,
            "first_us": log.first_us,
            "last_us": log.last_us,
            "bytes": log.size,
            "free_bytes": shutil.disk_usage(log.folder).free,
            "is_failing": self._gap is not None,
            "missing": 0 if self._gap is None else self._gap.missing,
            "readers": log.readers.rows(log.next),
        }

    def start(self) -> None:
        """Start the periodic tasks."""
        self._timer = self._node.loop.call_later(TICK_S, self._tick_log)

    async def stop(self) -> None:
        """Write the rest, and release the folder."""
        if self._timer is not None:
            self._timer.cancel()
        self._clients.at_publication = None
        self.write()
        if self._syncing is not None:
            await asyncio.wait([self._syncing])
        try:
            await self._node.loop.run_in_executor(None, self.log.close)
        except OSError as error:
            _log.error("the log has no orderly end", extra={"problem": str(error)})

    def note(self, message: PublishedMessage) -> None:
        """A publication of a client has entered."""
        if self._keeps is not None and not self._keeps(message):
            return
        if self._gap is not None:
            self._miss(1, message.published_us)
            return
        number = next(self._numbers) if message.key is None else message.key[1]
        self._gathered.append(record_of(message, number))

    def write(self) -> bool:
        """Write gathered records; return whether acknowledgements may go out."""
        if not self._gathered:
            return True
        records, self._gathered = self._gathered, []
        before = self.log.next
        try:
            self.log.write(records)
            if self._policy.sync == "always":
                self.log.sync_job()()
        except OSError as error:
            missing = records[self.log.next - before :]
            self._fail(error, missing)
            # QoS 0 has no acknowledgement.
            is_owed = any(isinstance(each, LogRecord) and each.qos for each in missing)
            return self._policy.full == "skip" or not is_owed
        self._is_unsynced = True
        self._tell_readers()
        return True

    async def news(self, within_s: float) -> None:
        """Return when records were written, or after this time."""
        try:
            async with asyncio.timeout(within_s):
                await self._news.wait()
        except TimeoutError:
            pass

    def reached_us(self) -> int:
        """A time before which no later record will be."""
        now_us = self._node.clock.now_us()
        reached_us = self._gathered[0].time_us if self._gathered else now_us
        self.log.reach(reached_us)
        return max(reached_us, self.log.last_us)

    def _tell_readers(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    # --- when it cannot be written ------------------------------------------------------------

    def _fail(self, error: OSError, missing: list[Entry]) -> None:
        policy = self._policy
        _log.error(
            f"{REFUSAL}; "
            + ("publications above QoS 0 are refused" if policy.full == "refuse" else "it skips")
            + " until it can",
            extra={"folder": str(self.log.folder), "problem": error.strerror},
        )
        now_us = self._node.clock.now_us()
        from_us = missing[0].time_us if missing else now_us
        self._gap = LogGap(now_us, from_us, now_us, 0, error.strerror or str(error))
        self._miss(len(missing), now_us)
        if policy.full == "refuse":
            self._clients.refuse(REFUSAL, "log")

    def _miss(self, number: int, now_us: int) -> None:
        gap = self._gap
        assert gap is not None
        missing = (gap.missing or 0) + number
        self._gap = LogGap(now_us, gap.from_us, now_us, missing, gap.reason)

    def _try_again(self) -> None:
        assert self._gap is not None
        try:
            self.log.write([self._gap])
        except OSError:
            return
        _log.warning("the log is written again", extra={"missing": self._gap.missing})
        self._gap = None
        self._clients.refuse("", "log")
        self._tell_readers()

    # --- each second --------------------------------------------------------------------------

    def _tick_log(self) -> None:
        self._timer = self._node.loop.call_later(TICK_S, self._tick_log)
        self._retain()
        if self._gap is not None:
            self._try_again()
        elif self._policy.sync == "second" and self._is_unsynced and self._syncing is None:
            self._is_unsynced = False
            self._syncing = self._node.loop.run_in_executor(None, self.log.sync_job())
            self._syncing.add_done_callback(self._synced)

    def _retain(self) -> None:
        try:
            self.log.retain(self._node.clock.now_us())
        except OSError as error:
            if not self._cannot_retain:
                _log.error("old records remain in the log", extra={"problem": str(error)})
            self._cannot_retain = True
        else:
            self._cannot_retain = False

    def _synced(self, syncing: asyncio.Future[None]) -> None:
        self._syncing = None
        if (error := syncing.exception()) is not None:
            _log.error("the disk does not take the log", extra={"problem": str(error)})
