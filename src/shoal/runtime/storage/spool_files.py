"""The spools of a broker as files: queued messages for each disconnected neighbour.

| in the broker's folder | content |
| --- | --- |
| spool/NEIGHBOUR | exists since the neighbour's link first came up |
| spool/NEIGHBOUR/00000001, … | segments: the format, then batches of records, as in the journal |

All spools of a broker are written with each flush, before acknowledgements go to neighbours and
clients, and synced as its journal is; their total size is bounded.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from shoal.batches import HEAD_BYTES, batch_at, framed, is_torn
from shoal.broker.links.session import LinkSession
from shoal.broker.links.spool import KEEP_US, Spool, SpoolRecord
from shoal.broker.links.states import LinkSessionState
from shoal.model import BrokerId
from shoal.overlays.system import Placeholder
from shoal.runtime.driving.flushing import Phase
from shoal.runtime.node import Node
from shoal.runtime.storage.journal_files import (
    Sync,
    other_version,
)

FOLDER = "spool"
_FORMAT = "shoal spool 1"
MAXIMUM_BYTES = 2**30
# No heading of any format is longer.
_HEADING_BYTES = HEAD_BYTES + 64
# Interval of syncs, and of retries after a failure.
TICK_S = 1.0
# A broker that starts waits so long for neighbours that were there before: less than its machine
# waits for their tables.
PLACEHOLDER_US = 5_000_000

_encode = msgspec.msgpack.Encoder().encode
_heading = framed(_encode(_FORMAT))
_read_heading = msgspec.msgpack.Decoder(str).decode
_read_records = msgspec.msgpack.Decoder(list[SpoolRecord]).decode
_log = logging.getLogger(__name__)


class SpoolSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of size and time of a broker's spools; `folder` is the broker's own."""

    folder: Path
    sync: Sync = "second"
    maximum_bytes: int = MAXIMUM_BYTES
    keep_us: int = KEEP_US


