"""A dispatcher settles publications and subscriptions only when their effect is certain.

Publications are then with all their subscribers' edge brokers, subscriptions with every matcher
concerned, whichever broker dies on the way.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

import pytest

from shoal.broker.ack_tracker import AckTracker
from shoal.broker.effects import Requested
from shoal.broker.messages import Publish, Subscribe, Unsubscribe
from shoal.matching.semantics import matches
from shoal.model import Publication, Subscription
from shoal.overlays.bluedove.dispatching.outbox import DispatchOutbox
from shoal.overlays.bluedove.messages import (
    MatchAnswer,
    MatchRequest,
    MatchResults,
    Receipt,
    Stored,
)
from shoal.overlays.bluedove.parameters import DeliveryOrder
from tests.broker.transcript import subscription
from tests.examples import examples
from tests.overlays.bluedove.cluster import SECOND_US, Cluster, parameters


def publications(first: int, *xs: int, assured: bool = True) -> Publish:
    return Publish(
        tuple(
            Publication(
                publisher="P",
                sequence=number,
                published_us=0,
                attributes={"x": x, "y": 999 - x},
                assured=assured,
            )
            for number, x in enumerate(xs, start=first)
        )
    )


class AwaitingCluster:
    """A cluster with clients that await the settlement of their requests."""

    def __init__(self, **options: Any) -> None:
        self.cluster = Cluster(parameters(**options))
        self.cluster.run(2)
        self.done: list[str] = []

    def ask(self, name: str, client: str, request: Any, what: str) -> None:
        ack_tracker = AckTracker(partial(self.done.append, what))
        self.cluster.handle(name, Requested(client, request), ack_tracker)


def test_publications_are_settled_when_all_edge_brokers_have_them() -> None:
    waiting = AwaitingCluster()
    cluster = waiting.cluster
    cluster.ask("D2", "C", Subscribe(subscription("s", "x < 500", "C")))
    cluster.settle()
    cluster.held[Receipt] = []
    waiting.ask("D1", "P", publications(1, 100, 200), "two")
    waiting.ask("D1", "P", publications(3, 900), "nobody's")
    waiting.ask("D1", "P", publications(4, 100, assured=False), "not assured")
    assert waiting.done == ["not assured"]
    cluster.settle()
    assert waiting.done == ["not assured", "nobody's"]
    assert [row[0] for row in cluster.delivered()] == [1, 2, 4]
    cluster.release(Receipt)
    cluster.settle()
    assert waiting.done == ["not assured", "nobody's", "two"]
    assert not cluster.unsettled


@pytest.mark.parametrize("order", list(DeliveryOrder))
def test_a_publication_sent_to_another_matcher_is_settled_there(order: DeliveryOrder) -> None:
    waiting = AwaitingCluster(order=order)
    cluster = waiting.cluster
    answer = MatchAnswer if order is DeliveryOrder.FREE else MatchResults
    cluster.held[answer] = []
    waiting.ask("D1", "P", publications(1, 100), "it")
    cluster.settle()
    assert waiting.done == []
    ((matcher, _, _),) = cluster.held.pop(answer)
    cluster.crash(matcher)
    cluster.settle()
    assert waiting.done == ["it"]


def test_receivers_have_time_to_confirm_a_match_that_came_late() -> None:
    """A publication that waited long is not matched again because its receivers are not done."""
    cluster = Cluster(parameters(order=DeliveryOrder.FREE, load_interval_us=200_000))
    timeout_s = cluster.parameters.answer_timeout_us / SECOND_US
    cluster.run(2)
    cluster.ask("D2", "C", Subscribe(subscription("s", "x < 500", "C")))
    cluster.settle()
    cluster.held |= {MatchRequest: [], Receipt: []}
    cluster.publish("D1", 1, x=100, y=100)
    cluster.run(2 * timeout_s + 1)
    cluster.release(MatchRequest)
    cluster.run(timeout_s)
    assert len(cluster.sent_of(MatchRequest)) == 1
    cluster.run(timeout_s + 1)
    assert len(cluster.sent_of(MatchRequest)) == 2
    cluster.release(Receipt)
    cluster.settle()
    assert not cluster.strategies["D1"].dispatcher.outbox
    assert len(cluster.delivered()) == 1


def test_a_full_dispatcher_accepts_awaited_publications(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.overlays.bluedove.dispatching.dispatcher.MAX_KEPT", 1)
    waiting = AwaitingCluster()
    cluster = waiting.cluster
    cluster.ask("D2", "C", Subscribe(subscription("s", "x >= 0", "C")))
    cluster.settle()
    waiting.ask("D1", "P", publications(1, 100, 200, assured=False), "refused")
    waiting.ask("D1", "P", publications(3, 100, 200), "taken")
    cluster.settle()
    assert waiting.done == ["refused", "taken"]
    assert [row[0] for row in cluster.delivered()] == [3, 4]
    assert cluster.refusals() == ["D1 keeps 1 publications"]


def test_subscriptions_are_settled_when_they_are_stored() -> None:
    waiting = AwaitingCluster()
    cluster = waiting.cluster
    cluster.held[Stored] = []
    for name in ("a", "b", "c"):
        waiting.ask("D1", "C", Subscribe(subscription(name, "x < 500", "C")), name)
    cluster.settle()
    assert waiting.done == []
    waiting.ask("D1", "C", Unsubscribe("b"), "forgotten")
    waiting.ask("D1", "C", Subscribe(subscription("c", "x < 400", "C")), "c again")
    # An unsubscribe is settled at once.
    assert waiting.done == ["b", "forgotten", "c"]
    cluster.settle()
    cluster.release(Stored)
    cluster.settle()
    assert waiting.done == ["b", "forgotten", "c", "a", "c again"]
    assert not cluster.unsettled


class CheckedCluster(AwaitingCluster):
    """Random publications and subscriptions; each settlement is checked at its moment."""

    def __init__(self, seed: int, order: DeliveryOrder = DeliveryOrder.PUBLISHER) -> None:
        super().__init__(order=order)
        self.random = Random(seed)
        self.stored: dict[str, Subscription] = {}
        self.homes: dict[str, str] = {}
        self.sequence = 0
        self.required = 0

    def subscribe(self) -> None:
        name = f"s{len(self.homes)}"
        home = self.homes[name] = self.random.choice(("D1", "D2"))
        low = self.random.randrange(900)
        wanted = subscription(name, f"x >= {low} AND x < {low + 300}", f"C of {home}")
        ack_tracker = AckTracker(lambda: self.stored.update({name: wanted}))
        self.cluster.handle(home, Requested(wanted.client, Subscribe(wanted)), ack_tracker)

    def publish(self) -> None:
        xs = [self.random.randrange(1_000) for _ in range(self.random.randint(1, 3))]
        request = publications(self.sequence, *xs)
        self.sequence += len(xs)
        owed = [
            (publication.sequence, name)
            for publication in request.publications
            for name, row in self.stored.items()
            if matches(row.filter, publication.attributes)
        ]
        self.required += len(owed)
        ack_tracker = AckTracker(partial(self._published, owed))
        self.cluster.handle("D1", Requested("P", request), ack_tracker)

    def _published(self, owed: list[tuple[int, str]]) -> None:
        self.done.append("published")
        delivered = {
            (number, name) for number, _, names in self.cluster.delivered() for name in names
        }
        missing = [
            row for row in owed if self.homes[row[1]] in self.cluster.nodes and row not in delivered
        ]
        assert not missing, missing

    def live(self) -> None:
        """Random events; one or two brokers die."""
        victims = self.random.sample(("M1", "M2", "M3", "M4", "D2"), 2)
        when = {self.random.randrange(100, 500): victim for victim in victims}
        for step in range(600):
            match self.random.randrange(8):
                case 0:
                    self.publish()
                case 1 if len(self.homes) < 12 and "D2" in self.cluster.nodes:
                    self.subscribe()
                case 2 if self.random.random() < 0.2:
                    self.cluster.run(0.3)
                case _:
                    self.cluster.step(self.random)
            if step in when:
                self.cluster.crash(when[step])
        self.cluster.run(30)


@pytest.mark.parametrize("order", list(DeliveryOrder))
@pytest.mark.parametrize("seed", range(examples(12)))
def test_settled_publications_are_delivered_and_all_are_settled_in_the_end(
    seed: int, order: DeliveryOrder
) -> None:
    checked = CheckedCluster(seed, order)
    checked.live()
    assert checked.required > 50
    assert len(checked.stored) > 3
    assert not checked.cluster.unsettled


def test_the_check_reports_a_hasty_dispatcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check reports a dispatcher that does not wait for edge brokers."""

    def hasty(self: DispatchOutbox, message: MatchAnswer, now_us: int, out: list[Any]) -> None:
        for id in message.message_ids:
            if id in self._pending:
                self._settle_pending(self._pending[id], out)

    monkeypatch.setattr(DispatchOutbox, "on_answer", hasty)
    checked = CheckedCluster(0, DeliveryOrder.FREE)
    with pytest.raises(AssertionError, match="'s"):
        checked.live()
