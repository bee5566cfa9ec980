"""Pairs that grow with their inputs: a folder `part=N` for the files that each run finds new.

The pairs of events and subscriptions are those of the new events with all subscriptions, and of the
old events with the new subscriptions; no earlier pair changes. A part has a note of the files that
it added (`_added.json`), and appears whole, so a killed run leaves no half part and the next run
makes the same part. A file that has changed or is gone would change earlier pairs: it is refused.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from shoal.frames.errors import TableError
from shoal.frames.parquet_files import part_files
from shoal.frames.work_folders import remove_abandoned, work_folder

NOTE = "_added.json"
_PREFIX = ".adding."
_PART = re.compile(r"part=(\d+)")

# The digests of an input's files, by their paths in it.
Files = dict[str, str]


class Addition(NamedTuple):
    """Some pairs to be made: the input in a folder of links, the same names as in `inputs`."""

    inputs: Mapping[str, Path]
    target: Path


@contextlib.contextmanager
def additions(
    out: Path, events: tuple[str, Path], subscriptions: tuple[str, Path]
) -> Iterator[list[Addition]]:
    """Give what is to be made for the files that are new; at the end it becomes a part of `out`.

    Each input is the name that it has in an addition, and its folder or file. The block writes a
    folder of Parquet at each `target`. TableError for a file that has changed, for a folder `out`
    that is not of parts, and if another run adds to it meanwhile.
    """
    out.mkdir(parents=True, exist_ok=True)
    for child in out.iterdir():
        if not (_PART.fullmatch(child.name) or child.name.startswith(("_", "."))):
            raise TableError(f"{out} is not a folder of parts; give another place to add to")
    inputs = dict([events, subscriptions])
    # Before the parts are read: another run at the same time takes the same number.
    target = out / f"part={_next(out)}"
    found = {name: _digests(place) for name, place in inputs.items()}
    known = _known(out, inputs, found)
    new = {name: _others(files, known[name]) for name, files in found.items()}
    given, wanted = events[0], subscriptions[0]
    remove_abandoned(_PREFIX, out)
    with work_folder(_PREFIX, out) as work:
        todo = []
        if new[given]:
            todo.append({given: new[given], wanted: found[wanted]})
        if new[wanted] and known[given]:
            todo.append({given: known[given], wanted: new[wanted]})
        made = []
        for number, chosen in enumerate(todo):
            folder = work / f"in{number}"
            places = {
                name: _links(inputs[name], files, folder / name) for name, files in chosen.items()
            }
            made.append(Addition(places, work / f"made{number}"))
        yield made
        if any(new.values()):
            filled = work / "part"
            filled.mkdir()
            for number, addition in enumerate(made):
                for file in part_files(addition.target):
                    file.rename(filled / f"part-{number}-{file.name.removeprefix('part-')}")
            (filled / NOTE).write_bytes(msgspec.json.encode(new))
            _publish(filled, target)


def _publish(filled: Path, target: Path) -> None:
    """Make a folder a part; TableError if another run has made one of this number meanwhile."""
    try:
        filled.rename(target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        raise TableError(f"{target.parent}: another run has added to it; run this again") from None


def _known(out: Path, inputs: Mapping[str, Path], found: Mapping[str, Files]) -> dict[str, Files]:
    """The files that parts have added; TableError for one that is not as it was."""
    known: dict[str, Files] = {name: {} for name in inputs}
    for part in out.glob("part=*"):
        note = msgspec.json.decode((part / NOTE).read_bytes(), type=dict[str, Files])
        if note.keys() != known.keys():
            raise TableError(f"{out} has pairs of {', '.join(note)}; give another place")
        for name, files in note.items():
            known[name].update(files)
    for name, files in known.items():
        for file, digest in files.items():
            if found[name].get(file) != digest:
                raise TableError(
                    f"{inputs[name] / file} has changed since its pairs were made: add files "
                    f"beside it, or make the pairs anew at another place"
                )
    return known


def _next(out: Path) -> int:
    numbers = [int(found[1]) for each in out.iterdir() if (found := _PART.fullmatch(each.name))]
    return max(numbers, default=-1) + 1


def _digests(place: Path) -> Files:
    found = {}
    for file in part_files(place):
        with file.open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
        found[file.relative_to(place).as_posix()] = digest
    return found


def _others(files: Files, known: Files) -> Files:
    return {name: digest for name, digest in files.items() if name not in known}


def _links(place: Path, files: Files, target: Path) -> Path:
    """Make a folder of links to some files of an input, or a link to the one file that it is."""
    for name in files:
        link = target / name if place.is_dir() else target
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to((place / name if place.is_dir() else place).absolute())
    return target
