"""Runs with a compiled loop equal runs whose machines handle all publications, to the microsecond.

Small random trees with queues that wait, short sessions and few traces, so that publishers move
again and again; all systems that can run so.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # pyarrow ships no types
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.experiments.networks.topologies import scenario_links
from shoal.experiments.run_files import (
    BrokerRow,
    PublisherRow,
    RunEvent,
    RunEvents,
    SubscriptionRow,
    WorkloadFiles,
)
from shoal.experiments.runs.flow_runs import (
    ListedEvents,
    PreparedWorkload,
    has_flows,
    judged,
    run_flows,
)
from shoal.experiments.runs.runner import RunResult, run_workload
from shoal.experiments.scenarios.scenario import Scenario, parse_scenario
from shoal.language import parse
from shoal.model import Publication
from shoal.overlays.registry import SYSTEMS
from shoal.simulation.flows.flows import MOST_NEIGHBOURS
from shoal.simulation.flows.matches import Matches
from shoal.simulation.judging.running_judge import RunningJudge
from shoal.simulation.trace import DeliveryEvent

PARAMETERS = {
    "tree": {},
    "grape": {"grape": {"priority": "load", "weight": 60, "trace_session_length": 6}},
    "pop": {"pop": {"threshold": 6, "window_publications": 20, "most_busy_percent": 100}},
}
PROCESSING_US = 60_000
EVENTS_SCHEMA = pa.schema(
    {
        "replay_us": pa.int64(),
        "publisher": pa.string(),
        "sequence": pa.int64(),
        "time_us": pa.int64(),
        "attributes": pa.struct({"a": pa.int64()}),
    }
)
# Thresholds, ranges, texts, none at all; the last ones are tested one by one, or in several places.
PLAIN = (
    "price > {low}",
    "price < {high}",
    "price >= {low} AND price <= {high}",
    "volume > {low}",
    "volume <= {high} AND volume > {low} AND price < {high}",
    "name > 'f'",
    "price >= {low} AND name < 'm'",
    "",
)
TESTED = ("price > {low} OR volume > {high}", "name LIKE '%e%' AND price < {high}")


def workload(seed: int, filters: tuple[str, ...]) -> WorkloadFiles:
    random = Random(seed)
    brokers = [f"B{number}" for number in range(random.randint(3, 12))]
    publishers = [f"P{number}" for number in range(4)]
    most_at = {name: random.choice(brokers) for name in publishers}
    subscriptions = []
    for number in range(48):
        low, high = sorted(random.sample(range(10), 2))
        rest = random.choice(filters).format(low=low, high=high)
        publisher = random.choice(publishers)
        own = f"symbol = '{publisher}'"
        # Most are far from their publisher, so that it moves.
        broker = random.choice(brokers) if random.random() < 0.3 else most_at[publisher]
        subscriptions.append(
            SubscriptionRow(
                subscription=f"s{number}",
                client=f"c{number}",
                broker=broker,
                filter=f"{own} AND ({rest})" if rest else own,
                place=random.choice(brokers),
            )
        )
    events = []
    for sequence in range(60):
        for publisher in publishers:
            attributes: dict[str, Any] = {"symbol": publisher, "price": random.randint(0, 10)}
            if random.random() < 0.5:
                attributes["price"] = random.random() * 10
            if random.random() < 0.9:
                attributes["volume"] = random.randint(0, 10)
            if random.random() < 0.9:
                attributes["name"] = random.choice("aeiouxyz") + random.choice("aeiou")
            # Some at the same moment.
            at_us = sequence * 400_000 + random.choice((0, 1_000, 250_000))
            events.append(RunEvent(at_us, publisher, sequence, at_us, attributes))
    events.sort(key=lambda each: (each.replay_us, each.publisher, each.sequence))
    return WorkloadFiles(
        brokers=[BrokerRow(broker=name) for name in brokers],
        publishers=[
            PublisherRow(
                publisher=name,
                advertisement_id=f"{name}/a",
                advertisement=f"symbol = '{name}'",
                broker=random.choice(brokers),
            )
            for name in publishers
        ],
        subscriptions=subscriptions,
        events=ListedEvents(events),
        links=None,
    )


def scenario(system: str, seed: int) -> Scenario:
    return parse_scenario(
        {
            "name": "flows",
            "seed": seed,
            "system": system,
            "workload": {"path": "unused"},
            "topology": {"kind": "random"},
            "underlay": {"kind": "constant", "latency_us": 9_000},
            "trace": {"window_us": 1_000_000},
            # The busiest brokers are near saturation, so that queues wait.
            "service": {"processing_us": PROCESSING_US, "publication_bytes": 200},
            **PARAMETERS[system],
        }
    )


def prepared(files: WorkloadFiles) -> PreparedWorkload:
    filters = {row.subscription: parse(row.filter) for row in files.subscriptions}
    publications = [(each.publisher, each.attributes) for each in files.events]
    return PreparedWorkload(files, Matches.of(publications, filters))


def compared(files: WorkloadFiles, which: Scenario) -> tuple[RunResult, RunResult]:
    """The run by machines alone, and the one with a loop; asserts that they are equal."""
    ready = prepared(files)
    assert has_flows(which, ready)
    whole = run_workload(which, files, scenario_links(which, files))
    loop = run_flows(which, files, ready)
    for name, columns in whole.tables.items():
        if name != "deliveries":
            assert loop.tables[name] == columns, name
    found = loop.tables["deliveries"]
    rows = zip(*(found[name].tolist() for name in found), strict=True)  # type: ignore[attr-defined]
    wanted = zip(*(whole.tables["deliveries"][name] for name in found), strict=True)
    assert sorted(rows) == sorted(wanted)
    assert loop.checks == whole.checks
    return whole, loop


@pytest.mark.parametrize("system", [*PARAMETERS])
def test_a_loop_changes_nothing(system: str) -> None:
    moves = waits = 0
    for seed in range(3):
        whole, loop = compared(workload(seed, PLAIN), scenario(system, seed))
        assert loop.checks["delivered"] > 500
        moves += len(whole.tables["migrations"]["publisher"])
        waits = max(waits, whole.checks["most_behind_us"])
    assert waits > 3 * PROCESSING_US
    assert (moves > 3) == (system != "tree")


@pytest.mark.parametrize("system", [*PARAMETERS])
def test_tests_of_single_filters_are_left_to_machines(system: str) -> None:
    compared(workload(7, (*PLAIN, *TESTED)), scenario(system, 7))


@pytest.mark.soak
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([*PARAMETERS]), st.booleans())
def test_no_loop_changes_anything(seed: int, system: str, is_tested: bool) -> None:
    filters = (*PLAIN, *TESTED) if is_tested else PLAIN
    compared(workload(seed, filters), scenario(system, seed))


def test_every_system_that_forwards_by_tables_is_compared() -> None:
    assert {name for name, system in SYSTEMS.items() if system.by_tables} == {*PARAMETERS}


@pytest.mark.parametrize(
    "section",
    [
        {"system": "grape", "grape": {"moves": "subscribers"}},
        {"system": "self_organising"},
        {"service": {"shared_outputs": True}},
        {"faults": {"link_loss": 0.1}},
        {"faults": {"crashes": [{"broker": "B1", "at_us": 0, "back_us": 1}]}},
    ],
)
def test_other_networks_have_no_flows(section: dict[str, Any]) -> None:
    ready = prepared(workload(1, PLAIN))
    described = {"name": "other", "system": "tree", "workload": {"path": "unused"}}
    assert has_flows(parse_scenario(described), ready)
    assert not has_flows(parse_scenario(described | section), ready)


def star(brokers: int) -> WorkloadFiles:
    """A subscriber at the hub and at each other broker; the publisher is at one of these."""
    names = [f"B{number}" for number in range(brokers)]
    rows = [
        SubscriptionRow(subscription=f"s{name}", client=f"c{name}", broker=name, filter="price > 3")
        for name in names
    ]
    events = [RunEvent(at_us, "P", at_us, at_us, {"price": 4}) for at_us in range(5)]
    publisher = PublisherRow(
        publisher="P", advertisement_id="P/a", advertisement="price > 0", broker="B1"
    )
    return WorkloadFiles(
        brokers=[BrokerRow(broker=name) for name in names],
        publishers=[publisher],
        subscriptions=rows,
        events=ListedEvents(events),
        links=None,
    )


def test_hubs_with_more_neighbours_than_bits_have_no_flows() -> None:
    described = {
        "name": "hub",
        "system": "tree",
        "workload": {"path": "unused"},
        "topology": {"kind": "star"},
        "underlay": {"kind": "constant", "latency_us": 500},
    }
    which = parse_scenario(described)
    most = star(MOST_NEIGHBOURS + 1)
    whole, _ = compared(most, which)
    assert whole.checks["delivered"] == 5 * len(most.brokers)
    more = star(MOST_NEIGHBOURS + 2)
    assert not has_flows(which, prepared(more))
    with pytest.raises(ValueError, match="has 63 neighbours, over 62"):
        run_flows(which, more, prepared(more))


def test_a_subscription_to_several_publishers_has_no_flows() -> None:
    files = workload(1, PLAIN)
    first = files.subscriptions[0]
    wide = type(first)(subscription="wide", client="wide", broker=first.broker, filter="price >= 0")
    ready = prepared(files._replace(subscriptions=[*files.subscriptions, wide]))
    assert not has_flows(scenario("tree", 1), ready)


@given(st.lists(st.tuples(st.integers(0, 99), st.sampled_from("PQ")), max_size=12))
def test_kept_events_change_as_read_ones(drawn: list[tuple[int, str]]) -> None:
    rows = [RunEvent(*each, sequence, 0, {"a": 1}) for sequence, each in enumerate(drawn)]
    read = RunEvents(pa.Table.from_pylist([each._asdict() for each in rows], EVENTS_SCHEMA))
    kept = ListedEvents(list(read))
    assert list(kept.at_speed(7.0)) == list(read.at_speed(7.0))
    assert list(kept.before(40)) == list(read.before(40))
    assert kept.times_us.tolist() == read.times_us.tolist()
    assert (kept.last_replay_us, kept.publishers) == (read.last_replay_us, read.publishers)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.integers(0, 3)), max_size=30))
def test_deliveries_are_judged_as_one_by_one(made: list[tuple[int, int, int]]) -> None:
    """Publication, subscription, time; publications 0 to 2 are of P, the others of Q."""
    texts = {"s": "p > 0", "t": "p > 1", "u": "q > 0"}
    filters = {name: parse(text) for name, text in texts.items()}
    publications = [("P", {"p": 1}), ("P", {"p": 2}), ("P", {"p": 2})]
    publications += [("Q", {"q": 1}), ("Q", {"q": 2}), ("Q", {"q": 3})]
    matches = Matches.of(publications, filters)
    assert matches is not None
    rows = np.array([(*row, 0) for row in made], np.int64).reshape(-1, 4)
    sequences = np.array([0, 1, 2, 0, 1, 2], np.int64)
    found = judged(rows, sequences, matches)
    judge = RunningJudge(filters, frozenset())
    names = list(filters)
    events = [
        DeliveryEvent(
            Publication(
                publisher=publications[row][0],
                sequence=int(sequences[row]),
                published_us=0,
                attributes=publications[row][1],
            ),
            (names[number],),
            "client",
            "broker",
            at_us,
            0,
        )
        for row, number, at_us in made
    ]
    judge.take(events, 10)
    keys = [(*each.publication.key, each.subscriptions[0]) for each in events]
    assert found == (judge.delivered, judge.duplicates(keys), judge.out_of_order, judge.phantoms)
