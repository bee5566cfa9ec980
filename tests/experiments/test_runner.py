"""A scenario becomes a world: where clients stand, and when they start."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.experiments.runner import run_scenario
from shoal.experiments.scenario import parse_scenario
from tests.experiments.test_run_files import WISH, event, write_workload

LATENCY_US = 7_000


@pytest.mark.parametrize(("place", "ways"), [(None, 1), ("EWR", 2)])
def test_a_subscriber_may_stand_elsewhere(tmp_path: Path, place: str | None, ways: int) -> None:
    workload = write_workload(
        tmp_path, subscriptions=[{**WISH, "place": place}], events=[event(0, 0)]
    )
    scenario = parse_scenario(
        {
            "name": "place",
            "system": "tree",
            "workload": {"path": str(workload)},
            "underlay": {"kind": "constant", "latency_us": LATENCY_US, "local_latency_us": 1},
        }
    )
    deliveries = run_scenario(scenario).tables["deliveries"]
    delay_us = deliveries["delivered_us"][0] - deliveries["published_us"][0]
    assert delay_us // LATENCY_US == ways
