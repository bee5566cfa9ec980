"""From runs and the truth to the paper's metrics.

One function summarises one run, whose tables were in the memory of the simulator that wrote them;
a loop calls it for small runs, and a Spark task for each of the others.

Deliveries are compared with the truth pair by pair: lost are expected deliveries that never came,
duplicated are repeated ones, phantom are deliveries without a matching subscription. Of a
subscription that comes and goes only its times count. Spared are the expected deliveries that a
subscription with `$every` or `$changed` did not need. Load is counted in
the windows in which publications were published, so that the network's set-up before does not
count; `settled_` metrics are those of the last third of that time, when relocation has done most of
its work.

Costs count from the first message to the last, in three phases: set-up before the first
publication, publishing until the last, and the rest. `transfers` are copies of publications that
brokers sent to brokers, in batches or in messages of a system's own. `least_transfers` is the lower
bound of any overlay for the same deliveries: each publication goes over one link to each broker
that delivers it, but the one where it was published.

Rates are messages per second of virtual time, averaged over all brokers, in the sense of the
relocation paper (section 5.2) and of its study here: the message rate counts messages that come in,
publications and control messages; the output rate those that go out, deliveries too.  Utilisation
is the share of time in which the input (matching) or output (transmission) is busy; the paper's
input load is the input utilisation.  Message overhead is the share of control messages in all while
publications are published.  The whole overhead is the share of messages without a publication in
all that brokers sent in the whole run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.compute as pc  # type: ignore[import-untyped]  # as above
from pyspark.sql import SparkSession

from shoal.frames.errors import TableError
from shoal.frames.folders import new_folder
from shoal.pipeline import schemas
from shoal.pipeline.runs import SETTLED_FROM, RunInfo, read_runs
from shoal.pipeline.small.tables import NeedsSparkError, are_small, read_columns, write_part

_Row = dict[str, Any]
_Numbers = npt.NDArray[np.int64]

_KEY = [*schemas.PUBLICATION_KEY, "subscription"]
_COUNTS = ("messages_in", "messages_out", "control_in", "control_out", "input_busy_us",
           "output_busy_us")  # fmt: skip
_READ = ("brokers", "publications", "deliveries", "load", "control", "selections", "migrations",
         "subscriber_selections", "subscriber_moves")  # fmt: skip
# Kinds of messages in the table of costs, beside the types of control messages.
TRANSFER, DELIVERY, NOTICE = "publication to a broker", "publication to a client", "notice"
# The tables of a summary.
_SUMMARY = {
    "runs": schemas.RUN_METRICS,
    "brokers": schemas.BROKER_METRICS,
    "timeline": schemas.TIMELINE,
    "moves": schemas.MOVES,
    "costs": schemas.COSTS,
}


class _Period(NamedTuple):
    """The windows in which there were publications; from `settled_us` on they count as settled."""

    from_us: int
    until_us: int
    settled_us: int


class _SummarisedRun:
    """One run's tables; `load` is restricted to the period, and empty without one."""

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
        self.whole_load = self.read("load")
        self.load = self._load()

    def read(self, name: str) -> pa.Table:
        """TableError names a missing one."""
        return read_columns(self._folder / f"{name}.parquet", schemas.TRACES[name])

    def conflated(self) -> pa.Table:
        """The names of subscriptions with `$every` or `$changed`; runs may lack the table."""
        if (self._folder / "conflated.parquet").exists():
            return self.read("conflated").select(["subscription"])
        return pa.table({"subscription": pa.array([], pa.string())})

    def expected(self, truth: pa.Table) -> pa.Table:
        """The truth of this run's publications, while their subscriptions are there."""
        published = self.publications.select([*schemas.PUBLICATION_KEY, "published_us"])
        found = published.join(truth, list(schemas.PUBLICATION_KEY), join_type="inner")
        path = self._folder / "subscribed.parquet"
        spans = self.read("subscribed") if path.exists() else None
        if spans is not None and spans.num_rows:
            steady = found.join(spans, "subscription", join_type="left anti")
            coming = found.join(spans, "subscription", join_type="inner")
            time_us, until_us = pc.field("published_us"), pc.field("until_us")
            is_there = (pc.field("from_us") <= time_us) & (
                until_us.is_null() | (time_us < until_us)
            )
            found = pa.concat_tables([steady.select(_KEY), coming.filter(is_there).select(_KEY)])
        return found.select(_KEY)

    def _load(self) -> pa.Table:
        load = self.whole_load
        if self.period is None:
            return load.slice(0, 0)
        start = pc.field("window_start_us")
        return load.filter((start >= self.period.from_us) & (start < self.period.until_us))

    def phases(self, table: pa.Table) -> dict[str, pa.Table]:
        """The rows of a table with windows by phase; all is set-up if nothing was published."""
        if self.period is None:
            return {"set-up": table}
        start = pc.field("window_start_us")
        from_us, until_us, _ = self.period
        return {
            "set-up": table.filter(start < from_us),
            "publishing": table.filter((start >= from_us) & (start < until_us)),
            "after": table.filter(start >= until_us),
        }


