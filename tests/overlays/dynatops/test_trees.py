"""Brokers send the messages that the planner counts, and swap places when it pays."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from shoal.broker.messages import Publish
from shoal.language import parse
from shoal.model import EVERYTHING, Advertisement, Publication, Subscription
from shoal.overlays.dynatops.messages import ToHomes
from shoal.overlays.dynatops.parameters import SearchParameters
from shoal.overlays.dynatops.planning.advising import swapping
from shoal.overlays.dynatops.planning.advising.prices import no_prices
from shoal.overlays.dynatops.planning.advising.swapping import SwapRules
from shoal.overlays.dynatops.planning.costs import standing
from shoal.overlays.dynatops.planning.problem import PlacementProblem, trees_of
from shoal.overlays.dynatops.protocol import Dynatops
from shoal.overlays.dynatops.reconfiguration.manager import Manager
from shoal.overlays.dynatops.records import ReconfigurationRecord
from shoal.overlays.registry import SYSTEMS, strategy_factory
from shoal.simulation.links.overlay_link import SimulatedLink
from shoal.simulation.world import World

SECOND_US = 1_000_000
BROKERS = tuple(f"B{number}" for number in range(12))
TOPICS = tuple(f"topic {number}" for number in range(9))


class Near:
    def latency_us(self, source_place: str, target_place: str) -> int:
        return 1_000


class Ring:
    """A ring at rest; `wanted` has the brokers that want each topic."""

    def __init__(self, system: str = "dynatops", **options: object) -> None:
        random = Random(5)
        kind = SYSTEMS[system].parameters
        parameters = kind(brokers=BROKERS, topic="topic", **options)
        self.world = World((), strategy_factory(system, parameters), Near(), brokers=BROKERS)
        self.wanted = {topic: random.sample(BROKERS, random.randint(0, 6)) for topic in TOPICS}
        self.count = 0
        self.now_us = SECOND_US
        for topic, homes in self.wanted.items():
            for home in homes:
                name = f"{topic} at {home}"
                self.world.add_subscriber(name, home)
                wants = Subscription(id=name, client=name, filter=parse(f"topic = '{topic}'"))
                self.world.subscribe(0, home, wants)
        self.world.run(self.now_us)

    def strategy(self, broker: str = BROKERS[0]) -> Dynatops:
        found = self.world.brokers[broker].machine.strategy
        assert isinstance(found, Dynatops)
        return found

    def problem(self) -> tuple[PlacementProblem, list[int]]:
        """The planner's input, with one publication to each topic; brokers in their order."""
        places = self.strategy().membership.places
        assert places is not None
        structure = places.structure
        wanted = np.array([[home in self.wanted[each] for each in TOPICS] for home in BROKERS])
        trees = trees_of(structure, [structure.root(topic) for topic in TOPICS])
        mapping = [places.members.index(broker) for broker in BROKERS]
        return PlacementProblem(trees, wanted, np.ones(len(TOPICS))), mapping

    def publish(self) -> None:
        """Publish once to each topic, by a client of its first root."""
        places = self.strategy().membership.places
        assert places is not None
        for topic in TOPICS:
            client = f"publisher of {topic}"
            if self.count < len(TOPICS):
                self.world.add_publisher(client, places.root(topic), places.root(topic))
                promise = Advertisement(id=client, publisher=client, filter=EVERYTHING)
                self.world.advertise(self.now_us, promise)
            said = Publication(
                publisher=client,
                sequence=self.count,
                published_us=self.now_us,
                attributes={"topic": topic},
            )
            self.count += 1
            self.world.request(self.now_us, client, Publish((said,)))
        self.now_us += 10 * SECOND_US
        self.world.run(self.now_us)


@pytest.mark.parametrize("system", ["dynatops", "bayeux", "geops", "hybrid"])
def test_messages_and_hops_equal_the_planners_counts(
    system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring, carried, send = Ring(system), [], SimulatedLink.send

    def noted(self, input, units, ready_us):  # type: ignore[no-untyped-def]
        if isinstance(input.message, ToHomes):
            carried.append(input.message)
        return send(self, input, units, ready_us)

    monkeypatch.setattr(SimulatedLink, "send", noted)
    ring.publish()
    problem, mapping = ring.problem()
    counted = standing(problem, mapping)
    places = ring.strategy().membership.places
    assert places is not None
    # A root that wants the topic receives it without a message.
    homes = sum(places.root(topic) != home for topic, each in ring.wanted.items() for home in each)
    assert len(carried) == homes + counted.relays
    deliveries = ring.world.trace.deliveries
    assert len(deliveries) == sum(map(len, ring.wanted.values()))
    assert sum(each.hops for each in deliveries) == counted.delay


@pytest.mark.parametrize("system", ["dynatops", "hybrid"])
def test_brokers_swap_places_when_it_pays(system: str) -> None:
    ring = Ring(system, reconfigure_us=SECOND_US, price_percent=0)
    before = standing(*ring.problem())
    for _ in range(3):
        ring.publish()
    after = standing(*ring.problem())
    assert after.cost(1.0) < 0.8 * before.cost(1.0)
    done, *others = [
        row for row in ring.world.trace.records if isinstance(row, ReconfigurationRecord)
    ]
    assert (done.outcome, done.broker) == ("done", "B0")
    assert done.benefit == pytest.approx(before.cost(1.0) - after.cost(1.0))
    assert {row.outcome for row in others} == {"kept"}
    assert len(ring.world.trace.deliveries) == 3 * sum(map(len, ring.wanted.values()))
    views = [ring.strategy(each).membership.view for each in BROKERS]
    assert len({view.age for view in views if view is not None}) == 1


def test_the_search_checks_one_broker_at_a_time_until_no_swap_helps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks, most = [0], [0]
    best_of, take_step = swapping._best_of, Manager._take_step

    def counted(*given):  # type: ignore[no-untyped-def]
        looks[0] += 1
        return best_of(*given)

    def step(*given):  # type: ignore[no-untyped-def]
        looks[0] = 0
        take_step(*given)
        most[0] = max(most[0], looks[0])

    monkeypatch.setattr(swapping, "_best_of", counted)
    monkeypatch.setattr(Manager, "_take_step", step)
    costs = {}
    for search in SearchParameters:
        ring = Ring(reconfigure_us=SECOND_US, price_percent=0, search=search, delay_weight=0.2)
        for _ in range(3):
            ring.publish()
        problem, mapping = ring.problem()
        problem = problem._replace(delay_weight=0.2)
        costs[search] = standing(problem, mapping).cost(0.2)
        left = list(swapping.swaps(problem, mapping, no_prices(mapping), SwapRules("any")))
        assert (search is SearchParameters.WORST) or not left
    assert costs[SearchParameters.NEXT] < costs[SearchParameters.WORST]
    assert most == [1]


def test_a_swap_that_costs_more_than_it_saves_is_not_made() -> None:
    ring = Ring(reconfigure_us=SECOND_US)
    for _ in range(3):
        ring.publish()
    view = ring.strategy().membership.view
    assert view is not None
    assert (view.version, view.members) == (0, BROKERS)
