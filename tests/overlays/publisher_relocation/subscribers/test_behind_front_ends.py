"""Subscribers behind a front end, which reports the deliveries of each."""

from __future__ import annotations

import pytest

from shoal.broker.messages import Advertise, Subscribe
from shoal.clients.front_ends import DeliveriesReported, StandsFor, WhoHad
from shoal.clients.messages import PingRequest, PingTimes
from shoal.model import MessageId
from shoal.overlays.publisher_relocation.grape.parameters import GrapeParameters, Moves
from shoal.overlays.publisher_relocation.records import SubscriberSelectionRecord
from tests.broker.transcript import Stage, advertisement, publish, subscription

# P publishes at B1; the front end D at B3 has subscribed, and so has C, a client of its own.
WEB = (("B1", "B2"), ("B2", "B3"))


def staged(moves: Moves = Moves.SUBSCRIBERS, publisher: str = "P") -> Stage:
    """Sessions of three publications."""
    stage = Stage(WEB, "grape", GrapeParameters(trace_session_length=3, moves=moves))
    if moves is not Moves.PUBLISHERS:
        stage.ask("B3", "D", StandsFor())
    stage.ask("B1", publisher, Advertise(advertisement("a", publisher=publisher)))
    stage.ask("B3", "D", Subscribe(subscription("d", client="D")))
    stage.settle()
    stage.take_transcript()
    return stage


def session(stage: Stage, publisher: str = "P") -> MessageId:
    """One more session; the front end's questions."""
    first = len(stage.deliveries)
    stage.ask("B1", publisher, publish(first, first + 1, first + 2, publisher=publisher))
    stage.settle()
    questions = [each for _, name, each in stage.notified if name == "D"]
    found = [each for each in questions if isinstance(each, WhoHad)]
    return found[-1].session


def pinged(stage: Stage) -> PingRequest:
    _, client, message = stage.notified[-1]
    assert client == "D"
    assert isinstance(message, PingRequest)
    return message


def test_a_front_end_reports_a_clients_deliveries_and_delays() -> None:
    stage = staged()
    asked = session(stage)
    assert stage.take_transcript()[-1] == "B3 => D: WhoHad"
    stage.ask("B3", "D", DeliveriesReported(asked, {"one": 0b111, "two": 0b001}))
    question = pinged(stage)
    assert (question.session.publisher, question.brokers) == ("one", ("B1", "B3"))
    stage.take_transcript()
    stage.ask("B3", "D", PingTimes(question.session, {"B1": 5_000, "B3": 0}))
    assert stage.take_transcript() == ["B3 => one: to B1"]
    # The first publication is there for "two", as for others.
    (record,) = stage.records
    assert isinstance(record, SubscriberSelectionRecord)
    assert (record.subscriber, record.publications) == ("one", 3)
    assert record.rate_now == pytest.approx(4 / 3)


def test_a_session_of_several_clients_separates_other_deliveries() -> None:
    stage = staged()
    stage.ask("B3", "D", DeliveriesReported(session(stage), {"two": 0b001}, others=0b111, times=3))
    stage.ask("B3", "D", PingTimes(pinged(stage).session, {"B1": 5_000, "B3": 0}))
    (record,) = stage.records
    assert isinstance(record, SubscriberSelectionRecord)
    assert (record.publications, record.rate_now, record.target) == (3, 0, "B3")


def test_a_client_with_many_untraced_deliveries_waits() -> None:
    stage = staged()
    stage.ask("B3", "D", DeliveriesReported(session(stage), {"one": 0b111}, untold={"one": 1}))
    assert isinstance(stage.notified[-1][2], WhoHad)


def test_a_changed_or_departed_client_begins_anew() -> None:
    stage = staged()
    stage.ask("B3", "D", DeliveriesReported(session(stage), {"one": 0b111}))
    late = pinged(stage)
    stage.ask("B3", "D", DeliveriesReported(session(stage), {}, gone=("one", "nobody")))
    stage.take_transcript()
    stage.ask("B3", "D", PingTimes(late.session, {"B1": 5_000, "B3": 0}))
    assert "PingTimes" not in " ".join(stage.take_transcript())
    assert not any(isinstance(row, SubscriberSelectionRecord) for row in stage.records)
    assert ("B3", ("subscriber", "one")) not in stage.timers


def test_only_front_ends_answer_and_only_requested_clients() -> None:
    stage = staged()
    asked = session(stage)
    stage.ask("B3", "C", DeliveriesReported(asked, {"one": 0b111}))
    assert stage.refusals() == ["DeliveriesReported is not expected from client C"]
    stage.ask(
        "B3",
        "D",
        DeliveriesReported(asked, {"one": 0b111}),
        DeliveriesReported(asked, {"other": 0b111}),
    )
    assert pinged(stage).session.publisher == "one"
    stage.ask("B3", "C", PingTimes(pinged(stage).session, {"B1": 1, "B3": 9_000}))
    assert stage.refusals()[1:] == ["session B3-one-M1 is not one of C"]


def test_front_ends_are_not_asked_if_subscribers_stay() -> None:
    stage = staged(Moves.PUBLISHERS)
    stage.ask("B1", "P", publish(0, 1, 2))
    stage.settle()
    assert "D" not in [client for _, client, _ in stage.notified]
    stage.ask("B3", "D", StandsFor())
    assert stage.refusals() == ["StandsFor is not expected from client D"]


def test_a_front_end_that_publishes_stays_and_subscribers_go_where_it_is() -> None:
    stage = staged(Moves.BOTH, publisher="Q")
    stage.ask("B1", "Q", StandsFor())
    asked = session(stage, "Q")
    said = stage.take_transcript()
    assert not any("Relocate" in line or "=> Q: Ping" in line for line in said)
    assert "B2 -> B3: SessionTraces B1-Q-M0 at B1 (B1 B2 B3)" in said
    stage.ask("B3", "D", DeliveriesReported(asked, {"one": 0b111}))
    stage.ask("B3", "D", PingTimes(pinged(stage).session, {"B1": 5_000, "B3": 0}))
    assert stage.take_transcript()[-1] == "B3 => one: to B1"
