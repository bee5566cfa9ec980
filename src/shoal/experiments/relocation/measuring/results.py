"""All summaries of a study, to be asked, and as tables.

`RelocationResults` answers questions such as "by how much did load100 cut the message rate, at each
spread?"; missing runs are missing from the answer, never made up.

>>> RelocationResults([]).cuts(Where("quotes", "wide", "clustered"), LOAD, "message_rate_per_s")
{}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import asdict

from shoal.experiments.relocation.grid import (
    BASELINE,
    CROWD,
    LOAD,  # noqa: F401  # for the example
    Distribution,
    RelocationSetting,
    RunSpec,
    Testbed,
)
from shoal.experiments.relocation.measuring.summary import (
    Migration,
    Moment,
    RunSummary,
    Selection,
    Stand,
)
from shoal.experiments.studies.study import StudyRows
from shoal.overlays.trace_rows import Columns, columns_of


class Where(NamedTuple):
    """One data set on one testbed under one distribution."""

    dataset: str
    testbed: Testbed
    distribution: Distribution


class RelocationResults:
    """The summaries of a study, by run."""

    def __init__(self, summaries: Iterable[RunSummary], studies: Sequence[str] = ("grid",)) -> None:
        self.summaries = list(summaries)
        self._grid = {_place(one.spec): one for one in self.summaries if one.spec.study in studies}
        self.thresholds = [one for one in self.summaries if one.spec.study == "threshold"]
        self.loads = [one for one in self.summaries if one.spec.study == "load"]
        self.wholes = [one for one in self.summaries if one.spec.study == "whole"]
        self.probes = [one for one in self.summaries if one.spec.study == "probe"]

    @property
    def crowded(self) -> RelocationResults:
        """Those with `CROWD` subscribers of each publisher."""
        some = [one for one in self.summaries if one.spec.subscriptions >= CROWD]
        return RelocationResults(some, ("grid", "overhead"))

    @property
    def datasets(self) -> list[str]:
        """The data sets, in the order they were run."""
        return list(dict.fromkeys(one.spec.dataset for one in self.summaries))

    def again(self, whole: RunSummary) -> RunSummary | None:
        """The grid's run of the same network as one with whole machines, if it is there."""
        return self._grid.get(_place(whole.spec))

    def runs(self, where: Where, setting: RelocationSetting) -> dict[int, RunSummary]:
        """The runs of one setting by spread, the smallest first."""
        found = {
            spread: one
            for (place, spread, label), one in self._grid.items()
            if place == where and label == setting.label
        }
        return dict(sorted(found.items()))

    def values(self, where: Where, setting: RelocationSetting, metric: str) -> dict[int, float]:
        """A metric of one setting by spread, where it was measured."""
        return {
            spread: one.metrics[metric]
            for spread, one in self.runs(where, setting).items()
            if metric in one.metrics
        }

    def cuts(
        self,
        where: Where,
        setting: RelocationSetting,
        metric: str,
        reference: RelocationSetting = BASELINE,
    ) -> dict[int, float]:
        """By spread, how much lower the metric is than under `reference`, as a share of that."""
        before = self.values(where, reference, metric)
        return {
            spread: 1 - value / before[spread]
            for spread, value in self.values(where, setting, metric).items()
            if before.get(spread)
        }


def delay_ratios(
    results: RelocationResults, dataset: str, setting: RelocationSetting
) -> dict[tuple[int, bool], float]:
    """A setting's delay over the baseline's in runs of load, by load and main office or not."""
    delays: dict[str, dict[tuple[int, bool], float]] = {}
    for one in results.loads:
        if one.spec.dataset == dataset and one.spec.busy is not None and "delay_us" in one.metrics:
            place = one.spec.busy, one.spec.office
            delays.setdefault(one.spec.setting.label, {})[place] = one.metrics["delay_us"]
    baseline = delays.get(BASELINE.label, {})
    own = delays.get(setting.label, {})
    return {place: own[place] / baseline[place] for place in own if baseline.get(place)}


def _place(spec: RunSpec) -> tuple[Where, int, str]:
    where = Where(spec.dataset, spec.testbed, spec.distribution)
    return where, spec.spread, spec.setting.label


class RunColumns(msgspec.Struct, frozen=True):
    """Columns about a run in every table."""

    run: str
    study: str
    dataset: str
    testbed: str
    brokers: int
    distribution: str
    spread: int
    subscriptions: int
    setting: str
    system: str
    priority: str | None
    weight: int | None
    threshold: int | None
    probe: int | None


# The columns of each table; every row names its run.
_RUN = columns_of(RunColumns)
TABLES: Mapping[str, Columns] = {
    "metrics": {**_RUN, "metric": "text", "value": "double"},
    "timeline": {**_RUN, **columns_of(Moment)},
    "selections": {**_RUN, **columns_of(Selection)},
    "migrations": {**_RUN, **columns_of(Migration)},
    "stands": {**_RUN, "publisher": "text", **columns_of(Stand)},
}


def tables_of(found: Iterable[RunSummary]) -> dict[str, StudyRows]:
    """Every table of `TABLES`, all runs one after the other."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
    for one in found:
        run = asdict(run_columns(one.spec))
        for metric, value in one.metrics.items():
            rows["metrics"].append({**run, "metric": metric, "value": value})
        rows["timeline"] += [{**run, **asdict(each)} for each in one.timeline]
        rows["selections"] += [{**run, **asdict(each)} for each in one.selections]
        rows["migrations"] += [{**run, **asdict(each)} for each in one.migrations]
        for publisher, stand in one.stands.items():
            rows["stands"].append({**run, "publisher": publisher, **asdict(stand)})
    return {name: StudyRows(rows[name], columns) for name, columns in TABLES.items()}


def run_columns(spec: RunSpec) -> RunColumns:
    """Of a run of the grid."""
    setting = spec.setting
    return RunColumns(
        run=spec.name,
        study=spec.study,
        dataset=spec.dataset,
        testbed=spec.testbed,
        brokers=spec.brokers,
        distribution=spec.distribution,
        spread=spec.spread,
        subscriptions=spec.subscriptions,
        setting=setting.label,
        system=setting.system,
        priority=setting.priority,
        weight=setting.weight,
        threshold=setting.threshold,
        probe=spec.probe,
    )
