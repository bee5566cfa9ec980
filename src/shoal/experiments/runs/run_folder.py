"""The folder of a run: its tables, checks and scenario, all together or not at all.

While a run goes on its tables grow in a hidden folder beside the run's own, in whose place it is
put in the end. A killed run leaves only the hidden folder, with tables that cannot be read; the
next run there replaces it. A run's tables have declared columns and types, and hold nothing but
data: no times, no machine.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # pyarrow ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # as above

from shoal.experiments.run_files import RunFileError
from shoal.experiments.runs.trace_sinks import ParquetSink
from shoal.experiments.scenarios.scenario import Scenario, dump_scenario
from shoal.pipeline.checks.provenance import write_note


class RunFolder:
    """Use as `with RunFolder(path) as folder: ...; folder.finish(...)`; without `finish`, and after
    an error, nothing is left of it.

    An existing folder is replaced only with `overwrite`, and only if it is empty or a run;
    RunFileError otherwise.
    """

    def __init__(self, path: Path, *, overwrite: bool = False) -> None:
        check_target(path, overwrite=overwrite)
        self._path = path
        self._overwrite = overwrite
        self._partial = path.with_name(f".{path.name}.partial")

    def __enter__(self) -> RunFolder:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self._partial, ignore_errors=True)
        self._partial.mkdir()
        self.sink = ParquetSink(self._partial)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._partial.exists():
            self.sink.abandon()
            shutil.rmtree(self._partial, ignore_errors=True)

    def finish(
        self,
        checks: Mapping[str, Any],
        scenario: Scenario,
        seeds: Sequence[msgspec.Struct] = (),
    ) -> None:
        """Put the run in its place; its sink is closed.

        `seeds` are the figures of this and of further seeds, if there are any (`seeds.py`).
        """
        if seeds:
            rows = pa.Table.from_pylist([msgspec.structs.asdict(each) for each in seeds])
            pq.write_table(rows, self._partial / "seeds.parquet")
        text = json.dumps(checks, indent=2, sort_keys=True)
        (self._partial / "checks.json").write_text(text + "\n", encoding="utf-8")
        scenario_text = dump_scenario(scenario, self._path)
        (self._partial / "scenario.toml").write_text(scenario_text, encoding="utf-8")
        workload = Path(scenario.workload.path)
        if workload.is_dir():
            write_note(workload, self._partial, self._path)
        check_target(self._path, overwrite=self._overwrite)
        if self._path.exists():
            shutil.rmtree(self._path)
        self._partial.rename(self._path)


def check_target(path: Path, *, overwrite: bool) -> None:
    """RunFileError unless a run may be written to `path`; ask before a long run, not after it."""
    if path.resolve() == Path.cwd():
        raise RunFileError(
            f"{path}: a run takes its folder's place; choose another folder than the current one"
        )
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    if not (path / "checks.json").is_file():
        raise RunFileError(f"{path}: exists and is no run; choose another folder")
    if not overwrite:
        raise RunFileError(f"{path}: holds a run already; choose another folder, or --overwrite")
