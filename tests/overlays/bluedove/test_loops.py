"""No input keeps a broker busy for ever with messages to itself."""

from __future__ import annotations

from random import Random

import pytest

from shoal.broker.effects import Received
from shoal.broker.messages import Subscribe
from shoal.matching.segments import LOWEST, Dimension
from shoal.overlays.bluedove.cluster.members import NOTHING, Member, Segment
from shoal.overlays.bluedove.messages import (
    GossipNews,
    JoinAnswer,
    LeaveCluster,
    MatchRequest,
    MemberHello,
    NotServed,
)
from shoal.overlays.bluedove.parameters import full_replication
from tests.broker.transcript import subscription
from tests.examples import examples
from tests.overlays.bluedove.cluster import TWO, Cluster, parameters

BOTH = "B1 B2 B3"


def made(**options) -> Cluster:  # type: ignore[no-untyped-def]
    """Three brokers, each both dispatcher and matcher."""
    cluster = Cluster(parameters(BOTH, BOTH, **options))
    cluster.run(2)
    return cluster


def restart(cluster: Cluster, name: str) -> None:
    cluster.crash(name)
    cluster.add(name)
    cluster.start(name)


def test_a_restarted_broker_does_not_take_over_its_former_incarnations_segments() -> None:
    """Other brokers tell it its former segments; it is no candidate until it serves again."""
    cluster = made(dimensions=TWO[:1])
    cluster.ask("B2", "C", Subscribe(subscription("s", "x >= 0", "C")))
    cluster.run(1)
    cluster.held[MemberHello] = []
    restart(cluster, "B1")
    cluster.settle()  # it has pulled a table by now
    own = cluster.strategies["B1"].node.table.members["B1"]
    assert own.segments == (NOTHING,)
    cluster.publish("B1", 1, x=5)  # its former place
    cluster.run(1)
    assert cluster.delivered() == []
    assert [target for _, target in cluster.sent_of(MatchRequest)] == []
    cluster.release(MemberHello)
    cluster.run(30)
    assert [row[0] for row in cluster.delivered()] == [1]


def test_a_restart_ends_the_former_incarnation_at_every_broker() -> None:
    cluster = made()
    cluster.held[MemberHello] = []
    restart(cluster, "B1")
    cluster.settle()
    cluster.publish(
        "B2", 1, x=5, y=5
    )  # B2 does not know yet, and learns from the returned publication
    cluster.settle()
    assert cluster.strategies["B2"].node.table.members["B1"].segments == (NOTHING, NOTHING)


def test_a_matcher_whose_clock_was_set_back_serves_again() -> None:
    cluster = made()
    known = cluster.strategies["B2"].node.table
    later = Member(
        broker="B1",
        generation=10**18,
        version=1,
        segments=(Segment(LOWEST, 1.0), NOTHING),
    )
    known.merge([later], cluster.now_us)
    cluster.run(12)
    mine = cluster.strategies["B1"].matcher
    assert mine is not None
    assert mine.segments[0] != Segment(LOWEST, 1.0)
    assert known.members["B1"].segments == tuple(mine.segments)


def test_a_returned_publication_without_another_matcher_waits_for_a_timer() -> None:
    """However the matcher and the table came to disagree."""
    cluster = made(dimensions=TWO[:1])
    matcher = cluster.strategies["B1"].matcher
    assert matcher is not None
    matcher.segments[0] = NOTHING
    cluster.publish("B1", 1, x=5)
    cluster.settle()
    dispatcher = cluster.strategies["B1"].dispatcher
    assert dispatcher is not None
    assert len(dispatcher.outbox) == 1


def test_a_matcher_that_returned_a_publication_is_not_tried_at_once() -> None:
    cluster = made(dimensions=TWO[:1])
    matcher = cluster.strategies["B1"].matcher
    assert matcher is not None
    matcher.segments[0] = NOTHING
    cluster.publish("B2", 1, x=5)
    for _ in range(200):
        cluster.step(Random(1))
    assert cluster.sent_of(NotServed) == [("B1", "B2")]


@pytest.mark.parametrize("name", ["B1", "B3"])
def test_a_matcher_of_a_replicated_cluster_leaves_while_it_matches(name: str) -> None:
    dimension = Dimension(attribute="x")
    brokers = tuple(BOTH.split())
    cluster = Cluster(full_replication(dimension, dispatchers=brokers, matchers=brokers, cores=1))
    cluster.run(2)
    for number in range(60):
        cluster.publish(name, number, x=5)
    cluster.ask(name, "operator", LeaveCluster())
    cluster.publish(name, 99, x=5)
    cluster.run(30)
    assert not any(
        len(each.dispatcher.outbox) for each in cluster.strategies.values() if each.dispatcher
    )


@pytest.mark.parametrize("seed", range(examples(20)))
def test_random_restarts_end_in_agreement(seed: int) -> None:
    """Random steps and restarts; in the end all living brokers agree and nothing is stuck."""
    random = Random(seed)
    cluster = made(dimensions=TWO[: random.randint(1, 2)], cores=random.randint(1, 2))
    names = BOTH.split()
    for name in names:
        cluster.ask(name, "C", Subscribe(subscription(f"s{name}", "x >= 0", "C")))
    cluster.run(1)
    number = 0
    for _ in range(400):
        match random.randrange(12):
            case 0:
                restart(cluster, random.choice(names))
            case 1 | 2 | 3:
                number += 1
                x, y = random.randrange(1_000), random.randrange(1_000)
                cluster.publish(random.choice(names), number, x=x, y=y)
            case 4 if random.random() < 0.3:
                cluster.run(random.random())
            case _:
                cluster.step(random)
    cluster.run(60)
    for name in names:
        strategy = cluster.strategies[name]
        assert strategy.matcher is not None
        assert strategy.dispatcher is not None
        own = strategy.node.table.members[name]
        assert own.segments == tuple(strategy.matcher.segments)
        assert not len(strategy.dispatcher.outbox)
    assert not cluster.strategies["B1"].node.table.holes(0)


def test_news_of_a_former_incarnation_after_the_welcome_change_nothing() -> None:
    cluster = made()
    old = cluster.strategies["B2"].node.table.members["B1"]
    cluster.held[JoinAnswer] = []
    restart(cluster, "B1")
    cluster.settle()
    cluster.release(JoinAnswer)
    cluster.run(20)
    cluster.handle("B1", Received("B2", GossipNews((old,))))
    own = cluster.strategies["B1"].node.table.members["B1"]
    assert own.generation > old.generation
