"""The grid has every run of the paper's evaluation, with unique names."""

from __future__ import annotations

import pytest

from shoal.experiments.relocation.grid import (
    BROKERS,
    CROWD,
    DELAY,
    EXTREMES,
    LOAD,
    POP,
    SCALES,
    SOME_SPREADS,
    SPREADS,
    THRESHOLDS,
    WEIGHTS,
    WHOLE,
    RunSpec,
    ScaleName,
    grid,
)


@pytest.mark.parametrize("scale", ["small", "paper"])
def test_names_are_unique(scale: ScaleName) -> None:
    names = [run.name for run in grid("quotes", SCALES[scale])]
    assert len(names) == len(set(names))


def test_the_paper_scale_is_complete() -> None:
    runs = grid("quotes", SCALES["paper"])
    main = [run for run in runs if run.study == "grid"]
    labels = {"baseline", "pop"} | {
        f"{priority}{weight}" for priority in ("load", "delay") for weight in WEIGHTS
    }
    points = {(run.testbed, run.distribution, run.spread, run.setting.label) for run in main}
    assert points == {
        (testbed, distribution, spread, label)
        for testbed in BROKERS
        for distribution in ("clustered", "random")
        for spread in SPREADS
        for label in labels
    }
    thresholds = {
        (run.setting.system, run.setting.threshold) for run in runs if run.study == "threshold"
    }
    assert thresholds == {("tree", None)} | {
        (system, threshold) for system in ("pop", "grape") for threshold in THRESHOLDS
    }


@pytest.mark.parametrize("scale", ["small", "paper"])
def test_every_publisher_is_probed_everywhere(scale: ScaleName) -> None:
    probes = [run for run in grid("quotes", SCALES[scale]) if run.study == "probe"]
    for distribution in ("clustered", "random"):
        numbers = [run.probe for run in probes if run.distribution == distribution]
        assert numbers == list(range(BROKERS["wide"]))
    # Probes use exactly the workload whose decisions they judge.
    judged = {run.workload for run in grid("quotes", SCALES[scale]) if run.study == "grid"}
    assert {run.workload for run in probes} <= judged


def test_small_is_a_part_of_the_points() -> None:
    def points(scale: ScaleName) -> set[tuple[object, ...]]:
        return {
            (run.study, run.testbed, run.distribution, run.spread, run.setting, run.probe)
            for run in grid("flights", SCALES[scale])
            if run.study != "overhead"
        }

    assert points("small") < points("paper")


def test_control_messages_are_measured_with_many_subscribers_at_every_scale() -> None:
    for scale in SCALES.values():
        crowded = {
            (run.testbed, run.distribution, run.setting)
            for run in grid("quotes", scale)
            if run.study in ("grid", "overhead") and run.subscriptions == CROWD
        }
        assert {
            (place, spread, setting)
            for place in BROKERS
            for spread in ("clustered", "random")
            for setting in (POP, LOAD, DELAY)
        } <= crowded
    workloads = {
        (run.workload, run.publications, run.subscriptions)
        for run in grid("quotes", SCALES["small"])
    }
    assert len({name for name, _, _ in workloads}) == len(workloads)


@pytest.mark.parametrize("scale", ["small", "paper"])
def test_some_networks_are_run_with_whole_machines_too(scale: ScaleName) -> None:
    runs = grid("quotes", SCALES[scale])
    points = {
        (run.testbed, run.distribution, run.spread, run.setting, run.workload, run.duration_us)
        for run in runs
        if run.study == "grid"
    }
    whole = [run for run in runs if run.study == "whole"]
    assert len(whole) == len(WHOLE)
    for run in whole:
        point = run.testbed, run.distribution, run.spread, run.setting
        assert (*point, run.workload, run.duration_us) in points


def test_a_workload_has_its_brokers() -> None:
    run: RunSpec = grid("quotes", SCALES["small"])[0]
    assert run.workload == "wide-clustered-1-360-20"
    assert run.brokers == 63


@pytest.mark.parametrize("scale", ["small", "paper"])
def test_the_most_informative_runs_come_first(scale: ScaleName) -> None:
    """A part of the grid, made in too little time, has whole comparisons at the paper's sizes."""
    runs = grid("quotes", SCALES[scale])
    first = [run for run in runs if run.rank == 0]
    points = {(run.testbed, run.distribution, run.spread) for run in first}
    assert {spread for *_, spread in points} == set(SOME_SPREADS)
    assert len(points) == 2 * 2 * len(SOME_SPREADS)
    for point in points:
        settings = [
            run.setting for run in first if (run.testbed, run.distribution, run.spread) == point
        ]
        assert settings == list(EXTREMES)
    assert {run.study for run in first} == {"grid"}
    assert {run.study for run in runs if run.rank == 1} <= {
        "threshold",
        "overhead",
        "load",
        "whole",
    }
    assert {run.study for run in runs if run.rank == max(run.rank for run in runs)} == {"probe"}
