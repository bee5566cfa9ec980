"""The summary of small runs without Spark; the same tables that `summaries.py` writes.

`summaries.py` defines the metrics.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types

from shoal.frames.folders import new_folder
from shoal.pipeline import schemas
from shoal.pipeline.runs import SETTLED_FROM, RunInfo, read_runs
from shoal.pipeline.small.tables import NeedsSparkError, are_small, read_columns, write_part

_Row = dict[str, Any]
_Numbers = npt.NDArray[np.int64]

_KEY = [*schemas.PUBLICATION_KEY, "subscription"]
_COUNTS = ("messages_in", "messages_out", "control_in", "control_out", "input_busy_us",
           "output_busy_us")  # fmt: skip


class _Period(NamedTuple):
    """The windows in which there were publications; from `settled_us` on they count as settled."""

    from_us: int
    until_us: int
    settled_us: int


class _SummarisedRun:
    """One run's tables; `load` is restricted to the period, and both are None without one."""

    def __init__(self, info: RunInfo, folder: Path) -> None:
        self.info = info
        self._folder = folder
        self.brokers = [str(name) for name in self.read("brokers")["broker"].to_pylist()]
        self.publications = self.read("publications")
        self.deliveries = self.read("deliveries")
        self.published_us = _numbers(self.deliveries["published_us"])
        self.delay_us = _numbers(self.deliveries["delivered_us"]) - self.published_us
        self.hops = _numbers(self.deliveries["hops"])
        self.migrations = self.read("migrations").to_pylist()
        self.period = _period(_numbers(self.publications["published_us"]), info.window_us)
        self.load = self._load()

    def read(self, name: str) -> pa.Table:
        """TableError names a missing one."""
        return read_columns(self._folder / f"{name}.parquet", schemas.TRACES[name])

    def _load(self) -> list[_Row]:
        rows: list[_Row] = self.read("load").to_pylist()
        if self.period is None:
            return []
        from_us, until_us, _ = self.period
        return [row for row in rows if from_us <= row["window_start_us"] < until_us]


def write_small_summary(
    folders: Sequence[Path], truth: Path, out: Path, *, window_us: int, overwrite: bool = False
) -> None:
    """The same as `write_summary` without Spark; NeedsSparkError where that must read."""
    if not are_small([truth, *folders]):
        raise NeedsSparkError("the input is above 10 MB")
    wanted = read_columns(truth, schemas.TRUTH)
    runs = [_SummarisedRun(info, folder) for info, folder in read_runs(folders).items()]
    runs.sort(key=lambda run: run.info.name)
    tables = {
        "runs": (schemas.RUN_METRICS, [_metrics(run, wanted) for run in runs]),
        "brokers": (schemas.BROKER_METRICS, [row for run in runs for row in _brokers(run)]),
        "timeline": (schemas.TIMELINE, [row for run in runs for row in _timeline(run, window_us)]),
        "moves": (schemas.MOVES, [row for run in runs for row in _moves(run)]),
    }
    with new_folder(out, overwrite=overwrite) as folder:
        for name, (schema, rows) in tables.items():
            table = pa.Table.from_pylist(rows, schemas.arrow_schema(schema))
            write_part(table, folder / f"{name}.parquet")


