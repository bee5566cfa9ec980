"""The state of a log: its identity, and bounds that keep an offset from naming two records.

A kill loses nothing that was written. A power cut may lose the end of a log, whose records readers
may have had already. So the next offset may not exceed `bound`, which is on the disk before any
record reaches it; after a reboot without an orderly end, the log goes on at `bound`.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import msgspec

from shoal.log.errors import LogError

FILE = "state"
# Offsets that one write of the state allows; a power cut leaves a gap of as many at most.
RESERVED = 1_000_000


class LogState(msgspec.Struct, frozen=True):
    """The content of the file.

    `log` identifies the log. `ended` is the next offset after an orderly end, None while the log is
    written; `boot` is the boot of the machine at that time.
    """

    log: str
    bound: int
    boot: str
    ended: int | None = None


def new_state(boot: str) -> LogState:
    """The state of a log without records."""
    return LogState(secrets.token_hex(8), 0, boot, 0)


def read_state(folder: Path) -> LogState | None:
    """The state of the log in a folder; None if there is none; LogError for one that is damaged."""
    path = folder / FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=LogState)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise LogError(f"{path}: no state of a log: {error}; move {folder} away") from None


def write_state(folder: Path, state: LogState) -> None:
    """Put the state on the disk, in one piece; OSError leaves the former one."""
    write_whole(folder / FILE, msgspec.json.encode(state))


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file, so that after a power cut it has the old content or the new."""
    new = path.with_name(f"{path.name}.new")
    with open(new, "wb", opener=_private) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)
