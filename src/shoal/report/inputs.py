"""Input of a report: the runs' folders and the tables that `shoal summarise` wrote.

Every column that the report needs is declared here once, with its kind; a table that is missing,
or has another shape, is a `ReportError` that names the file and the column.  All figures come
from the summary: the report computes nothing but differences between runs.

>>> [column.name for column in TABLES["links"]]
['left', 'right']
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]  # pyarrow ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # as above

from shoal.overlays.registry import SYSTEMS
from shoal.overlays.trace_rows import Kind, columns_of

Row = dict[str, Any]

TEXT = "text"
COUNT = "whole number"
NUMBER = "number"


_KINDS: Mapping[Kind, str] = {"text": TEXT, "integer": COUNT, "double": NUMBER}


class ReportError(ValueError):
    """An input of the report is missing or misshapen; the message names file and column."""


class ReportColumn(NamedTuple):
    """One column that the report reads; `optional` values may be null.

    With `may_lack` a table without the column has nulls.
    """

    name: str
    kind: str
    optional: bool = False
    may_lack: bool = False


TABLES: Mapping[str, tuple[ReportColumn, ...]] = {
    "runs": (
        ReportColumn("run", TEXT),
        ReportColumn("system", TEXT),
        *(
            ReportColumn(name, COUNT)
            for name in ("brokers", "publishers", "subscriptions", "publications", "expected")
        ),
        *(ReportColumn(name, COUNT) for name in ("delivered", "lost", "duplicated", "phantom")),
        ReportColumn("message_rate_per_s", NUMBER),
        ReportColumn("settled_message_rate_per_s", NUMBER, optional=True),
        ReportColumn("output_rate_per_s", NUMBER),
        ReportColumn("input_utilisation", NUMBER),
        ReportColumn("output_utilisation", NUMBER),
        ReportColumn("delay_mean_us", NUMBER, optional=True),
        ReportColumn("delay_p50_us", NUMBER, optional=True),
        ReportColumn("delay_p99_us", NUMBER, optional=True),
        ReportColumn("settled_delay_mean_us", NUMBER, optional=True),
        ReportColumn("hops_mean", NUMBER, optional=True),
        ReportColumn("message_overhead", NUMBER, optional=True),
        *(
            ReportColumn(name, COUNT, optional=True)
            for name in (
                "messages",
                "control_messages",
                "control_bytes",
                "set_up_messages",
                "transfers",
                "least_transfers",
            )
        ),
        ReportColumn("whole_overhead", NUMBER, optional=True),
        ReportColumn("publisher_wait_mean_us", NUMBER, optional=True),
        ReportColumn("selection_time_mean_us", NUMBER, optional=True),
        ReportColumn("migrations", COUNT),
        ReportColumn("subscriber_moves", COUNT),
        ReportColumn("weight_mean", NUMBER, optional=True),
        ReportColumn("spared", COUNT, optional=True, may_lack=True),
    ),
    "broker_loads": (
        ReportColumn("run", TEXT),
        ReportColumn("broker", TEXT),
        ReportColumn("message_rate_per_s", NUMBER),
    ),
    "timeline": (
        ReportColumn("run", TEXT),
        ReportColumn("window_start_us", COUNT),
        ReportColumn("message_rate_per_s", NUMBER),
        ReportColumn("delay_mean_us", NUMBER, optional=True),
    ),
    "moves": (
        ReportColumn("run", TEXT),
        ReportColumn("publisher", TEXT),
        ReportColumn("first_broker", TEXT),
        ReportColumn("last_broker", TEXT),
        ReportColumn("moves", COUNT),
    ),
    "costs": (
        ReportColumn("run", TEXT),
        ReportColumn("phase", TEXT),
        ReportColumn("kind", TEXT),
        ReportColumn("messages", COUNT),
        ReportColumn("bytes", COUNT, optional=True),
    ),
    "brokers": (
        ReportColumn("broker", TEXT),
        ReportColumn("latitude", NUMBER, optional=True),
        ReportColumn("longitude", NUMBER, optional=True),
        ReportColumn("name", TEXT, optional=True),
    ),
    "links": (ReportColumn("left", TEXT), ReportColumn("right", TEXT)),
    "migrations": (
        ReportColumn("publisher", TEXT),
        ReportColumn("source", TEXT),
        ReportColumn("target", TEXT),
        ReportColumn("path_hops", COUNT),
        ReportColumn("paused_us", COUNT),
        ReportColumn("resumed_us", COUNT),
    ),
    "proposals": (
        ReportColumn("at_us", COUNT),
        ReportColumn("outcome", TEXT),
        ReportColumn("left", TEXT),
        ReportColumn("right", TEXT),
        ReportColumn("old_left", TEXT, optional=True),
        ReportColumn("old_right", TEXT, optional=True),
        ReportColumn("hops", COUNT),
        ReportColumn("cost_now", NUMBER, optional=True),
        ReportColumn("cost_then", NUMBER, optional=True),
    ),
    "seeds": (
        *(ReportColumn(name, COUNT) for name in ("seed", "delivered", "wrong")),
        ReportColumn("message_rate_per_s", NUMBER),
        ReportColumn("delay_mean_us", NUMBER, optional=True),
        ReportColumn("hops_mean", NUMBER, optional=True),
        ReportColumn("message_overhead", NUMBER),
        *(ReportColumn(name, COUNT) for name in ("migrations", "subscriber_moves", "exchanges")),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRun:
    """One run: its scenario and network as simulated, and its rows of every summary table.

    `events` are its brokers' reported events, in order: time, in virtual microseconds, and text.
    `seeds` has a row for each seed, this run's own among them; it is empty where there is one.
    """

    name: str
    scenario: Mapping[str, Any]
    checks: Mapping[str, Any]
    brokers: Sequence[Row]
    links: Sequence[tuple[str, str]]
    metrics: Row
    loads: Mapping[str, float]
    timeline: Sequence[Row]
    moves: Sequence[Row]
    costs: Sequence[Row]
    migrations: Sequence[Row]
    proposals: Sequence[Row]
    events: Sequence[tuple[int, str]] = ()
    seeds: Sequence[Row] = ()


def read_runs(run_directories: Sequence[Path], summary: Path) -> list[ReportRun]:
    """Read the runs in the order given (the first is the reference)."""
    if not run_directories:
        raise ReportError("no run given: name at least one run's folder")
    names = [directory.resolve().name for directory in run_directories]
    for name in names:
        if names.count(name) > 1:
            raise ReportError(f"two runs are called {name!r}: rename one of the folders")
    tables = {
        table: _by_run(read_table(summary / f"{file}.parquet", TABLES[table]))
        for table, file in (
            ("runs", "runs"),
            ("broker_loads", "brokers"),
            ("timeline", "timeline"),
            ("moves", "moves"),
            ("costs", "costs"),
        )
    }
    for name in names:
        if name not in tables["runs"]:
            known = ", ".join(sorted(tables["runs"])) or "none"
            raise ReportError(
                f"{summary / 'runs.parquet'}: column 'run' has no {name!r} (it has: {known}); "
                "summarise this run first"
            )
    return [
        _read_run(directory, {table: rows.get(name, []) for table, rows in tables.items()})
        for name, directory in zip(names, run_directories, strict=True)
    ]


def _read_run(directory: Path, rows: Mapping[str, Sequence[Row]]) -> ReportRun:
    links = read_table(directory / "links.parquet", TABLES["links"])
    brokers = read_table(directory / "brokers.parquet", TABLES["brokers"])
    known = {row["broker"] for row in brokers}
    for row in links:
        for end in ("left", "right"):
            if row[end] not in known:
                raise ReportError(
                    f"{directory / 'links.parquet'}: column {end!r} names broker {row[end]!r}, "
                    f"which {directory / 'brokers.parquet'} does not have"
                )
    migrations = read_table(directory / "migrations.parquet", TABLES["migrations"])
    proposals = read_table(directory / "proposals.parquet", TABLES["proposals"])
    by_seed = directory / "seeds.parquet"
    checks = _read_json(directory / "checks.json")
    return ReportRun(
        name=directory.resolve().name,
        scenario=_read_toml(directory / "scenario.toml"),
        checks=checks,
        brokers=sorted(brokers, key=lambda row: str(row["broker"])),
        links=sorted((row["left"], row["right"]) for row in links),
        # A run checks order by itself; the summary compares with the truth.
        metrics={
            **rows["runs"][0],
            "out_of_order": checks.get("out_of_order", 0),
            "exchanges": sum(row["outcome"] == "done" for row in proposals),
        },
        loads={row["broker"]: row["message_rate_per_s"] for row in rows["broker_loads"]},
        timeline=sorted(rows["timeline"], key=lambda row: int(row["window_start_us"])),
        moves=sorted(rows["moves"], key=lambda row: str(row["publisher"])),
        costs=rows["costs"],
        migrations=sorted(migrations, key=lambda row: (row["resumed_us"], row["publisher"])),
        events=_events(directory, rows["runs"][0]["system"]),
        proposals=sorted(proposals, key=lambda row: (row["at_us"], row["left"], row["right"])),
        seeds=read_table(by_seed, TABLES["seeds"]) if by_seed.exists() else (),
    )


def _events(directory: Path, name: str) -> list[tuple[int, str]]:
    """Return the events in the rows of its system's tables."""
    system = SYSTEMS.get(name)
    found: list[tuple[int, str]] = []
    for table, kind in (system.told if system is not None else {}).items():
        columns = [
            ReportColumn(name, _KINDS[each], optional=True)
            for name, each in columns_of(kind).items()
        ]
        rows = read_table(directory / f"{table}.parquet", columns)
        told = [kind(**row) for row in rows]
        found += [(row.at_us, row.in_words()) for row in told]
    return sorted(found)


