"""A cluster that restarts: publications wait until matchers know the subscriptions."""

from __future__ import annotations

from functools import partial

import pytest

from shoal.broker.ack_tracker import AckTracker
from shoal.broker.effects import Requested, Started
from shoal.broker.messages import Subscribe
from shoal.overlays.bluedove.dispatching.lines import LINE_US
from shoal.overlays.bluedove.messages import MatchRequest, MatchResults, Remove, Store
from tests.broker.transcript import subscription
from tests.overlays.bluedove.cluster import SECOND_US, TWO, Cluster, parameters
from tests.overlays.bluedove.test_ack_tracker import publications

BOTH = "B1 B2 B3"


def made() -> Cluster:
    """Three brokers, each both dispatcher and matcher; a subscriber at B3."""
    cluster = Cluster(parameters(BOTH, BOTH, dimensions=TWO[:1]))
    cluster.run(2)
    ask(cluster)
    cluster.run(1)
    return cluster


def ask(cluster: Cluster) -> None:
    cluster.ask("B3", "C", Subscribe(subscription("s", "x >= 0", "C")))


def start(cluster: Cluster, name: str) -> None:
    cluster.add(name)
    former = tuple(other for other in BOTH.split() if other != name)
    cluster.handle(name, Started(former))


def publish(cluster: Cluster, name: str, done: list[int], first: int, *xs: int) -> None:
    ack_tracker = AckTracker(partial(done.append, first))
    cluster.handle(name, Requested("P", publications(first, *xs)), ack_tracker)


def arrived(cluster: Cluster) -> list[int]:
    return [effect.routed.publication.sequence for _, effect in cluster.deliveries]


def all_die(cluster: Cluster) -> None:
    for name in BOTH.split():
        cluster.crash(name)
    cluster.now_us += SECOND_US


@pytest.mark.parametrize("away_s", [1, 30, 50])
def test_a_starting_matcher_waits_for_former_dispatchers(away_s: int) -> None:
    cluster, done = made(), list[int]()
    all_die(cluster)
    start(cluster, "B1")
    publish(cluster, "B1", done, 1, 5)
    cluster.run(away_s)
    assert (arrived(cluster), done) == ([], [])
    start(cluster, "B2")
    cluster.run(1)
    start(cluster, "B3")
    ask(cluster)
    cluster.run(40)
    assert (arrived(cluster), done) == ([1], [1])


def test_a_dispatcher_that_never_returns_is_given_up() -> None:
    cluster, done = made(), list[int]()
    all_die(cluster)
    start(cluster, "B1")
    start(cluster, "B2")
    publish(cluster, "B1", done, 1, 5)
    cluster.run(58)
    assert done == []
    cluster.run(30)
    assert (arrived(cluster), done) == ([], [1])


def test_publications_for_a_former_dispatcher_wait_until_it_counts_as_dead() -> None:
    """A new link to it fails at once; the timeout is still that of a disconnected broker, 60 s."""
    cluster, done = made(), list[int]()
    cluster.crash("B3")
    cluster.crash("B2")
    cluster.now_us += SECOND_US
    start(cluster, "B2")
    publish(cluster, "B2", done, 1, 5)  # B1 matches it, and knows the subscription at B3
    cluster.run(30)
    assert done == []
    start(cluster, "B3")
    ask(cluster)
    cluster.run(10)
    assert (arrived(cluster), done) == ([1], [1])


def test_a_restarted_edge_broker_does_not_drop_its_former_subscriptions() -> None:
    """Matchers keep its former incarnation's subscriptions until they have newer ones."""
    cluster, done = made(), list[int]()
    cluster.crash("B3")
    cluster.now_us += SECOND_US
    cluster.held[Store] = []
    start(cluster, "B3")
    ask(cluster)
    cluster.settle()
    for number in (1, 2):
        publish(cluster, "B1", done, number, 5)
        cluster.settle()
    assert (arrived(cluster), done) == ([1, 2], [1, 2])
    assert cluster.sent_of(Remove) == []


# --- in a queue -------------------------------------------------------------------------------


def separate() -> Cluster:
    cluster = Cluster(parameters(dimensions=TWO[:1]))
    cluster.run(2)
    cluster.ask("D1", "old", Subscribe(subscription("s", "x >= 0", "old")))
    cluster.run(1)
    return cluster


def test_a_publication_queued_for_long_is_matched_again() -> None:
    """A client that subscribed meanwhile receives it, as does a session that moved meanwhile."""
    cluster, done = separate(), list[int]()
    cluster.held[MatchResults] = []
    publish(cluster, "D1", done, 1, 100)
    cluster.settle()
    slow = cluster.held.pop(MatchResults)
    publish(cluster, "D1", done, 2, 900)
    cluster.settle()
    cluster.ask("D2", "new", Subscribe(subscription("t", "x >= 800", "new")))
    cluster.settle()
    cluster.now_us += LINE_US + 1
    cluster.under_way.extend(slow)
    cluster.settle()
    assert done == [1, 2]
    assert [(number, client) for number, client, _ in cluster.delivered()] == [
        (1, "old"),
        (2, "new"),
        (2, "old"),
    ]
    assert arrived(cluster)[0] == 1


def test_a_publication_that_waited_for_its_matcher_only_is_not_matched_again() -> None:
    cluster, done = separate(), list[int]()
    cluster.held[MatchResults] = []
    publish(cluster, "D1", done, 1, 100)
    cluster.settle()
    cluster.now_us += LINE_US + 1
    cluster.release(MatchResults)
    cluster.settle()
    assert done == [1]
    assert len(cluster.sent_of(MatchRequest)) == 1


def test_an_answer_to_an_earlier_attempt_is_ignored() -> None:
    """The answering matcher was declared dead, and does not know the latest subscriptions."""
    cluster = Cluster(parameters())
    cluster.run(2)
    done = list[int]()
    cluster.held[MatchResults] = []
    publish(cluster, "D1", done, 1, 100)
    cluster.settle()
    ((first, _, _),) = late = cluster.held.pop(MatchResults)
    dispatcher = cluster.strategies["D1"].dispatcher
    assert dispatcher is not None
    cluster.held[MatchResults] = []
    out: list[object] = []
    dispatcher.outbox.link_down(first, cluster.now_us, out)  # type: ignore[arg-type]
    for effect in out:
        cluster._carry_out("D1", effect, None)  # type: ignore[arg-type]
    cluster.settle()
    ((second, _, _),) = cluster.held[MatchResults]
    assert second != first
    cluster.under_way.extend(late)
    cluster.settle()
    assert done == []
    cluster.release(MatchResults)
    cluster.settle()
    assert done == [1]
