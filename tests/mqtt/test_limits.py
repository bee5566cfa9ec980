from __future__ import annotations

from itertools import pairwise

import pytest

from shoal.mqtt import content
from shoal.mqtt.access import Admission, Credentials
from shoal.mqtt.codec.encoder import encode
from shoal.mqtt.codec.packet_types import MQTT_5
from shoal.mqtt.codec.packets import Connect, Publish, Subscribe, SubscriptionRequest, Unsubscribe
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.codec.reason_codes import FIRST_ERROR, ReasonCode
from shoal.mqtt.limits import _RANGES, Limits
from shoal.mqtt.sessions import subscribing
from shoal.mqtt.sessions.delivering.delivery import MOST_AT_ONCE
from tests.mqtt.house import House


@pytest.mark.parametrize(("name", "low", "high"), _RANGES)
def test_limits_have_limits(name: str, low: int, high: int) -> None:
    for value in (low, high):
        assert getattr(Limits(**{name: value}), name) == value
    for value in (low - 1, high + 1):
        with pytest.raises(ValueError, match=f"{name} is {value}; it must be between {low}"):
            Limits(**{name: value})


def test_every_number_has_a_range() -> None:
    named = {name for name, _, _ in _RANGES}
    fields = {name for name in Limits.__struct_fields__ if type(getattr(Limits(), name)) is int}
    assert fields == named


def test_of_too_many_topic_filters_those_beyond_are_refused() -> None:
    client = House(maximum_topic_filters=2).connect("c")
    requests = tuple(map(SubscriptionRequest, ("a", "b", "c", "d")))
    client.send(Subscribe(1, requests))
    granted, refused = (ReasonCode.SUCCESS,) * 2, (ReasonCode.QUOTA_EXCEEDED,) * 2
    assert client.take()[0].reason_codes == granted + refused
    client.send(Unsubscribe(2, ("a", "b", "c")))
    assert client.take()[0].reason_codes == (*granted, ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR)
    assert client.connection.session.subscriptions == {}


def test_3_1_1_is_closed_where_it_cannot_be_told_that_it_still_has_subscriptions() -> None:
    client = House(maximum_topic_filters=2).connect("c", version=4)
    client.send(Subscribe(1, tuple(map(SubscriptionRequest, "abc"))))
    assert [code >= FIRST_ERROR for code in client.take()[0].reason_codes] == [False, False, True]
    client.send(Unsubscribe(2, tuple("abc")))
    assert client.closed


def test_what_lies_beyond_is_not_read_but_must_be_there() -> None:
    client = House(maximum_topic_filters=1).connect("c", version=4)
    client.send_bytes("82 09 0001 0001 61 00 0009 62")
    assert client.closed


def test_nothing_a_stranger_advertises_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Nobody:
        def admit(self, credentials: Credentials) -> Admission:
            return Admission(ReasonCode.NOT_AUTHORIZED)

    parsed: list[str] = []
    monkeypatch.setattr(content, "parse", parsed.append)
    house = House()
    house.clients._reception.access = Nobody()
    client = house.open()
    client.send(Connect("c", properties=Properties(user_properties=(("$advertise", "x >"),))))
    assert client.take()[0].reason_code is ReasonCode.NOT_AUTHORIZED
    assert parsed == []


def test_too_much_is_not_advertised() -> None:
    client = House(maximum_filter_bytes=4).open()
    client.send(Connect("c", properties=Properties(user_properties=(("$advertise", "x > 1"),))))
    assert client.take()[0].reason_code is ReasonCode.QUOTA_EXCEEDED


def test_others_have_their_turn_while_retained_messages_are_tested(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tested: list[object] = []
    monkeypatch.setattr(subscribing, "matches", lambda *_: tested.append(_))
    house = House()
    publisher, client = house.connect("p"), house.connect("c")
    for number in range(300):
        publisher.publish(f"a/{number}", b"x", retain=True)
    where = " AND ".join(f"x{number} = 1" for number in range(100))
    client.send(
        Subscribe(
            1,
            (SubscriptionRequest("a/+"),),
            Properties(user_properties=(("$where", where),)),
        )
    )
    turns = [len(tested)]
    while turns[-1] < 300:
        assert house.clients.deadline_us == 0
        house.clients.advance(house.now_us)
        turns.append(len(tested))
    most = MOST_AT_ONCE // 100
    assert max(after - before for before, after in pairwise(turns)) <= most
    assert len(turns) >= 300 // most


MANY = 2_048
TOPIC = "/".join("a" * 11)
ALL_OF_IT = ["/".join("a+"[n >> bit & 1] for bit in range(11)) for n in range(MANY)]
HEAVY = {
    "topic filters that match": (ALL_OF_IT, TOPIC),
    "topic filters that nearly match": ([f"{each}/b" for each in ALL_OF_IT], f"{TOPIC}/c"),
    "filters of content": ([f"{TOPIC}?x!={n}" for n in range(5 * MANY)], TOPIC),
}


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize(("filters", "topic"), HEAVY.values(), ids=list(HEAVY))
def test_publications_that_are_much_work_are_taken_in_turns(
    filters: list[str], topic: str, qos: int
) -> None:
    """Whoever subscribes to much makes every publication work; those of one read are not one."""
    house = House(maximum_topic_filters=100_000, maximum_filter_bytes=65_536)
    greedy, flood = house.connect("greedy"), house.connect("flood")
    for first in range(0, len(filters), 1_000):
        some = filters[first : first + 1_000]
        greedy.send(Subscribe(1, tuple(map(SubscriptionRequest, some))))
        assert set(greedy.take()[0].reason_codes) == {ReasonCode.SUCCESS}
    data = b"".join(
        encode(Publish(topic, b"%d" % number, qos, packet_id=number if qos else 0), MQTT_5)
        for number in range(1, 201)
    )
    before = house.clients.statistics.publications_received
    flood.connection.receive(data, house.now_us)
    assert house.clients.statistics.publications_received - before <= 20
