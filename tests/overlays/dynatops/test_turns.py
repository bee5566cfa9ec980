"""A publisher's order over several roots, without a round trip for each change of root."""

from __future__ import annotations

from random import Random

import pytest

from shoal.broker.messages import Publish
from shoal.language import parse
from shoal.model import EVERYTHING, Advertisement, Publication, Subscription
from shoal.overlays.dynatops.messages import EntryBound, HomeTurn, ToRoot
from shoal.overlays.dynatops.parameters import DynatopsParameters
from shoal.overlays.dynatops.protocol import Dynatops
from shoal.overlays.dynatops.topics import outbox
from shoal.overlays.registry import strategy_factory
from shoal.simulation.links.overlay_link import SimulatedLink
from shoal.simulation.world import World

SECOND_US = 1_000_000
BROKERS = tuple(f"B{number}" for number in range(8))
TOPICS = [f"topic {number}" for number in range(50)]


class Far:
    """One millisecond between any two brokers, twenty to and from B3."""

    def latency_us(self, source_place: str, target_place: str) -> int:
        return 20_000 if "B3" in (source_place, target_place) else 1_000


class Ring:
    """A ring at rest: a publisher at B0, and brokers that want all topics, or a few."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        parameters = DynatopsParameters(brokers=BROKERS, topic="topic")
        self.world = World((), strategy_factory("dynatops", parameters), Far(), brokers=BROKERS)
        few = " OR ".join(f"topic = '{topic}'" for topic in TOPICS[:10])
        for name, home, wanted in [
            ("all", "B0", EVERYTHING),
            ("also all", "B5", EVERYTHING),
            ("few", "B3", parse(few)),
        ]:
            self.world.add_subscriber(name, home)
            self.world.subscribe(0, home, Subscription(id=name, client=name, filter=wanted))
        self.world.add_publisher("P", "B0", "B0")
        promise = Advertisement(id="P", publisher="P", filter=EVERYTHING)
        self.world.advertise(0, promise)
        self.sent: list[object] = []
        self.world.run(SECOND_US)
        send = SimulatedLink.send

        def noted(link, input, units, ready_us):  # type: ignore[no-untyped-def]
            self.sent.append(input.message)
            return send(link, input, units, ready_us)

        monkeypatch.setattr(SimulatedLink, "send", noted)

    def publish(self, topics: list[str], *, together: bool = True) -> float:
        """The milliseconds until all publications have arrived in order."""
        publications = [
            Publication(
                publisher="P",
                sequence=number,
                published_us=SECOND_US,
                attributes={"topic": topic},
            )
            for number, topic in enumerate(topics)
        ]
        requests = [tuple(publications)] if together else [(each,) for each in publications]
        for request in requests:
            self.world.request(SECOND_US, "P", Publish(request))
        self.world.run(9 * SECOND_US)
        got: dict[str, list[int]] = {}
        for each in self.world.trace.deliveries:
            got.setdefault(each.client, []).append(each.publication.sequence)
        numbers = list(range(len(topics)))
        few = [number for number, topic in enumerate(topics) if topic in TOPICS[:10]]
        assert got["all"] == got["also all"] == numbers
        assert got.get("few", []) == few
        for broker in BROKERS:
            strategy = self.world.brokers[broker].machine.strategy
            assert isinstance(strategy, Dynatops)
            assert not len(strategy.outbox)
            assert not strategy.routing.held
        return (max(each.delivered_us for each in self.world.trace.deliveries) - SECOND_US) / 1e3

    def count(self, kind: type) -> int:
        return sum(isinstance(each, kind) for each in self.sent)


@pytest.mark.parametrize("together", [True, False])
def test_topics_in_turn_take_no_round_trip_for_each(
    together: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = Ring(monkeypatch)
    topics = TOPICS * 20
    Random(1).shuffle(topics)
    # B3's round trip is 40 ms; without turns each of 200 changes to and from it would take that.
    assert ring.publish(topics, together=together) < 300
    if together:
        # To eight roots at once, and from each one message about the next place.
        assert ring.count(ToRoot) < 20
        assert ring.count(EntryBound) < 20


def test_a_publisher_of_one_topic_sends_no_turn_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = Ring(monkeypatch)
    ring.publish([TOPICS[0]] * 100, together=False)
    assert ring.count(HomeTurn) == ring.count(EntryBound) == 0


def test_subscribing_brokers_hold_at_most_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "WINDOW", 16)
    ring = Ring(monkeypatch)
    most, turn = [0], ring.world.brokers["B5"].machine.strategy.routing._arrivals.turn  # type: ignore[attr-defined]

    def noted(message, out):  # type: ignore[no-untyped-def]
        most[0] = max(most[0], arrivals.held)
        turn(message, out)

    arrivals = ring.world.brokers["B5"].machine.strategy.routing._arrivals  # type: ignore[attr-defined]
    monkeypatch.setattr(arrivals, "turn", noted)
    ring.publish(TOPICS * 4)
    assert 0 < most[0] <= 16


def test_turns_end_after_many_publications_to_one_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outbox, "WINDOW", 16)
    ring = Ring(monkeypatch)
    ring.publish(TOPICS + [TOPICS[0]] * 400)
    told = sum(len(each.numbers) for each in ring.sent if isinstance(each, HomeTurn))
    assert told < 3 * (len(TOPICS) + 2 * 16)
