"""The slot model and the simulated brokers give the same figures on one workload.

Every hour users change their topics and places, as the model has it; then each topic is published
to once, at the broker of its root. The model's messages, deliveries and delays of that hour are
those of the brokers. Changes of positions take exactly the messages that the model counts, and
subscribing takes no more than it counts.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest

from shoal.broker.effects import Order, Received, Requested
from shoal.broker.messages import Publish, Subscribe, Unsubscribe
from shoal.experiments.dynatops.crowds.users import StudyCrowd, draw_crowd
from shoal.experiments.dynatops.model import DynatopsModel
from shoal.experiments.dynatops.setting import DynatopsSetting, What
from shoal.overlays.dynatops.planning.advising.prices import change_messages
from shoal.overlays.dynatops.planning.problem import inverse
from shoal.overlays.registry import SYSTEMS, strategy_factory
from shoal.simulation.links.overlay_link import SimulatedLink
from shoal.simulation.links.underlay import ConstantUnderlay
from shoal.simulation.trace import DeliveryEvent
from shoal.simulation.world import World
from tests.broker.transcript import advertisement, publication, subscription

SETTING = DynatopsSetting(
    what="up", seed=5, users=60, hours=4, brokers=13, topics=20, cluster=5, rate=1.0, base=16
)
SETTLE_US = 10_000_000


class Brokers:
    """The same users at simulated brokers; each has one filter, of all its topics."""

    def __init__(self, system: str, model: DynatopsModel, crowd: StudyCrowd) -> None:
        self._model = model
        names = [f"B{number}" for number in range(len(model.mapping))]
        self._at = [names[broker] for broker in inverse(model.mapping)]
        parameters = SYSTEMS[system].parameters(brokers=tuple(self._at), topic="topic")
        factory = strategy_factory(system, parameters, self._at)
        self._world = World((), factory, ConstantUnderlay(1_000), brokers=names)
        self._names = names
        self._now_us = 0
        self._settle()
        self.topics = [f"topic/{number}" for number in range(model.setting.topics)]
        for topic in self.topics:
            self._world.add_publisher(topic, self._root(topic), "home")
            self._world.advertise(self._now_us, advertisement(topic, f"topic = '{topic}'", topic))
        # The broker and the subscription of each user.
        self._there: dict[int, tuple[str, str]] = {}
        self._number = 0
        self.place(dict(enumerate(crowd.wanted)))

    def place(self, wanted: dict[int, frozenset[int]]) -> None:
        """Put these users, with their topics, where the model has them."""
        self._number += 1
        for user, topics in wanted.items():
            name, there = f"u{user}", self._names[self._model.broker_of[user]]
            if user in self._there:
                former, id = self._there[user]
                self._ask(former, name, Unsubscribe(id))
            self._world.add_subscriber(name, "home")
            texts = ", ".join(f"'topic/{topic}'" for topic in sorted(topics))
            id = f"{name}/{self._number}"
            self._ask(there, name, Subscribe(subscription(id, f"topic IN ({texts})", name)))
            self._there[user] = there, id
        self._settle()

    def publish(self, sequence: int) -> tuple[float, float, float]:
        """Publish to each topic once: messages from the roots on, deliveries, and their hops."""
        before = len(self._world.trace.deliveries), self._relayed()
        for topic in self.topics:
            one = publication(sequence, topic, topic=topic)
            self._world.request(self._now_us, topic, Publish((one,)))
        self._settle()
        found: list[DeliveryEvent] = self._world.trace.deliveries[before[0] :]
        homes = {(each.publication.publisher, each.broker) for each in found}
        # A hop to each relay and subscribing broker of a tree but its root, which is one or the
        # other.
        roots = len({topic for topic, _ in homes})
        messages = self._relayed() - before[1] + len(homes) - roots
        return float(messages), float(len(found)), float(sum(each.hops for each in found))

    def _root(self, topic: str) -> str:
        return self._at[self._model._structure.root(topic)]

    def _relayed(self) -> int:
        return sum(
            node.machine.strategy.routing.relayed  # type: ignore[attr-defined]
            for node in self._world.brokers.values()
        )

    def _ask(self, broker: str, client: str, request: Subscribe | Unsubscribe) -> None:
        self._world.queue.push(
            self._now_us, self._world.brokers[broker].receive, Requested(client, request)
        )

    def _settle(self) -> None:
        self._now_us += SETTLE_US
        self._world.run(self._now_us)


@pytest.mark.parametrize(("system", "what"), [("dynatops", "up"), ("bayeux", "bayeux")])
def test_model_and_brokers_agree_hour_by_hour(system: str, what: What) -> None:
    # Tapestry's identifiers are those of the system.
    setting = msgspec.structs.replace(SETTING, what=what, seed=1 if system == "bayeux" else 5)
    crowd = draw_crowd(setting)
    model = DynatopsModel(setting, crowd)
    brokers = Brokers(system, model, crowd)
    moved = 0
    for hour, (changes, slot) in enumerate(zip(crowd.slots, model.slots(), strict=True)):
        moved += slot.handovers
        # Some of it is relayed.
        assert slot.messages > (model.users > 0).sum() - len(brokers.topics)
        brokers.place({change.user: change.wanted for change in changes})
        found = brokers.publish(hour)
        assert found == (slot.messages, slot.deliveries, slot.waiting)
    assert moved or what == "bayeux"


class _Sent:
    """Messages over all links, by name."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counts: Counter[str] = Counter()
        send = SimulatedLink.send

        def noted(link: SimulatedLink, input: Received, units: int, ready_us: int) -> None:
            self.counts[type(input.message).__name__] += 1
            send(link, input, units, ready_us)

        monkeypatch.setattr(SimulatedLink, "send", noted)

    def take(self) -> int:
        """Their number since the last call."""
        found, self.counts = sum(self.counts.values()), Counter()
        return found


