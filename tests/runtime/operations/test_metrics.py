"""Prometheus metrics: names are unique."""

from __future__ import annotations

import pytest

from shoal.overlays.registry import SYSTEMS
from shoal.runtime.operations.metrics import Metrics


@pytest.mark.parametrize("system", SYSTEMS)
def test_metric_names_are_unique(system: str) -> None:
    names = [family.name for family in Metrics(lambda: {"system": system}).collect()]
    assert len(set(names)) == len(names)
    assert {f"shoal_{table}" for table in SYSTEMS[system].records} <= set(names)
