"""Subscribers move to where their publications enter: as transcripts, and in a world."""

from __future__ import annotations

from statistics import mean

import pytest

from shoal.broker.messages import Advertise, Publish, Subscribe, Unadvertise, Unsubscribe
from shoal.clients.messages import PingRequest, PingTimes
from shoal.clients.records import MigrationRecord, SubscriberMoveRecord
from shoal.language import parse
from shoal.model import Advertisement, Publication, Subscription
from shoal.overlays.publisher_relocation.choosing import Priority
from shoal.overlays.publisher_relocation.grape.parameters import GrapeParameters, Moves
from shoal.overlays.publisher_relocation.records import SubscriberSelectionRecord
from shoal.overlays.registry import strategy_factory
from shoal.simulation.links.underlay import ConstantUnderlay
from shoal.simulation.service import ServiceCosts
from shoal.simulation.world import World
from tests.broker.transcript import Stage, advertisement, publication, publish, subscription

#  B1 - B2 - B3      P publishes at B1, C subscribes at B3
#        \
#         B4         (no clients)
WEB = (("B1", "B2"), ("B2", "B3"), ("B2", "B4"))
TIMER = ("subscriber", "C")


def staged(moves: Moves = Moves.SUBSCRIBERS) -> Stage:
    """Sessions of three publications."""
    stage = Stage(WEB, "grape", GrapeParameters(trace_session_length=3, moves=moves))
    stage.ask("B1", "P", Advertise(advertisement("a")))
    stage.ask("B3", "C", Subscribe(subscription("s")))
    stage.settle()
    stage.take_transcript()
    return stage


def session(stage: Stage, broker: str = "B1", publisher: str = "P") -> None:
    first = len(stage.deliveries)
    stage.ask(broker, publisher, publish(first, first + 1, first + 2, publisher=publisher))
    stage.settle()


def asked(stage: Stage) -> PingRequest:
    """The last question to a subscriber."""
    _, _, message = stage.notified[-1]
    assert isinstance(message, PingRequest)
    return message


def answer(stage: Stage, client: str = "C", **round_trip_us: int) -> None:
    stage.ask("B3", client, PingTimes(asked(stage).session, round_trip_us))


def test_a_subscriber_moves_to_where_its_publications_enter() -> None:
    stage = staged()
    session(stage)
    said = stage.take_transcript()
    told = [line for line in said if "SessionTraces" in line]
    assert told == [
        "B1 -> B2: SessionTraces B1-P-M0 at B1 (B1 B2 B3)",
        "B2 -> B3: SessionTraces B1-P-M0 at B1 (B1 B2 B3)",
    ]
    # B1 alone costs nothing; the subscriber is asked about its own broker, too, for comparison.
    assert said[-1] == "B3 => C: PingRequest B3-C-M1 (B1 B3)"
    answer(stage, B1=5_000, B3=1_000)
    assert stage.take_transcript() == ["B3 => C: to B1"]
    (record,) = stage.records
    assert isinstance(record, SubscriberSelectionRecord)
    assert (record.broker, record.target, record.publications) == ("B3", "B1", 3)
    assert (record.rate_now, record.rate_target) == (2.0, 0.0)
    assert ("B3", TIMER) not in stage.timers
    # Publishers do not move, and the next session begins.
    session(stage)
    assert sum("TraceInformationRequest" in line for line in stage.take_transcript()) == 2


def test_publishers_move_first_and_subscribers_learn_their_target() -> None:
    stage = staged(Moves.BOTH)
    session(stage)
    said = stage.take_transcript()
    assert "B1 => P: Relocate B1 B2 B3" in said
    assert "B2 -> B3: SessionTraces B1-P-M0 at B3 (B1 B2 B3)" in said
    answer(stage, B3=1_000)
    assert stage.take_transcript() == []
    assert stage.records[-1].target == "B3"  # type: ignore[attr-defined]


def test_no_subscriber_is_told_if_only_publishers_move() -> None:
    stage = staged(Moves.PUBLISHERS)
    session(stage)
    assert not any("SessionTraces" in line or "=> C" in line for line in stage.take_transcript())


def test_a_subscriber_without_delays_stays() -> None:
    stage = staged()
    session(stage)
    late = asked(stage)
    stage.fire("B3", TIMER)
    stage.take_transcript()
    stage.ask("B3", "C", PingTimes(late.session, {"B1": 1, "B3": 1}))
    assert stage.take_transcript() == []
    session(stage)
    assert asked(stage).session != late.session
    answer(stage, B4=1, B3=1)  # nor does one that answers for others
    assert stage.take_transcript()[-1].startswith("B3 => C: PingRequest")
    assert not any(isinstance(each, SubscriberSelectionRecord) for each in stage.records)


