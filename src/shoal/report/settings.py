"""The settings of runs: which differ, and which of those changed nothing.

>>> list(flat({"name": "a", "grape": {"weight": 50}}))
[('name', '"a"'), ('grape.weight', '50')]
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from shoal.report.inputs import ReportRun


def flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every key with its sections before it, and its value as JSON."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, json.dumps(value, ensure_ascii=False, default=str)


def differing(runs: Sequence[ReportRun]) -> dict[str, list[str | None]]:
    """Return the keys, except the name, whose values differ between runs; each run's value."""
    flattened = [dict(flat(run.scenario)) for run in runs]
    keys = sorted({key for scenario in flattened for key in scenario} - {"name"})
    found = {key: [scenario.get(key) for scenario in flattened] for key in keys}
    return {key: values for key, values in found.items() if len(set(values)) > 1}


def without_effect(runs: Sequence[ReportRun]) -> list[str]:
    """A sentence for each two runs that differ in settings, and in no figure."""
    return [
        f"{', '.join(keys)} had no effect: {one.name} and {other.name} differ in nothing else, "
        "and have the same figures"
        for one, other in combinations(runs, 2)
        if (keys := differing((one, other))) and _figures(one) == _figures(other)
    ]


def _figures(run: ReportRun) -> Any:
    metrics = {name: value for name, value in run.metrics.items() if name not in ("run", "system")}
    return metrics, run.loads, list(run.seeds)
