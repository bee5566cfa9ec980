"""A matcher matches a publication that takes long in time slices, and others in between."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from shoal.broker.effects import TimerFired
from shoal.matching import matches
from shoal.overlays.bluedove.serving import queues
from tests.matching.costly import costly
from tests.overlays.bluedove.cluster import Cluster, parameters
from tests.overlays.bluedove.settled import subscribe

COUNT = 40
# A slice that a few of them fill.
SLICE_US = 300


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """One matcher with costly subscriptions, and slices that a few of them fill."""
    monkeypatch.setattr(queues, "SLICE_US", SLICE_US)
    monkeypatch.setattr("shoal.matching.filed.filters.FEW_EXPRESSIONS", 8)
    made = Cluster(parameters("M1", cores=2))
    made.run(3)
    random = Random(3)
    for number in range(COUNT):
        subscribe(made, f"s{number}", costly(random, number), client=f"C{number}")
    made.settle()
    return made


def expected(cluster: Cluster, sequence: int, **attributes: int) -> list[tuple[int, str]]:
    rows = cluster.strategies["M1"].matcher.sets[0].rows
    return sorted(
        (sequence, row.subscription.client)
        for row in rows.values()
        if matches(row.subscription.filter, attributes)
    )


def test_results_are_those_of_one_match(cluster: Cluster) -> None:
    messages = [{"a": 2**60, "b": 30}, {"a": -1, "b": 20}, {"a": 5, "b": 99}, {"x": 700, "a": 1}]
    for sequence, attributes in enumerate(messages, 1):
        cluster.publish("D1", sequence, **attributes)
    cluster.settle()
    found = sorted(row[:2] for row in cluster.delivered())
    assert found == sorted(
        row for n, each in enumerate(messages, 1) for row in expected(cluster, n, **each)
    )
    assert len(found) > COUNT


def test_slices_are_short_and_each_evaluates_something(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, slices = queues.SubscriptionSet, Counter[bool]()
    prepare = rows.prepare

    def counted(self: queues.SubscriptionSet, attributes: dict[str, int]) -> bool:
        is_done = prepare(self, attributes)
        slices[is_done] += 1
        return is_done

    monkeypatch.setattr(rows, "prepare", counted)
    cluster.publish("D1", 1, a=2**60, b=30)
    cluster.publish("D1", 2, a=2**61, b=30)
    while cluster.under_way:
        cluster._arrive(*cluster.under_way.popleft())
    fired = 0
    while work := cluster._work():  # both cores in turn
        place = work[fired % len(work)]
        del cluster.timers[place]
        cluster.handle(place[0], TimerFired(place[1]))
        fired += 1
    assert slices[True] == 2
    assert slices[False] >= 8
    cluster.settle()
    found = sorted(row[:2] for row in cluster.delivered())
    assert found == expected(cluster, 1, a=2**60, b=30) + expected(cluster, 2, a=2**61, b=30)


def test_a_matcher_that_must_forget_returns_what_it_has_in_slices(cluster: Cluster) -> None:
    cluster.publish("D1", 1, a=2**60, b=30)
    while cluster.under_way:
        cluster._arrive(*cluster.under_way.popleft())
    place = cluster._work()[0]
    del cluster.timers[place]
    cluster.handle("M1", TimerFired(place[1]))
    matcher = cluster.strategies["M1"].matcher
    waiting = matcher.forget()
    assert [each.routed.publication.sequence for each in waiting] == [1]
    cluster.settle()
    assert matcher._jobs == matcher._preparing == {}
    assert cluster.delivered() == []