def write_small_summary(
    folders: Sequence[Path], truth: Path, out: Path, *, window_us: int, overwrite: bool = False
) -> None:
    """The same as `write_summary` without Spark; NeedsSparkError where that must read."""
    if not are_small([truth, *folders]):
        raise NeedsSparkError("the input is above 10 MB")
    runs = _checked(folders)
    expected = read_columns(truth, schemas.TRUTH)
    summaries = [_summary(info, folder, expected, window_us) for info, folder in runs]
    _write(_together(summaries), out, overwrite=overwrite)


def write_summary(
    spark: SparkSession,
    folders: Sequence[Path],
    truth: Path | pa.Table,
    out: Path,
    *,
    window_us: int,
    overwrite: bool = False,
) -> None:
    """Write the tables of a summary, with a task for each run."""
    _write(summary_tables(spark, folders, truth, window_us=window_us), out, overwrite=overwrite)


def summary_tables(
    spark: SparkSession, folders: Sequence[Path], truth: Path | pa.Table, *, window_us: int
) -> dict[str, pa.Table]:
    """The tables `runs`, `brokers`, `timeline`, `moves` and `costs`, with a task for each run.

    Tasks read the runs' folders, and the truth if that is a path. TableError names a table that is
    missing.
    """
    runs = _checked(folders)
    expected = truth.absolute() if isinstance(truth, Path) else truth

    def summarise(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            info, folder = runs[number]
            whole = expected
            if isinstance(whole, Path):
                whole = read_columns(whole, schemas.TRUTH)
            for name, table in _summary(info, folder, whole, window_us).items():
                row = {"run": number, "table": name, "content": _packed(table)}
                yield pa.RecordBatch.from_pylist([row])

    schema = "run bigint, table string, content binary"
    found = spark.range(0, len(runs), 1, len(runs)).mapInArrow(summarise, schema).collect()
    summaries: list[dict[str, pa.Table]] = [{} for _ in runs]
    for number, name, content in found:
        summaries[number][name] = pa.ipc.open_stream(bytes(content)).read_all()
    return _together(summaries)


def summarise_run(folder: Path, truth: Path) -> Mapping[str, pa.Table]:
    """The tables of one run's folder; the timeline has windows of a second."""
    ((info, path),) = _checked([folder])
    return _summary(info, path, read_columns(truth, schemas.TRUTH), 1_000_000)


def _checked(folders: Sequence[Path]) -> list[tuple[RunInfo, Path]]:
    """The runs by name; TableError names a missing table."""
    runs = sorted(read_runs(folders).items(), key=lambda item: item[0].name)
    for _, folder in runs:
        for name in _READ:
            if not (folder / f"{name}.parquet").exists():
                raise TableError(f"{folder / name}.parquet does not exist")
    # A worker has a folder of its own.
    return [(info, folder.absolute()) for info, folder in runs]


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _together(summaries: Sequence[Mapping[str, pa.Table]]) -> dict[str, pa.Table]:
    """The tables of all runs, run after run."""
    return {name: pa.concat_tables([each[name] for each in summaries]) for name in _SUMMARY}


def _write(tables: Mapping[str, pa.Table], out: Path, *, overwrite: bool) -> None:
    with new_folder(out, overwrite=overwrite) as folder:
        for name, table in tables.items():
            write_part(table, folder / f"{name}.parquet")


def _summary(info: RunInfo, folder: Path, truth: pa.Table, window_us: int) -> dict[str, pa.Table]:
    """The tables of one run."""
    run = _SummarisedRun(info, folder)
    rows = {
        "runs": [_metrics(run, truth)],
        "brokers": _brokers(run),
        "timeline": _timeline(run, window_us),
        "moves": _moves(run),
        "costs": _costs(run),
    }
    return {
        name: pa.Table.from_pylist(rows[name], schemas.arrow_schema(schema))
        for name, schema in _SUMMARY.items()
    }


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
        **_cost_metrics(run),
        **_delivery_metrics(run),
        **_move_metrics(run),
    }
    if run.period is not None:
        publishers = pc.count_distinct(run.publications["publisher"]).as_py()
        found |= {"publishers": publishers, "publications": run.publications.num_rows}
    return found


