"""Small invented runs, as `shoal simulate` and `shoal summarise` would have written them."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.experiments.run_files import RUN_TABLES

Place = tuple[str, float | None, float | None, str]

AIRPORTS: tuple[Place, ...] = (
    ("ANC", 61.17, -149.99, "Ted Stevens Anchorage Intl"),
    ("ATL", 33.64, -84.43, "Hartsfield Jackson Atlanta Intl"),
    ("EWR", 40.69, -74.17, "Newark Liberty Intl"),
    ("HNL", 21.32, -157.92, "Honolulu Intl"),
    ("JFK", 40.64, -73.78, "John F Kennedy Intl"),
    ("LAX", 33.94, -118.41, "Los Angeles Intl"),
    ("LGA", 40.78, -73.87, "La Guardia"),
    ("ORD", 41.98, -87.90, "Chicago Ohare Intl"),
    ("SEA", 47.45, -122.31, "Seattle Tacoma Intl"),
    ("SJU", 18.44, -66.00, "Luis Munoz Marin <Intl> & more"),
)
SECONDS = 300
HOMES = ("EWR", "JFK", "LGA")


def write(
    folder: Path, rows: Sequence[Mapping[str, Any]], schema: Mapping[str, pa.DataType]
) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(
        [dict(row) for row in rows], schema=pa.schema(list(schema.items()))
    )
    pq.write_table(table, folder)


def make_runs(
    root: Path,
    names: Sequence[str] = ("baseline", "load100", "delay100"),
    places: Sequence[Place] = AIRPORTS,
    publishers: int = 12,
    seed: int = 1,
) -> tuple[list[Path], Path]:
    """Write the runs' folders and their summary; returns both. The first run has no moves."""
    tables: dict[str, list[dict[str, Any]]] = {
        table: [] for table in ("runs", "brokers", "timeline", "moves", "costs")
    }
    brokers = [place[0] for place in places]
    links = [
        (brokers[random.Random(f"{seed}-{index}").randrange(index)], broker)
        for index, broker in enumerate(brokers)
        if index
    ]
    homes = [broker for broker in brokers if broker in HOMES] or brokers[:1]
    for number, name in enumerate(names):
        rng = random.Random(f"{seed}-{name}")
        factor, delay_factor = ((1.0, 1.0), (0.69, 1.06), (0.86, 0.81))[number % 3]
        migrations: list[dict[str, Any]] = []
        for publisher in range(publishers):
            client, home = (
                f"C{publisher}-{homes[publisher % len(homes)]}",
                homes[publisher % len(homes)],
            )
            last, moves = home, 0
            for _ in range(rng.choice((0, 1, 1, 1, 2)) if number and len(brokers) > 1 else 0):
                target = rng.choice([broker for broker in brokers if broker != last])
                paused = (migrations[-1]["paused_us"] if moves else 0) + rng.randrange(
                    10**6, 9 * 10**7
                )
                migrations.append(
                    {"publisher": client, "source": last, "target": target,
                     "path_hops": rng.randint(1, 9), "paused_us": paused,
                     "resumed_us": paused + rng.randint(40_000, 400_000)}
                )  # fmt: skip
                last, moves = target, moves + 1
            tables["moves"].append(
                {"run": name, "publisher": client, "first_broker": home, "last_broker": last,
                 "moves": moves}
            )  # fmt: skip
        for index, broker in enumerate(brokers):
            rate = factor * 90 / (1 + index % 17) * rng.uniform(0.8, 1.2)
            tables["brokers"].append({"run": name, "broker": broker, "message_rate_per_s": rate})
        for second in range(0, SECONDS, 5):
            settled = min(1.0, second / 120)
            rate = (1 + (factor - 1) * settled) * (20 + 8 * rng.random())
            delay = (1 + (delay_factor - 1) * settled) * (60_000 + 9_000 * rng.random())
            tables["timeline"].append(
                {"run": name, "window_start_us": second * 10**6, "message_rate_per_s": rate,
                 "delay_mean_us": None if second == 50 else delay, "deliveries": 100}
            )  # fmt: skip
        for phase, kind, size in (("set-up", "Subscribe", 70), ("publishing", "notice", None)):
            tables["costs"].append(
                {"run": name, "phase": phase, "kind": kind, "messages": 1_000 + number,
                 "bytes": size and size * 1_000}
            )  # fmt: skip
        tables["runs"].append(
            _summary_row(
                name, number, len(brokers), publishers, len(migrations), factor, delay_factor
            )
        )
        _write_run(root / name, number, places, links, migrations, seed)
    summary = root / "summary"
    for table, rows in tables.items():
        write(summary / f"{table}.parquet", rows, SUMMARY_SCHEMAS[table])
    return [root / name for name in names], summary


