"""A publisher's order: kept whatever matchers do, and at homes that go and come back."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest

from shoal.broker.ack_tracker import AckTracker
from shoal.broker.effects import LinkChanged, LinkState, Requested
from shoal.broker.messages import Goodbye, Subscribe
from shoal.overlays.bluedove.messages import Matched, MatchRequest, MatchResults, Receipt
from shoal.overlays.bluedove.parameters import DeliveryOrder
from tests.broker.transcript import subscription
from tests.examples import examples
from tests.overlays.bluedove.cluster import TWO, Cluster, parameters
from tests.overlays.bluedove.test_ack_tracker import publications

ONE = TWO[:1]


def made(**options) -> Cluster:  # type: ignore[no-untyped-def]
    """A subscriber at D2 that wants everything."""
    cluster = Cluster(parameters(**options))
    cluster.run(2)
    cluster.ask("D2", "C", Subscribe(subscription("s", "x >= 0", "C")))
    cluster.run(1)
    return cluster


def publish(cluster: Cluster, done: list[int], first: int, *xs: int) -> None:
    ack_tracker = AckTracker(partial(done.append, first))
    cluster.handle("D1", Requested("P", publications(first, *xs)), ack_tracker)


def came(cluster: Cluster) -> list[int]:
    return [effect.routed.publication.sequence for _, effect in cluster.deliveries]


def cut(cluster: Cluster, one: str, other: str) -> None:
    cluster.links -= {(one, other), (other, one)}
    cluster.handle(one, LinkChanged(other, LinkState.FAILED))
    cluster.handle(other, LinkChanged(one, LinkState.FAILED))


def test_what_is_matched_first_waits_for_what_was_published_first() -> None:
    cluster, done = made(dimensions=ONE), list[int]()
    cluster.held[MatchResults] = []
    publish(cluster, done, 1, 100)
    cluster.settle()
    slow = cluster.held.pop(MatchResults)
    publish(cluster, done, 2, 900)
    publish(cluster, done, 3, 400)
    cluster.settle()
    assert (came(cluster), done) == ([], [])
    cluster.under_way.extend(slow)
    cluster.settle()
    assert (came(cluster), done) == ([1, 2, 3], [1, 2, 3])


def test_another_publisher_waits_for_nobody() -> None:
    cluster, done = made(dimensions=ONE), list[int]()
    cluster.held[MatchResults] = []
    publish(cluster, done, 1, 100)
    cluster.settle()
    cluster.held.clear()
    cluster.publish("D2", 2, x=900)
    cluster.settle()
    assert came(cluster) == [2]


def test_free_is_free() -> None:
    cluster, done = made(dimensions=ONE, order=DeliveryOrder.FREE), list[int]()
    assert not cluster.nodes["D1"].keeps_order
    cluster.held[MatchRequest] = []
    publish(cluster, done, 1, 100)
    slow = cluster.held.pop(MatchRequest)
    publish(cluster, done, 2, 900)
    cluster.settle()
    cluster.under_way.extend(slow)
    cluster.settle()
    assert came(cluster) == [2, 1]


def test_order_holds_when_the_matcher_of_the_first_dies() -> None:
    cluster, done = made(), list[int]()
    cluster.held[MatchResults] = []
    publish(cluster, done, 1, 100)
    cluster.settle()
    ((matcher, _, _),) = cluster.held.pop(MatchResults)
    publish(cluster, done, 2, 100)
    cluster.crash(matcher)
    cluster.run(30)
    assert (came(cluster), done) == ([1, 2], [1, 2])


def test_a_home_that_comes_back_gets_what_it_had_not_confirmed_in_its_order() -> None:
    cluster, done = made(), list[int]()
    cluster.held |= {Matched: [], Receipt: []}
    publish(cluster, done, 1, 100)
    cluster.settle()
    cluster.release(Matched)
    publish(cluster, done, 2, 500)
    cluster.settle()
    cluster.held.clear()  # 1 came, and its receipt is lost; 2 is lost
    cut(cluster, "D1", "D2")
    assert done == []
    publish(cluster, done, 3, 300)
    cluster.run(2)  # D1 opens the link again
    assert (came(cluster), done) == ([1, 2, 3], [1, 2, 3])


def test_a_home_that_starts_again_gets_what_its_clients_still_want() -> None:
    cluster, done = made(), list[int]()
    cluster.crash("D2")
    publish(cluster, done, 1, 100, 500)
    cluster.run(3)
    assert done == []
    cluster.add("D2")
    cluster.start("D2")
    cluster.ask("D2", "C", Subscribe(subscription("s", "x >= 300", "C")))
    cluster.run(5)
    assert (came(cluster), done) == ([2], [1])
    assert all(effect.routed.publication.again for _, effect in cluster.deliveries)


def test_a_link_to_a_home_comes_back_though_nothing_waits_for_it() -> None:
    cluster, done = made(), list[int]()
    cut(cluster, "D1", "D2")
    cluster.run(30)
    publish(cluster, done, 1, 100)
    cluster.run(1)
    assert (came(cluster), done) == ([1], [1])


def test_a_home_that_stays_away_is_given_up() -> None:
    cluster, done = made(), list[int]()
    cluster.crash("D2")
    publish(cluster, done, 1, 100)
    cluster.publish("D1", 2, x=100)
    cluster.run(8)
    assert done == []
    cluster.run(5)
    assert done == [1]
    publish(cluster, done, 3, 100)
    cluster.settle()
    assert done == [1, 3]
    assert not cluster.unsettled


@pytest.mark.parametrize("seed", range(examples(15)))
def test_order_holds_whatever_happens(seed: int) -> None:
    """Random steps; matchers die, links to the home break; each comes once, in order."""
    random, done = Random(seed), list[int]()
    cluster = made(dimensions=TWO[: random.randint(1, 2)], cores=2)
    number = 0
    for step in range(500):
        match random.randrange(10):
            case 0 | 1:
                xs = [random.randrange(1_000) for _ in range(random.randint(1, 3))]
                publish(cluster, done, number, *xs)
                number += len(xs)
            case 2 if random.random() < 0.1 and ("D1", "D2") in cluster.links:
                cut(cluster, "D1", "D2")
            case 3 if random.random() < 0.2:
                cluster.run(0.5)
            case _:
                cluster.step(random)
        if step in (200, 350):
            cluster.crash(random.choice([name for name in cluster.nodes if name[0] == "M"]))
    cluster.run(60)
    assert came(cluster) == list(range(number))
    assert not cluster.unsettled


def test_who_comes_again_has_other_numbers_than_before() -> None:
    """A number of each publisher was kept for ever, 115 bytes."""
    cluster = made()
    dispatcher = cluster.strategies["D1"].dispatcher
    for first in range(0, 200, 4):
        publish(cluster, [], first, 1, 2, 3, 4)
        cluster.settle()
        cluster.ask("D1", "P", Goodbye())
        assert not dispatcher._numbers
        if first % 16:
            cluster.now_us += 3
    ids = [effect.routed.message_id for _, effect in cluster.deliveries]
    assert [each.number for each in ids] == sorted({each.number for each in ids})
    assert came(cluster) == list(range(200))