@pytest.mark.parametrize("system", ["dynatops", "bayeux", "hybrid"])
def test_a_change_of_places_takes_the_messages_that_the_model_counts(
    system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"B{number:02}" for number in range(15)]
    kind = type(SYSTEMS[system].parameters())
    parameters = kind(brokers=tuple(names), topic="topic", linger_us=SETTLE_US // 2)
    sent = _Sent(monkeypatch)
    world = World((), strategy_factory(system, parameters), ConstantUnderlay(1_000), brokers=names)
    now_us = 2 * SETTLE_US
    for number, name in enumerate(names):
        for topic in range(number % 4):
            client = f"{name}/{topic}"
            world.add_subscriber(client, name)
            filter = f"topic = 'topic/{topic * number}'"
            world.subscribe(now_us, name, subscription(client, filter, client))
    now_us += 2 * SETTLE_US
    world.run(now_us)
    strategy: Any = world.brokers["B00"].machine.strategy
    random = Random(system)
    for _ in range(6):
        sent.take()
        before = [strategy.membership.view.members.index(name) for name in names]
        after = list(before)
        one, other = random.sample(range(len(names)), 2)
        after[one], after[other] = after[other], after[one]
        swap = {"brokers": f"{names[one]},{names[other]}"}
        world.brokers["B00"].bring(now_us, Order("swap", swap))
        now_us += 2 * SETTLE_US
        world.run(now_us)
        assert [strategy.membership.view.members.index(name) for name in names] == after
        assert sent.take() == change_messages(strategy.membership.places.structure, before, after)


class TopicByTopic(Brokers):
    """The same users with a subscription for each topic, as the model counts them."""

    def place(self, wanted: dict[int, frozenset[int]]) -> None:
        for user, topics in wanted.items():
            name, there = f"u{user}", self._names[self._model.broker_of[user]]
            former, had = self._there.pop(user, ("", ""))
            before = {(former, topic) for topic in had.split()}
            after = {(there, f"{topic}") for topic in sorted(topics)}
            self._world.add_subscriber(name, "home")
            for broker, topic in sorted(after - before):
                filter = f"topic = 'topic/{topic}'"
                request = Subscribe(subscription(f"{name}/{topic}/{broker}", filter, name))
                self._ask(broker, name, request)
            for broker, topic in sorted(before - after):
                self._ask(broker, name, Unsubscribe(f"{name}/{topic}/{broker}"))
            self._there[user] = there, " ".join(topic for _, topic in after)
        self._settle()


def test_subscribing_takes_about_the_messages_that_the_model_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A way to the root and an answer, where the model has the way down the tree."""
    crowd = draw_crowd(SETTING)
    model = DynatopsModel(SETTING, crowd)
    sent = _Sent(monkeypatch)
    brokers = TopicByTopic("dynatops", model, crowd)
    # Brokers of a cluster exchange their users' topics; those of the machines place no users.
    sizes = np.bincount(model._rules.cluster_of)
    exchanged = float((sizes * (sizes - 1)).sum()) / SETTING.update_hours
    counted = 0.0
    sent.take()
    for changes, slot in zip(crowd.slots, model.slots(), strict=True):
        brokers.place({change.user: change.wanted for change in changes})
        counted += slot.subscribing - exchanged
        assert set(sent.counts) <= {"TopicInterest", "KnownTopics"}
    assert counted / 2 <= sent.take() <= 2 * counted
