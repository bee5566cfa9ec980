"""Summary of one run of the relocation study: its metrics, and further data of figures.

Metrics are those of the paper's section 5.2, averaged over brokers or deliveries.  The paper
plots values "at the end of the experiment"; here that is the last third of the publishing time.
A run is summed up where it was simulated, so that a summary of a few kilobytes is all that
travels.

    message_rate_per_s     publications and control messages that come in at a broker, per second:
                           the traffic through it, as GRAPE's own algorithm 2 counts
    messages_both_per_s    the same, coming in and going out (deliveries included)
    input_utilisation      share of time in which a broker is busy with its input
    matching_utilisation   the same for publications alone, without control messages
    output_utilisation     share of time in which its outputs are busy transmitting
    busiest_utilisation    the input utilisation of the broker that has the highest
    delay_us               from publishing to the subscriber, per delivery
    hops                   links between brokers on the way, per delivery
    overhead               share of control messages in all messages
    selection_us           from asking for traces to a decision, virtual time
    wait_us                time in which a moving publisher holds its publications back
    memory_bytes           tracing's tables at their peak, per broker
    memory_share           the same as a share of the memory of routing tables
    lost, duplicated       deliveries against the workload's filters

Source: Cheung and Jacobsen, publisher relocation, section 5.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from shoal.experiments.relocation.grid import PUBLISHING_FROM_US, RunSpec
from shoal.experiments.relocation.measuring.memory import PeakMemory
from shoal.experiments.run_files import WorkloadFiles
from shoal.experiments.runs.runner import RunResult
from shoal.language import parse
from shoal.matching import MatchIndex

# Values "at the end" are averages from here on.
SETTLED_FROM = 2 / 3
# A point of the figures over time.
TIMELINE_US = 30_000_000
_US_PER_S = 1_000_000

_Column = npt.NDArray[np.int64]


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """A point of the figures over time; None where nothing was delivered."""

    since_us: int
    message_rate_per_s: float
    overhead: float
    delay_us: float | None
    hops: float | None


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """One decision: where the publisher was, where it was sent, how long choosing took."""

    publisher: str
    broker: str
    target: str
    decided_us: int
    took_us: int
    asked_us: int
    candidates: int
    delay_now_us: float | None
    delay_target_us: float | None


class Migration(msgspec.Struct, frozen=True, kw_only=True):
    """One finished move."""

    publisher: str
    source: str
    target: str
    path_hops: int
    wait_us: int


class Stand(msgspec.Struct, frozen=True, kw_only=True):
    """Cost of one publisher's publications while it was at one broker.

    `messages` are brokers passed, summed over publications: the publisher's part of the message
    rates of all brokers. `traced_` counts the first publications only, as many as one trace session
    has.
    """

    broker: str
    messages: int
    delay_us: int
    deliveries: int
    traced_messages: int
    traced_delay_us: int
    traced_deliveries: int


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One run: its setting, its metrics by name, and the rows of the figures."""

    spec: RunSpec
    key: str
    metrics: dict[str, float]
    timeline: tuple[Moment, ...] = ()
    selections: tuple[Selection, ...] = ()
    migrations: tuple[Migration, ...] = ()
    stands: dict[str, Stand] = {}


def summarise(
    spec: RunSpec,
    key: str,
    result: RunResult,
    workload: WorkloadFiles,
    memory: PeakMemory,
    expected: int | None = None,
) -> RunSummary:
    """The summary of a run of the grid; `key` identifies its inputs.

    `memory` has looked at its brokers while it ran; `expected` is the number of deliveries by the
    filters alone, if it is known.
    """
    tables = {name: _arrays(columns) for name, columns in result.tables.items()}
    metrics = {
        **_load_metrics(tables["load"], spec),
        **_delivery_metrics(tables["deliveries"], spec),
        **_move_metrics(tables["selections"], tables["migrations"]),
        **_verdict(result, expected_deliveries(workload) if expected is None else expected),
        **_memory_metrics(memory, spec),
    }
    return RunSummary(
        spec=spec,
        key=key,
        metrics={name: value for name, value in metrics.items() if value is not None},
        timeline=_timeline(tables["load"], tables["deliveries"], spec),
        selections=_selections(tables["selections"]),
        migrations=_migrations(tables["migrations"]),
    )


