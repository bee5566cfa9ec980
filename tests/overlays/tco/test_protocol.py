"""Publications pass between subscribers only; links follow subscriptions."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from shoal.broker.effects import Requested
from shoal.broker.messages import Publish, Unsubscribe
from shoal.language import parse
from shoal.model import EVERYTHING, Advertisement, Publication, Subscription
from shoal.overlays.registry import strategy_factory
from shoal.overlays.system import Picture
from shoal.overlays.tco.construction import TopicConnected
from shoal.overlays.tco.messages import AlongPath
from shoal.overlays.tco.oracle import problems
from shoal.overlays.tco.parameters import TcoParameters
from shoal.overlays.tco.protocol import Tco
from shoal.simulation.links.overlay_link import SimulatedLink
from shoal.simulation.world import World

SECOND_US = 1_000_000
BROKERS = tuple(f"B{number}" for number in range(10, 22))
TOPICS = tuple(f"topic {number}" for number in range(9))
HUB = BROKERS[0]


class Near:
    def latency_us(self, source_place: str, target_place: str) -> int:
        return 1_000


class Overlay:
    """An overlay at rest; `wanted` has the brokers, without the hub, that want each topic."""

    def __init__(self, goal: str = "fan-out") -> None:
        random = Random(5)
        parameters = TcoParameters(brokers=BROKERS, topic="topic", goal=goal, linger_us=SECOND_US)
        self.world = World((), strategy_factory("tco", parameters), Near(), brokers=BROKERS)
        self.wanted: dict[str, list[str]] = {}
        self.interests: dict[str, tuple[Subscription, str]] = {}
        self.publishers: set[str] = set()
        self.count = 0
        self.now_us = SECOND_US
        self.world.run(self.now_us)
        for topic in TOPICS:
            self.wanted[topic] = random.sample(BROKERS[1:], random.randint(1, 6))
            for home in self.wanted[topic]:
                self.subscribe(f"{topic} at {home}", home, f"topic = '{topic}'")
        self.rest()

    def rest(self) -> None:
        self.now_us += 10 * SECOND_US
        self.world.run(self.now_us)
        brokers = {each: self.strategy(each) for each in BROKERS}
        assert problems(Picture((), (), self.interests.values()), brokers) == []

    def strategy(self, broker: str) -> Tco:
        found = self.world.brokers[broker].machine.strategy
        assert isinstance(found, Tco)
        return found

    def subscribe(self, name: str, home: str, text: str) -> None:
        self.world.add_subscriber(name, home)
        wants = Subscription(id=name, client=name, filter=parse(text))
        self.interests[name] = wants, home
        self.world.subscribe(self.now_us, home, wants)

    def unsubscribe(self, name: str) -> None:
        _, home = self.interests.pop(name)
        asked = Requested(name, Unsubscribe(name))
        self.world.queue.push(self.now_us, self.world.brokers[home].receive, asked)

    def publish(self, home: str, attributes: dict[str, object]) -> None:
        client = f"publisher at {home}"
        if client not in self.publishers:
            self.publishers.add(client)
            self.world.add_publisher(client, home, home)
            promise = Advertisement(id=client, publisher=client, filter=EVERYTHING)
            self.world.advertise(self.now_us, promise)
        self.count += 1
        said = Publication(
            publisher=client,
            sequence=self.count,
            published_us=self.now_us,
            attributes=attributes,  # type: ignore[arg-type]
        )
        self.world.request(self.now_us, client, Publish((said,)))

    @property
    def relayed(self) -> int:
        return sum(self.strategy(each).routing.relayed for each in BROKERS)


@pytest.fixture
def carried(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, AlongPath]]:
    """The receivers of publications, and the publications."""
    found: list[tuple[str, AlongPath]] = []
    send = SimulatedLink.send

    def noted(self, input, units, ready_us):  # type: ignore[no-untyped-def]
        if isinstance(input.message, AlongPath):
            found.append((input.message.stops[0].broker, input.message))
        return send(self, input, units, ready_us)

    monkeypatch.setattr(SimulatedLink, "send", noted)
    return found


@pytest.mark.parametrize("goal", ["fan-out", "links"])
def test_brokers_forward_only_publications_they_want(
    goal: str, carried: list[tuple[str, AlongPath]]
) -> None:
    """From a subscriber and from elsewhere: one message for each other subscriber, and no other."""
    overlay = Overlay(goal)
    expected = 0
    for topic, homes in overlay.wanted.items():
        outside = next(each for each in BROKERS if each not in homes)
        for home in (homes[0], outside):
            overlay.publish(home, {"topic": topic})
            expected += len(homes) - (home in homes)
    overlay.rest()
    assert len(overlay.world.trace.deliveries) == 2 * sum(map(len, overlay.wanted.values()))
    assert (len(carried), overlay.relayed) == (expected, 0)


def test_incremental_links_are_about_as_few_as_a_rebuild() -> None:
    overlay = Overlay("links")
    wanted = np.array([[each in overlay.wanted[topic] for topic in TOPICS] for each in BROKERS])
    made = TopicConnected(wanted, "links").linked
    links = overlay.strategy(HUB).linking.links
    assert len(links) <= made.sum() // 2 + 2  # made as subscriptions came, not all at once
    assert overlay.strategy(HUB).linking.changes >= len(links)


def test_content_filters_prune_routes(carried: list[tuple[str, AlongPath]]) -> None:
    overlay = Overlay()
    topic = max(TOPICS, key=lambda each: len(overlay.wanted[each]))
    for home in overlay.wanted[topic]:
        overlay.unsubscribe(f"{topic} at {home}")
        overlay.subscribe(f"dear {home}", home, f"topic = '{topic}' AND price > 10")
    overlay.rest()
    first, *_ = overlay.wanted[topic]
    overlay.publish(first, {"topic": topic, "price": 3})
    overlay.rest()
    assert (len(carried), len(overlay.world.trace.deliveries)) == (0, 0)


def test_subscribers_without_a_topic_receive_all_topics(
    carried: list[tuple[str, AlongPath]],
) -> None:
    """Such brokers subscribe to every topic, and forward publications without one."""
    overlay = Overlay()
    wide = BROKERS[1], BROKERS[5], BROKERS[9]
    for home in wide:
        overlay.subscribe(f"wide {home}", home, "price > 10")
    overlay.rest()
    homes = overlay.wanted[TOPICS[0]]
    overlay.publish(homes[0], {"topic": TOPICS[0], "price": 11})
    overlay.publish(BROKERS[2], {"price": 12})
    overlay.rest()
    got = sorted(row.client for row in overlay.world.trace.deliveries)
    expected = [f"wide {home}" for home in wide]
    assert got == sorted([*expected, *expected, *(f"{TOPICS[0]} at {home}" for home in homes)])
    assert overlay.relayed == 0


def test_links_end_with_their_subscriptions() -> None:
    overlay = Overlay()
    before = set(overlay.world.links)
    for topic in TOPICS:
        for home in overlay.wanted[topic]:
            overlay.unsubscribe(f"{topic} at {home}")
    overlay.rest()
    assert overlay.strategy(HUB).linking.links == ()
    kept = set(overlay.world.links)
    # The links to the hub, and to its successor.
    assert kept == {(one, other) for one, other in before if one in BROKERS[:2]}
    assert len(kept) < len(before)


def test_publications_take_the_hub_past_a_lost_link() -> None:
    overlay = Overlay()
    one, other = next(link for link in overlay.strategy(HUB).linking.links if link[0] > BROKERS[1])
    topic = next(each for each in TOPICS if {one, other} <= {*overlay.wanted[each]})
    overlay.world.cut(overlay.now_us, one, other)
    overlay.now_us += SECOND_US
    overlay.world.run(overlay.now_us)
    for _ in range(3):
        overlay.publish(one, {"topic": topic})
    overlay.now_us += SECOND_US
    overlay.world.run(overlay.now_us)
    assert len(overlay.world.trace.deliveries) == 3 * len(overlay.wanted[topic])


def test_publications_under_way_survive_links_that_change() -> None:
    """In order: each publishes to all topics while brokers subscribe to others."""
    overlay = Overlay()
    for number in range(200):
        for home in BROKERS[3:6]:
            overlay.publish(home, {"topic": TOPICS[number % len(TOPICS)], "price": number})
        if number % 10 == 0:
            topic, home = TOPICS[number // 10 % 9], BROKERS[1 + number // 10 % 11]
            if f"{topic} at {home}" in overlay.interests:
                overlay.unsubscribe(f"{topic} at {home}")
            else:
                overlay.subscribe(f"{topic} at {home}", home, f"topic = '{topic}'")
        overlay.now_us += 2_000
        overlay.world.run(overlay.now_us)
    overlay.rest()
    assert overlay.strategy(HUB).linking.changes > 20
    last: dict[tuple[str, str], int] = {}
    for row in overlay.world.trace.deliveries:
        key = row.client, row.publication.publisher
        assert last.get(key, 0) < row.publication.sequence
        last[key] = row.publication.sequence
    assert len(last) > 60
