"""Writes durable state before acknowledgements go out, with one write for each flush.

The journal's files grow, so from time to time all state is restated in a new one, a bit with each
write; memory is the truth, and the broker waits for nothing. State that cannot be written (a full
disk) is not acknowledged: the connections that await an answer are closed, and then publications
above QoS 0 and lasting subscriptions are refused, until writing works again and all state is
restated. The old files may fill the disk, so there is room in reserve for that.

| `sync` | a crash of the broker loses | a power cut loses |
| --- | --- | --- |
| never | nothing | data that the system had not written yet, often half a minute |
| second | nothing | about a second |
| always | nothing | nothing; every write waits for the disk |
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Iterator, Mapping
from typing import Any

from shoal.model import BrokerId
from shoal.mqtt.broker_clients import BrokerClients
from shoal.mqtt.memory.journal_records import read_records
from shoal.mqtt.restoring import Remembered, restore
from shoal.runtime.node import Node
from shoal.runtime.storage.journal_files import JournalError, JournalFiles, Sync

# Below this, all is never said again; above, when there is twice as much as it came to last.
SMALL_BYTES = 32 * 2**20
# Kept free for a restatement on a full disk: live state is mostly far smaller.
RESERVE_BYTES = 32 * 2**20
# Every start begins a file.
MAX_FILES = 8
# Bytes restated with one write: about a millisecond.
STEP_BYTES = 64 * 1_024
# Interval of syncs, and of retries after a failure.
TICK_S = 1.0

_log = logging.getLogger(__name__)


class JournalWriter:
    """The journal of one broker's MQTT clients, on its loop."""

    def __init__(self, node: Node, clients: BrokerClients, files: JournalFiles, sync: Sync) -> None:
        """Reads the files and restores the clients' sessions; JournalError if that cannot be."""
        self._node = node
        self._clients = clients
        self._files = files
        self._sync = sync
        self._restating: Iterator[int] | None = None
        self._dropping: asyncio.Future[None] | None = None
        self._syncing: asyncio.Future[None] | None = None
        self._is_unsynced = False
        self._holding: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_stopped = False
        remembered = Remembered()
        try:
            files.read(lambda batch: remembered.apply(read_records(batch)))
        except JournalError:
            files.close()
            raise
        for problem in files.warnings:
            _log.warning("the journal has a gap", extra={"problem": problem})
        for problem in restore(clients, remembered, node.clock.now_us()):
            _log.error("not restored", extra={"problem": problem})
        assert clients.journal is not None
        self._journal = clients.journal
        # the files' length at the end of the last restatement
        self._restated_bytes = files.size

    @property
    def status(self) -> dict[str, Any]:
        return {
            "bytes": self._files.size,
            "files": self._files.count,
            "free_bytes": shutil.disk_usage(self._files.folder).free,
            "is_failing": self._journal.is_failing,
            "is_restating": self._restating is not None,
        }

    @property
    def heard(self) -> Mapping[str, int]:
        """The last publication of each stream that was delivered here."""
        return self._journal.heard

    @property
    def neighbours(self) -> tuple[BrokerId, ...]:
        """The brokers that this one was ever linked to."""
        return tuple(self._journal.neighbours)

    def start(self) -> None:
        """Start the periodic tasks."""
        self._hold_reserve()
        self._timer = self._node.loop.call_later(TICK_S, self._tick_journal)

    async def stop(self) -> None:
        """Write the rest, sync it, and release the folder."""
        if self._timer is not None:
            self._timer.cancel()
        self.write()
        self._is_stopped = True
        for task in (self._dropping, self._syncing, self._holding):
            if task is not None:
                await asyncio.wait([task])
        if self._sync != "never":
            await self._node.loop.run_in_executor(None, self._files.sync)
        self._files.close()

    def write(self) -> bool:
        """Write changes, before any other output; return whether acknowledgements may go out."""
        if self._is_stopped or (self._journal.is_failing and self._restating is None):
            self._journal.take()
            return True
        try:
            if self._is_long and self._is_at_rest:
                self._begin_again()
            is_through = self._restating is not None and self._restate_some(self._restating)
            data = self._journal.take()
            if data:
                self._files.append(data)
                self._is_unsynced = True
            if is_through:
                self._files.mark()
            if self._sync == "always" and (data or is_through):
                self._files.sync()
        except OSError as error:
            self._fail(error)
            return False
        if is_through:
            self._restated()
        return True

    # --- saying all again ---------------------------------------------------------------------

    @property
    def _is_long(self) -> bool:
        files = self._files
        limit = max(SMALL_BYTES, 2 * self._restated_bytes)
        return files.size > limit or files.count > MAX_FILES

    @property
    def _is_at_rest(self) -> bool:
        """Return whether a new file may be begun: the last one is complete, and no message is on
        its way to many clients, since only the files have its progress.
        """
        if self._clients.spreading.is_on:
            return False
        return self._restating is None and self._dropping is None and self._syncing is None

    def _begin_again(self) -> None:
        """Write gathered records into the old file, and begin a restatement in a new one."""
        data = self._journal.take()
        if data and not self._journal.is_failing:
            self._files.append(data)
        self._files.begin()
        self._restating = self._clients.restate()

    def _restate_some(self, restating: Iterator[int]) -> bool:
        """A step further; whether all is said."""
        said = 0
        for size in restating:
            said += size
            if said >= STEP_BYTES:
                self._node.schedule_flush()
                return False
        return True

    def _restated(self) -> None:
        self._restating = None
        if self._journal.is_failing:
            self._journal.is_failing = False
            self._node.recording.note(stores=True)
            self._clients.resume()
            _log.warning("the journal is written again")
        self._dropping = self._node.loop.run_in_executor(None, self._files.remove_former)
        self._dropping.add_done_callback(self._dropped)

    def _dropped(self, dropping: asyncio.Future[None]) -> None:
        self._dropping = None
        self._files.forget_former()
        self._restated_bytes = self._files.size
        error = dropping.exception()
        if error is not None:
            _log.error("old journal files remain", extra={"problem": str(error)})
        self._hold_reserve()

    def _hold_reserve(self) -> None:
        if self._holding is None:
            hold = self._files.hold_reserve
            self._holding = self._node.loop.run_in_executor(None, hold, RESERVE_BYTES)
            self._holding.add_done_callback(self._held)

    def _held(self, holding: asyncio.Future[None]) -> None:
        self._holding = None
        error = holding.exception()
        if error is not None:
            _log.warning(
                "the disk has no room in reserve for the journal",
                extra={"bytes": RESERVE_BYTES, "problem": str(error)},
            )

    # --- when it cannot be written ------------------------------------------------------------

    def _fail(self, error: OSError) -> None:
        """Nothing more is kept until all can be said anew."""
        if not self._journal.is_failing:
            _log.error(
                "the journal cannot be written; publications above QoS 0 are refused until it can",
                extra={"folder": str(self._files.folder), "problem": error.strerror},
            )
        elif self._restating is not None:  # nothing was promised since it was begun
            self._files.take_back()
        self._journal.is_failing = True
        self._node.recording.note(stores=False)
        self._restating = None
        self._journal.take()

    def _try_again(self) -> None:
        self._files.release_reserve()
        try:
            self._begin_again()
        except OSError as error:
            self._fail(error)
        else:
            self._node.schedule_flush()

    # --- each second --------------------------------------------------------------------------

    def _tick_journal(self) -> None:
        self._timer = self._node.loop.call_later(TICK_S, self._tick_journal)
        if self._journal.is_failing:
            if self._is_at_rest:
                self._try_again()
        elif self._sync == "second" and self._is_unsynced and self._syncing is None:
            self._is_unsynced = False
            self._syncing = self._node.loop.run_in_executor(None, self._files.sync)
            self._syncing.add_done_callback(self._synced)

    def _synced(self, syncing: asyncio.Future[None]) -> None:
        self._syncing = None
        error = syncing.exception()
        if error is not None:
            _log.error("the disk does not take the journal", extra={"problem": str(error)})