def read_table(path: Path, columns: Sequence[ReportColumn]) -> list[Row]:
    """The rows of a Parquet file, or of a folder of part files, restricted to `columns`."""
    if not path.exists():
        made = "has `shoal simulate` or `shoal summarise` made that folder?"
        raise ReportError(f"{path}: no such table; {made}")
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise ReportError(f"{path}: not a Parquet table ({error})") from None
    for column in columns:
        if column.may_lack and column.name not in table.column_names:
            table = table.append_column(column.name, pa.nulls(table.num_rows))
        if column.name not in table.column_names:
            raise ReportError(f"{path}: column {column.name!r} is missing")
        data = table.column(column.name)
        if not _suits(data.type, column.kind):
            raise ReportError(
                f"{path}: column {column.name!r} holds {data.type}, expected {column.kind}"
            )
        if data.null_count and not column.optional:
            raise ReportError(f"{path}: column {column.name!r} has {data.null_count} null values")
    rows: list[Row] = table.select([column.name for column in columns]).to_pylist()
    return rows


def _suits(kind: Any, wanted: str) -> bool:
    if pa.types.is_null(kind):
        return True
    if wanted == TEXT:
        return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
    if wanted == COUNT:
        return bool(pa.types.is_integer(kind))
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _by_run(rows: Sequence[Row]) -> dict[str, list[Row]]:
    grouped: dict[str, list[Row]] = {}
    for row in rows:
        grouped.setdefault(row["run"], []).append(row)
    return grouped


def _read_toml(path: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ReportError(f"{path}: no such file; is {path.parent} a run's folder?") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ReportError(f"{path}: not TOML: {error}") from None


def _read_json(path: Path) -> Mapping[str, Any]:
    try:
        checks = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ReportError(f"{path}: no such file; did the run end?") from None
    except ValueError as error:
        raise ReportError(f"{path}: not JSON: {error}") from None
    if not isinstance(checks, dict):
        raise ReportError(f"{path}: expected a JSON object")
    return checks