@pytest.mark.parametrize("request_", [Unsubscribe("s"), Subscribe(subscription("t", "x > 5"))])
def test_a_changed_subscriber_begins_anew(request_: Unsubscribe | Subscribe) -> None:
    stage = staged()
    session(stage)
    stage.ask("B3", "C", request_)
    stage.settle()
    assert ("B3", TIMER) not in stage.timers
    stage.take_transcript()
    answer(stage, B1=5_000, B3=1_000)
    assert stage.take_transcript() == []


def test_a_subscriber_that_publishes_does_not_move() -> None:
    stage = staged()
    stage.ask("B3", "C", Advertise(advertisement("c", "y > 0", publisher="C")))
    stage.ask("B3", "C", Publish((publication(0, "C", y=1),)))
    stage.settle()
    stage.take_transcript()
    session(stage)
    assert "PingRequest" not in " ".join(stage.take_transcript())
    stage.ask("B3", "C", Unadvertise("c"))
    session(stage)
    assert "PingRequest" in stage.take_transcript()[-1]


def test_a_subscriber_waits_for_every_publishers_session() -> None:
    stage = staged()
    stage.ask("B4", "Q", Advertise(advertisement("q", publisher="Q")))
    stage.settle()
    stage.ask("B4", "Q", publish(0, publisher="Q"))
    stage.settle()
    # One of four publications is untraced: a quarter of the messages might come from elsewhere.
    session(stage)
    assert not any("PingRequest" in line for line in stage.take_transcript())
    stage.ask("B4", "Q", publish(1, 2, publisher="Q"))
    stage.settle()
    assert stage.take_transcript()[-1] == "B3 => C: PingRequest B3-C-M1 (B2 B1 B4 B3)"


# --- in a world -------------------------------------------------------------------------------

LINE = [(f"B{number}", f"B{number + 1}") for number in range(1, 7)]
SECOND_US = 1_000_000


def world(moves: Moves, priority: Priority = Priority.LOAD) -> World:
    """P at B1; one subscriber of everything at B3, one at B7 that receives every second."""
    parameters = GrapeParameters(trace_session_length=20, moves=moves, priority=priority)
    costs = ServiceCosts(
        processing_us=500, matching_us=300, transmission_us=150, client_transmission_us=50
    )
    made = World(LINE, strategy_factory("grape", parameters), ConstantUnderlay(10_000), costs=costs)
    made.add_publisher("P", "B1", "B1")
    made.advertise(0, Advertisement(id="a", publisher="P", filter=parse("x >= 0")))
    for name, broker, filter_text in (("all", "B3", "x >= 0"), ("half", "B7", "odd = 1")):
        made.add_subscriber(name, broker)
        interest = Subscription(id=name, client=name, filter=parse(filter_text))
        made.subscribe(SECOND_US, broker, interest)
    for number in range(1_200):
        at_us = 5 * SECOND_US + number * SECOND_US // 10
        attributes = {"x": number, "odd": number % 2}
        published = Publication(
            publisher="P", sequence=number, published_us=at_us, attributes=attributes
        )
        made.request(at_us, "P", Publish((published,)))
    made.run()
    return made


def late_delay_us(made: World) -> float:
    return mean(
        each.delivered_us - each.publication.published_us
        for each in made.trace.deliveries
        if each.publication.sequence >= 900
    )


def check_deliveries(made: World) -> None:
    """Everything arrived, once and in order."""
    for client, wanted in (("all", range(1_200)), ("half", range(1, 1_200, 2))):
        got = [each.publication.sequence for each in made.trace.deliveries if each.client == client]
        assert got == list(wanted)


@pytest.mark.parametrize(
    ("moves", "places"),
    [
        (Moves.PUBLISHERS, {"all": "B3", "half": "B7"}),
        (Moves.SUBSCRIBERS, {"all": "B1", "half": "B1"}),
    ],
)
def test_a_world_moves_subscribers_without_loss(moves: Moves, places: dict[str, str]) -> None:
    made = world(moves)
    check_deliveries(made)
    assert {row.client: broker for row, broker in made.subscriptions} == places
    kinds = {type(each) for each in made.trace.records}
    assert (MigrationRecord in kinds) == (moves is Moves.PUBLISHERS)
    assert (SubscriberMoveRecord in kinds) == (moves is Moves.SUBSCRIBERS)


def test_publisher_and_subscriber_meet_and_nothing_passes_a_link() -> None:
    made = world(Moves.BOTH)
    check_deliveries(made)
    places = {broker for _, broker in made.subscriptions}
    assert places == {made.publisher_broker("P")}
    hops = [each.hops for each in made.trace.deliveries if each.publication.sequence >= 900]
    assert set(hops) == {0}


def test_for_the_delay_a_client_goes_to_a_broker_near_the_way() -> None:
    alone, moved = world(Moves.PUBLISHERS, Priority.DELAY), world(Moves.SUBSCRIBERS, Priority.DELAY)
    check_deliveries(moved)
    # All places are equally far apart, so no route is faster than the direct one.
    assert late_delay_us(moved) < late_delay_us(alone)
