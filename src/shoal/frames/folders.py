"""Folders of tables come into being whole: written beside their place, then moved into it.

`new_folder` gives a temporary folder next to the wanted one and renames it at the end of the block;
an interrupted or failed block leaves nothing behind and keeps the former folder.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from shoal.frames.errors import TableError

# The one table whose name in a workload's folder has no ending.
EVENTS = "events"


@contextlib.contextmanager
def new_folder(target: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A folder to fill, which becomes `target` when the block ends without an error.

    `overwrite` replaces folders of tables only: a mistyped name deletes no other files.
    """
    if target.exists() and not overwrite:
        raise TableError(f"{target} exists already; give another place, or --overwrite")
    if target.exists() and not _holds_only_tables(target):
        raise TableError(f"{target} holds other files than tables; give another place")
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        filled = work / "new"
        filled.mkdir()
        yield filled
        if target.exists():
            _check_kind(target, filled)
            target.rename(work / "old")
        filled.rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _check_kind(target: Path, filled: Path) -> None:
    """TableError where none of the tables that are there is among those that replace them."""
    there, new = _tables(target), _tables(filled)
    if there and there.isdisjoint(new):
        names = ", ".join(sorted(there))
        raise TableError(f"{target} holds other tables: {names}; give another place")


def _tables(folder: Path) -> set[str]:
    """The names of its tables; a table by itself, of parts, has none."""
    names = {
        each.name for each in folder.iterdir() if not each.name.startswith(("_", ".", "part-"))
    }
    return {name.removesuffix(".parquet") for name in names}


def _holds_only_tables(folder: Path) -> bool:
    return folder.is_dir() and all(
        child.suffix == ".parquet" or child.name == EVENTS or child.name.startswith(("_", "."))
        for child in folder.iterdir()
    )