class SpoolFiles:
    """The segments of one spool; their folder must be this process's alone."""

    def __init__(self, folder: Path, *, syncs: bool = False) -> None:
        """With `syncs`, appended records are synced, so that they outlast a power cut."""
        self.folder = folder
        self._syncs = syncs
        # The segment that is appended to.
        self._number = 0
        self._file = -1
        self._size = 0
        # Files that were written to since they were synced last, and are closed then.
        self._former: list[int] = []
        self._is_unsynced = False

    # --- the store of a spool -----------------------------------------------------------------

    def segments(self) -> Mapping[int, int]:
        if not self.folder.is_dir():
            return {}
        found = [path for path in self.folder.iterdir() if path.name.isdecimal()]
        return {int(path.name): path.stat().st_size for path in found}

    def append(self, segment: int, records: list[SpoolRecord]) -> int:
        if segment != self._number:
            self._open_segment(segment)
        heading = b"" if self._size else _heading
        data = memoryview(heading + framed(_encode(records)))
        written = 0
        try:
            while written < len(data):
                written += os.write(self._file, data[written:])
            if self._syncs:
                os.fdatasync(self._file)
        except OSError:
            os.ftruncate(self._file, self._size)
            raise
        self._size += written
        self._is_unsynced = not self._syncs
        return written

    def load(self, segment: int) -> list[SpoolRecord]:
        path = self._path(segment)
        records: list[SpoolRecord] = []
        position = 0
        try:
            data = path.read_bytes()
            while position < len(data):
                batch = batch_at(data, position)
                if batch is None:
                    if not is_torn(data, position):
                        raise ValueError("no batch")
                    break
                if position:
                    records += _read_records(batch)
                elif _format_of(batch) != _FORMAT:
                    raise ValueError("no heading")
                position += HEAD_BYTES + len(batch)
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            self._keep_aside(path, position, error)
        return records

    def remove(self, segment: int) -> None:
        self._path(segment).unlink(missing_ok=True)
        if segment == self._number:
            self._close_segment()

    # --- the driver's side --------------------------------------------------------------------

    @property
    def is_known(self) -> bool:
        """Return whether the neighbour was ever here."""
        return self.folder.is_dir()

    def know(self) -> None:
        """The neighbour is here."""
        self.folder.mkdir(parents=True, exist_ok=True)

    def forget(self) -> None:
        """The neighbour counts as gone."""
        self._close_segment()
        shutil.rmtree(self.folder, ignore_errors=True)

    def take_unsynced(self) -> list[int]:
        """Return files to sync and then close."""
        files, self._former = self._former, []
        if self._is_unsynced and self._file >= 0:
            files.append(os.dup(self._file))
        self._is_unsynced = False
        return files

    def close(self) -> None:
        self._close_segment()
        for file in self._former:
            os.close(file)
        self._former = []

    def _path(self, segment: int) -> Path:
        return self.folder / f"{segment:08}"

    def _open_segment(self, segment: int) -> None:
        self.know()
        flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
        file = os.open(self._path(segment), flags, 0o600)
        if self._is_unsynced and self._file >= 0:
            self._former.append(self._file)
        elif self._file >= 0:
            os.close(self._file)
        self._file, self._number, self._size = file, segment, os.fstat(file).st_size

    def _close_segment(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file, self._number, self._is_unsynced = -1, 0, False

    def _keep_aside(self, path: Path, position: int, error: Exception) -> None:
        """Messages that can be read are sent; the rest is kept for inspection."""
        aside = path.with_name(f"damaged-{path.name}")
        with suppress(OSError):
            path.replace(aside)
        _log.error(
            "a spool is damaged, the rest of this file is not sent",
            extra={"file": str(aside), "byte": position, "problem": str(error)},
        )


def _format_of(batch: bytes | None) -> str | None:
    """Return the format in a segment's first batch; None if it is torn, or is no heading."""
    try:
        return _read_heading(batch or b"")
    except msgspec.MsgspecError:
        return None


def check_formats(folder: Path) -> None:
    """JournalError if a spool of a broker's folder was written by a version with another format."""
    for neighbour in waits_for(folder):
        for path in sorted((folder / FOLDER / neighbour).iterdir()):
            if path.name.isdecimal():
                with path.open("rb") as file:
                    found = _format_of(batch_at(file.read(_HEADING_BYTES), 0))
                if found not in (None, _FORMAT):
                    raise other_version(path, found, _FORMAT)


def waits_for(folder: Path) -> list[BrokerId]:
    """Return the neighbours with messages in the spools of a broker's folder."""
    if not (folder / FOLDER).is_dir():
        return []
    found = [path for path in (folder / FOLDER).iterdir() if SpoolFiles(path).segments()]
    return sorted(path.name for path in found)


class Spools:
    """All spools of one node, written before acknowledgements go out.

    `at_full` gets the reason when no more can be kept, or an empty text when there is room again.
    """

    def __init__(
        self, node: Node, settings: SpoolSettings, placeholder: Placeholder | None
    ) -> None:
        self.at_full: Callable[[str], None] = _ignore_problem
        self._node = node
        self._settings = settings
        self._placeholder = placeholder
        self._files: dict[BrokerId, SpoolFiles] = {}
        self._spools: dict[BrokerId, Spool] = {}
        self._refusal = ""
        self._failing: set[BrokerId] = set()
        # Those that were here before this broker started and have not said their tables since,
        # and since when they are waited for.
        self._expected: dict[BrokerId, tuple[LinkSession, int]] = {}
        self._syncing: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_stopped = False
        node.at_flush(Phase.RECORD, self.write)

    def spool_of(self, neighbour: BrokerId) -> Spool:
        """A neighbour's; OSError when its folder cannot be read."""
        settings = self._settings
        syncs = settings.sync == "always"
        files = SpoolFiles(settings.folder / FOLDER / neighbour, syncs=syncs)
        self._files[neighbour] = files
        spool = self._spools[neighbour] = Spool(files, settings.keep_us)
        return spool

    def expect(self, session: LinkSession) -> None:
        """Wait for a neighbour that was here before this broker started, if it was."""
        neighbour = session.neighbour
        if self._files[neighbour].is_known:
            now_us = self._node.clock.now_us()
            self._expected[neighbour] = session, now_us
            session.expect(now_us)

    def here(self, neighbour: BrokerId) -> None:
        """A neighbour has come."""
        try:
            self._files[neighbour].know()
        except OSError as error:
            self._fail(neighbour, error)

    def heard(self, neighbour: BrokerId) -> None:
        """A neighbour has said its tables."""
        self._expected.pop(neighbour, None)

    def gone(self, neighbour: BrokerId) -> None:
        """A neighbour counts as gone, with all that waited for it."""
        _log.error("given up, its queued messages are dropped", extra={"neighbour": neighbour})
        self._expected.pop(neighbour, None)
        self._files[neighbour].forget()

    def forget(self, neighbour: BrokerId) -> None:
        """There is no link to a neighbour any more."""
        self._expected.pop(neighbour, None)
        files = self._files.pop(neighbour, None)
        spool = self._spools.pop(neighbour, None)
        if files is not None and spool is not None:
            spool.clear()
            files.forget()
            files.close()

    def placeholder(self) -> None:
        """Speak for neighbours that were waited for long enough, and are away."""
        if self._placeholder is None:
            return
        now_us = self._node.clock.now_us()
        for neighbour, (session, since_us) in list(self._expected.items()):
            if now_us - since_us > PLACEHOLDER_US and session.state is LinkSessionState.AWAY:
                del self._expected[neighbour]
                _log.warning("away since the start", extra={"neighbour": neighbour})
                for input in self._placeholder(neighbour, self._node.id):
                    self._node.bring(input)

    def size(self, neighbour: BrokerId) -> int:
        """Bytes that wait for a neighbour on disk."""
        spool = self._spools.get(neighbour)
        return 0 if spool is None else spool.size

    def start(self) -> None:
        """All spools are open: start the periodic tasks."""
        for name in waits_for(self._settings.folder):
            if name not in self._spools:
                folder = str(self._settings.folder / FOLDER / name)
                _log.error("a spool is for no neighbour", extra={"folder": folder})
        self._set_tick_timer()

    def _set_tick_timer(self) -> None:
        self._timer = self._node.loop.call_later(TICK_S, self._tick_spools)

    async def stop(self) -> None:
        """Write the rest, and sync it."""
        if self._timer is not None:
            self._timer.cancel()
        self.write()
        self._is_stopped = True
        if self._syncing is not None:
            await asyncio.wait([self._syncing])
        if self._settings.sync != "never":
            await self._node.loop.run_in_executor(None, _sync_all, self._take_unsynced())
        for files in self._files.values():
            files.close()

    def write(self) -> None:
        """Write pending records, as far as there is room; nothing after the stop."""
        if self._is_stopped:
            return
        problem = ""
        for neighbour, spool in self._spools.items():
            if not spool.pending_bytes:
                continue
            used = sum(each.size for each in self._spools.values())
            try:
                spool.write(self._settings.maximum_bytes - used)
                self._failing.discard(neighbour)
            except OSError as error:
                self._fail(neighbour, error)
            if spool.is_stuck:
                problem = (
                    f"too much waits for broker {neighbour}, which is disconnected or cannot write"
                )
        if bool(problem) != bool(self._refusal):
            self._refusal = problem
            self.at_full(problem)

    def _fail(self, neighbour: BrokerId, error: OSError) -> None:
        if neighbour not in self._failing:
            self._failing.add(neighbour)
            folder, problem = str(self._files[neighbour].folder), error.strerror
            _log.error("a spool cannot be written", extra={"folder": folder, "problem": problem})

    def _tick_spools(self) -> None:
        self._set_tick_timer()
        self._node.schedule_flush()
        if self._settings.sync == "second" and self._syncing is None:
            files = self._take_unsynced()
            if files:
                self._syncing = self._node.loop.run_in_executor(None, _sync_all, files)
                self._syncing.add_done_callback(self._synced)

    def _synced(self, syncing: asyncio.Future[None]) -> None:
        self._syncing = None
        error = syncing.exception()
        if error is not None:
            _log.error("the disk does not take a spool", extra={"problem": str(error)})

    def _take_unsynced(self) -> list[int]:
        return [file for each in self._files.values() for file in each.take_unsynced()]


def _sync_all(files: list[int]) -> None:
    """Have these on the disk, and close them."""
    try:
        for file in files:
            os.fdatasync(file)
    finally:
        for file in files:
            os.close(file)


def _ignore_problem(problem: str) -> None:
    """Placeholder until a listener is set."""
