"""A front end's answers to its broker's system about clients."""

from __future__ import annotations

from shoal.broker.messages import Ping, Pong
from shoal.clients.front_ends import DeliveriesReported, WhoHad
from shoal.clients.messages import CannotMove, PingRequest, PingTimes, Relocate
from shoal.model import MessageId
from shoal.mqtt.federation.following import ANSWER_US, FRESH_US, Following
from shoal.mqtt.front_end.publishers import AskBroker
from tests.mqtt.network_broker_api import Network

FRONT_END = "$mqtt/B1"


def following() -> Following:
    federation = Network("B1", "B2")["B1"].clients.federation
    assert federation is not None
    federation.following.servers = {"B2": "h:1", "B3": "h:2"}
    return federation.following


def question(number: int, *brokers: str) -> PingRequest:
    return PingRequest(MessageId("B1", f"c{number}", 1), brokers)


def times(number: int, **round_trip_us: int) -> AskBroker:
    return AskBroker("B1", FRONT_END, PingTimes(MessageId("B1", f"c{number}", 1), round_trip_us))


def pinged(asks: list[AskBroker]) -> list[str]:
    assert all(isinstance(each.request, Ping) and each.client == FRONT_END for each in asks)
    return [each.broker for each in asks]


def test_each_broker_is_asked_once_for_all_clients() -> None:
    front_end = following()
    assert pinged(front_end.notified(question(1, "B1", "B2", "B3", "B9"), 0)) == ["B2", "B3"]
    assert pinged(front_end.notified(question(2, "B2", "B1"), 10)) == []
    assert front_end.ponged("B2", 100) == [times(2, B2=100, B1=0)]
    assert front_end.ponged("B3", 300) == [times(1, B1=0, B2=100, B3=300)]
    assert front_end.ponged("B3", 400) == []
    # No client can be sent to B9.
    assert front_end.notified(question(3, "B3", "B9"), FRESH_US) == [times(3, B3=300)]
    assert pinged(front_end.notified(question(4, "B2", "B3"), FRESH_US + 300)) == ["B2", "B3"]


def test_a_broker_without_answer_is_asked_again_at_the_next_question() -> None:
    front_end = following()
    assert pinged(front_end.notified(question(1, "B2"), 0)) == ["B2"]
    assert pinged(front_end.notified(question(2, "B2"), ANSWER_US - 1)) == []
    assert pinged(front_end.notified(question(3, "B2"), ANSWER_US)) == ["B2"]
    # The first does not wait longer.
    assert front_end.ponged("B2", ANSWER_US + 7) == [times(2, B2=7), times(3, B2=7)]


def test_the_front_end_itself_cannot_move() -> None:
    front_end = following()
    declined = [AskBroker("B1", FRONT_END, CannotMove())]
    assert front_end.notified(Relocate(("B1", "B2")), 0) == declined
    assert front_end.notified(PingRequest(MessageId("B1", FRONT_END, 1), ("B2",)), 0) == declined


def test_other_questions_are_not_answered() -> None:
    front_end = following()
    session = MessageId("B9", "p", 0)
    assert front_end.notified(WhoHad(session), 0) == []
    assert front_end.notified(Pong(session), 0) == []
    assert front_end.ponged("B2", 0) == []
    assert not any(
        isinstance(each, DeliveriesReported) for each in front_end.notified(question(1), 0)
    )