def _summary_row(
    name: str, number: int, brokers: int, publishers: int, migrations: int,
    factor: float, delay_factor: float,
) -> dict[str, Any]:  # fmt: skip
    return {
        "run": name, "system": "grape" if number else "tree", "brokers": brokers,
        "publishers": publishers, "subscriptions": 1_260, "publications": 27_004,
        "expected": 131_072, "delivered": 131_072, "lost": 0, "duplicated": 0, "phantom": 0,
        "message_rate_per_s": 24.4 * factor, "settled_message_rate_per_s": 24.1 * factor * factor,
        "output_rate_per_s": 12.2 * factor,
        "input_utilisation": 0.0432 * factor, "output_utilisation": 0.113 * factor,
        "delay_mean_us": 64_210.5 * delay_factor, "delay_p50_us": 58_000.0 * delay_factor,
        "delay_p99_us": 181_000.0 * delay_factor,
        "settled_delay_mean_us": 64_000.0 * delay_factor**2,
        "hops_mean": 5.31 * delay_factor, "message_overhead": 0.0213 + 0.03 * bool(number),
        "messages": int(400_000 * factor), "control_messages": 21_000 + 9_000 * number,
        "control_bytes": 1_234_567, "set_up_messages": 15_000, "whole_overhead": 0.11,
        "transfers": int(250_000 * factor), "least_transfers": 120_000,
        "publisher_wait_mean_us": 212_000.0 if number else None,
        "selection_time_mean_us": 1_312_000.0 if number else None, "migrations": migrations,
        "subscriber_moves": 3 * number, "weight_mean": 62.5 if number else None,
    }  # fmt: skip


def _write_run(
    folder: Path, number: int, places: Sequence[Place], links: Sequence[tuple[str, str]],
    migrations: Sequence[Mapping[str, Any]], seed: int,
) -> None:  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    for name, schema in RUN_TABLES.items():
        pq.write_table(schema.empty_table(), folder / f"{name}.parquet")
    write(
        folder / "brokers.parquet",
        [dict(zip(BROKERS, place, strict=True)) for place in places],
        BROKERS,
    )
    write(
        folder / "links.parquet",
        [{"left": left, "right": right} for left, right in links],
        {"left": pa.string(), "right": pa.string()},
    )
    write(folder / "migrations.parquet", migrations, MIGRATIONS)
    system = "grape" if number else "tree"
    priority = ("", "load", "delay")[number % 3]
    lines = [f'system = "{system}"', f"seed = {seed}", "[grape]", f'priority = "{priority}"']
    (folder / "scenario.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    checks = {"published": 27_004, "delivered": 131_072, "duplicates": 0, "seed": seed}
    (folder / "checks.json").write_text(json.dumps(checks), encoding="utf-8")


BROKERS = {
    "broker": pa.string(), "latitude": pa.float64(), "longitude": pa.float64(), "name": pa.string(),
}  # fmt: skip
MIGRATIONS = {
    "publisher": pa.string(), "source": pa.string(), "target": pa.string(),
    "path_hops": pa.int64(), "paused_us": pa.int64(), "resumed_us": pa.int64(),
}  # fmt: skip
_COUNTS = (
    "brokers", "publishers", "subscriptions", "publications", "expected", "delivered", "lost",
    "duplicated", "phantom", "migrations", "subscriber_moves", "messages", "control_messages",
    "control_bytes", "set_up_messages", "transfers", "least_transfers",
)  # fmt: skip
SUMMARY_SCHEMAS: dict[str, dict[str, pa.DataType]] = {
    "runs": {
        name: pa.string() if name in ("run", "system")
        else pa.int64() if name in _COUNTS else pa.float64()
        for name in _summary_row("", 0, 0, 0, 0, 1.0, 1.0)
    },
    "brokers": {"run": pa.string(), "broker": pa.string(), "message_rate_per_s": pa.float64()},
    "timeline": {
        "run": pa.string(), "window_start_us": pa.int64(), "message_rate_per_s": pa.float64(),
        "delay_mean_us": pa.float64(), "deliveries": pa.int64(),
    },
    "moves": {
        "run": pa.string(), "publisher": pa.string(), "first_broker": pa.string(),
        "last_broker": pa.string(), "moves": pa.int64(),
    },
    "costs": {
        "run": pa.string(), "phase": pa.string(), "kind": pa.string(), "messages": pa.int64(),
        "bytes": pa.int64(),
    },
}  # fmt: skip


def proposal(at_s: int, outcome: str, new: str, old: str) -> dict[str, Any]:
    """A row of a run's proposals; links as in "EWR-ORD"."""
    left, right = new.split("-")
    old_left, old_right = old.split("-")
    return {
        "broker": right, "at_us": at_s * 10**6, "outcome": outcome, "reason": "", "left": left,
        "right": right, "old_left": old_left, "old_right": old_right, "hops": 2,
        "cost_now": 120.0, "cost_then": 80.0,
    }  # fmt: skip


def write_proposals(run: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """The run's brokers propose links."""
    pq.write_table(pa.Table.from_pylist([dict(row) for row in rows]), run / "proposals.parquet")
