"""Folders for work that is under way; those of a process that was killed are found and removed.

A process holds a lock (`flock`) on a file in its folder until it ends, however it ends. The next
process that works at the same place removes folders whose lock is free.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_LOCK = "lock"
# The end of a name by `tempfile.mkdtemp`.
_RANDOM = re.compile(r"[a-z0-9_]{8}")


@contextlib.contextmanager
def work_folder(prefix: str, parent: Path) -> Iterator[Path]:
    """A new folder in `parent`, with a name that begins with `prefix`, for the block."""
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    held = _lock(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if held is not None:
            os.close(held)


def abandoned(prefix: str, parent: Path) -> Iterator[Path]:
    """Yield the folders with this prefix whose process has ended; they are removed afterwards."""
    for folder in sorted(parent.glob(f"{_escaped(prefix)}*")):
        if not _RANDOM.fullmatch(folder.name.removeprefix(prefix)):
            continue
        held = _free_lock(folder / _LOCK)
        if held is None:
            continue
        try:
            yield folder
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(held)


def remove_abandoned(prefix: str, parent: Path) -> None:
    """Remove the folders with this prefix whose process has ended."""
    for _ in abandoned(prefix, parent):
        pass


def _lock(folder: Path) -> int | None:
    """Lock a folder; None on a disk without locks, where no folder is taken for abandoned."""
    new = folder / f"{_LOCK}.new"
    held = os.open(new, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(held)
        return None
    # Under this name it is held from its first moment on.
    new.rename(folder / _LOCK)
    return held


def _free_lock(file: Path) -> int | None:
    """Lock a file that is there, if no other process has locked it."""
    try:
        held = os.open(file, os.O_RDWR)
    except OSError:
        return None
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(held)
        return None
    return held


def _escaped(prefix: str) -> str:
    return re.sub(r"([*?[])", r"[\1]", prefix)
