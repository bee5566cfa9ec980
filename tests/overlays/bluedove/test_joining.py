"""Matchers join and leave a cluster, and no delivery is missed."""

from __future__ import annotations

from random import Random

import pytest

from shoal.broker.messages import Subscribe
from shoal.overlays.bluedove.cluster.members import NOTHING, Segment
from shoal.overlays.bluedove.cluster.planner import Elasticity
from shoal.overlays.bluedove.messages import (
    LeaveCluster,
    LoadReport,
    Split,
    SubscriptionRows,
    Yours,
)
from shoal.overlays.bluedove.records import DeathRecord, ScaleRecord
from shoal.overlays.bluedove.serving.membership import MemberState
from tests.broker.transcript import subscription
from tests.overlays.bluedove.cluster import Cluster, parameters
from tests.overlays.bluedove.settled import made, stored, subscribe


def test_a_joining_matcher_takes_the_upper_half_on_every_dimension() -> None:
    cluster = made("M5")
    subscribe(cluster, "s", "x > 190 AND x < 240 AND y > 900")
    cluster.run(2)
    cluster.start("M5")
    cluster.run(3)
    joined = cluster.strategies["M5"]
    assert joined.membership.state is MemberState.SERVING
    assert joined.matcher.segments == [Segment(125.0, 250.0), Segment(875.0, float("inf"))]
    assert cluster.sent_of(Split) == [("M5", "M1"), ("M5", "M4")]
    cluster.publish("D2", 1, x=200, y=999)
    cluster.settle()
    assert cluster.delivered() == [(1, "C", ("s",))]


@pytest.mark.parametrize("seed", range(8))
def test_no_delivery_is_missed_while_segments_move(seed: int) -> None:
    """Joins and a leave, with subscriptions and publications between any two messages."""
    random = Random(seed)
    cluster = made("M5 M6", publications_per_job=1)
    due, made_at = set(), {}
    moves = {10: lambda: cluster.start("M5"), 30: lambda: cluster.start("M6")}
    moves[60] = lambda: cluster.ask("M2", "operator", LeaveCluster())
    for number in range(120):
        moves.get(number, lambda: None)()
        name, low = f"s{number}", random.randrange(900)
        made_at[name] = low
        home = random.choice(["D1", "D2"])
        cluster.ask(home, "C", Subscribe(subscription(name, f"x >= {low} AND x < {low + 100}")))
        for _ in range(random.randrange(30)):
            cluster.step(random)
        x = random.randrange(1_000)
        asked = {name for name in stored(cluster) if made_at[name] <= x < made_at[name] + 100}
        due |= {(number, name) for name in asked}
        cluster.publish(random.choice(["D1", "D2"]), number, x=x, y=random.randrange(1_000))
        if number % 10 == 9:
            cluster.run(0.5)
    cluster.run(5)
    delivered = [(number, name) for number, _, names in cluster.delivered() for name in names]
    assert len(delivered) == len(set(delivered))
    assert due <= set(delivered)
    states = [cluster.strategies[name].membership.state.value for name in ("M2", "M5", "M6")]
    assert states == ["left", "serving", "serving"]


def test_an_aborted_handover_leaves_the_source_as_it_was() -> None:
    cluster = made("M5")
    subscribe(cluster, "s", "x > 190 AND x < 240 AND y > 900")
    cluster.held[SubscriptionRows] = []
    cluster.start("M5")
    cluster.settle()
    assert len(cluster.held.pop(SubscriptionRows)) == 2
    cluster.crash("M5")
    cluster.run(2)
    assert [cluster.strategies[f"M{n}"].matcher.segments[0] for n in (1, 2)] == [
        Segment(float("-inf"), 250.0),
        Segment(250.0, 500.0),
    ]
    cluster.publish("D1", 1, x=200, y=950)
    cluster.settle()
    assert cluster.delivered() == [(1, "C", ("s",))]


def test_a_segment_that_never_arrived_is_rebuilt_by_its_source() -> None:
    cluster = made("M5")
    subscribe(cluster, "s", "x > 190 AND x < 240 AND y > 900")
    cluster.held[Yours] = []
    cluster.start("M5")
    cluster.settle()
    del cluster.held[Yours]
    cluster.crash("M5")
    cluster.publish("D1", 1, x=200, y=950)
    cluster.run(20)
    assert cluster.strategies["M1"].matcher.segments[0] == Segment(float("-inf"), 250.0)
    assert cluster.delivered() == [(1, "C", ("s",))]


def test_a_leaving_broker_hands_its_segments_to_its_neighbours() -> None:
    cluster = made()
    subscribe(cluster, "s", "x > 510 AND x < 520 AND y < 100")
    cluster.ask("M3", "operator", LeaveCluster())
    cluster.run(3)
    assert cluster.strategies["M3"].membership.state is MemberState.LEFT
    assert cluster.strategies["M3"].matcher.segments == [NOTHING, NOTHING]
    for dimension in range(2):
        served = [cluster.strategies[f"M{n}"].matcher.segments[dimension] for n in (1, 2, 4)]
        assert [low for low, _ in served[1:]] == [high for _, high in served[:-1]]
    cluster.publish("D1", 1, x=515, y=50)
    cluster.settle()
    assert cluster.delivered() == [(1, "C", ("s",))]
    assert not [row for row in cluster.records if isinstance(row, DeathRecord)]


def test_the_last_matcher_cannot_leave() -> None:
    cluster = Cluster(parameters("M1"))
    cluster.run(2)
    cluster.ask("M1", "operator", LeaveCluster())
    assert "M1 is the last matcher, and cannot leave" in cluster.refusals()


def test_the_controller_adds_when_saturated_and_removes_when_idle() -> None:
    cluster = made(
        "M5",
        elastic=True,
        elasticity=Elasticity(patience_us=2_000_000, settle_us=5_000_000, least=4),
    )
    cluster.start("M5")
    cluster.run(3)
    assert cluster.strategies["M5"].membership.state is MemberState.JOINING
    outbox = cluster.strategies["D1"].dispatcher.outbox
    cluster.held[LoadReport] = []
    outbox.utilisations.update(dict.fromkeys(("M1", "M2", "M3", "M4"), 0.95))
    cluster.run(4)
    assert cluster.strategies["M5"].membership.state is MemberState.SERVING
    outbox.utilisations.update(dict.fromkeys(("M1", "M2", "M3", "M4", "M5"), 0.1))
    cluster.run(12)
    scaled = [
        (row.action, row.matcher)
        for row in cluster.records
        if isinstance(row, ScaleRecord) and row.step == "begun"
    ]
    assert scaled[:2] == [("add", "M5"), ("remove", "M1")]
    assert cluster.strategies["M1"].membership.state is MemberState.JOINING
