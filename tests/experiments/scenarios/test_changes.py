"""Runs in which brokers, clients, subscriptions and rates change: each delivery once, no other.

The truth is made here, from the workload's filters and the times of subscriptions alone.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shoal.experiments.comparisons.data import run_and_summarise
from shoal.experiments.comparisons.design import Design, parse_factor
from shoal.experiments.runs.runner import RunResult, run_scenario
from shoal.experiments.scenarios.scenario import parse_scenario
from shoal.experiments.scenarios.sections import ScenarioError
from shoal.language import parse
from shoal.matching import matches
from shoal.overlays.registry import SYSTEMS
from shoal.pipeline.small.truth import write_small_truth
from shoal.typed_toml import TomlError
from tests.examples import at_length
from tests.experiments.test_run_files import write_workload

SECOND_US = 1_000_000
BROKERS = ("B1", "B2", "B3", "B4", "B5")
LAST_S = 240
# A system of each way of joining, leaving and routing.
QUICK = ("tree", "octopia", "dynatops")

TOPIC: dict[str, Any] = {
    "dynatops": {"topic": "carrier"},
    "bayeux": {"topic": "carrier"},
    "hybrid": {"topic": "carrier"},
    "geops": {"topic": "carrier"},
    "tco": {"topic": "carrier"},
    "bluedove": {"dimensions": [{"attribute": "delay", "high": 100}]},
}
FILTERS = ("carrier = 'UA'", "carrier = 'DL' AND delay > 20", "carrier IN ('UA', 'DL')")


def workload(folder: Path) -> Path:
    """Two publishers, eight subscriptions of six clients, two of which have a time."""
    subscriptions = [
        {
            "subscription": f"s{number}",
            "client": f"c{number % 6}",
            "broker": BROKERS[number % 6 % 5],
            "filter": FILTERS[number % 3],
            "publisher": "P0",
            "rate_class": "high",
            "aimed_selectivity": 1.0,
            "measured_selectivity": 1.0,
            "from_us": 60 * SECOND_US if number == 6 else None,
            "to_us": 90 * SECOND_US if number == 7 else None,
        }
        for number in range(8)
    ]
    publishers = [
        {
            "publisher": f"P{number}",
            "advertisement_id": f"P{number}#0",
            "advertisement": f"carrier = '{carrier}'",
            "broker": BROKERS[number],
        }
        for number, carrier in enumerate(("UA", "DL"))
    ]
    events = [
        {
            "publisher": f"P{number % 2}",
            "sequence": number // 2,
            "time_us": number,
            "replay_us": number * SECOND_US // 3,
            "attributes": {"carrier": ("UA", "DL")[number % 2], "delay": number * 7 % 50},
        }
        for number in range(3 * LAST_S)
    ]
    return write_workload(
        folder,
        brokers=[{"broker": name, "rank": rank} for rank, name in enumerate(BROKERS)],
        publishers=publishers,
        subscriptions=subscriptions,
        events=events,
    )


def settings(path: Path, system: str, **tables: Any) -> dict[str, Any]:
    return {
        "name": "changes",
        "system": system,
        "workload": {"path": str(path)},
        "underlay": {"kind": "constant", "latency_us": 5_000},
        "run": {"settle_us": 5 * SECOND_US},
        **({system: TOPIC[system]} if system in TOPIC else {}),
        **tables,
    }


def expected(result: RunResult) -> set[tuple[str, int, str]]:
    """Publisher, sequence, subscription, of the publications as the workload has them."""
    spans: dict[str, list[tuple[int, int | None]]] = {}
    columns = result.tables["subscribed"]
    for name, from_us, until_us in zip(*(columns[each] for each in columns), strict=True):
        spans.setdefault(name, []).append((from_us, until_us))
    times_us = {
        (publisher, sequence): at_us
        for publisher, sequence, at_us, _ in zip(
            *(result.tables["publications"][each] for each in result.tables["publications"]),
            strict=True,
        )
    }
    assert len(times_us) == 3 * LAST_S
    found = set()
    for number in range(3 * LAST_S):
        key = f"P{number % 2}", number // 2
        attributes = {"carrier": ("UA", "DL")[number % 2], "delay": number * 7 % 50}
        for each in range(8):
            name = f"s{each}"
            is_there = not (each == 6 and number < 180) and not (each == 7 and number >= 270)
            if name in spans:
                is_there = any(
                    start <= times_us[key] and (until is None or times_us[key] < until)
                    for start, until in spans[name]
                )
            if is_there and matches(parse(FILTERS[each % 3]), attributes):
                found.add((*key, name))
    return found


def check(result: RunResult) -> None:
    rows = result.tables["deliveries"]
    got = Counter(zip(rows["publisher"], rows["sequence"], rows["subscription"], strict=True))
    wanted = expected(result)
    assert (sorted(wanted - {*got}), sorted({*got} - wanted)) == ([], [])  # lost, phantom
    assert max(got.values()) == 1
    assert (result.checks["out_of_order"], result.checks["refused"]) == (0, 0)
    assert result.checks.get("unfinished_leaves", 0) == 0


JOINS = [
    {"broker": "N1", "links": ["B2"], "at_us": 20 * SECOND_US},
    {"broker": "N2", "links": ["N1"], "at_us": 60 * SECOND_US},
]
LEAVES = [
    {"broker": "B3", "at_us": 70 * SECOND_US},
    {"broker": "B1", "at_us": 120 * SECOND_US},
]
MOBILITY = {"subscribers": 0.7, "publishers": 1.0, "stay_us": 45 * SECOND_US}
CHURN = {"subscriptions": 0.6, "stay_us": 40 * SECOND_US, "away_us": 30 * SECOND_US}
BURSTS = {"factor": 20, "every_us": 30 * SECOND_US, "length_us": SECOND_US // 2}
CASES: dict[str, dict[str, Any]] = {
    "membership": {"membership": {"joins": JOINS, "leaves": LEAVES}},
    "mobility": {"mobility": MOBILITY},
    "churn": {"churn": CHURN, "bursts": BURSTS},
    "all": {
        "membership": {"joins": JOINS, "leaves": LEAVES},
        "mobility": MOBILITY,
        "churn": CHURN,
        "bursts": BURSTS,
        "bandwidth": {"bytes_per_second": 100_000},
    },
}


@pytest.mark.parametrize(
    ("system", "case"),
    [
        *[(system, "all") for system in QUICK],
        *at_length(
            (system, case)
            for system in SYSTEMS
            for case in CASES
            if (system, case) not in [(each, "all") for each in QUICK]
        ),
    ],
)
def test_nothing_is_lost_or_doubled_while_all_changes(
    tmp_path: Path, system: str, case: str
) -> None:
    scenario = parse_scenario(settings(workload(tmp_path), system, **CASES[case]))
    result = run_scenario(scenario)
    check(result)
    if "mobility" in CASES[case]:
        moved = {*result.tables["subscriber_moves"]["client"]}
        assert len(moved) >= 2
    if "membership" in CASES[case]:
        last = zip(
            result.tables["deliveries"]["delivered_us"],
            result.tables["deliveries"]["broker"],
            strict=True,
        )
        end_us = max(result.tables["publications"]["published_us"])
        assert not {broker for at_us, broker in last if at_us > end_us - 20 * SECOND_US} & {"B3"}


def test_lossy_links_lose_nothing_while_all_changes(tmp_path: Path) -> None:
    faults = {"link_loss": 0.05, "link_delay_jitter_us": 20_000}
    data = settings(workload(tmp_path), "tree", **CASES["all"], faults=faults)
    check(run_scenario(parse_scenario(data)))


def test_a_listed_client_moves_and_stands_beside_its_new_broker(tmp_path: Path) -> None:
    moves = [
        {"client": "c0", "broker": "B4", "at_us": 30 * SECOND_US},
        {"client": "P0", "broker": "B4", "at_us": 60 * SECOND_US},
    ]
    data = settings(workload(tmp_path), "tree", mobility={"moves": moves})
    result = run_scenario(parse_scenario(data))
    check(result)
    assert result.tables["subscriber_moves"]["target"] == ("B4",)  # s6 comes later
    rows = result.tables["deliveries"]
    late = [
        (hops, delivered_us - published_us)
        for client, publisher, hops, published_us, delivered_us in zip(
            *(
                rows[each]
                for each in ("client", "publisher", "hops", "published_us", "delivered_us")
            ),
            strict=True,
        )
        if (client, publisher) == ("c0", "P0") and published_us > 150 * SECOND_US
    ]
    assert late
    assert {hops for hops, _ in late} == {0}
    # 100 us to the broker, 100 us from it, and its own work.
    assert max(delay_us for _, delay_us in late) < 5_000


def test_a_client_that_moves_before_it_subscribes_subscribes_at_its_new_broker(
    tmp_path: Path,
) -> None:
    moves = [{"client": each, "broker": "B4", "at_us": SECOND_US} for each in ("c0", "P0")]
    data = settings(workload(tmp_path), "tree", mobility={"moves": moves})
    result = run_scenario(parse_scenario(data))
    check(result)
    rows = result.tables["deliveries"]
    there = zip(rows["client"], rows["broker"], strict=True)
    assert {broker for client, broker in there if client == "c0"} == {"B4"}


def test_a_run_with_drawn_changes_repeats_and_another_seed_differs(tmp_path: Path) -> None:
    path = workload(tmp_path)

    def made(seed: int) -> tuple[Any, ...]:
        data = settings(path, "tree", **CASES["all"], seed=seed)
        tables = run_scenario(parse_scenario(data)).tables
        return tables["deliveries"], tables["subscribed"], tables["load"]

    assert made(3) == made(3)
    assert made(3) != made(4)


@pytest.mark.parametrize(
    ("tables", "problem"),
    [
        (
            {"bandwidth": {"links": [{"left": "B1", "right": "B9", "bytes_per_second": 5}]}},
            "bandwidth.links[0].right: no broker 'B9'",
        ),
        (
            {"membership": {"joins": [{"broker": "B2", "links": ["B1"], "at_us": 5}]}},
            "membership.joins[0].broker: 'B2' is there already; take another name",
        ),
        (
            {"membership": {"joins": [{"broker": "N", "links": ["X"], "at_us": 5}]}},
            "membership.joins[0].links: no broker 'X' in the workload, and no join of it "
            "before this one",
        ),
        (
            {
                "membership": {
                    "joins": [{"broker": "N", "links": ["B1"], "beside": "X", "at_us": 5}]
                }
            },
            "membership.joins[0].beside: no broker 'X' in the workload, and no join of it "
            "before this one",
        ),
        (
            {
                "membership": {
                    "joins": [{"broker": "N", "links": ["B1"], "at_us": 5}],
                    "leaves": [{"broker": "N", "at_us": 9}],
                }
            },
            "membership.leaves[0].at_us: 'N' leaves within 5 s of its join; take 5000005 or more",
        ),
        (
            {"membership": {"joins": [{"broker": "N", "links": ["B1", "B2"], "at_us": 5}]}},
            "membership.joins[0].links: link B2 - N closes a cycle; an overlay is a tree",
        ),
        (
            {
                "membership": {
                    "joins": [{"broker": "N", "links": ["B1"], "at_us": 9}],
                    "leaves": [{"broker": "B1", "at_us": 9}],
                }
            },
            "membership.joins[0].links: 'B1' is not there at 9 us",
        ),
        (
            {"membership": {"leaves": [{"broker": each, "at_us": 5} for each in BROKERS]}},
            "membership.leaves: no broker for clients stays; leave one out",
        ),
        (
            {"membership": {"leaves": [{"broker": "B1", "at_us": 5}] * 2}},
            "membership.leaves[1].broker: 'B1' leaves twice",
        ),
        (
            {"mobility": {"moves": [{"client": "nobody", "broker": "B1", "at_us": 5}]}},
            "mobility.moves[0].client: the workload has no client 'nobody'",
        ),
        (
            {
                "membership": {"leaves": [{"broker": "B1", "at_us": 5}]},
                "mobility": {"moves": [{"client": "c1", "broker": "B1", "at_us": 5}]},
            },
            "mobility.moves[0].at_us: 'B1' takes no clients at 5 us: it has not joined 5 s "
            "before, or leaves",
        ),
    ],
)
def test_a_change_that_cannot_be_is_named(
    tmp_path: Path, tables: dict[str, Any], problem: str
) -> None:
    scenario = parse_scenario(settings(workload(tmp_path), "tree", **tables))
    with pytest.raises(ScenarioError) as caught:
        run_scenario(scenario)
    assert str(caught.value) == f"{problem} (docs/reference/scenario.md)"


@pytest.mark.parametrize(
    ("tables", "problem"),
    [
        ({"mobility": {"subscribers": 1.5}}, "mobility.subscribers: expected a number <= 1"),
        ({"mobility": {"stay_us": 5}}, "mobility.stay_us: expected a whole number >= 20000000"),
        ({"bursts": {"factor": 0.5}}, "bursts.factor: expected a number >= 1"),
        (
            {"churn": {"subscriptions": 0.5, "away_us": 10_000_000}},
            "churn.away_us: 10000000 is too short; take more than 10000000, twice run.settle_us",
        ),
        ({"bandwidth": {"bytes_per_second": -1}}, "bandwidth.bytes_per_second: expected a whole"),
        (
            {"membership": {"joins": [{"broker": "N", "at_us": 1, "links": []}]}},
            "membership.joins",
        ),
        (
            {"membership": {"joins": [{"broker": "", "at_us": 1, "links": ["B1"]}]}},
            "membership.joins[0].broker",
        ),
    ],
)
def test_wrong_values_are_named(tmp_path: Path, tables: dict[str, Any], problem: str) -> None:
    with pytest.raises(TomlError) as caught:
        parse_scenario(settings(tmp_path, "tree", **tables))
    assert problem in str(caught.value)


def test_each_change_is_a_factor_of_a_study_that_finds_no_delivery_wrong(tmp_path: Path) -> None:
    """Its runs are compared with the truth of the workload, in which nothing changes."""
    path = workload(tmp_path / "workload")
    scenario = tmp_path / "scenario.toml"
    scenario.write_bytes(msgspec.toml.encode(settings(path, "tree")))
    factors = {
        "churn.subscriptions": "0,0.6",
        "mobility.subscribers": "0,0.7",
        "bursts.factor": "1,20",
        "bandwidth.bytes_per_second": "0,100_000",
        "membership.leaves": "[],[{broker='B3',at_us=40_000_000}]",
        "membership.joins": "[],[{broker='N1',links=['B2'],at_us=20_000_000}]",
    }
    write_small_truth(path, tmp_path / "truth")
    expected_counts = {}
    for key, values in factors.items():
        factor = parse_factor(f"{key}={values}")
        design = Design(scenario, (), (factor,), seeds=1)
        settings_of_factor = design.settings()
        assert len(settings_of_factor) == 2
        for setting in settings_of_factor:
            (found,) = design.scenarios(setting)
            _, tables = run_and_summarise(found, tmp_path / "truth")
            (metrics,) = tables["runs"]
            wrong = {name: metrics[name] for name in ("lost", "duplicated", "phantom")}
            assert wrong == {"lost": 0, "duplicated": 0, "phantom": 0}, (key, setting)
            expected_counts[key, setting[key]] = metrics["expected"]
    assert expected_counts["churn.subscriptions", "0.6"] < expected_counts["bursts.factor", "20"]
