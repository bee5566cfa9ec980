"""Sets and queues of one dimension: versions, replicas, and rates over a window."""

from __future__ import annotations

from random import Random

import pytest

from shoal.broker.messages import RoutedPublication
from shoal.matching.segments import Dimension
from shoal.model import MessageId
from shoal.overlays.bluedove.cluster.members import Segment
from shoal.overlays.bluedove.cluster.planner import Ranges, ranges_of
from shoal.overlays.bluedove.messages import MatcherRow
from shoal.overlays.bluedove.serving.queues import (
    DimensionQueue,
    QueuedMatch,
    QueueTurns,
    SubscriptionSet,
)
from tests.broker.transcript import publication, subscription

SECOND_US = 1_000_000


def waiting(number: int) -> QueuedMatch:
    return QueuedMatch("D1", RoutedPublication(publication(number), MessageId("D1", "P", number)))


def row(name: str, text: str, version: int = 1) -> MatcherRow:
    return MatcherRow(subscription(name, text), "D1", version)


def placed(name: str, text: str, version: int = 1) -> tuple[MatcherRow, Ranges]:
    """A row with its ranges on the only dimension."""
    made = row(name, text, version)
    return made, ranges_of([Dimension(attribute="x")], made.subscription.filter)


def found(rows: SubscriptionSet, x: float) -> list[str]:
    return [row.subscription.id for row in rows.match({"x": x})]


def test_the_latest_version_stays() -> None:
    rows = SubscriptionSet()
    rows.add(*placed("s", "x > 5", 3))
    rows.add(*placed("s", "x < 5", 2))
    assert (found(rows, 9), found(rows, 1)) == (["s"], [])
    rows.remove("s", 2)
    assert len(rows) == 1
    rows.remove("s", 3)
    rows.remove("s", 3)
    assert (len(rows), found(rows, 9)) == (0, [])


def test_replicas_are_not_searched_and_are_replaced_by_originals() -> None:
    rows = SubscriptionSet()
    rows.add_replica(*placed("s", "x > 5"))
    assert (found(rows, 9), len(rows), list(rows.replicas)) == ([], 0, ["s"])
    rows.add(*placed("s", "x > 5"))
    assert (found(rows, 9), rows.replicas) == (["s"], {})
    rows.add_replica(*placed("s", "x > 5"))
    assert rows.replicas == {}
    rows.add_replica(*placed("t", "x > 5", 4))
    rows.remove("t", 4)
    assert rows.replicas == {}


def test_only_subscriptions_that_meet_the_segments_are_kept() -> None:
    rows = SubscriptionSet()
    for name, text in (("low", "x < 5"), ("middle", "x BETWEEN 5 AND 6"), ("high", "x > 8")):
        rows.add(*placed(name, text))
    low, high = Segment(0.0, 5.0), Segment(8.0, 9.0)
    assert [row.subscription.id for row in rows.meeting(high)] == ["high"]
    rows.keep(low, high)
    assert list(rows.rows) == ["low", "high"]
    rows.keep()
    assert len(rows) == 0


def test_rates_are_of_the_window_and_of_matching_time() -> None:
    """Ten arrive in the first second; four cores need 0.1 s for each."""
    queue = DimensionQueue(5 * SECOND_US, cores=4)
    assert queue.load(100, 50.0, 0).matching_per_s == pytest.approx(800_000)
    for number in range(10):
        assert queue.put(waiting(number))
        assert not queue.put(waiting(number))
    assert queue.load(7, 50.0, SECOND_US).queue == 10
    taken = queue.take(4)
    assert not queue.put(taken[0])
    assert (len(queue), queue.load(7, 50.0, SECOND_US).queue) == (
        10,
        6,
    )  # publications in work are not waiting
    queue.done(taken, 400_000)
    while queue.waiting:
        queue.done(queue.take(1), 100_000)
    assert len(queue) == 0
    load = queue.load(7, 50.0, 2 * SECOND_US)
    assert (load.queue, load.arrival_per_s, load.matching_per_s) == (0, 5.0, 40.0)
    later = queue.load(7, 50.0, 20 * SECOND_US)
    assert later.arrival_per_s < 1
    last = queue.load(10, 50.0, 30 * SECOND_US)
    assert (last.arrival_per_s, last.matching_per_s) == (0.0, pytest.approx(8_000_000))


@pytest.mark.parametrize("seed", range(5))
def test_waiting_queues_share_the_work_equally(seed: int) -> None:
    random = Random(seed)
    turns, costs = QueueTurns(3), [random.randint(1, 50) for _ in range(3)]
    shares = [0, 0, 0]
    for _ in range(2_000):
        queue = turns.next([0, 1, 2])
        turns.worked(queue, costs[queue])
        shares[queue] += costs[queue]
    assert max(shares) - min(shares) <= max(costs)


def test_an_empty_queue_saves_no_share_for_later() -> None:
    turns = QueueTurns(2)
    for _ in range(100):
        turns.worked(turns.next([0]), 10)
    turns.wake(1)
    order = []
    for _ in range(6):
        order.append(turns.next([0, 1]))
        turns.worked(order[-1], 10)
    assert sorted(order) == [0, 0, 0, 1, 1, 1]