def expected_deliveries(workload: WorkloadFiles) -> int:
    """Return how many (publication, subscription) pairs match, by the filters alone."""
    index = MatchIndex()
    for row in workload.subscriptions:
        index.add(row.subscription, parse(row.filter))
    return sum(len(index.match(event.attributes)) for event in workload.events)


def _arrays(columns: Mapping[str, Sequence[Any]]) -> dict[str, npt.NDArray[Any]]:
    return {name: np.asarray(values) for name, values in columns.items()}


def _end_us(spec: RunSpec) -> int:
    return PUBLISHING_FROM_US + spec.duration_us


def _settled_us(spec: RunSpec) -> int:
    return PUBLISHING_FROM_US + round(spec.duration_us * SETTLED_FROM)


def _load_metrics(load: Mapping[str, _Column], spec: RunSpec) -> dict[str, float | None]:
    """Of the last third; `overhead_whole` is that of the whole publishing time."""
    start_us = load["window_start_us"] if len(load["broker"]) else np.empty(0, np.int64)
    last = (start_us >= _settled_us(spec)) & (start_us < _end_us(spec))
    whole = (start_us >= PUBLISHING_FROM_US) & (start_us < _end_us(spec))
    broker_s = spec.brokers * (_end_us(spec) - _settled_us(spec)) / _US_PER_S

    def total(name: str, rows: npt.NDArray[np.bool_]) -> int:
        return int(load[name][rows].sum()) if len(start_us) else 0

    messages_in, messages_out = total("messages_in", last), total("messages_out", last)
    input_busy_us = total("input_busy_us", last)
    matching_us = input_busy_us - total("control_busy_us", last)
    return {
        "message_rate_per_s": messages_in / broker_s,
        "messages_both_per_s": (messages_in + messages_out) / broker_s,
        "input_utilisation": input_busy_us / broker_s / _US_PER_S,
        "matching_utilisation": matching_us / broker_s / _US_PER_S,
        "output_utilisation": total("output_busy_us", last) / broker_s / _US_PER_S,
        "busiest_utilisation": _busiest(load, last) / (broker_s / spec.brokers) / _US_PER_S,
        "overhead": _share(total, last),
        "overhead_whole": _share(total, whole),
    }


def _busiest(load: Mapping[str, _Column], rows: npt.NDArray[np.bool_]) -> int:
    """Time of work on input at the broker that has most of it."""
    if not rows.any():
        return 0
    _, broker = np.unique(load["broker"][rows], return_inverse=True)
    return int(np.bincount(broker, weights=load["input_busy_us"][rows]).max())


def _share(total: Any, rows: npt.NDArray[np.bool_]) -> float:
    control = total("control_in", rows) + total("control_out", rows)
    return float(control / max(1, total("messages_in", rows) + total("messages_out", rows)))


def _delivery_metrics(deliveries: Mapping[str, _Column], spec: RunSpec) -> dict[str, float | None]:
    last = deliveries["published_us"] >= _settled_us(spec)
    delay_us = deliveries["delivered_us"] - deliveries["published_us"]
    return {
        "delay_us": _mean(delay_us[last]),
        "delay_p99_us": float(np.percentile(delay_us[last], 99)) if last.any() else None,
        "hops": _mean(deliveries["hops"][last]),
        "delay_whole_us": _mean(delay_us),
    }


def _move_metrics(
    selections: Mapping[str, _Column], migrations: Mapping[str, _Column]
) -> dict[str, float | None]:
    waits = migrations["resumed_us"] - migrations["paused_us"]
    took = selections["decided_us"] - selections["requested_us"]
    asked = selections["answered_us"] - selections["requested_us"]
    return {
        "selections": float(len(took)),
        "migrations": float(len(waits)),
        "selection_us": _mean(took),
        "selection_max_us": float(took.max()) if len(took) else None,
        "selection_without_pings_max_us": float(asked.max()) if len(asked) else None,
        "wait_us": _mean(waits),
        "wait_max_us": float(waits.max()) if len(waits) else None,
        "moves_of_one_publisher_max": float(max(Counter(migrations["publisher"]).values()))
        if len(waits)
        else 0.0,
    }


