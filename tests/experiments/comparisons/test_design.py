"""Factors, settings and the runs that follow from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.experiments.comparisons.design import (
    Design,
    DesignError,
    Factor,
    parse_factor,
    run_name,
)
from shoal.typed_toml import TomlError


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "scenario.toml"
    path.write_text("name = 'short'\nseed = 4\nworkload.path = 'workload'\n")
    return path


def test_a_parameter_of_one_system_is_left_out_for_others(scenario: Path) -> None:
    factors = (
        Factor("system", ("tree", "grape", "pop")),
        Factor("grape.priority", ("load", "delay")),
        Factor("topology.fan_out", ("2", "3")),
    )
    found = Design(scenario, (), factors, 1).settings()
    assert len(found) == 2 * (1 + 2 + 1)
    assert {"system": "pop", "topology.fan_out": "3"} in found
    assert found[0] == {"system": "tree", "topology.fan_out": "2"}


def test_each_setting_has_the_same_seeds(scenario: Path) -> None:
    design = Design(scenario, ("underlay.kind=constant",), (Factor("system", ("tree", "pop")),), 3)
    for setting in design.settings():
        scenarios = design.scenarios(setting)
        assert [each.seed for each in scenarios] == [4, 5, 6]
        assert {each.system for each in scenarios} == {setting["system"]}
        assert {each.underlay.__struct_config__.tag for each in scenarios} == {"constant"}
    assert design.scenarios({"system": "pop"})[1].name == "pop-seed5"


def test_a_topology_is_left_out_for_systems_with_links_of_their_own(scenario: Path) -> None:
    factors = (Factor("system", ("tree", "octopia")), Factor("topology.fan_out", ("2", "3")))
    design = Design(scenario, ("topology.kind=balanced", "grape.weight=5"), factors, 1)
    with pytest.raises(DesignError, match="octopia, tree: none depends on it"):
        design.settings()
    design = design._replace(overrides=("topology.kind=balanced",))
    found = design.settings()
    assert found[2:] == [{"system": "octopia"}]
    assert [design.scenarios(each)[0].system for each in found] == ["tree", "tree", "octopia"]


def test_each_setting_has_files_of_its_own() -> None:
    values = ("a/b", "a_b", "a b", "[1,2]", "[1,3]", "-1", "1", "x" * 300, "x" * 301)
    names = [run_name({"k": value, "j": "1-j2"}, 1) for value in values]
    names.append(run_name({"k": "1-j1", "j": "2"}, 1))
    assert len(set(names)) == len(names)
    assert all(len(name) < 100 and "/" not in name for name in names)


TEXTS = ["system", "=tree", "system=", "system=a,,b", "system=a,a", "seed=1,2", "name=a,b"]


@pytest.mark.parametrize("text", TEXTS)
def test_a_factor_without_key_or_values_is_an_error(text: str) -> None:
    with pytest.raises(DesignError, match="--vary"):
        parse_factor(text)


def test_one_setting_is_no_study(scenario: Path) -> None:
    with pytest.raises(DesignError, match="two settings"):
        Design(scenario, (), (Factor("system", ("tree",)),), 6).settings()
    twice = (Factor("seed", ("1",)), Factor("seed", ("2",)))
    with pytest.raises(DesignError, match="twice"):
        Design(scenario, (), twice, 6).settings()


def test_a_key_that_no_scenario_has_is_named(scenario: Path) -> None:
    design = Design(scenario, (), (Factor("topolgy.kind", ("star", "line")),), 1)
    with pytest.raises(TomlError, match="topolgy"):
        design.scenarios(design.settings()[0])