def _period(published_us: _Numbers, width: int) -> _Period | None:
    """In whole windows."""
    if not len(published_us):
        return None
    from_us = int(published_us.min()) // width * width
    until_us = (int(published_us.max()) // width + 1) * width
    settled = math.floor((from_us + (until_us - from_us) * SETTLED_FROM) / width)
    return _Period(from_us, until_us, settled * width)


def _metrics(run: _SummarisedRun, truth: pa.Table) -> _Row:
    """A missing value is null."""
    found: _Row = {
        "run": run.info.name,
        "system": run.info.system,
        "brokers": len(run.brokers) or None,
        "subscriptions": run.info.subscriptions,
        **_verdict(run, truth),
        **_load_metrics(run),
        **_delivery_metrics(run),
        **_move_metrics(run),
    }
    if run.period is not None:
        publishers = set(run.publications["publisher"].to_pylist())
        found |= {"publishers": len(publishers), "publications": run.publications.num_rows}
    return found


def _verdict(run: _SummarisedRun, truth: pa.Table) -> _Row:
    """Expected against delivered; the truth of publications that a run did not have is left out."""
    published = run.publications.select(schemas.PUBLICATION_KEY)
    expected = published.join(truth, list(schemas.PUBLICATION_KEY), join_type="inner")
    delivered = run.deliveries.select(_KEY).group_by(_KEY).aggregate([([], "count_all")])
    came = expected.join(delivered, _KEY, join_type="inner").num_rows
    count = run.deliveries.num_rows
    if not count and not expected.num_rows:
        return {}
    return {
        "expected": expected.num_rows,
        "delivered": count,
        "lost": expected.num_rows - came,
        "duplicated": count - delivered.num_rows,
        "phantom": delivered.num_rows - came,
    }


def _sums(rows: Sequence[_Row]) -> Counter[str]:
    return Counter({name: sum(row[name] for row in rows) for name in _COUNTS})


def _rates(rows: Sequence[_Row], duration_us: int) -> _Row:
    """Return the common rates of a run and a broker, over a time that is summed over brokers."""
    sums = _sums(rows)
    return {
        "message_rate_per_s": sums["messages_in"] * 1_000_000 / duration_us,
        "output_rate_per_s": sums["messages_out"] * 1_000_000 / duration_us,
        "input_utilisation": sums["input_busy_us"] / duration_us,
        "output_utilisation": sums["output_busy_us"] / duration_us,
    }


def _load_metrics(run: _SummarisedRun) -> _Row:
    if run.period is None or not run.load:
        return {}
    from_us, until_us, settled_us = run.period
    found = _rates(run.load, len(run.brokers) * (until_us - from_us))
    sums = _sums(run.load)
    messages = sums["messages_in"] + sums["messages_out"]
    control = sums["control_in"] + sums["control_out"]
    found["message_overhead"] = control / messages if messages else None
    settled = [row for row in run.load if row["window_start_us"] >= settled_us]
    if settled:
        last = _rates(settled, len(run.brokers) * (until_us - settled_us))
        found["settled_message_rate_per_s"] = last["message_rate_per_s"]
    return found


def _delivery_metrics(run: _SummarisedRun) -> _Row:
    settled = run.published_us >= (run.period.settled_us if run.period is not None else 0)
    return {
        "delay_mean_us": _mean(run.delay_us),
        "delay_p50_us": _percentile(run.delay_us, 0.5),
        "delay_p99_us": _percentile(run.delay_us, 0.99),
        "hops_mean": _mean(run.hops),
        "settled_delay_mean_us": _mean(run.delay_us[settled]),
        "settled_hops_mean": _mean(run.hops[settled]),
    }


def _move_metrics(run: _SummarisedRun) -> _Row:
    selections = run.read("selections").to_pylist()
    chosen = [*selections, *run.read("subscriber_selections").to_pylist()]
    return {
        "migrations": len(run.migrations),
        "publisher_wait_mean_us": _mean(_waits(run.migrations)),
        "selection_time_mean_us": _mean(
            [row["decided_us"] - row["requested_us"] for row in selections]
        ),
        "subscriber_moves": run.read("subscriber_moves").num_rows,
        "weight_mean": _mean([row["weight"] for row in chosen if row["weight"] is not None]),
    }


def _waits(migrations: Sequence[_Row]) -> list[int]:
    return [row["resumed_us"] - row["paused_us"] for row in migrations]


def _brokers(run: _SummarisedRun) -> list[_Row]:
    """One row per broker; a broker without work has zeros."""
    by_broker: dict[str, list[_Row]] = {}
    for row in run.load:
        by_broker.setdefault(row["broker"], []).append(row)
    period = run.period
    duration_us = 1 if period is None else period.until_us - period.from_us
    return [
        {"run": run.info.name, "broker": broker, **_rates(by_broker.get(broker, []), duration_us)}
        for broker in sorted(run.brokers)
    ]


def _timeline(run: _SummarisedRun, width: int) -> list[_Row]:
    """One row per window in which something happened, and for its neighbours in the period."""
    if run.period is None:
        return []
    from_us, until_us, _ = run.period
    messages: Counter[int] = Counter()
    for row in run.load:
        messages[row["window_start_us"] // width * width] += row["messages_in"]
    starts = {start + at for start in messages for at in (-width, 0, width)}
    windows = run.published_us // width * width
    rows = []
    for start in sorted(start for start in starts if start + width > from_us and start < until_us):
        covered_us = min(until_us, start + width) - max(from_us, start)
        delays = run.delay_us[windows == start]
        rows.append(
            {
                "run": run.info.name,
                "window_start_us": start,
                "message_rate_per_s": messages[start] * 1_000_000 / (len(run.brokers) * covered_us),
                "delay_mean_us": _mean(delays),
                "deliveries": len(delays),
            }
        )
    return rows


def _moves(run: _SummarisedRun) -> list[_Row]:
    """One row per publisher."""
    names = ("publisher", "sequence", "first_broker")
    columns = [run.publications[name].to_pylist() for name in names]
    stays: dict[str, list[tuple[int, str]]] = {}
    for publisher, sequence, broker in zip(*columns, strict=True):
        stays.setdefault(publisher, []).append((sequence, broker))
    migrations: dict[str, list[_Row]] = {}
    for row in run.migrations:
        migrations.setdefault(row["publisher"], []).append(row)
    return [
        {
            "run": run.info.name,
            "publisher": publisher,
            "first_broker": min(found)[1],
            "last_broker": max(found)[1],
            "moves": len(migrations.get(publisher, ())),
            "waited_us": sum(_waits(migrations.get(publisher, ()))),
        }
        for publisher, found in sorted(stays.items())
    ]


def _numbers(column: pa.ChunkedArray) -> _Numbers:
    return np.asarray(column, np.int64)


def _mean(values: _Numbers | Sequence[int]) -> float | None:
    return int(np.sum(values)) / len(values) if len(values) else None


def _percentile(values: _Numbers, share: float) -> float | None:
    """The exact one, between the two nearest values."""
    if not len(values):
        return None
    ordered = np.sort(values)
    place = (len(ordered) - 1) * share
    below, above = math.floor(place), math.ceil(place)
    low, high = int(ordered[below]), int(ordered[above])
    return float(low) if low == high else (above - place) * low + (place - below) * high
