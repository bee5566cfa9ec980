"""What a door answers when its broker's system asks about clients."""

from __future__ import annotations

from shoal.broker.messages import Ping, Pong
from shoal.clients.doors import Had, WhoHad
from shoal.clients.messages import CannotMove, PingRequest, PingTimes, Relocate
from shoal.model import MessageId
from shoal.mqtt.door.publishers import AskBroker
from shoal.mqtt.federation.following import ANSWER_US, FRESH_US, Following
from tests.mqtt.network_house import Network

DOOR = "$mqtt/B1"


def following() -> Following:
    federation = Network("B1", "B2")["B1"].clients.federation
    assert federation is not None
    federation.following.servers = {"B2": "h:1", "B3": "h:2"}
    return federation.following


def question(number: int, *brokers: str) -> PingRequest:
    return PingRequest(MessageId("B1", f"c{number}", 1), brokers)


def times(number: int, **round_trip_us: int) -> AskBroker:
    return AskBroker("B1", DOOR, PingTimes(MessageId("B1", f"c{number}", 1), round_trip_us))


def pinged(asks: list[AskBroker]) -> list[str]:
    assert all(isinstance(each.request, Ping) and each.client == DOOR for each in asks)
    return [each.broker for each in asks]


def test_each_broker_is_asked_once_for_all_clients() -> None:
    door = following()
    assert pinged(door.notified(question(1, "B1", "B2", "B3", "B9"), 0)) == ["B2", "B3"]
    assert pinged(door.notified(question(2, "B2", "B1"), 10)) == []
    assert door.ponged("B2", 100) == [times(2, B2=100, B1=0)]
    assert door.ponged("B3", 300) == [times(1, B1=0, B2=100, B3=300)]
    assert door.ponged("B3", 400) == []
    # Nobody can be sent to B9.
    assert door.notified(question(3, "B3", "B9"), FRESH_US) == [times(3, B3=300)]
    assert pinged(door.notified(question(4, "B2", "B3"), FRESH_US + 300)) == ["B2", "B3"]


def test_who_does_not_answer_is_asked_again_for_the_next() -> None:
    door = following()
    assert pinged(door.notified(question(1, "B2"), 0)) == ["B2"]
    assert pinged(door.notified(question(2, "B2"), ANSWER_US - 1)) == []
    assert pinged(door.notified(question(3, "B2"), ANSWER_US)) == ["B2"]
    # The first waits no more.
    assert door.ponged("B2", ANSWER_US + 7) == [times(2, B2=7), times(3, B2=7)]


def test_the_door_itself_cannot_move() -> None:
    door = following()
    declined = [AskBroker("B1", DOOR, CannotMove())]
    assert door.notified(Relocate(("B1", "B2")), 0) == declined
    assert door.notified(PingRequest(MessageId("B1", DOOR, 1), ("B2",)), 0) == declined


def test_nothing_else_is_answered() -> None:
    door = following()
    session = MessageId("B9", "p", 0)
    assert door.notified(WhoHad(session), 0) == []
    assert door.notified(Pong(session), 0) == []
    assert door.ponged("B2", 0) == []
    assert not any(isinstance(each, Had) for each in door.notified(question(1), 0))
