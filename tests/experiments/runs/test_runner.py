"""A scenario becomes a world: places of clients, and their start times."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from shoal.experiments.run_files import RunFileError
from shoal.experiments.runs.runner import run_scenario
from shoal.experiments.runs.trace_sinks import Tables
from shoal.experiments.scenarios.scenario import parse_scenario
from shoal.experiments.scenarios.sections import ScenarioError
from tests.experiments.test_run_files import SUBSCRIPTION, event, write_workload

LATENCY_US = 7_000


@pytest.mark.parametrize(("place", "ways"), [(None, 1), ("EWR", 2)])
def test_a_subscriber_may_have_another_place_than_its_broker(
    tmp_path: Path, place: str | None, ways: int
) -> None:
    workload = write_workload(
        tmp_path, subscriptions=[{**SUBSCRIPTION, "place": place}], events=[event(0, 0)]
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


def test_a_publisher_may_start_elsewhere_and_the_replay_end_early(tmp_path: Path) -> None:
    workload = write_workload(tmp_path, events=[event(0, 0), event(1, 10), event(2, 20)])
    scenario = parse_scenario(
        {
            "name": "elsewhere",
            "system": "tree",
            "workload": {"path": str(workload)},
            "underlay": {"kind": "constant", "latency_us": LATENCY_US, "local_latency_us": 1},
        }
    )
    tables = run_scenario(scenario, connect={"UA-EWR": "ATL"}, replay_until_us=20).tables
    assert tables["publications"]["sequence"] == (0, 1)
    assert set(tables["publications"]["first_broker"]) == {"ATL"}
    assert set(tables["deliveries"]["hops"]) == {0}
    # It stays beside its own broker.
    delay_us = tables["deliveries"]["delivered_us"][0] - tables["deliveries"]["published_us"][0]
    assert delay_us // LATENCY_US == 1


@pytest.mark.parametrize(("speed", "more_us"), [(1, 0), (0.1, 9_000), (2, -500)])
def test_a_broker_may_be_slower_than_others(tmp_path: Path, speed: float, more_us: int) -> None:
    """EWR publishes, ATL has the subscriber; of all costs only processing is not small."""
    workload = write_workload(tmp_path, events=[event(0, 0)])
    scenario = {
        "name": "unequal",
        "system": "tree",
        "workload": {"path": str(workload)},
        "underlay": {"kind": "constant", "latency_us": LATENCY_US, "local_latency_us": 1},
        "service": {
            "processing_us": 1_000,
            "matching_us": 0,
            "matching_per_subscription_ns": 0,
            "transmission_us": 1,
            "client_transmission_us": 1,
        },
    }
    even = run_scenario(parse_scenario(scenario)).tables["deliveries"]["delivered_us"][0]
    scenario["service"] |= {"speeds": [{"broker": "ATL", "speed": speed}]}  # type: ignore[operator]
    found = run_scenario(parse_scenario(scenario)).tables["deliveries"]["delivered_us"][0]
    assert abs(found - even - more_us) < 10  # sending takes 1 us, or at a tenth of the speed 10


def test_a_speed_of_a_broker_that_is_not_there_is_named(tmp_path: Path) -> None:
    scenario = parse_scenario(
        {
            "name": "unequal",
            "workload": {"path": str(write_workload(tmp_path))},
            "underlay": {"kind": "constant"},
            "service": {"speeds": [{"broker": "LHR", "speed": 2}]},
        }
    )
    with pytest.raises(ScenarioError, match=r"service.speeds\[0\].broker: no broker 'LHR'"):
        run_scenario(scenario)


def test_the_system_of_every_broker_is_accessible(tmp_path: Path) -> None:
    workload = write_workload(tmp_path, events=[event(0, 0)])
    scenario = parse_scenario(
        {
            "name": "observed",
            "system": "tree",
            "workload": {"path": str(workload)},
            "underlay": {"kind": "constant"},
        }
    )
    seen: list[set[int]] = []
    run_scenario(scenario, observe=lambda every: seen.append({id(one) for one in every}))
    assert len(seen) > 1
    assert all(len(every) == len(seen[0]) > 1 for every in seen)


def test_a_cluster_makes_a_trees_deliveries(tmp_path: Path) -> None:
    workload = write_workload(tmp_path, events=[event(0, 0), event(1, 10), event(2, 20)])
    delivered = {}
    for system in ("tree", "bluedove"):
        scenario = parse_scenario(
            {
                "name": system,
                "system": system,
                "workload": {"path": str(workload)},
                "underlay": {"kind": "constant"},
                "bluedove": {"dimensions": [{"attribute": "dep_delay", "high": 60}]},
            }
        )
        result = run_scenario(scenario)
        tables = result.tables
        delivered[system] = sorted(
            zip(tables["deliveries"]["sequence"], tables["deliveries"]["subscription"], strict=True)
        )
        assert result.checks["duplicates"] == 0
    assert delivered["tree"] == delivered["bluedove"] != []


@pytest.mark.parametrize("mode", ["advice", "exchange"])
def test_links_bypass_a_broker_that_only_forwards(tmp_path: Path, mode: str) -> None:
    """All is published at EWR and wanted at ORD, and ATL is between them."""
    workload = write_workload(
        tmp_path,
        brokers=[{"broker": name, "rank": rank} for rank, name in enumerate(("EWR", "ATL", "ORD"))],
        subscriptions=[{**SUBSCRIPTION, "broker": "ORD"}],
        events=[event(number, 100_000 * number) for number in range(60)],
    )
    scenario = parse_scenario(
        {
            "name": "advised",
            "system": "self_organising",
            "workload": {"path": str(workload)},
            "topology": {"kind": "line"},
            "underlay": {"kind": "constant", "latency_us": LATENCY_US, "local_latency_us": 1},
            "self_organising": {"mode": mode, "interval_us": 1_000_000},
        }
    )
    result = run_scenario(scenario)
    proposals, hops = result.tables["proposals"], result.tables["deliveries"]["hops"]
    assert {*zip(proposals["left"], proposals["right"], strict=True)} <= {
        ("EWR", "ORD"),
        ("ORD", "EWR"),
    }
    if mode == "advice":
        assert set(proposals["outcome"]) == {"advised"}
        assert set(hops) == {2}
    else:
        assert proposals["outcome"][:2] == ("agreed", "done")
        assert (hops[0], hops[-1]) == (2, 1)
    assert (result.checks["delivered"], result.checks["duplicates"]) == (60, 0)


@pytest.mark.parametrize("shared_outputs", [False, True])
@pytest.mark.parametrize("slow", ["processing_us", "transmission_us", ""])
def test_the_backlog_of_overloaded_brokers_is_counted(
    tmp_path: Path, slow: str, shared_outputs: bool
) -> None:
    """Each publication passes one link; none may vanish from the sum."""
    count = 40
    events = [event(number, 1_000 * number) for number in range(count)]
    workload = write_workload(
        tmp_path, subscriptions=[{**SUBSCRIPTION, "broker": "ATL"}], events=events
    )
    service = {"shared_outputs": shared_outputs} | ({slow: 1_000_000} if slow else {})
    scenario = parse_scenario(
        {
            "name": "slow",
            "system": "tree",
            "workload": {"path": str(workload)},
            "underlay": {"kind": "constant"},
            "service": service,
            "run": {"settle_us": 20_000_000, "drain_us": 10_000_000},
        }
    )
    behind: list[int] = []
    result = run_scenario(scenario, lambda now_us, end_us, behind_us: behind.append(behind_us))
    checks = result.checks
    assert checks["delivered"] + checks["under_way"] == count
    assert (checks["under_way"] > 20) == bool(slow)
    if slow == "processing_us":
        assert checks["most_behind_us"] == max(behind) > 15_000_000
    if not slow:
        assert checks["most_behind_us"] < 1_000_000


SECOND_US = 1_000_000


def _replayed(folder: Path, rows: list[dict[str, Any]]) -> Tables:
    """A run of 40 readings, half a second apart, to subscriptions with these changes."""
    subscriptions = [
        {**SUBSCRIPTION, "subscription": f"s{number}", "client": f"c{number}", **row}
        for number, row in enumerate(rows)
    ]
    events = [event(n, n * SECOND_US // 2, temp=n // 4, sensor=n % 2) for n in range(40)]
    scenario = parse_scenario(
        {
            "name": "rate and change",
            "system": "tree",
            "workload": {
                "path": str(write_workload(folder, subscriptions=subscriptions, events=events))
            },
            "underlay": {"kind": "constant", "latency_us": LATENCY_US},
        }
    )
    return run_scenario(scenario).tables


def test_subscriptions_of_a_workload_have_rates_and_changes(tmp_path: Path) -> None:
    rules = [
        {"every": None, "changed": None},
        {"every": "4800ms"},
        {"every": "4800ms BY sensor"},
        {"changed": "temp BY 2"},
        {"every": "2950ms", "changed": "temp"},
    ]
    tables = _replayed(tmp_path, rules)
    found: dict[str, list[tuple[int, int]]] = {f"s{number}": [] for number in range(5)}
    deliveries = tables["deliveries"]
    for name, sequence, at_us in zip(
        deliveries["subscription"], deliveries["sequence"], deliveries["delivered_us"], strict=True
    ):
        found[name].append((at_us, sequence))
    numbers = {name: [number for _, number in sorted(each)] for name, each in found.items()}
    assert numbers["s0"] == list(range(40))
    assert numbers["s1"] == [0, 9, 19, 28, 38, 39]
    assert sorted(numbers["s2"]) == [0, 1, 8, 9, 18, 19, 28, 29, 38, 39]
    assert numbers["s3"] == [0, 8, 16, 24, 32]
    assert numbers["s4"] == [0, 5, 11, 17, 23, 29, 35, 39]
    for name in ("s1", "s4"):
        times = [at_us for at_us, _ in sorted(found[name])]
        assert min(b - a for a, b in pairwise(times)) >= 2_940_000
    assert tables["conflated"]["subscription"] == ("s1", "s2", "s3", "s4")
    assert tables["conflated"]["delivered"] == (6, 10, 5, 8)
    assert tables["conflated"]["suppressed"][2] == 35


def test_links_are_spared_what_no_subscription_behind_them_needs(tmp_path: Path) -> None:
    carried = {}
    for every in ("", "5s"):
        folder = tmp_path / f"every{every}"
        folder.mkdir()
        tables = _replayed(folder, [{"every": every}])
        load = zip(tables["load"]["broker"], tables["load"]["messages_in"], strict=True)
        carried[every] = sum(count for broker, count in load if broker == "ATL")
    assert carried[""] - carried["5s"] > 20


def test_a_wrong_rate_of_a_workload_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunFileError, match=r"subscription 's0': .every: 'often' is no interval"):
        _replayed(tmp_path, [{"every": "often"}])
