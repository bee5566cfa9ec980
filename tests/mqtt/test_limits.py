"""Limits: their ranges, and the requests that they refuse."""

from __future__ import annotations

from itertools import pairwise

import pytest

from shoal.mqtt import content
from shoal.mqtt.access import ClientAdmission, ClientCredentials
from shoal.mqtt.codec.encoder import encode
from shoal.mqtt.codec.packet_types import MQTT_3_1_1, MQTT_5
from shoal.mqtt.codec.packets import (
    Connect,
    Publish,
    Suback,
    Subscribe,
    SubscriptionRequest,
    Unsubscribe,
)
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.codec.requests import MOST_AT_ONCE as MOST_READ_AT_ONCE
from shoal.mqtt.connection.serving import TURN
from shoal.mqtt.content import FILTER_WORK
from shoal.mqtt.limits import _RANGES, MqttLimits
from shoal.mqtt.sessions import subscribing
from shoal.mqtt.sessions.delivering.delivery import MOST_AT_ONCE
from tests.examples import at_length
from tests.mqtt.broker_api import KEPT, BrokerApi
from tests.mqtt.test_users import Users


@pytest.mark.parametrize(("name", "low", "high"), _RANGES)
def test_limits_out_of_range_are_errors(name: str, low: int, high: int) -> None:
    for value in (low, high):
        assert getattr(MqttLimits(**{name: value}), name) == value
    for value in (low - 1, high + 1):
        with pytest.raises(ValueError, match=f"{name} is {value}; it must be between {low}"):
            MqttLimits(**{name: value})


def test_every_number_has_a_range() -> None:
    named = {name for name, _, _ in _RANGES}
    fields = {
        name for name in MqttLimits.__struct_fields__ if type(getattr(MqttLimits(), name)) is int
    }
    assert fields == named


def test_topic_filters_beyond_the_limit_are_refused_and_counted() -> None:
    broker_api = BrokerApi(maximum_topic_filters=2)
    client = broker_api.connect("c")
    client.send(Subscribe(1, tuple(map(SubscriptionRequest, "abcd"))))
    granted, refused = (ReasonCode.SUCCESS,) * 2, (ReasonCode.QUOTA_EXCEEDED,) * 2
    suback = client.take()[0]
    assert suback.reason_codes == granted + refused
    assert suback.properties.reason_string == "more than 2 topic filters"
    notices = broker_api.clients.statistics.notices
    (notice,) = notices.take()
    assert (notice.who.client, notice.where, notice.times) == ("c", "c", 2)
    assert notices.refusals["subscribe refused", "quota exceeded"] == 2
    client.send(Unsubscribe(2, tuple("abc")))
    assert client.take()[0].reason_codes == (*granted, ReasonCode.NO_SUBSCRIPTION_EXISTED)
    assert client.connection.session.subscriptions == {}


MORE = 3 * MOST_READ_AT_ONCE


@pytest.mark.parametrize("version", [MQTT_3_1_1, MQTT_5])
def test_one_packet_may_fill_the_limit(version: int) -> None:
    """After a reconnect mqtt.js subscribes to everything in one packet."""
    broker_api = BrokerApi()
    client, publisher = broker_api.connect("c", version), broker_api.connect("p")
    for first in (0, 1):  # and again, where it has all of them already
        requests = (SubscriptionRequest(f"a/{number}", 1) for number in range(first, MORE))
        client.send(Subscribe(1, tuple(requests)))
        (suback,) = client.take()
        assert suback.reason_codes == (ReasonCode.GRANTED_QOS_1,) * (MORE - first)
    for number in (0, MOST_READ_AT_ONCE, MORE - 1):
        publisher.publish(f"a/{number}", b"%d" % number, qos=1)
        assert client.take_payloads() == [b"%d" % number]
    client.send(Unsubscribe(2, tuple(f"a/{number}" for number in range(MORE))))
    (unsuback,) = client.take()
    assert len(unsuback.reason_codes) == (MORE if version == MQTT_5 else 0)
    assert client.connection.session.subscriptions == {}


def test_other_clients_are_served_meanwhile() -> None:
    broker_api = BrokerApi()
    client, other = broker_api.connect("c"), broker_api.connect("other")
    requests = tuple(SubscriptionRequest(f"a/{number}") for number in range(MORE))
    data = encode(Subscribe(1, requests), MQTT_5)
    for at in range(0, len(data), 1_000):
        broker_api.carry_out(client.connection.receive(data[at : at + 1_000], broker_api.now_us))
    turns = 0
    while client.connection.holds:
        turns += 1
        assert client.take() == []
        assert other.publish("b", b"", qos=1)
        before = len(client.connection.session.subscriptions)
        broker_api.carry_out(client.connection.take_held(broker_api.now_us))
        assert len(client.connection.session.subscriptions) - before <= TURN / FILTER_WORK
    assert turns > 3
    assert len(client.take()[0].reason_codes) == MORE


