"""Cuts, crashes and bad links: afterwards tables equal the oracle's, and deliveries continue."""

from __future__ import annotations

from itertools import permutations

import pytest

from shoal.overlays.registry import strategy_factory
from shoal.overlays.tree.oracle import check_tables, expected_tables
from shoal.simulation.faults import LinkFaults
from shoal.simulation.links.reliable import RESEND_US
from shoal.simulation.links.underlay import ConstantUnderlay
from shoal.simulation.service import ServiceCosts
from shoal.simulation.world import DETECTION_US, World
from tests.broker.transcript import advertisement, publish, subscription
from tests.systems import TREES, eager, in_place, to_rest

#      B1
#     /  \
#   B2    B3
#  /  \
# B4  B5
TREE = (("B1", "B2"), ("B1", "B3"), ("B2", "B4"), ("B2", "B5"))
SECOND_US = 1_000_000
A, Q = advertisement("a"), advertisement("q", "x < 50", publisher="Q")
ADVERTISED = [(A, "B4"), (Q, "B3")]
SUBSCRIPTIONS = [
    (subscription(f"s{broker}", client=f"C{broker}"), broker)
    for broker in ("B1", "B2", "B3", "B4", "B5")
]
EVERYBODY = sorted(asked.client for asked, _ in SUBSCRIPTIONS)


def world(system: str = "tree", faults: LinkFaults | None = None) -> World:
    made = World(
        TREE,
        strategy_factory(system, in_place(eager(system, 4))),
        ConstantUnderlay(5_000),
        costs=ServiceCosts(processing_us=20, matching_us=20, transmission_us=10),
        link_faults=faults,
    )
    for promise, broker in ADVERTISED:
        made.add_publisher(promise.publisher, broker, f"home of {promise.publisher}")
        made.advertise(0, promise)
    for asked, broker in SUBSCRIPTIONS:
        made.add_subscriber(asked.client, f"home of {asked.client}")
        made.subscribe(0, broker, asked)
    return made


def problems(made: World, links: tuple[tuple[str, str], ...] = TREE) -> list[str]:
    homes = [(row, made.publisher_broker(row.publisher)) for row, _ in ADVERTISED]
    tables = {
        name: node.machine.strategy.tables for name, node in made.brokers.items() if node.running
    }
    expected = expected_tables(links, homes, SUBSCRIPTIONS)
    return check_tables({name: expected[name] for name in tables}, tables)


def receivers(made: World, sequence: int) -> list[str]:
    rows = made.trace.deliveries
    return sorted(row.client for row in rows if row.publication.sequence == sequence)


SYSTEM = pytest.mark.parametrize("system", TREES)
RELIABLE = pytest.mark.parametrize(
    "faults", [None, LinkFaults(loss=0.2, jitter_us=20_000)], ids=["wires", "bad links"]
)
LATER_US = 60 * SECOND_US


@SYSTEM
@RELIABLE
@pytest.mark.parametrize("edge", TREE)
def test_a_cut_link_divides_and_a_mended_one_joins(
    system: str, faults: LinkFaults | None, edge: tuple[str, str]
) -> None:
    made = world(system, faults)
    made.cut(10 * SECOND_US, *edge)
    made.request(20 * SECOND_US, "P", publish(1))
    made.run(30 * SECOND_US)
    assert problems(made, tuple(other for other in TREE if other != edge)) == []
    assert 0 < len(receivers(made, 1)) < len(EVERYBODY)
    made.heal(31 * SECOND_US, *edge)
    made.request(LATER_US, "P", publish(2))
    made.run(to_rest(system, 3 * LATER_US))
    assert problems(made) == []
    assert receivers(made, 2) == EVERYBODY


