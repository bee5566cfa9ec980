"""The settings of runs: which differ, and which of those changed nothing.

>>> list(flat({"name": "a", "grape": {"weight": 50}}))
[('name', '"a"'), ('grape.weight', '50')]
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from shoal.report.inputs import Run


def flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every key with its sections before it, and its value as JSON."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, json.dumps(value, ensure_ascii=False, default=str)


def differing(runs: Sequence[Run]) -> dict[str, list[str | None]]:
    """The keys, but for the name, whose values are not the same in all runs; each run's value."""
    flattened = [dict(flat(run.scenario)) for run in runs]
    keys = sorted({key for scenario in flattened for key in scenario} - {"name"})
    found = {key: [scenario.get(key) for scenario in flattened] for key in keys}
    return {key: values for key, values in found.items() if len(set(values)) > 1}


def without_effect(runs: Sequence[Run]) -> list[str]:
    """A sentence for each two runs that differ in settings, and in no figure."""
    return [
        f"{', '.join(keys)} had no effect: {one.name} and {other.name} differ in nothing else, "
        "and have the same figures"
        for one, other in combinations(runs, 2)
        if (keys := differing((one, other))) and _figures(one) == _figures(other)
    ]


def _figures(run: Run) -> Any:
    metrics = {name: value for name, value in run.metrics.items() if name not in ("run", "system")}
    return metrics, run.loads, list(run.seeds)
