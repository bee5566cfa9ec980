"""Brokers broadcast rarely while nothing changes, and within an interval after a change."""

from __future__ import annotations

from collections import defaultdict
from random import Random

import pytest

from shoal.broker.effects import Costs, Effect, Send
from shoal.broker.messages import Publish
from shoal.overlays.registry import strategy_factory
from shoal.overlays.self_organising.deciding.pace import Pace
from shoal.overlays.self_organising.decisions import Decisions
from shoal.overlays.self_organising.messages import Broadcast
from shoal.overlays.self_organising.parameters import Mode, SelfOrganisingParameters
from shoal.simulation.world import World
from tests.broker.transcript import advertisement, publication, subscription
from tests.seeds.faults.test_random_absences import is_tree
from tests.seeds.networks.random_network import SECOND_US, SeededUnderlay

INTERVAL_US = 4 * SECOND_US
# The longest interval, as they vary by a tenth.
LONGEST_US = INTERVAL_US * 11 // 10
LINKS = [("A", "B"), ("B", "C"), ("C", "D"), ("D", "E")]
NAMES = "ABCDE"
PUBLISHED_US = SECOND_US // 5
CHANGE_US = 60 * INTERVAL_US
END_US = 100 * INTERVAL_US


def test_the_papers_pace_is_one_interval_each() -> None:
    pace = Pace(most=1)
    pace.note("P")
    assert [pace.turn() for _ in range(5)] == [1] * 5


def test_random_variation_of_rates_is_no_change() -> None:
    random, pace = Random(1), Pace(most=8)
    told = 0
    for _ in range(800):
        for publisher in range(10):
            for _ in range(sum(random.random() < 0.2 for _ in range(50))):
                pace.note(f"P{publisher}")
        told += pace.turn() > 0
    assert told < 800 / 8 + 10


@pytest.mark.parametrize("publishers", [("P", "Q"), ("Q",), ("P", "P", "P", "P"), ()])
def test_new_publishers_or_rates_are_a_change(publishers: tuple[str, ...]) -> None:
    pace = Pace(most=8)
    for _ in range(20):
        for _ in range(30):
            pace.note("P")
        pace.turn()
    assert pace.turn() == 1, "no broadcasts any more"
    for _ in range(30):
        pace.note("P")
    assert pace.turn() == 1
    for publisher in publishers:
        for _ in range(30):
            pace.note(publisher)
    assert pace.turn() == 1


class Network:
    """Five brokers with a publisher of two types at A; C has one of them, and E the other later."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, parameters: SelfOrganisingParameters
    ) -> None:
        # The times of each broker's broadcasts.
        self.told: dict[str, list[int]] = defaultdict(list)
        costs = {
            name: Costs(1.0, {other: 1.0 for other in NAMES if other != name}) for name in NAMES
        }
        factory = strategy_factory("self_organising", parameters)
        self.world = World(LINKS, factory, SeededUnderlay(1), seed=1, message_costs=costs)
        interval = Decisions.interval

        def watched(decisions: Decisions, now_us: int, out: list[Effect]) -> None:
            before = len(out)
            interval(decisions, now_us, out)
            if any(
                isinstance(each, Send) and isinstance(each.message, Broadcast)
                for each in out[before:]
            ):
                self.told[decisions._broker].append(now_us)

        monkeypatch.setattr(Decisions, "interval", watched)
        self.world.add_publisher("P", "A", "x")
        self.world.advertise(0, advertisement("a", "x >= 0", publisher="P"))
        for client, home, at_us in (("S", "C", 1), ("T", "E", CHANGE_US)):
            self.world.add_subscriber(client, "x")
            wanted = subscription(f"s{client}", f"x = {home == 'E':d}", client=client)
            self.world.subscribe(at_us, home, wanted)
        for number in range(1, END_US // PUBLISHED_US):
            row = publication(number, "P", x=number % 2)
            self.world.request(number * PUBLISHED_US, "P", Publish((row,)))

    def count(self, since_us: int, until_us: int) -> int:
        return sum(since_us < at_us <= until_us for times in self.told.values() for at_us in times)


@pytest.mark.parametrize("mode", Mode)
def test_broadcasts_become_rare_at_rest_and_resume_when_interest_changes(
    mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = Network(monkeypatch, SelfOrganisingParameters(mode=mode, interval_us=INTERVAL_US))
    network.world.run(END_US)
    most = SelfOrganisingParameters().rest_intervals
    early = network.count(0, 4 * INTERVAL_US)
    late = network.count(CHANGE_US - 4 * most * INTERVAL_US, CHANGE_US)
    assert early >= 2 * len(NAMES)
    assert late <= 5 * len(NAMES)
    # Everything that passes a broker is of interest to it: D forwards E's new type.
    for name in "DE":
        soon = min(at_us for at_us in network.told[name] if at_us > CHANGE_US)
        assert soon <= CHANGE_US + 2 * LONGEST_US, "the interval of the change, and a whole one"
    last = network.count(END_US - 2 * most * INTERVAL_US, END_US)
    assert last <= 3 * len(NAMES)


def test_in_the_papers_mode_each_interval_has_a_broadcast(monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = SelfOrganisingParameters(interval_us=INTERVAL_US, rest_intervals=1)
    network = Network(monkeypatch, parameters)
    network.world.run(CHANGE_US)
    assert network.count(0, CHANGE_US) >= 54 * len(NAMES)


def test_a_restarted_broker_learns_of_the_others_within_an_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network = Network(
        monkeypatch, SelfOrganisingParameters(mode=Mode.EXCHANGE, interval_us=INTERVAL_US)
    )
    network.world.crash(CHANGE_US - 10 * INTERVAL_US, "C")
    network.world.restart(CHANGE_US - 10 * INTERVAL_US + SECOND_US, "C")
    network.world.run(CHANGE_US - 10 * INTERVAL_US + 2 * SECOND_US + 2 * LONGEST_US)
    strategy = network.world.brokers["C"].machine.strategy
    assert strategy.description["known_brokers"] == len(NAMES) - 1


def healed_us(monkeypatch: pytest.MonkeyPatch, rest_intervals: int) -> int:
    """The time until the others are linked after B is lost for good, beside a broker that has
    restarted.
    """
    parameters = SelfOrganisingParameters(
        mode=Mode.EXCHANGE, interval_us=INTERVAL_US, rest_intervals=rest_intervals
    )
    world = Network(monkeypatch, parameters).world
    lost_us = CHANGE_US + SECOND_US + 2 * LONGEST_US
    world.run(CHANGE_US)
    neighbours = [end for link in world.links if "B" in link for end in link if end != "B"]
    world.crash(CHANGE_US, neighbours[0])
    world.restart(CHANGE_US + SECOND_US, neighbours[0])
    world.crash(lost_us, "B")
    for at_us in range(lost_us, END_US, SECOND_US // 2):
        world.run(at_us)
        links = [link for link in world.links if "B" not in link]
        if is_tree(links, {*NAMES} - {"B"}):
            return at_us - lost_us
    return END_US


def test_a_broker_lost_at_rest_is_replaced_as_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [healed_us(monkeypatch, rest_intervals) for rest_intervals in (1, 8)]
    assert found[1] <= found[0] + SECOND_US < CHANGE_US
