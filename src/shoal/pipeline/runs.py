"""Reads runs' scenarios, for summaries by Spark and without it."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from shoal.frames.errors import TableError

# The last part of a run counts as settled.
SETTLED_FROM = 2 / 3


class RunInfo(NamedTuple):
    """A scenario's data about its run."""

    name: str
    system: str
    window_us: int
    subscriptions: int


def read_runs(folders: Sequence[Path]) -> dict[RunInfo, Path]:
    """Return the data in the runs' scenarios; TableError if a folder is no run, or two have one
    name.
    """
    runs: dict[RunInfo, Path] = {}
    for folder in folders:
        path = folder / "scenario.toml"
        try:
            scenario = tomllib.loads(path.read_text(encoding="utf-8"))
            info = RunInfo(
                folder.resolve().name,
                scenario["system"],
                scenario["trace"]["window_us"],
                _subscriptions(folder / "checks.json"),
            )
        except FileNotFoundError:
            raise TableError(f"{path}: no such file; is {folder} a run's folder?") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
            raise TableError(f"{path}: not the scenario of a run: {error}") from None
        if info.name in {known.name for known in runs}:
            raise TableError(f"two runs are called {info.name!r}: rename one of the folders")
        runs[info] = folder
    return runs


def _subscriptions(path: Path) -> int:
    """Return how many subscriptions a run had, with and without deliveries; TableError if
    unknown.
    """
    try:
        return int(json.loads(path.read_text(encoding="utf-8"))["subscriptions"])
    except FileNotFoundError:
        raise TableError(f"{path}: no such file; did the run end?") from None
    except (ValueError, KeyError, TypeError):
        raise TableError(f"{path} does not say how many subscriptions there were") from None
