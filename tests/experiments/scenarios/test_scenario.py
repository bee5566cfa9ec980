"""Scenarios: complete after a round trip, relative paths, and errors with the key."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec
import pytest

from shoal.experiments.scenarios.faults import (
    Crash,
    Faults,
    LinkDown,
    LinkQuality,
    check_faults,
)
from shoal.experiments.scenarios.scenario import (
    BalancedTree,
    GeographySection,
    LinksFile,
    Matrix,
    Scenario,
    Service,
    dump_scenario,
    load_scenario,
    parse_scenario,
)
from shoal.experiments.scenarios.sections import ScenarioError
from shoal.overlays.publisher_relocation.choosing import Priority
from shoal.overlays.registry import SYSTEMS
from shoal.simulation.service import ServiceCosts
from shoal.typed_toml import TomlError

EXAMPLE = Path(__file__).parents[3] / "examples" / "flights.toml"
MINIMAL = "name = 'x'\nworkload.path = 'w'\n"


def written(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "scenario.toml"
    path.write_text(text)
    return path


def test_the_example_has_the_papers_setting() -> None:
    scenario = load_scenario(EXAMPLE)
    assert scenario.topology == BalancedTree(fan_out=2)
    assert isinstance(scenario.underlay, GeographySection)
    assert scenario.sections["grape"].trace_session_length == 100
    assert scenario.workload.path == str((EXAMPLE.parent / "../demo/workload").resolve())


def test_the_examples_figures_are_the_defaults() -> None:
    example = load_scenario(EXAMPLE)
    bare = parse_scenario({"name": "load100", "workload": {"path": example.workload.path}})
    assert example == bare


def test_the_changing_example_is_that_of_its_page() -> None:
    """The example has a link and a reach of its own."""
    page = EXAMPLE.parents[1] / "docs" / "how-to" / "changes.md"
    example = load_scenario(EXAMPLE.with_name("changes.toml"))
    shown = parse_scenario(tomllib.loads(page.read_text().split("```toml")[1].split("```")[0]))
    for table in ("membership", "churn", "bursts"):
        assert getattr(example, table) == getattr(shown, table)
    assert example.mobility == msgspec.structs.replace(shown.mobility, reach=3)
    assert example.bandwidth.bytes_per_second == shown.bandwidth.bytes_per_second


def test_a_dumped_scenario_is_complete_and_reads_back(tmp_path: Path) -> None:
    path = written(
        tmp_path / "a",
        MINIMAL
        + "[underlay]\nkind = 'matrix'\npath = '../rtt.csv'\n"
        + "[topology]\nkind = 'links'\n"
        + "[grape]\npriority = 'delay'\nweight = 75\n"
        + "[[faults.crashes]]\nbroker = 'B1'\nat_us = 5\nback_us = 9\n"
        + "[[faults.link_downs]]\nleft = 'B1'\nright = 'B2'\nat_us = 5\nback_us = 9\n",
    )
    scenario = load_scenario(path)
    assert scenario.sections["grape"].priority is Priority.DELAY
    assert scenario.underlay == Matrix(path=str(tmp_path / "rtt.csv"))
    assert scenario.topology == LinksFile()
    text = dump_scenario(scenario, tmp_path / "runs" / "one")
    assert load_scenario(written(tmp_path / "runs" / "one", text)) == scenario
    data = tomllib.loads(text)
    assert data["workload"]["path"] == "../../a/w"
    assert set(data) == {*Scenario.__struct_fields__, *SYSTEMS} - {"sections"}
    assert set(data["service"]) == set(Service.__struct_fields__)


def test_paths_in_overrides_are_relative_to_the_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "scenarios", MINIMAL)
    monkeypatch.chdir(tmp_path)
    scenario = load_scenario(path, ["workload.path=data/flights", "seed=9"])
    assert scenario.workload.path == str(tmp_path / "data" / "flights")
    assert scenario.seed == 9


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("grape.wieght=3", "--set: grape.wieght: unknown key; did you mean weight?"),
        ("grape.weight=140", "--set: grape.weight: 140 is not between 0 and 100"),
        ("grape.priority=both", "use one of load, delay"),
        ("system=prune", "--set: system: no system 'prune'; use one of tree, grape, pop, bluedove"),
        ("system=prune", "name the module of your own in SHOAL_SYSTEMS"),
        ("underlay.kind=moon", "underlay.kind: 'moon' is none; use one of"),
        ("underlay.kind=matrix", "underlay.path: is missing"),
        ("faults.link_loss=1.5", "faults.link_loss: expected a number <= 0.9"),
        ("service.processing_us=0", "service.processing_us: expected a whole number >= 1"),
        ("name=", "name: expected text of length >= 1"),
        (
            "faults.crashes=[{broker='B', at_us=5, back_us=5}]",
            r"faults.crashes\[0\].back_us: 5 is not after at_us = 5",
        ),
    ],
)
def test_wrong_settings_are_errors(tmp_path: Path, setting: str, message: str) -> None:
    with pytest.raises(TomlError, match=message):
        load_scenario(written(tmp_path, MINIMAL), [setting])


@pytest.mark.parametrize(
    ("system", "setting"),
    [
        ("pop", "grape.priority=delay"),
        ("tree", "pop.threshold=5"),
        ("grape", "bluedove.cores=2"),
        ("bluedove", "topology.kind=star"),
    ],
)
def test_settings_of_other_systems_are_refused(tmp_path: Path, system: str, setting: str) -> None:
    path = written(tmp_path, MINIMAL + "[grape]\nweight = 50\n[pop]\nthreshold = 7\n")
    key = setting.partition("=")[0]
    with pytest.raises(TomlError) as caught:
        load_scenario(path, [f"system={system}", setting])
    problem = f"--set {key}: {system} does not know it, so it has no effect"
    assert str(caught.value) == f"{problem} (docs/reference/systems.md)"


def test_errors_name_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, "sed = 3\n" + MINIMAL)
    with pytest.raises(TomlError) as caught:
        load_scenario(path, ["name=y"])
    problem = f"{path}: sed: unknown key; did you mean seed?"
    assert str(caught.value) == f"{problem} (docs/reference/scenario.md)"


def test_faults_need_their_brokers_and_links() -> None:
    crash = Faults(crashes=(Crash(broker="B9", at_us=1, back_us=2),))
    with pytest.raises(ScenarioError, match=r"faults.crashes\[0\].broker: no broker 'B9'"):
        check_faults(crash, ["B1"], [])
    down = Faults(link_downs=(LinkDown(left="B2", right="B1", at_us=1, back_us=2),))
    check_faults(down, ["B1", "B2"], [("B1", "B2")])
    with pytest.raises(ScenarioError, match="no link between 'B2' and 'B1'"):
        check_faults(down, ["B1", "B2"], [])
    poor = Faults(links=(LinkQuality(left="B1", right="B3", loss=0.1),))
    with pytest.raises(ScenarioError, match=r"faults.links\[0\]: no link between 'B1' and 'B3'"):
        check_faults(poor, ["B1", "B2", "B3"], [("B1", "B2")])


def test_the_costs_are_those_of_the_simulator() -> None:
    assert Service.__struct_fields__ == (*ServiceCosts.__struct_fields__, "speeds")
    assert Service().at_speed(1).processing_us == 500
