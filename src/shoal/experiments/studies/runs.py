"""Runs of a study: each measures one thing and leaves one file, so that a study can be continued.

A run's file holds its measurements under a key of all parameters. A run is not repeated if its file
has the right key. Files appear whole.

>>> digest(["a", 1]) == digest(["a", 1]) != digest(["a", 2])
True
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import msgspec

# Read once: a grid has ten thousand runs.
VERSION = version("shoal")


class Task(Protocol):
    """Work of a study that leaves one file.

    cost   estimated time, in any unit
    rank   order of runs if time is short: rank 0, with the most evidence, comes first
    """

    @property
    def name(self) -> str: ...

    @property
    def cost(self) -> float: ...

    @property
    def rank(self) -> int: ...

    @property
    def is_done(self) -> bool: ...

    def __call__(self) -> None: ...


class Keyed(Protocol):
    """A summary with the key of its inputs."""

    @property
    def key(self) -> str: ...


Summary = TypeVar("Summary", bound=Keyed)


class RecordedRun(msgspec.Struct, Generic[Summary], frozen=True, kw_only=True):
    """A task with its key; call it, here or on another machine that sees the same folders.

    A study defines a run's measurement (`measure`), its type (`summary_type`), its name and its
    cost.
    """

    key: str
    file: str

    summary_type: ClassVar[type[Any]]

    @property
    def is_done(self) -> bool:
        return self.summary is not None

    @property
    def rank(self) -> int:
        """0, unless a study says otherwise."""
        return 0

    @property
    def summary(self) -> Summary | None:
        """Return the result of an earlier call, if it was of the very same run."""
        found: Summary | None = read_summary(Path(self.file), self.summary_type, self.key)
        return found

    def __call__(self) -> None:
        write_summary(Path(self.file), self.measure())

    @abstractmethod
    def measure(self) -> Summary:
        """Do the work."""


def summaries(runs: Sequence[RecordedRun[Summary]]) -> list[Summary]:
    """Return the measurements of finished runs."""
    return [found for run in runs if (found := run.summary) is not None]


def write_summary(path: Path, summary: Keyed) -> None:
    """Write a summary's file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_bytes(msgspec.json.encode(summary))
    partial.rename(path)


def read_summary(path: Path, kind: type[Summary], key: str) -> Summary | None:
    """The summary in a file, if there is a whole one with that key."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=kind)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
    return found if found.key == key else None


def run_key(parameters: Sequence[Any]) -> str:
    """A digest of everything that a run depends on, this version of shoal included."""
    return digest([*parameters, VERSION])


def content_digest(file: Path) -> str:
    """Return a digest of a file's content that a run depends on."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def digest(values: Sequence[Any]) -> str:
    """Of values that can be written as JSON."""
    return hashlib.sha256(msgspec.json.encode(values)).hexdigest()