def _verdict(run: _SummarisedRun, truth: pa.Table) -> _Row:
    """Expected against delivered; the truth of publications that a run did not have is left out."""
    expected = run.expected(truth)
    delivered = run.deliveries.select(_KEY).group_by(_KEY).aggregate([([], "count_all")])
    arrived = expected.join(delivered, _KEY, join_type="inner")
    came = arrived.num_rows
    conflated = run.conflated()
    spared = _rows_of(expected, conflated) - _rows_of(arrived, conflated)
    count = run.deliveries.num_rows
    if not count and not expected.num_rows:
        return {}
    return {
        "expected": expected.num_rows,
        "delivered": count,
        "lost": expected.num_rows - came - spared,
        "spared": spared if conflated.num_rows else None,
        "duplicated": count - delivered.num_rows,
        "phantom": delivered.num_rows - came,
    }


def _rows_of(table: pa.Table, conflated: pa.Table) -> int:
    """The number of rows of these subscriptions."""
    if not conflated.num_rows:
        return 0
    return int(table.join(conflated, "subscription", join_type="inner").num_rows)


def _sums(load: pa.Table) -> dict[str, int]:
    return {name: _sum(load[name]) for name in _COUNTS}


def _rates(sums: Mapping[str, int], duration_us: int) -> _Row:
    """Return the common rates of a run and a broker, over a time that is summed over brokers."""
    return {
        "message_rate_per_s": sums["messages_in"] * 1_000_000 / duration_us,
        "output_rate_per_s": sums["messages_out"] * 1_000_000 / duration_us,
        "input_utilisation": sums["input_busy_us"] / duration_us,
        "output_utilisation": sums["output_busy_us"] / duration_us,
    }


def _load_metrics(run: _SummarisedRun) -> _Row:
    if run.period is None or not len(run.load):
        return {}
    from_us, until_us, settled_us = run.period
    sums = _sums(run.load)
    found = _rates(sums, len(run.brokers) * (until_us - from_us))
    messages = sums["messages_in"] + sums["messages_out"]
    control = sums["control_in"] + sums["control_out"]
    found["message_overhead"] = control / messages if messages else None
    settled = run.load.filter(pc.field("window_start_us") >= settled_us)
    if len(settled):
        last = _rates(_sums(settled), len(run.brokers) * (until_us - settled_us))
        found["settled_message_rate_per_s"] = last["message_rate_per_s"]
    return found


def _cost_metrics(run: _SummarisedRun) -> _Row:
    """Of the whole run; none without load."""
    load, control = run.whole_load, run.read("control")
    if not len(load):
        return {}
    sums = _sums(load)
    sent = sums["messages_out"]
    copying = control.filter(pc.field("publications") > 0)
    without = sums["control_out"] - _sum(copying["messages"])
    set_up = run.phases(control)["set-up"]
    sites = ["publisher", "sequence", "broker"]
    delivered = run.deliveries.select(sites).group_by(sites).aggregate([])
    entered = run.publications.select([*sites[:2], "first_broker"])
    joined = delivered.join(entered, sites[:2], join_type="inner")
    away = pc.not_equal(joined["broker"], joined["first_broker"])
    return {
        "messages": sent,
        "control_messages": _sum(control["messages"]),
        "control_bytes": _sum(control["bytes"]),
        "set_up_messages": _sum(set_up["messages"]),
        "whole_overhead": without / sent if sent else None,
        "transfers": _transfers(load) + _sum(control["publications"]),
        "least_transfers": _sum(away),
    }


def _transfers(load: pa.Table) -> int:
    """Publications that brokers sent to brokers in batches."""
    publications = _sum(load["messages_out"]) - _sum(load["control_out"])
    return publications - _sum(load["delivered"])


