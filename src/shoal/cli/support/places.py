"""Checks paths that a command reads and writes before its long work begins."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from shoal.cli.support.errors import UserError
from shoal.frames.table_places import COPIES, is_within, path_in


def check_exist(*paths: Path) -> None:
    """UserError for the first path that is not there, or is not to be read.

    That takes a moment, where Spark would take seconds.
    """
    for path in paths:
        if not path.exists():
            raise UserError(f"{path} does not exist")
        if not os.access(path, os.R_OK, effective_ids=os.access in os.supports_effective_ids):
            raise UserError(f"{path} cannot be read: {os.strerror(errno.EACCES)}")


def check_new(out: Path | None, *, overwrite: bool, inputs: Sequence[Path] = ()) -> None:
    """UserError if an output folder exists already, or cannot be made.

    An input is never overwritten.
    """
    if out is None:
        return
    if path_in(COPIES.get(out, "."), writes=True) is None:
        # A place that is written from a copy: the copies are apart, their places may not be.
        places = [COPIES.get(path, str(path)) for path in inputs]
        if any(is_within(COPIES[out], place) for place in places):
            raise UserError(f"{COPIES[out]} is the input; give another --out")
    if not out.exists():
        check_place(out)
        return
    if not overwrite:
        raise UserError(f"{out} exists already; give another --out, or --overwrite")
    place = out.resolve()
    for path in inputs:
        if place == path.resolve() or place in path.resolve().parents:
            raise UserError(f"{out} is the input; give another --out")
    check_place(out)


def check_file(out: Path) -> None:
    """UserError if this file cannot be written."""
    if out.is_dir():
        raise UserError(f"{out} is a folder; give a file")
    check_place(out)


def check_place(out: Path) -> None:
    """UserError if nothing can be written beside it, in the folders that there are."""
    folder = next(each for each in out.absolute().parents if each.exists())
    try:
        tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=folder).cleanup()
    except OSError as error:
        raise UserError(f"{out} cannot be written: {error.strerror}") from None
