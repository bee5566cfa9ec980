"""The protocol in clusters at rest: storage of subscriptions, answers, and recovery from faults."""

from __future__ import annotations

from random import Random

import pytest

from shoal.broker.effects import LinkChanged, LinkState, Received
from shoal.broker.messages import Advertise, Rejected, Subscribe, Unadvertise, Unsubscribe
from shoal.clients.messages import PingTimes
from shoal.matching.segments import Dimension, Range
from shoal.model import Filter, MessageId
from shoal.overlays.bluedove.cluster.members import Segment
from shoal.overlays.bluedove.messages import (
    LeaveCluster,
    LoadReport,
    MailboxOpened,
    MatchAnswer,
    Matched,
    MatchRequest,
    OpenMailbox,
    Poll,
    Receipt,
    Store,
    Stored,
)
from shoal.overlays.bluedove.parameters import DeliveryOrder, full_replication, peer_to_peer
from shoal.overlays.bluedove.records import DeathRecord
from shoal.overlays.bluedove.serving.membership import MemberState
from tests.broker.transcript import advertisement, publish, subscription
from tests.overlays.bluedove.cluster import Cluster, parameters
from tests.overlays.bluedove.settled import X, made, stored, subscribe


def test_a_publication_takes_one_hop_to_a_matcher_and_one_to_the_edge_broker() -> None:
    cluster = made(order=DeliveryOrder.FREE)
    subscribe(cluster, "s", "x >= 300 AND x < 600 AND y < 100", at="D2")
    assert cluster.matchers_with("s") == {"M1": [1], "M2": [0], "M3": [0]}
    assert stored(cluster) == ["s"]
    cluster.publish("D1", 1, x=550, y=50)
    cluster.publish("D1", 2, x=550, y=150)
    cluster.settle()
    assert cluster.delivered() == [(1, "C", ("s",))]
    assert [effect.hops for _, effect in cluster.deliveries] == [2]
    assert len(cluster.sent_of(MatchRequest)) == 2
    assert len(cluster.sent_of(MatchAnswer)) == 2
    assert cluster.sent_of(Receipt) == [("D2", "D1")]
    assert len(cluster.strategies["D1"].dispatcher.outbox) == 0


def test_a_subscription_without_a_test_of_a_dimension_is_on_all_its_segments() -> None:
    cluster = made()
    subscribe(cluster, "s", "x = 10")
    assert cluster.matchers_with("s") == {"M1": [0, 1], "M2": [1], "M3": [1], "M4": [1]}
    subscribe(cluster, "open", "x > 700 AND y > 800")
    assert cluster.matchers_with("open") == {"M3": [0], "M4": [0, 1]}
    subscribe(cluster, "never", "x < 1 AND x > 2")
    assert cluster.matchers_with("never") == {}
    assert stored(cluster) == ["s", "open", "never"]
    cluster.publish("D1", 1, x=10)
    cluster.settle()
    assert cluster.delivered() == [(1, "C", ("s",))]


def test_copies_of_one_matcher_are_replicated_to_its_clockwise_neighbour() -> None:
    cluster = made()
    subscribe(cluster, "s", "x = 900 AND y = 900")
    assert cluster.matchers_with("s") == {"M4": [0, 1]}
    replicas = {
        name: [n for n, rows in enumerate(strategy.matcher.sets) if "s" in rows.replicas]
        for name, strategy in cluster.strategies.items()
        if strategy.matcher is not None
    }
    assert replicas == {"M1": [0, 1], "M2": [], "M3": [], "M4": []}


def test_replacing_and_unsubscribing_reach_every_copy() -> None:
    cluster = made()
    subscribe(cluster, "s", "x < 300")
    subscribe(cluster, "s", "x > 700")
    cluster.publish("D1", 1, x=100, y=1)
    cluster.publish("D1", 2, x=800, y=1)
    cluster.settle()
    assert cluster.delivered() == [(2, "C", ("s",))]
    cluster.ask("D1", "C", Unsubscribe("s"))
    cluster.publish("D1", 3, x=800, y=1)
    cluster.settle()
    assert cluster.delivered() == [(2, "C", ("s",))]
    assert cluster.matchers_with("s") == {}


def test_a_match_that_its_edge_broker_does_not_know_is_not_delivered_and_is_dropped() -> None:
    cluster = made()
    subscribe(cluster, "s", "x < 200 AND y < 200")
    cluster.strategies["D1"].dispatcher.home._placements.clear()
    cluster.publish("D1", 1, x=100, y=100)
    cluster.settle()
    assert cluster.delivered() == []
    assert cluster.matchers_with("s") == {}