def _memory_metrics(memory: PeakMemory, spec: RunSpec) -> dict[str, float | None]:
    peak, routing = memory.peak_bytes, memory.routing_bytes
    return {
        "memory_bytes": None if peak is None else peak / spec.brokers,
        "memory_share": peak / routing if peak is not None and routing else None,
        "routing_bytes": None if routing is None else routing / spec.brokers,
    }


def _verdict(result: RunResult, expected: int) -> dict[str, float | None]:
    """Deliveries are expected of every publication, also those held back during a move."""
    checks = result.checks
    return {
        "expected": float(expected),
        "lost": float(expected - (checks["delivered"] - checks["duplicates"])),
        "duplicated": float(checks["duplicates"]),
        "phantom": float(checks["phantoms"]),
        "out_of_order": float(checks["out_of_order"]),
        "refused": float(checks["refused"]),
    }


def _timeline(
    load: Mapping[str, _Column], deliveries: Mapping[str, _Column], spec: RunSpec
) -> tuple[Moment, ...]:
    moments = []
    delay_us = deliveries["delivered_us"] - deliveries["published_us"]
    for since_us in range(PUBLISHING_FROM_US, _end_us(spec), TIMELINE_US):
        until_us = min(since_us + TIMELINE_US, _end_us(spec))
        rows = (load["window_start_us"] >= since_us) & (load["window_start_us"] < until_us)
        within = (deliveries["published_us"] >= since_us) & (deliveries["published_us"] < until_us)
        control = int((load["control_in"] + load["control_out"])[rows].sum())
        arrived, left = (int(load[name][rows].sum()) for name in ("messages_in", "messages_out"))
        broker_s = spec.brokers * (until_us - since_us) / _US_PER_S
        moments.append(
            Moment(
                since_us=since_us - PUBLISHING_FROM_US,
                message_rate_per_s=arrived / broker_s,
                overhead=control / max(1, arrived + left),
                delay_us=_mean(delay_us[within]),
                hops=_mean(deliveries["hops"][within]),
            )
        )
    return tuple(moments)


def _mean(values: npt.NDArray[Any]) -> float | None:
    return float(values.mean()) if len(values) else None


def _selections(table: Mapping[str, npt.NDArray[Any]]) -> tuple[Selection, ...]:
    rows = zip(*(table[name].tolist() for name in _SELECTION_COLUMNS), strict=True)
    return tuple(
        Selection(
            publisher=publisher,
            broker=broker,
            target=target,
            decided_us=decided_us,
            took_us=decided_us - requested_us,
            asked_us=answered_us - requested_us,
            candidates=candidates,
            delay_now_us=delay_now_us,
            delay_target_us=delay_target_us,
        )
        for (
            publisher,
            broker,
            target,
            requested_us,
            answered_us,
            decided_us,
            candidates,
            delay_now_us,
            delay_target_us,
        ) in rows
    )


_SELECTION_COLUMNS = (
    "publisher",
    "broker",
    "target",
    "requested_us",
    "answered_us",
    "decided_us",
    "candidates",
    "delay_now_us",
    "delay_target_us",
)


def _migrations(table: Mapping[str, npt.NDArray[Any]]) -> tuple[Migration, ...]:
    columns = ("publisher", "source", "target", "path_hops", "paused_us", "resumed_us")
    rows = zip(*(table[name].tolist() for name in columns), strict=True)
    return tuple(
        Migration(
            publisher=publisher,
            source=source,
            target=target,
            path_hops=path_hops,
            wait_us=resumed_us - paused_us,
        )
        for publisher, source, target, path_hops, paused_us, resumed_us in rows
    )
