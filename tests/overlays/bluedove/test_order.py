"""A publisher's order holds whatever matchers do, and at edge brokers that return."""

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
    """A subscriber of everything at D2."""
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


def test_a_publication_matched_early_waits_for_earlier_ones() -> None:
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


def test_other_publishers_do_not_wait() -> None:
    cluster, done = made(dimensions=ONE), list[int]()
    cluster.held[MatchResults] = []
    publish(cluster, done, 1, 100)
    cluster.settle()
    cluster.held.clear()
    cluster.publish("D2", 2, x=900)
    cluster.settle()
    assert came(cluster) == [2]


def test_order_free_does_not_wait() -> None:
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


def test_order_holds_when_the_first_publications_matcher_dies() -> None:
    cluster, done = made(), list[int]()
    cluster.held[MatchResults] = []
    publish(cluster, done, 1, 100)
    cluster.settle()
    ((matcher, _, _),) = cluster.held.pop(MatchResults)
    publish(cluster, done, 2, 100)
    cluster.crash(matcher)
    cluster.run(30)
    assert (came(cluster), done) == ([1, 2], [1, 2])


def test_a_returning_edge_broker_gets_unconfirmed_publications_in_order() -> None:
    cluster, done = made(), list[int]()
    cluster.held |= {Matched: [], Receipt: []}
    publish(cluster, done, 1, 100)
    cluster.settle()
    cluster.release(Matched)
    publish(cluster, done, 2, 500)
    cluster.settle()
    cluster.held.clear()  # 1 arrived, and its receipt is lost; 2 is lost
    cut(cluster, "D1", "D2")
    assert done == []
    publish(cluster, done, 3, 300)
    cluster.run(2)  # D1 opens the link again
    assert (came(cluster), done) == ([1, 2, 3], [1, 2, 3])


def test_a_restarted_edge_broker_gets_publications_that_its_clients_still_want() -> None:
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


def test_a_link_to_an_edge_broker_comes_back_though_nothing_is_queued() -> None:
    cluster, done = made(), list[int]()
    cut(cluster, "D1", "D2")
    cluster.run(30)
    publish(cluster, done, 1, 100)
    cluster.run(1)
    assert (came(cluster), done) == ([1], [1])


def test_an_edge_broker_that_stays_down_is_given_up() -> None:
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
def test_order_holds_under_random_deaths_and_breaks(seed: int) -> None:
    """Random steps; matchers die, links to the edge broker break; each arrives once, in order."""
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


def test_a_returning_publisher_gets_new_numbers() -> None:
    """So no number of a past publisher is kept, which took 115 bytes each."""
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