def test_a_subscription_is_stored_when_every_owner_has_it() -> None:
    cluster = made()
    cluster.held[Stored] = []
    subscribe(cluster, "s", "x < 600 AND y = 900")
    assert stored(cluster) == []
    waiting = cluster.held.pop(Stored)
    cluster.under_way.extend(waiting[:-1])
    cluster.settle()
    assert stored(cluster) == []
    cluster.under_way.extend(waiting[-1:])
    cluster.settle()
    assert stored(cluster) == ["s"]


def test_an_edge_broker_repeats_a_request_that_a_matcher_does_not_answer() -> None:
    cluster = made()
    cluster.held[Store] = []
    subscribe(cluster, "s", "x < 200 AND y < 200")
    lost = cluster.held.pop(Store)
    assert lost
    cluster.run(5)
    assert stored(cluster) == ["s"]


# --- faults -----------------------------------------------------------------------------------


def test_another_candidate_is_used_when_the_matcher_is_gone() -> None:
    cluster = made()
    subscribe(cluster, "s", "x < 200 AND y > 800", at="D2")
    cluster.held[MatchRequest] = []
    cluster.publish("D1", 1, x=100, y=900)
    ((_, first, _),) = cluster.held.pop(MatchRequest)
    cluster.crash(first)
    cluster.settle()
    assert cluster.delivered() == [(1, "C", ("s",))]
    assert {target for _, target in cluster.sent_of(MatchRequest)} == {"M1", "M4"}


def test_another_candidate_is_used_when_the_matcher_stays_silent() -> None:
    cluster = made()
    subscribe(cluster, "s", "x < 200 AND y > 800", at="D2")
    cluster.held |= {MatchRequest: [], LoadReport: []}
    cluster.publish("D1", 1, x=100, y=900)
    assert len(cluster.held.pop(MatchRequest)) == 1
    cluster.run(6)
    assert cluster.delivered() == [(1, "C", ("s",))]
    assert len(set(cluster.sent_of(MatchRequest))) == 2


def test_publications_of_a_matcher_that_restarted_unnoticed_go_to_another() -> None:
    """It may continue gossip, so that it is not silent; but its state is lost."""
    cluster = made()
    subscribe(cluster, "s", "x < 200 AND y > 800", at="D2")
    cluster.held[MatchRequest] = []
    cluster.publish("D1", 1, x=100, y=900)
    ((_, first, _),) = cluster.held.pop(MatchRequest)
    cluster.settle()
    assert cluster.delivered() == []
    cluster.handle("D1", LinkChanged(first, LinkState.UP))
    cluster.settle()
    assert cluster.delivered() == [(1, "C", ("s",))]


def test_a_slow_matcher_matches_a_retransmission_once() -> None:
    cluster = made(order=DeliveryOrder.FREE)
    subscribe(cluster, "s", "x < 200 AND y > 800", at="D2")
    cluster.run(3)  # the loads are known, and do not change
    cluster.held |= {MatchRequest: []}
    cluster.publish("D1", 1, x=100, y=900)
    ((source, matcher, message),) = cluster.held.pop(MatchRequest)
    for _ in range(3):
        cluster.handle(matcher, Received(source, message))
    cluster.settle()
    assert cluster.sent_of(MatchAnswer) == [(matcher, "D1")]
    assert cluster.delivered() == [(1, "C", ("s",))]
    cluster.sent.clear()
    cluster.run(1)
    assert (matcher, "D1") in cluster.sent_of(LoadReport)


def test_a_publication_is_kept_until_edge_brokers_have_it_and_delivered_once() -> None:
    """The matcher answers and dies; its message to the edge broker may be lost or not."""
    for home_has_it in (False, True):
        cluster = made(order=DeliveryOrder.FREE)
        subscribe(cluster, "s", "x < 200 AND y > 800", at="D2")
        cluster.held |= {Matched: [], Receipt: []}
        cluster.publish("D1", 1, x=100, y=900)
        cluster.settle()
        assert len(cluster.strategies["D1"].dispatcher.outbox) == 1
        ((first, _, _),) = cluster.held[Matched]
        if home_has_it:
            cluster.release(Matched)
            cluster.settle()
        cluster.held.clear()
        cluster.crash(first)
        cluster.settle()
        assert cluster.delivered() == [(1, "C", ("s",))]
        assert len(cluster.strategies["D1"].dispatcher.outbox) == 0


