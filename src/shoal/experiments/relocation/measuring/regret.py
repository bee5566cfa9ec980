"""Quality of decisions: the chosen broker beside the best of all, which probes find.

The regret of a decision in load is how many more messages the publisher's publications cost at the
chosen broker than at the best one, as a share of the latter; in delay the same for their mean
delivery delay. Two times of measuring separate a wrong estimate from traffic that changed:
`traced`, the first decisions over the first publications, as many as a trace session has and the
very ones that GRAPE decided upon; and all decisions over the whole time of the probes.

>>> stand = Stand(broker="", messages=0, delay_us=0, deliveries=0, traced_messages=0,
...               traced_delay_us=0, traced_deliveries=0)
>>> costs = {"A": msgspec.structs.replace(stand, messages=15), "B":
...     msgspec.structs.replace(stand, messages=10)}
>>> regret(costs, "A", "load"), regret(costs, "B", "load"), regret(costs, "A", "delay")
(0.5, 0.0, None)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec
import numpy as np

from shoal.experiments.relocation.grid import PROBED_SPREAD, RelocationSetting
from shoal.experiments.relocation.measuring.results import RelocationResults, Where
from shoal.experiments.relocation.measuring.summary import RunSummary, Selection, Stand
from shoal.model import BrokerId, ClientId

Figure = Literal["load", "delay", "traced_load", "traced_delay"]
Costs = Mapping[BrokerId, Stand]

_FIGURES: dict[Figure, Callable[[Stand], float | None]] = {
    "load": lambda stand: float(stand.messages),
    "delay": lambda stand: _ratio(stand.delay_us, stand.deliveries),
    "traced_load": lambda stand: float(stand.traced_messages),
    "traced_delay": lambda stand: _ratio(stand.traced_delay_us, stand.traced_deliveries),
}


class Regrets(msgspec.Struct, frozen=True, kw_only=True):
    """Regrets of the decisions of one setting, as shares of the best broker's figure."""

    where: Where
    setting: str
    figure: Figure
    decisions: int
    median: float
    p95: float
    best_taken: float


def costs_by_publisher(probes: Sequence[RunSummary]) -> dict[Where, dict[ClientId, Costs]]:
    """Return every publisher's costs at every broker, by the probed place."""
    found: dict[Where, dict[ClientId, dict[BrokerId, Stand]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for one in probes:
        spec = one.spec
        where = Where(spec.dataset, spec.testbed, spec.distribution)
        for publisher, stand in one.stands.items():
            found[where][publisher][stand.broker] = stand
    return {where: dict(costs) for where, costs in found.items()}


def regret(costs: Costs, target: BrokerId, figure: Figure) -> float | None:
    """Return how much worse `target` is than the best broker; None without anything to compare."""
    measure = _FIGURES[figure]
    chosen = measure(costs[target])
    others = [value for stand in costs.values() if (value := measure(stand)) is not None]
    best = min(others, default=0.0)
    return None if chosen is None or not best else chosen / best - 1


def regrets(
    results: RelocationResults, settings: Sequence[RelocationSetting], figures: Sequence[Figure]
) -> list[Regrets]:
    """Of every decision of these settings' runs on the probed workloads.

    Decisions to stay count too.  Distributions, data sets and figures are kept apart.
    """
    found = []
    for where, costs in costs_by_publisher(results.probes).items():
        for setting in settings:
            run = results.runs(where, setting).get(PROBED_SPREAD)
            if run is None:
                continue
            for figure in figures:
                values = _values(run.selections, costs, figure)
                if values:
                    found.append(
                        Regrets(
                            where=where,
                            setting=setting.label,
                            figure=figure,
                            decisions=len(values),
                            median=float(np.median(values)),
                            p95=float(np.percentile(values, 95)),
                            best_taken=float(np.mean(np.asarray(values) <= 0)),
                        )
                    )
    return found


def _values(
    selections: Sequence[Selection], costs: Mapping[ClientId, Costs], figure: Figure
) -> list[float]:
    if figure.startswith("traced"):
        newest_first = sorted(selections, key=lambda one: -one.decided_us)
        selections = list({one.publisher: one for one in newest_first}.values())
    values = (
        regret(costs[one.publisher], one.target, figure)
        for one in selections
        if one.publisher in costs and one.target in costs[one.publisher]
    )
    return [value for value in values if value is not None]


def _ratio(total: int, count: int) -> float | None:
    return total / count if count else None