def _sum(column: pa.ChunkedArray) -> int:
    return pc.sum(column).as_py() or 0


def _costs(run: _SummarisedRun) -> list[_Row]:
    """One row for each phase and kind of message that was sent in it; publications have no bytes
    here.
    """
    found: list[_Row] = []
    controls = run.phases(run.read("control"))
    for phase, load in run.phases(run.whole_load).items():
        control = (
            controls[phase].group_by("kind").aggregate([("messages", "sum"), ("bytes", "sum")])
        )
        rows = [
            (row["kind"], row["messages_sum"], row["bytes_sum"])
            for row in control.sort_by("kind").to_pylist()
        ]
        notices = _sum(load["control_out"]) - sum(messages for _, messages, _ in rows)
        delivered = _sum(load["delivered"])
        others = ((TRANSFER, _transfers(load)), (DELIVERY, delivered), (NOTICE, notices))
        rows = [(kind, messages, None) for kind, messages in others if messages] + rows
        found += [
            {
                "run": run.info.name,
                "phase": phase,
                "kind": kind,
                "messages": messages,
                "bytes": size,
            }
            for kind, messages, size in rows
        ]
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
    grouped = run.load.group_by("broker").aggregate([(name, "sum") for name in _COUNTS])
    by_broker = {
        row["broker"]: {name: row[f"{name}_sum"] for name in _COUNTS} for row in grouped.to_pylist()
    }
    nothing = dict.fromkeys(_COUNTS, 0)
    period = run.period
    duration_us = 1 if period is None else period.until_us - period.from_us
    return [
        {
            "run": run.info.name,
            "broker": broker,
            **_rates(by_broker.get(broker, nothing), duration_us),
        }
        for broker in sorted(run.brokers)
    ]


def _timeline(run: _SummarisedRun, width: int) -> list[_Row]:
    """One row per run and window: message rate per broker, delay of publications in it.

    The first and the last window count only the part of them that lies in the run's period. Of
    consecutive windows without events only the first and the last are there, with a rate of 0 and
    without a delay; those between are equal.
    """
    if run.period is None:
        return []
    from_us, until_us, _ = run.period
    load_us = _numbers(run.load["window_start_us"]) // width * width
    messages = _sums_by(load_us, _numbers(run.load["messages_in"]))
    delays = _sums_by(run.published_us // width * width, run.delay_us)
    starts = {start + at for start in messages for at in (-width, 0, width)}
    rows = []
    for start in sorted(start for start in starts if start + width > from_us and start < until_us):
        covered_us = min(until_us, start + width) - max(from_us, start)
        received, _ = messages.get(start, (0, 0))
        delay_us, deliveries = delays.get(start, (0, 0))
        rows.append(
            {
                "run": run.info.name,
                "window_start_us": start,
                "message_rate_per_s": received * 1_000_000 / (len(run.brokers) * covered_us),
                "delay_mean_us": delay_us / deliveries if deliveries else None,
                "deliveries": deliveries,
            }
        )
    return rows


def _sums_by(keys: _Numbers, values: _Numbers) -> dict[int, tuple[int, int]]:
    """The sum and the number of the values of each key."""
    table = pa.table({"key": keys, "value": values}).group_by("key")
    rows = table.aggregate([("value", "sum"), ("value", "count")]).to_pylist()
    return {row["key"]: (row["value_sum"], row["value_count"]) for row in rows}


def _moves(run: _SummarisedRun) -> list[_Row]:
    """One row per publisher: where it began and ended, and how often it moved."""
    waits: dict[str, list[int]] = {}
    for row in run.migrations:
        waits.setdefault(row["publisher"], []).append(row["resumed_us"] - row["paused_us"])
    ordered = run.publications.sort_by([("publisher", "ascending"), ("sequence", "ascending")])
    ends = ordered.group_by("publisher", use_threads=False).aggregate(
        [("first_broker", "first"), ("first_broker", "last")]
    )
    return [
        {
            "run": run.info.name,
            "publisher": row["publisher"],
            "first_broker": row["first_broker_first"],
            "last_broker": row["first_broker_last"],
            "moves": len(waits.get(row["publisher"], ())),
            "waited_us": sum(waits.get(row["publisher"], ())),
        }
        for row in ends.to_pylist()
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