def test_publications_beyond_the_bound_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.overlays.bluedove.dispatching.dispatcher.MAX_KEPT", 2)
    cluster = made()
    cluster.held[MatchRequest] = []
    for number in (1, 2, 3):
        cluster.publish("D1", number, x=100, y=900)
    assert cluster.refusals() == ["D1 keeps 2 publications"]
    assert isinstance(cluster.notified[-1][2], Rejected)


def test_a_dead_edge_broker_is_not_waited_for() -> None:
    cluster = made()
    subscribe(cluster, "s", "x < 200", at="D2")
    cluster.held[Matched] = []
    cluster.publish("D1", 1, x=100, y=900)
    cluster.settle()
    cluster.crash("D2")
    cluster.settle()
    assert len(cluster.strategies["D1"].dispatcher.outbox) == 0


def squares(cluster: Cluster, count: int) -> None:
    """Subscriptions to squares, at either dispatcher."""
    random = Random(3)
    for number in range(count):
        low, high = random.randrange(800), random.randrange(800)
        text = f"x >= {low} AND x < {low + 200} AND y >= {high} AND y < {high + 200}"
        subscribe(cluster, f"s{number}", text, at=random.choice(["D1", "D2"]))


def test_a_death_costs_ranges_of_new_rows_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """With those of all rows at all matchers a death among 40,000 held each of them for seconds."""
    cluster = made()
    squares(cluster, 40)
    before = sum(len(rows) for rows in cluster.strategies["M2"].matcher.sets)
    find, asked = Dimension.ranges, []

    def ranges(dimension: Dimension, filter: Filter) -> tuple[Range, ...]:
        asked.append(filter)
        return find(dimension, filter)

    monkeypatch.setattr(Dimension, "ranges", ranges)
    cluster.crash("M3")
    cluster.run(20)
    added = sum(len(rows) for rows in cluster.strategies["M2"].matcher.sets) - before
    assert 0 < len(asked) <= 2 * added


def test_dead_matchers_segments_are_rebuilt_from_other_dimensions() -> None:
    cluster = made()
    squares(cluster, 40)
    cluster.crash("M3")
    cluster.run(20)
    assert {row.dead for row in cluster.records if isinstance(row, DeathRecord)} == {"M3"}
    assert cluster.strategies["M2"].matcher.segments == [Segment(250.0, 750.0)] * 2
    served = cluster.strategies["M2"].matcher.sets
    for dimension, rows in enumerate(served):
        expected = {
            placement.row.subscription.id
            for name in ("D1", "D2")
            for placement in cluster.strategies[name].dispatcher.home._placements.values()
            if Segment(250.0, 750.0).meets(placement.ranges[dimension])
        }
        assert rows.rows.keys() == expected


def test_subscriptions_with_all_copies_lost_come_from_their_edge_brokers() -> None:
    cluster = Cluster(parameters(dimensions=(X,)))
    cluster.run(2)
    subscribe(cluster, "s", "x > 510 AND x < 520")
    assert cluster.matchers_with("s") == {"M3": [0]}
    cluster.crash("M3")
    cluster.publish("D1", 1, x=515)
    cluster.run(20)
    assert cluster.matchers_with("s") == {"M2": [0]}
    assert cluster.delivered() == [(1, "C", ("s",))]


def test_a_restarted_matcher_does_not_take_its_first_segments() -> None:
    cluster = made()
    subscribe(cluster, "s", "x > 510 AND x < 520 AND y < 100")
    cluster.crash("M3")
    cluster.run(20)
    cluster.add("M3")
    cluster.start("M3")
    cluster.settle()
    assert cluster.strategies["M3"].membership.state in (MemberState.JOINING, MemberState.SERVING)
    cluster.run(5)
    assert cluster.strategies["M3"].membership.state is MemberState.SERVING
    segments = [cluster.strategies[name].matcher.segments for name in ("M1", "M2", "M3", "M4")]
    for dimension in range(2):
        covered = sorted(row[dimension] for row in segments)
        assert [low for low, _ in covered[1:]] == [high for _, high in covered[:-1]]
    cluster.publish("D1", 1, x=515, y=5)
    cluster.settle()
    assert cluster.delivered() == [(1, "C", ("s",))]