def test_retained_messages_come_for_all_filters_of_a_packet() -> None:
    broker_api = BrokerApi()
    publisher, client = broker_api.connect("p"), broker_api.connect("c")
    for number in range(MORE):
        publisher.publish(f"a/{number}", b"%d" % number, retain=True)
    requests = tuple(SubscriptionRequest(f"a/{number}", 1) for number in range(MORE))
    client.send(Subscribe(1, requests))
    assert len(client._take_first(Suback).reason_codes) == MORE
    found = client.take_payloads()
    for _ in range(MORE):
        broker_api.after(0.001)
        found += client.take_payloads()
    assert found == [b"%d" % number for number in range(MORE)]


@pytest.mark.parametrize("version", [MQTT_3_1_1, MQTT_5])
def test_nothing_of_a_malformed_packet_is_granted(version: int) -> None:
    client = BrokerApi().connect(
        "c", version, **KEPT if version == MQTT_5 else {"clean_start": False}
    )
    many = encode(Subscribe(1, (SubscriptionRequest("a"),) * MORE), version)
    client.send_bytes(many[:-3] + b"\0\x01#")  # which ends within its options
    assert client.closed
    assert client.broker_api.clients.sessions["c"].subscriptions == {}


def test_a_refusal_for_many_reasons_names_some() -> None:
    broker_api = BrokerApi(Users())
    client = broker_api.connect("c")
    client.send(Subscribe(1, tuple(SubscriptionRequest(f"secret/{n}") for n in range(100))))
    (suback,) = client.take()
    assert suback.reason_codes == (ReasonCode.NOT_AUTHORIZED,) * 100
    assert (suback.properties.reason_string or "").count("no permission") == 8
    (notice,) = broker_api.clients.statistics.notices.take()
    assert (notice.where, notice.times) == ("secret/0", 100)


def test_an_unauthenticated_clients_advertisement_is_not_parsed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class RefusingAccess:
        def admit(self, credentials: ClientCredentials) -> ClientAdmission:
            return ClientAdmission(ReasonCode.NOT_AUTHORIZED)

    parsed: list[str] = []
    monkeypatch.setattr(content, "parse", parsed.append)
    broker_api = BrokerApi()
    broker_api.clients._reception.access = RefusingAccess()
    client = broker_api.open()
    client.send(Connect("c", properties=Properties(user_properties=(("$advertise", "x >"),))))
    assert client.take()[0].reason_code is ReasonCode.NOT_AUTHORIZED
    assert parsed == []


def test_an_advertisement_beyond_the_limit_is_refused() -> None:
    client = BrokerApi(maximum_filter_bytes=4).open()
    client.send(Connect("c", properties=Properties(user_properties=(("$advertise", "x > 1"),))))
    assert client.take()[0].reason_code is ReasonCode.QUOTA_EXCEEDED


def test_other_clients_are_served_while_retained_messages_are_tested(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tested: list[object] = []
    monkeypatch.setattr(subscribing, "matches", lambda *_: tested.append(_))
    broker_api = BrokerApi()
    publisher, client = broker_api.connect("p"), broker_api.connect("c")
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
        assert broker_api.clients.deadline_us == 0
        broker_api.clients.advance(broker_api.now_us)
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


@pytest.mark.parametrize("qos", [1, *at_length([0])])
@pytest.mark.parametrize(("filters", "topic"), HEAVY.values(), ids=list(HEAVY))
def test_expensive_publications_are_handled_in_slices(
    filters: list[str], topic: str, qos: int
) -> None:
    """A client with many subscriptions makes every publication expensive; those of one read are
    divided.
    """
    broker_api = BrokerApi(maximum_topic_filters=100_000, maximum_filter_bytes=65_536)
    greedy, flood = broker_api.connect("greedy"), broker_api.connect("flood")
    for first in range(0, len(filters), 1_000):
        some = filters[first : first + 1_000]
        greedy.send(Subscribe(1, tuple(map(SubscriptionRequest, some))))
        assert set(greedy.take()[0].reason_codes) == {ReasonCode.SUCCESS}
    data = b"".join(
        encode(Publish(topic, b"%d" % number, qos, packet_id=number if qos else 0), MQTT_5)
        for number in range(1, 201)
    )
    before = broker_api.clients.statistics.publications_received
    flood.connection.receive(data, broker_api.now_us)
    assert broker_api.clients.statistics.publications_received - before <= 20
