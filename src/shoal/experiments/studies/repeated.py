"""A study over several seeds: each claim by the mean of its values, with the interval of 95 %.

The seeds' networks and workloads share nothing, so seeds are `APART` from each other: a study that
draws several networks counts on from its seed. Figures and tables show the first seed. From
`LEAST` seeds on a claim has an interval (Student's t), and says so if the verdict turns within it.

>>> from shoal.report.study import FindingLimits
>>> claim = StudyFinding(id="rate", section="", dataset="", claim="", paper="50 %", ours="48 %",
...     verdict="met", reason="", unit="%",
...     limits=FindingLimits(low=0.45, high=0.55, verdicts=("missed", "met", "beaten")))
>>> values = [0.48, 0.50, 0.44, 0.42, 0.47]
>>> found = over_seeds([msgspec.structs.replace(claim, value=value) for value in values])
>>> found.verdict, found.turns, found.ours
('met', True, '46.2 % ± 4.0 % over 5 seeds, the verdict turns at 45 %; the first: 48 %')
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from shoal.experiments.studies.claims import BEATEN, mean_and_interval
from shoal.experiments.studies.study import Conclusion, Study, StudyPlan, StudyRows, StudySource
from shoal.report.amounts import amount, bound
from shoal.report.study import StudyFinding

if TYPE_CHECKING:
    from shoal.experiments.studies.runs import Task
    from shoal.experiments.studies.study import ScaleName

# Fewest seeds with an interval.
LEAST = 5
APART = 1_000
SEED_COLUMN = "study_seed"


def plan_over_seeds(
    study: Study, options: msgspec.Struct, scale: ScaleName, root: Path, seed: int, seeds: int
) -> StudyPlan:
    """The plan of a study over so many seeds, each but the first in a folder of its own."""
    first = study.plan(options, scale, root, seed)
    if seeds == 1:
        return first
    plans = {seed: first}
    for other in range(seed + APART, seed + seeds * APART, APART):
        plans[other] = study.plan(options, scale, root / f"seed-{other}", other)
    return RepeatedPlan(plans)


class RepeatedPlan:
    """The plans of all seeds as one."""

    def __init__(self, plans: Mapping[int, StudyPlan]) -> None:
        self._plans = plans
        self._runs: dict[int, Sequence[Task]] = {}

    @property
    def sources(self) -> Sequence[StudySource]:
        return [
            StudySource(f"{source.title}, seed {seed}", source.make)
            for seed, plan in self._plans.items()
            for source in plan.sources
        ]

    def runs(self) -> Sequence[Task]:
        self._runs = {seed: plan.runs() for seed, plan in self._plans.items()}
        return [run for runs in self._runs.values() for run in runs]

    def conclude(self, runs: Sequence[Task]) -> Conclusion:
        given = set(map(id, runs))
        conclusions = {
            seed: plan.conclude([run for run in self._runs.get(seed, ()) if id(run) in given])
            for seed, plan in self._plans.items()
        }
        first = next(iter(conclusions.values()))
        seeds = ", ".join(map(str, conclusions))
        report = msgspec.structs.replace(
            first.report,
            facts=(*first.report.facts, f"claims over seeds {seeds}; the rest shows the first"),
            claims=tuple(_claims(conclusions.values())),
        )
        names = dict.fromkeys(name for each in conclusions.values() for name in each.tables)
        return Conclusion(report, {name: _table(name, conclusions) for name in names})


def _claims(conclusions: Iterable[Conclusion]) -> Iterable[StudyFinding]:
    """Each claim over all seeds, in the order of the first that has it."""
    found: dict[tuple[str, str], list[StudyFinding]] = defaultdict(list)
    for conclusion in conclusions:
        for claim in conclusion.report.claims:
            found[claim.id, claim.dataset].append(claim)
    return map(over_seeds, found.values())


def over_seeds(found: Sequence[StudyFinding]) -> StudyFinding:
    """The finding of one claim over its seeds: the verdict on the mean of the values that exist."""
    done = [one for one in found if one.value is not None and one.limits is not None]
    if not done:
        return found[0]
    first, limits = done[0], done[0].limits
    if len(done) < 2 or limits is None:
        return first
    values = [one.value for one in done if one.value is not None]
    mean, half = mean_and_interval(values)
    unit, is_enough = first.unit, len(values) >= LEAST
    bounds = limits.turning(mean - half, mean + half) if is_enough else ()
    known = half if is_enough else None
    ours = f"{amount(mean, unit, known)} {'over' if half else 'in each of'} {len(values)} seeds"
    if bounds:
        ours += f", the verdict turns at {' and '.join(bound(each, unit) for each in bounds)}"
    verdict = limits.verdict(mean)
    reasons = (one.reason for one in done if one.reason)
    return msgspec.structs.replace(
        first,
        ours=f"{ours}; the first: {first.ours.partition(BEATEN)[0]}",
        verdict=verdict,
        reason=next(reasons, "") if verdict == "missed" else "",
        value=mean,
        half=known,
        turns=bool(bounds) if is_enough else any(one.turns for one in done),
    )


def _table(name: str, conclusions: Mapping[int, Conclusion]) -> StudyRows:
    """A table of all seeds, with the seed of each row."""
    rows: list[Mapping[str, Any]] = []
    columns = None
    for seed, conclusion in conclusions.items():
        table = conclusion.tables.get(name)
        if table is not None:
            columns = columns or table.columns
            rows += ({**row, SEED_COLUMN: seed} for row in table.rows)
    return StudyRows(rows, None if columns is None else {**columns, SEED_COLUMN: "integer"})
