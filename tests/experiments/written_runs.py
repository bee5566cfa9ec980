"""Runs that are written by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shoal.experiments.runs.run_folder import RunFolder
from shoal.experiments.scenarios.scenario import Scenario


def write_run(
    path: Path,
    rows: Mapping[str, Sequence[tuple[Any, ...]]],
    checks: Mapping[str, Any],
    scenario: Scenario,
    *,
    overwrite: bool = False,
) -> None:
    """Write a run with these rows, by table; all other tables are empty."""
    with RunFolder(path, overwrite=overwrite) as folder:
        for table, found in rows.items():
            folder.sink.add(table, found)
        folder.sink.close()
        folder.finish(checks, scenario)
