"""Folders of tables come into being whole: written beside their place, then moved into it.

`new_folder` gives a temporary folder next to the wanted one and renames it at the end of the block;
an interrupted or failed block leaves nothing behind and keeps the former folder. The temporary
folder of a process that was killed is removed by the next that writes the same folder, and if the
former folder had just been moved there it comes back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from shoal.frames.errors import TableError
from shoal.frames.work_folders import abandoned, work_folder

# The one table whose name in a workload's folder has no ending.
EVENTS = "events"
_OLD = "old"


@contextlib.contextmanager
def new_folder(target: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A folder to fill, which becomes `target` when the block ends without an error.

    `overwrite` replaces folders of tables only: a mistyped name deletes no other files.
    """
    prefix = f".{target.name}."
    target.parent.mkdir(parents=True, exist_ok=True)
    for left in abandoned(prefix, target.parent):
        if (left / _OLD).exists() and not target.exists():
            (left / _OLD).rename(target)
    if target.exists() and not overwrite:
        raise TableError(f"{target} exists already; give another place, or --overwrite")
    if target.exists() and not _holds_only_tables(target):
        raise TableError(f"{target} holds other files than tables; give another place")
    with work_folder(prefix, target.parent) as work:
        filled = work / "new"
        filled.mkdir()
        yield filled
        if target.exists():
            _check_kind(target, filled)
            target.rename(work / _OLD)
        filled.rename(target)


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
