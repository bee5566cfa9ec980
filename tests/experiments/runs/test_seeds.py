"""One scenario with several seeds."""

from __future__ import annotations

from pathlib import Path

from shoal.experiments.runs.runner import run_scenario
from shoal.experiments.runs.seeds import figures_of, other_seeds
from shoal.experiments.scenarios.scenario import parse_scenario
from tests.experiments.test_run_files import event, write_workload


def test_runs_of_several_seeds_equal_single_runs(tmp_path: Path) -> None:
    workload = write_workload(tmp_path, events=[event(0, 0), event(1, 10), event(2, 20)])
    scenario = {
        "name": "seeds",
        "system": "tree",
        "workload": {"path": str(workload)},
        "underlay": {"kind": "constant", "latency_us": 7_000},
        "topology": {"kind": "balanced", "order": "shuffled"},
    }
    found = list(other_seeds(parse_scenario({**scenario, "seed": 4}), 3))
    assert [each.seed for each in found] == [5, 6]
    for each in found:
        alone = parse_scenario({**scenario, "seed": each.seed})
        assert each == figures_of(run_scenario(alone), alone.trace.window_us)
    assert list(other_seeds(parse_scenario(scenario), 1)) == []
