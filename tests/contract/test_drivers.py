"""The contract of every system in the simulator and over sockets, which run the same brokers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from random import Random

import pytest

from shoal.broker.messages import Publish
from shoal.broker.routing_decision import RoutingQuery
from shoal.matching import matches
from shoal.model import Attributes, BrokerId, ClientId
from shoal.overlays.registry import SYSTEMS
from tests.contract.drivers import DRIVERS, Clients
from tests.systems import TREES, covers

pytestmark = [
    pytest.mark.parametrize(
        ("system", "is_covering"),
        [
            *(pytest.param(name, False, id=name) for name in SYSTEMS),
            *(pytest.param(name, True, id=f"{name}-covering") for name in SYSTEMS if covers(name)),
        ],
    ),
    pytest.mark.parametrize("driver", DRIVERS),
]

LINKS = (("B1", "B2"), ("B2", "B3"), ("B2", "B4"))


@pytest.fixture
def clients(driver: str, system: str, is_covering: bool) -> Iterator[Clients]:
    network = DRIVERS[driver](system, LINKS, is_covering=is_covering)
    yield Clients(network)
    network.close()


def test_every_publication_reaches_exactly_its_subscribers_once_and_in_order(
    clients: Clients, system: str
) -> None:
    random, settle = Random(5), clients.driver.settle
    interests = {}
    for name, broker in (("P", "B1"), ("Q", "B3")):
        clients.driver.publisher(name, broker)
        clients.advertise(name, f"a{name}", "x BETWEEN 0 AND 99")
    settle()
    for number in range(12):
        low = random.randrange(90)
        broker, name = random.choice(["B1", "B2", "B3", "B4"]), f"C{number}"
        where = random.choice(
            [
                f"x >= {low}",
                f"x BETWEEN {low} AND {low + 9}",
                f"x <> {low}",
                f"x - y > {low // 2}",
                f"abs(x * 2 - y) < {low} AND x < y",
                f"array_contains(tags, 'a') AND round(x * 0.7, 1) >= {low}",
            ]
        )
        interests[name] = clients.subscribe(broker, name, f"s{number}", where)
    settle()
    for _ in range(150):
        attributes = {"x": random.randrange(100), "y": random.randrange(100), "class": "k"}
        tags = random.choice(['["a"]', '["b",5]'])
        clients.publish(random.choice("PQ"), {**attributes, "$list.tags": tags})
    settle()
    assert not clients.driver.refused
    for name, interest in interests.items():
        for publisher in "PQ":
            wanted = [
                each.sequence
                for each in clients.publications
                if each.publisher == publisher and matches(interest.filter, each.attributes)
            ]
            found = [
                each.publication.sequence
                for each in clients.driver.deliveries
                if each.client == name and each.publication.publisher == publisher
            ]
            assert found == wanted


def test_withdrawn_subscriptions_and_advertisements_have_no_effect(clients: Clients) -> None:
    settle = clients.driver.settle
    clients.driver.publisher("P", "B1")
    clients.advertise("P", "a")
    clients.subscribe("B3", "C", "s")
    clients.subscribe("B4", "D", "t")
    clients.subscribe("B4", "D", "u", "x = 2")
    settle()
    clients.publish("P", {"x": 1}, {"x": 2})
    settle()
    clients.unsubscribe("B3", "C", "s")
    clients.leave("B4", "D")
    settle()
    clients.publish("P", {"x": 2})
    settle()
    assert (clients.got("C"), clients.got("D")) == ([0, 1], [0, 1])
    assert not clients.driver.refused


def test_unadvertised_and_foreign_publications_are_refused(clients: Clients, system: str) -> None:
    settle = clients.driver.settle
    clients.driver.publisher("P", "B1")
    clients.driver.publisher("Q", "B1")
    clients.advertise("P", "a", "x > 0")
    clients.subscribe("B3", "C", "s", "x >= 0")
    settle()
    clients.publish("P", {"x": 1})
    foreign = clients.publications[0]
    settle()
    clients.driver.ask("Q", Publish((foreign,)))
    settle()
    assert clients.got("C") == [0]
    assert len(clients.driver.refused) == 1
    if system in TREES:
        clients.publish("P", {"x": 0})
        clients.unadvertise("P", "a")
        clients.publish("P", {"x": 1})
        settle()
        assert clients.got("C") == [0]
        assert len(clients.driver.refused) == 3


def test_an_empty_publish_has_no_effect(clients: Clients) -> None:
    clients.driver.publisher("P", "B1")
    clients.advertise("P", "a")
    clients.subscribe("B3", "C", "s")
    clients.driver.settle()
    clients.driver.ask("P", Publish(()))
    clients.driver.settle()
    assert (clients.driver.deliveries, clients.driver.refused) == ([], [])


def test_routing_decisions_are_right_and_change_nothing(clients: Clients) -> None:
    wants = {
        "C": ("B3", "class = 'k'"),
        "D": ("B4", "x < 5"),
        "E": ("B1", "x BETWEEN 4 AND 7 AND class = 'k'"),
        "F": ("B3", "class = 'm'"),
    }
    clients.driver.publisher("P", "B1")
    clients.advertise("P", "a")
    clients.driver.settle()
    interests = {
        name: clients.subscribe(broker, name, f"s{name}", where)
        for name, (broker, where) in wants.items()
    }
    clients.driver.settle()
    published: list[Attributes] = [
        {"x": 1, "class": "k"},
        {"x": 5, "class": "k"},
        {"x": 3, "class": "m"},
        {"x": 9, "class": "n"},
    ]
    ways = [_ways(clients, "B1", "P", attributes) for attributes in published]
    assert ways == [_ways(clients, "B1", "P", attributes) for attributes in published]
    clients.publish("P", *published)
    clients.driver.settle()
    for attributes, publication, way in zip(published, clients.publications, ways, strict=True):
        wanted = {name for name, each in interests.items() if matches(each.filter, attributes)}
        assert set(way) == {wants[name][0] for name in wanted}
        found = [
            each
            for each in clients.driver.deliveries
            if each.publication.sequence == publication.sequence
        ]
        assert {each.client for each in found} == wanted
        assert all(each.hops in way[wants[each.client][0]] for each in found)


def _ways(
    clients: Clients, start: BrokerId, publisher: ClientId, attributes: Attributes
) -> dict[BrokerId, set[int]]:
    """The clients to which brokers would deliver a publication, each with the number of hops."""
    found: dict[BrokerId, set[int]] = {}
    waiting = deque([(start, RoutingQuery(attributes=attributes, publisher=publisher), 0)])
    while waiting:
        broker, asked, hops = waiting.popleft()
        if hops > 4:  # round a cycle, where the broker would drop the repetition
            continue
        said = clients.driver.routing_decision(broker, asked)
        assert said is not None, "onward: it must name the next hops of a publication"
        if said.is_local:
            found.setdefault(broker, set()).add(hops)
        for hop in said.hops:
            further = RoutingQuery(
                attributes=attributes, publisher=publisher, source=broker, told=hop.told
            )
            waiting.append((hop.neighbour, further, hops + (hop.neighbour != broker)))
    return found
