"""All summaries of a study, to be asked, and as tables.

`Results` answers questions such as "by how much did load100 cut the message rate, at each
spread?"; what was not run is missing from the answer, never made up.

>>> Results([]).cuts(Where("quotes", "wide", "clustered"), LOAD, "message_rate_per_s")
{}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]  # pyarrow ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # as above

from shoal.experiments.relocation.grid import (
    BASELINE,
    CROWD,
    LOAD,  # noqa: F401  # for the example
    Distribution,
    RunSpec,
    Setting,
    Testbed,
)
from shoal.experiments.relocation.summary import RunSummary


class Where(NamedTuple):
    """One data set on one testbed under one distribution."""

    dataset: str
    testbed: Testbed
    distribution: Distribution


class Results:
    """The summaries of a study, by what was run."""

    def __init__(self, summaries: Iterable[RunSummary], studies: Sequence[str] = ("grid",)) -> None:
        self.summaries = list(summaries)
        self._grid = {_place(one.spec): one for one in self.summaries if one.spec.study in studies}
        self.thresholds = [one for one in self.summaries if one.spec.study == "threshold"]
        self.probes = [one for one in self.summaries if one.spec.study == "probe"]

    @property
    def crowded(self) -> Results:
        """Those with `CROWD` subscribers of each publisher."""
        some = [one for one in self.summaries if one.spec.subscriptions >= CROWD]
        return Results(some, ("grid", "overhead"))

    @property
    def datasets(self) -> list[str]:
        """The data sets, in the order they were run."""
        return list(dict.fromkeys(one.spec.dataset for one in self.summaries))

    def runs(self, where: Where, setting: Setting) -> dict[int, RunSummary]:
        """The runs of one setting by spread, the smallest first."""
        found = {
            spread: one
            for (place, spread, label), one in self._grid.items()
            if place == where and label == setting.label
        }
        return dict(sorted(found.items()))

    def values(self, where: Where, setting: Setting, metric: str) -> dict[int, float]:
        """A metric of one setting by spread, where it was measured."""
        return {
            spread: one.metrics[metric]
            for spread, one in self.runs(where, setting).items()
            if metric in one.metrics
        }

    def cuts(
        self, where: Where, setting: Setting, metric: str, reference: Setting = BASELINE
    ) -> dict[int, float]:
        """By spread, how much lower the metric is than under `reference`, as a share of that."""
        before = self.values(where, reference, metric)
        return {
            spread: 1 - value / before[spread]
            for spread, value in self.values(where, setting, metric).items()
            if before.get(spread)
        }


def _place(spec: RunSpec) -> tuple[Where, int, str]:
    where = Where(spec.dataset, spec.testbed, spec.distribution)
    return where, spec.spread, spec.setting.label


_TEXT, _INTEGER, _DOUBLE = pa.string(), pa.int64(), pa.float64()
_RUN = {
    "run": _TEXT,
    "study": _TEXT,
    "dataset": _TEXT,
    "testbed": _TEXT,
    "brokers": _INTEGER,
    "distribution": _TEXT,
    "spread": _INTEGER,
    "subscriptions": _INTEGER,
    "setting": _TEXT,
    "system": _TEXT,
    "priority": _TEXT,
    "weight": _INTEGER,
    "threshold": _INTEGER,
    "probe": _INTEGER,
}
TABLES: Mapping[str, Mapping[str, Any]] = {
    "metrics": {**_RUN, "metric": _TEXT, "value": _DOUBLE},
    "timeline": {
        **_RUN,
        "since_us": _INTEGER,
        "message_rate_per_s": _DOUBLE,
        "overhead": _DOUBLE,
        "delay_us": _DOUBLE,
        "hops": _DOUBLE,
    },
    "selections": {
        **_RUN,
        "publisher": _TEXT,
        "broker": _TEXT,
        "target": _TEXT,
        "decided_us": _INTEGER,
        "took_us": _INTEGER,
        "asked_us": _INTEGER,
        "candidates": _INTEGER,
        "delay_now_us": _DOUBLE,
        "delay_target_us": _DOUBLE,
    },
    "migrations": {
        **_RUN,
        "publisher": _TEXT,
        "source": _TEXT,
        "target": _TEXT,
        "path_hops": _INTEGER,
        "wait_us": _INTEGER,
    },
    "stands": {
        **_RUN,
        "publisher": _TEXT,
        "broker": _TEXT,
        "messages": _INTEGER,
        "delay_us": _INTEGER,
        "deliveries": _INTEGER,
        "traced_messages": _INTEGER,
        "traced_delay_us": _INTEGER,
        "traced_deliveries": _INTEGER,
    },
}


def write_tables(summaries: Sequence[RunSummary], folder: Path) -> None:
    """Every table of `TABLES` as a Parquet file; `metrics` has a row per run and metric."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
    for one in summaries:
        run = run_columns(one.spec)
        for metric, value in one.metrics.items():
            rows["metrics"].append({**run, "metric": metric, "value": value})
        for name, structs in (
            ("timeline", one.timeline),
            ("selections", one.selections),
            ("migrations", one.migrations),
        ):
            rows[name] += [{**run, **_fields(each)} for each in structs]
        for publisher, stand in one.stands.items():
            rows["stands"].append({**run, "publisher": publisher, **_fields(stand)})
    folder.mkdir(parents=True, exist_ok=True)
    for name, columns in TABLES.items():
        table = pa.Table.from_pylist(rows[name], pa.schema(list(columns.items())))
        pq.write_table(table, folder / f"{name}.parquet", compression="zstd")


def run_columns(spec: RunSpec) -> dict[str, Any]:
    """What every table says about a run."""
    setting = spec.setting
    return {
        "run": spec.name,
        "study": spec.study,
        "dataset": spec.dataset,
        "testbed": spec.testbed,
        "brokers": spec.brokers,
        "distribution": spec.distribution,
        "spread": spec.spread,
        "subscriptions": spec.subscriptions,
        "setting": setting.label,
        "system": setting.system,
        "priority": setting.priority,
        "weight": setting.weight,
        "threshold": setting.threshold,
        "probe": spec.probe,
    }


def _fields(struct: Any) -> dict[str, Any]:
    return {name: getattr(struct, name) for name in struct.__struct_fields__}