def test_a_restarted_dispatcher_learns_the_table_and_its_clients_return() -> None:
    cluster = made()
    cluster.crash("D2")
    cluster.add("D2")
    cluster.start("D2")
    cluster.settle()
    subscribe(cluster, "s", "x = 10", at="D2")
    cluster.run(2)
    cluster.publish("D1", 1, x=10)
    cluster.settle()
    assert cluster.delivered() == [(1, "C", ("s",))]


def test_a_matcher_declared_dead_drops_its_segments_and_joins_anew() -> None:
    cluster = made()
    subscribe(cluster, "s", "x > 510 AND x < 520 AND y < 100")
    for name in sorted(cluster.nodes):
        if name != "M3":
            cluster.links -= {("M3", name), (name, "M3")}
    cluster.run(16)
    assert cluster.strategies["M2"].matcher.segments[0] == Segment(250.0, 750.0)
    for name in sorted(cluster.nodes):
        if name != "M3":
            cluster.links |= {("M3", name), (name, "M3")}
    cluster.run(30)
    lives = [cluster.strategies[name].membership for name in ("M1", "M2", "M3", "M4")]
    assert {life.state for life in lives} == {MemberState.SERVING}
    assert cluster.strategies["M3"].matcher.segments[0] != Segment(500.0, 750.0)
    cluster.publish("D1", 1, x=515, y=5)
    cluster.run(5)
    assert cluster.delivered() == [(1, "C", ("s",))]


# --- clients, baselines, misuse ---------------------------------------------------------------


def test_a_mailbox_keeps_deliveries_until_it_is_polled() -> None:
    cluster = made()
    cluster.ask("D1", "phone", OpenMailbox())
    assert cluster.notified[-1] == ("D1", "phone", MailboxOpened("D1/phone"))
    subscribe(cluster, "s", "x > 0", client="phone")
    for number in (1, 2, 3):
        cluster.publish("D2", number, x=number, y=1)
    cluster.settle()
    assert cluster.delivered() == []
    cluster.ask("D1", "phone", Poll("D1/phone", 2))
    assert len(cluster.delivered()) == 2
    cluster.ask("D1", "thief", Poll("D1/phone", 2))
    assert cluster.refusals() == ["thief has no mailbox 'D1/phone' here"]


def test_full_replication_stores_every_subscription_at_every_matcher() -> None:
    cluster = Cluster(full_replication(X, dispatchers=("D1",), matchers=("M1", "M2", "M3")), "M4")
    cluster.run(2)
    subscribe(cluster, "s", "x = 5")
    cluster.start("M4")
    cluster.run(3)
    subscribe(cluster, "t", "x = 5")
    assert cluster.matchers_with("s") == cluster.matchers_with("t")
    assert sorted(cluster.matchers_with("s")) == ["M1", "M2", "M3", "M4"]
    for number in range(20):
        cluster.publish("D1", number, x=5)
    cluster.settle()
    assert len(cluster.delivered()) == 20
    assert len(set(cluster.sent_of(MatchRequest))) > 1
    cluster.ask("M2", "operator", LeaveCluster())
    cluster.run(3)
    cluster.publish("D1", 21, x=5)
    cluster.settle()
    assert len(cluster.delivered()) == 21


def test_peer_to_peer_has_one_candidate_for_each_publication() -> None:
    cluster = Cluster(peer_to_peer(X, dispatchers=("D1",), matchers=("M1", "M2")))
    cluster.run(2)
    subscribe(cluster, "s", "x = 5")
    assert cluster.matchers_with("s") == {"M1": [0]}
    cluster.publish("D1", 1, x=5)
    cluster.settle()
    assert cluster.sent_of(MatchRequest) == [("D1", "M1")]


def test_invalid_messages_are_refused() -> None:
    cluster = made()
    subscribe(cluster, "s", "x = 5")
    wrong = [
        ("D1", "E", Subscribe(subscription("s", "x = 6", "E"))),
        ("D1", "E", Unsubscribe("s")),
        ("D1", "E", Poll("D1/E", 1)),
        ("D1", "E", PingTimes(MessageId("D1", "E", 0), {})),
        ("M1", "E", Subscribe(subscription("t", "x = 6", "E"))),
    ]
    for broker, client, request in wrong:
        cluster.ask(broker, client, request)
    assert len(cluster.refusals()) == len(wrong)
    cluster.ask("D1", "P", Advertise(advertisement("a")), Unadvertise("a"))
    cluster.ask("D1", "Q", publish(1, publisher="P"))
    assert len(cluster.refusals()) == len(wrong)
    assert isinstance(cluster.notified[-1][2], Rejected)
    assert cluster.delivered() == []
