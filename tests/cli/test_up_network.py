"""The network that `shoal up --scenario` starts, without starting it."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.cli.support.errors import UserError
from shoal.cli.support.up_network import NetworkOptions
from tests.experiments.test_run_files import write_workload


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ("", ""),
        ("membership.leaves = [{ broker = 'B', at_us = 1 }]\nfaults.link_loss = 0.1\n",
         "no effect on a live network: [faults], [membership]; `shoal simulate` applies them"),
        # As without it.
        ("mobility.subscribers = 0\n", ""),
    ],
)  # fmt: skip
def test_a_live_network_names_tables_without_effect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tables: str, said: str
) -> None:
    workload = write_workload(tmp_path / "workload")
    scenario = tmp_path / "scenario.toml"
    scenario.write_text(f"name = 'x'\nsystem = 'tree'\nworkload.path = '{workload}'\n{tables}")
    options = NetworkOptions({}, 0, "tree", "127.0.0.1", False, scenario, None)
    assert options.network().brokers
    found = capsys.readouterr().err
    assert (said in found and str(scenario) in found) if said else not found


def test_a_broker_that_the_workload_lacks_is_named_with_the_file(tmp_path: Path) -> None:
    workload = write_workload(tmp_path / "workload")
    scenario = tmp_path / "scenario.toml"
    scenario.write_text(f"name = 'x'\nworkload.path = '{workload}'\n")
    star = ["topology.kind=star", "topology.centre=nowhere", "system=tree"]
    options = NetworkOptions({}, 0, "tree", "127.0.0.1", False, scenario, star)
    problem = f"^{scenario}: topology.centre: no broker 'nowhere'; there are "
    with pytest.raises(UserError, match=problem):
        options.network()
