"""The slot model and the simulated brokers give exactly the same figures on one workload.

Every hour users change their topics and places, as the model has it; then each topic is published
to once, at the broker of its root. The model's messages, deliveries and delays of that hour are
those of the brokers.
"""

from __future__ import annotations

import msgspec
import pytest

from shoal.broker.effects import Requested
from shoal.broker.messages import Publish, Subscribe, Unsubscribe
from shoal.experiments.dynatops.crowds.users import StudyCrowd, draw_crowd
from shoal.experiments.dynatops.model import DynatopsModel
from shoal.experiments.dynatops.setting import DynatopsSetting, What
from shoal.overlays.dynatops.parameters import DynatopsParameters
from shoal.overlays.dynatops.planning.problem import inverse
from shoal.overlays.registry import strategy_factory
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
        parameters = DynatopsParameters(brokers=tuple(self._at), topic="topic")
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