@SYSTEM
@RELIABLE
@pytest.mark.parametrize("broker", ["B1", "B2", "B3", "B4", "B5"])
@pytest.mark.parametrize("after_us", [1, DETECTION_US // 2, DETECTION_US, 5 * SECOND_US])
def test_a_crashed_broker_comes_back(
    system: str, faults: LinkFaults | None, broker: str, after_us: int
) -> None:
    made = world(system, faults)
    made.crash(10 * SECOND_US, broker)
    made.restart(10 * SECOND_US + after_us, broker)
    made.request(LATER_US, "P", publish(1))
    made.request(LATER_US, "Q", publish(2, publisher="Q"))
    made.run(to_rest(system, 3 * LATER_US))
    assert problems(made) == []
    assert receivers(made, 1) == receivers(made, 2) == EVERYBODY


@pytest.mark.parametrize(
    "lag_us", [1, DETECTION_US // 3, DETECTION_US - 1, DETECTION_US, 1_400_000]
)
@pytest.mark.parametrize("order", list(permutations(["cut", "crash", "again"])))
def test_repeated_faults_leave_the_oracles_tables(lag_us: int, order: tuple[str, ...]) -> None:
    """A link is cut and mended, its end crashes and restarts, twice, all in a short while."""
    made = world()
    now_us = 10 * SECOND_US
    for what in order:
        if what == "cut":
            made.cut(now_us, "B1", "B2")
            made.heal(now_us + lag_us, "B1", "B2")
        else:
            broker = "B2" if what == "crash" else "B1"
            made.crash(now_us, broker)
            made.restart(now_us + lag_us, broker)
        now_us += lag_us // 2 + 1
    made.request(LATER_US, "P", publish(1))
    made.run()
    assert problems(made) == []
    assert receivers(made, 1) == EVERYBODY


def test_a_cut_link_stays_cut_when_its_end_restarts() -> None:
    made = world()
    made.cut(5 * SECOND_US, "B1", "B2")
    made.crash(10 * SECOND_US, "B2")
    made.restart(12 * SECOND_US, "B2")
    made.run()
    assert problems(made, TREE[1:]) == []
    made.heal(20 * SECOND_US, "B1", "B2")
    made.run()
    assert problems(made) == []


def test_a_link_mended_while_its_end_is_down_comes_up_with_it() -> None:
    made = world()
    made.crash(10 * SECOND_US, "B2")
    made.cut(11 * SECOND_US, "B1", "B2")
    made.heal(15 * SECOND_US, "B1", "B2")
    made.run(20 * SECOND_US)
    assert "B2" not in made.brokers["B1"].links
    made.restart(21 * SECOND_US, "B2")
    made.run()
    assert problems(made) == []


def test_a_running_broker_that_is_restarted_starts_from_nothing() -> None:
    made = world()
    made.restart(10 * SECOND_US, "B2")
    made.request(LATER_US, "P", publish(1))
    made.run()
    assert problems(made) == []
    assert receivers(made, 1) == EVERYBODY


def test_two_neighbours_recover_from_a_common_crash() -> None:
    made = world()
    made.crash(10 * SECOND_US, "B1")
    made.crash(11 * SECOND_US, "B2")
    made.restart(15 * SECOND_US, "B1")
    made.restart(16 * SECOND_US, "B2")
    made.request(LATER_US, "P", publish(1))
    made.run()
    assert problems(made) == []
    assert receivers(made, 1) == EVERYBODY


def test_an_unsubscribe_before_a_restart_is_noticed_holds() -> None:
    made = world()
    made.crash(10 * SECOND_US, "B3")
    made.restart(12 * SECOND_US, "B3")
    asked, broker = SUBSCRIPTIONS[2]
    made.unsubscribe(12 * SECOND_US + DETECTION_US // 2, broker, asked)
    made.unadvertise(12 * SECOND_US + DETECTION_US // 2, Q)
    made.run()
    rows = made.brokers["B3"].machine.strategy.tables
    assert broker == "B3"
    assert asked.id not in rows.subscriptions
    assert Q.id not in rows.advertisements


def test_only_the_content_of_a_broken_link_is_lost() -> None:
    made = world()
    made.request(10 * SECOND_US, "P", publish(1))
    # At 10.005 s it is at B4, at 10.010 at B2, at 10.015 at B1 and B5.
    made.cut(10 * SECOND_US + 12_000, "B1", "B2")
    made.run()
    assert receivers(made, 1) == ["CB2", "CB4", "CB5"]


def test_trace_sessions_continue_after_a_restart() -> None:
    """GRAPE learns the restarted broker's neighbours anew, and moves a publisher across it."""
    made = world("grape")
    for broker in ("B1", "B2"):
        made.crash(10 * SECOND_US, broker)
        made.restart(12 * SECOND_US, broker)
    for sequence in range(12):
        made.request(20 * SECOND_US + sequence * SECOND_US, "P", publish(sequence))
    made.run()
    selections = [row for row in made.trace.records if type(row).__name__ == "SelectionRecord"]
    assert selections
    assert selections[0].candidates == 5  # type: ignore[attr-defined]
    assert problems(made) == []


# --- bad links --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "faults",
    [
        LinkFaults(loss=0.3),
        LinkFaults(jitter_us=100_000),
        LinkFaults(loss=0.6, jitter_us=2 * RESEND_US),
    ],
)
def test_behind_reliable_links_nothing_is_lost(faults: LinkFaults) -> None:
    made = world("grape", faults)
    for sequence in range(30):
        made.request(60 * SECOND_US + sequence * 7_000, "P", publish(sequence))
    made.run()
    assert problems(made) == []
    for sequence in range(30):
        assert receivers(made, sequence) == EVERYBODY
    for asked, _ in SUBSCRIPTIONS:
        got = [
            row.publication.sequence for row in made.trace.deliveries if row.client == asked.client
        ]
        assert got == list(range(30))


def test_bad_links_lose_publications_without_reliable_links(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without reliable links the same faults lose publications: the faults are real."""
    faults = LinkFaults(loss=0.3, jitter_us=100_000)
    monkeypatch.setattr("shoal.simulation.world.ReliableBroker", lambda machine: machine)
    made = world(faults=faults)
    for sequence in range(30):
        made.request(60 * SECOND_US + sequence * 7_000, "P", publish(sequence))
    made.run()
    assert len(made.trace.deliveries) < 30 * len(EVERYBODY)


def test_one_link_is_worse_than_the_others() -> None:
    """Its publications come late, over it and behind it only; none is lost."""
    late = LinkFaults(loss=0.5, jitter_us=1)
    made = World(
        [("B1", "B2"), ("B1", "B3")],
        strategy_factory("tree"),
        ConstantUnderlay(1_000),
        own_faults={frozenset(("B3", "B1")): late},
    )
    made.add_publisher("P", "B1", "B1")
    made.advertise(0, advertisement("a"))
    for broker in ("B2", "B3"):
        made.add_subscriber(f"C{broker}", broker)
        made.subscribe(0, broker, subscription(f"s{broker}", client=f"C{broker}"))
    for sequence in range(30):
        made.request((60 + sequence) * SECOND_US, "P", publish(sequence))
    made.run()
    delays: dict[str, list[int]] = {"CB2": [], "CB3": []}
    for row in made.trace.deliveries:
        at_us = (60 + row.publication.sequence) * SECOND_US
        delays[row.client].append(row.delivered_us - at_us)
    assert len(delays["CB2"]) == len(delays["CB3"]) == 30
    assert len(set(delays["CB2"])) == 1
    assert max(delays["CB3"]) > max(delays["CB2"]) + RESEND_US // 2


@pytest.mark.parametrize(
    ("loss", "jitter_us", "message"),
    [
        (1.0, 0, "loss: 1.0 is not between 0 and below 1"),
        (-0.1, 0, "loss: -0.1 is not between 0 and below 1"),
        (0.0, -1, "jitter_us: -1 is negative"),
    ],
)
def test_impossible_faults_are_named(loss: float, jitter_us: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LinkFaults(loss=loss, jitter_us=jitter_us)


def test_an_empty_list_of_faults_is_false() -> None:
    assert not LinkFaults()
    assert LinkFaults(loss=0.1)
    assert LinkFaults(jitter_us=1)
