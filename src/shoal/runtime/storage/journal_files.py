"""A broker's journal as files of one folder: batches of bytes, appended, and read again at a start.

A batch is there whole or not at all: before it stand its length and a checksum, and a batch cut
short by a crash is dropped at the next start, with a warning. Anything else that is wrong is an
error that names file and byte. Once all live state is restated in a new file, that file is marked,
and older files are deleted; so no file is ever rewritten, and a crash at any moment leaves a whole
journal.

| file | content |
| --- | --- |
| lock | held by the process that uses the folder; has its number, and that of the last file |
| clock | until when the broker has run (see `clock_file`) |
| reserve | nothing; its room is for a full disk |
| journal-00000001, … | a heading (name of the broker), then batches; read in this order |

A batch: length, CRC-32 of the bytes, CRC-32 of these two, 4 bytes each; the bytes.  A batch of no
bytes is the mark.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from shoal.batches import HEAD_BYTES, batch_at, framed, is_torn
from shoal.model import BrokerId

# When written bytes are made to outlast a power cut (see `journal_writer`).
Sync = Literal["never", "second", "always"]

_FORMAT = "shoal journal 1"
_PREFIX = "journal-"
_FIRST = 1


class JournalError(Exception):
    """A folder that cannot be used, or a file in it that cannot be read; the text names the
    remedy.
    """


def other_version(path: Path, found: object, own: object) -> JournalError:
    """A file that a version of shoal wrote which has another format."""
    return JournalError(
        f"{path}: another version of shoal wrote it (format {found!r}, this version has {own!r}); "
        "start that version, or name another folder; nothing was changed"
    )


class _Heading(msgspec.Struct, frozen=True, array_like=True):
    format: str
    network: str
    broker: BrokerId


class _Scan(NamedTuple):
    """A file, as far as it can be read."""

    is_marked: bool
    readable_bytes: int
    size: int


_decode_heading = msgspec.msgpack.Decoder(_Heading).decode


class JournalFiles:
    """The journal of one broker; its lock keeps other processes from its folder.

    Call `read`, once, before anything else.
    """

    def __init__(self, folder: Path, network: str, broker: BrokerId) -> None:
        self.folder = folder
        self._heading = _Heading(_FORMAT, network, broker)
        # warnings for the start, which can go on
        self.warnings: list[str] = []
        self._lock, self._last_number = self._take_lock()
        self._reserve = folder / "reserve"
        # By number, oldest first: how long each file is.
        self._sizes: dict[int, int] = {}
        self._file = -1
        self._number = 0

    @property
    def size(self) -> int:
        """Bytes in all files."""
        return sum(self._sizes.values())

    @property
    def count(self) -> int:
        return len(self._sizes)

    def read(self, apply: Callable[[bytes], None]) -> None:
        """Hand over every batch in its order, and begin a new file behind them.

        JournalError where something is wrong, also where `apply` finds so (ValueError).
        """
        try:
            numbers = self._needed()
            self._warn_of_missing(max(numbers, default=0))
            for number in numbers:
                is_last = number == numbers[-1]
                self._sizes[number] = self._read_file(self._path(number), is_last, apply)
            self._remove_before(numbers[0] if numbers else 0)
            self._number = numbers[-1] if numbers else 0
            self.begin()
        except OSError as error:
            raise JournalError(f"{error.filename or self.folder}: {error.strerror}") from None

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        os.close(self._lock)

    # --- writing ------------------------------------------------------------------------------

    def append(self, batch: bytes) -> None:
        """Write a batch; OSError if that cannot be, and then nothing of it is there."""
        self._write(batch)

    def begin(self) -> None:
        """Go on in a new file; OSError if there cannot be one, and then this one goes on."""
        number = self._number + 1
        flags = os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
        file = os.open(self._path(number), flags, 0o600)
        former, self._file = (self._file, self._number), file
        self._number = number
        self._sizes[number] = 0
        try:
            _note_use(self._lock, number)
            self._write(msgspec.msgpack.encode(self._heading))
        except OSError:
            self._file, self._number = former
            del self._sizes[number]
            os.close(file)
            self._path(number).unlink()
            raise
        if former[0] >= 0:
            os.close(former[0])

    def mark(self) -> None:
        """All that matters has been said again since this file began; OSError as for `append`."""
        self._write(b"")

    def sync(self) -> None:
        """Return when all that was written would outlast a power cut; for any thread."""
        os.fdatasync(self._file)

    def remove_former(self) -> None:
        """Have the marked file on the disk, then remove those before it; for any thread."""
        self.sync()
        folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        self._remove_before(self._number)

    def forget_former(self) -> None:
        """Those before this one count no more."""
        self._sizes = {self._number: self._sizes[self._number]}

    def take_back(self) -> None:
        """Remove the file that was begun last, since nothing in it counts, and go on before it."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
        file = os.open(self._path(self._number - 1), flags)
        os.close(self._file)
        self._path(self._number).unlink()
        del self._sizes[self._number]
        self._file, self._number = file, self._number - 1

    def hold_reserve(self, size: int) -> None:
        """Take room for so many bytes; OSError if there is not as much; for any thread."""
        file = os.open(self._reserve, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(file, 0, size)
        except OSError:
            self.release_reserve()
            raise
        finally:
            os.close(file)

    def release_reserve(self) -> None:
        """Give the room back, to be written to."""
        self._reserve.unlink(missing_ok=True)

    def _write(self, batch: bytes) -> None:
        data = memoryview(framed(batch))
        written = 0
        try:
            while written < len(data):
                written += os.write(self._file, data[written:])
        except OSError:
            os.ftruncate(self._file, self._sizes[self._number])
            raise
        self._sizes[self._number] += written

    # --- reading ------------------------------------------------------------------------------

    def _path(self, number: int) -> Path:
        return self.folder / f"{_PREFIX}{number:08}"

    def _numbers(self) -> list[int]:
        names = [path.name.removeprefix(_PREFIX) for path in self.folder.glob(f"{_PREFIX}*")]
        return sorted(int(name) for name in names if name.isdecimal())

    def _remove_before(self, first: int) -> None:
        """Oldest first: the rest is always one piece."""
        for number in self._numbers():
            if number < first:
                self._path(number).unlink()

    def _needed(self) -> list[int]:
        """The numbers of the files that matter: from the last marked one on."""
        numbers = self._numbers()
        scans = {number: self._scan(number) for number in numbers}
        first = max((number for number in numbers if scans[number].is_marked), default=_FIRST)
        # Its mark removed the files before it; without the mark it needs them.
        if numbers and first < numbers[0]:
            scan = scans[numbers[0]]
            if scan.readable_bytes < scan.size:
                raise JournalError(
                    f"{self._path(numbers[0])}: what begins at byte {scan.readable_bytes} is "
                    "damaged, and the files before it are gone; nothing was changed. Restore the "
                    f"folder from a copy, or move {self.folder} away to begin with nothing"
                )
        for number in range(first, max(numbers, default=0)):
            if number not in numbers:
                raise JournalError(
                    f"{self._path(number)} is missing, and later files are there (or the first of "
                    f"them was cut); put it back, or move {self.folder} away to begin with nothing"
                )
        return [number for number in numbers if number >= first]

    def _scan(self, number: int) -> _Scan:
        data = self._path(number).read_bytes()
        position, is_marked = 0, False
        while (batch := batch_at(data, position)) is not None:
            is_marked = is_marked or not batch
            position += HEAD_BYTES + len(batch)
        return _Scan(is_marked, position, len(data))

    def _read_file(self, path: Path, is_last: bool, apply: Callable[[bytes], None]) -> int:
        data = path.read_bytes()
        position = 0
        while position < len(data):
            batch = batch_at(data, position)
            if batch is None:
                if not is_last or not is_torn(data, position):
                    raise self._broken(path, position, "is damaged")
                os.truncate(path, position)
                self._warn_of_loss(path, position, len(data) - position)
                break
            try:
                if position == 0:
                    self._check_heading(path, batch)
                elif batch:
                    apply(batch)
            except (ValueError, msgspec.MsgspecError) as error:
                raise self._broken(path, position, f"cannot be read: {error}") from None
            position += HEAD_BYTES + len(batch)
        if position == 0:
            self._warn_of_loss(path, 0, 0)
        return position

    def _warn_of_loss(self, path: Path, position: int, size: int) -> None:
        if position:
            what = f"its last batch, {size} bytes from byte {position} on, was not whole"
        else:
            what = "it has no heading"
        self.warnings.append(
            f"{path}: {what}; a crash or a power cut while it was written leaves it so, and what "
            "it said is not known"
        )

    def _warn_of_missing(self, last: int) -> None:
        if last < self._last_number:
            self.warnings.append(
                f"{self._path(self._last_number)} was written last, and is missing; what it said "
                "is not known"
            )

    def _check_heading(self, path: Path, batch: bytes) -> None:
        heading = _decode_heading(batch)
        if heading.format != _FORMAT:
            raise other_version(path, heading.format, _FORMAT)
        if heading != self._heading:
            raise JournalError(
                f"{path} is the journal of broker {heading.broker!r} of network "
                f"{heading.network!r}, not of {self._heading.broker!r} of "
                f"{self._heading.network!r}; name another folder"
            )

    def _broken(self, path: Path, position: int, what: str) -> JournalError:
        return JournalError(
            f"{path}: what begins at byte {position} {what}; nothing was changed. To go on with "
            f"what is before it, move the files after this one away and `truncate -s {position}` "
            f"this one; to begin with nothing, move {self.folder} away"
        )

    # --- lock ---------------------------------------------------------------------------------

    def _take_lock(self) -> tuple[int, int]:
        """Take the lock; return it and the number of the last file of its former holder."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = os.open(self.folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            problem = f"{self.folder} cannot be used: {error.strerror}"
            raise JournalError(problem) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            process = _numbers_in(lock)[0]
            os.close(lock)
            raise JournalError(
                f"{self.folder} is in use by process {process}; stop that broker, or name another "
                "folder"
            ) from None
        last = _numbers_in(lock)[1]
        _note_use(lock, last)
        return lock, last


def _note_use(lock: int, last: int) -> None:
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n{last}\n".encode(), 0)


def _numbers_in(lock: int) -> tuple[int, int]:
    """The process that uses a folder, and its last file; 0 where that is not said."""
    words = os.pread(lock, 100, 0).split()
    process, number = (int(word) if word.isdigit() else 0 for word in [*words, b"", b""][:2])
    return process, number
