"""Sizes of simulated networks: 1,000 brokers of every system, a million publications in one run."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.overlays.registry import MODULES
from tests.experiments.large_networks import LargeNetwork, measure, sized_for

MOST_MEGABYTES = 8_000


def test_a_network_is_measured_in_a_process_of_its_own(tmp_path: Path) -> None:
    found = measure("tree", LargeNetwork(30, 3, 60, 10, 300, 10), tmp_path)
    assert (found.checks["delivered"], found.faults) == (found.expected, {})
    assert found.expected == 60 // 10 * 300


@pytest.mark.soak
@pytest.mark.parametrize("system", MODULES)
def test_a_thousand_brokers(system: str, tmp_path: Path) -> None:
    found = measure(system, sized_for(system), tmp_path)
    assert found.megabytes < MOST_MEGABYTES
    assert not found.faults
    assert found.checks["delivered"] >= 0.95 * found.expected


@pytest.mark.soak
def test_a_million_publications(tmp_path: Path) -> None:
    """Ten million deliveries; the workload alone takes 100 MB."""
    network = LargeNetwork(brokers=63, publications=1_000_000, seconds=1_000)
    found = measure("grape", network, tmp_path)
    assert found.megabytes < MOST_MEGABYTES // 8
    assert (found.checks["delivered"], found.faults) == (found.expected, {})
