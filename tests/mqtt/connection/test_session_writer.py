"""Packets to one client: aliases, sizes, and omitted messages."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.mqtt.access import ClientAdmission, ClientCredentials
from shoal.mqtt.codec.packets import Connect
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.connection import incoming
from shoal.mqtt.front_end import network
from shoal.mqtt.front_end.network import FrontEnd
from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.sessions import retained
from shoal.mqtt.sessions.retained import RetainedStore
from tests.mqtt.broker_api import BrokerApi


@pytest.mark.parametrize("qos", [0, 1])
def test_topics_are_shortened_at_every_qos(qos: int) -> None:
    broker_api = BrokerApi()
    publisher = broker_api.connect("p")
    client = broker_api.connect("c", properties=Properties(topic_alias_maximum=1))
    client.subscribe("#", qos=1)
    for _ in range(2):
        publisher.publish("long/topic", b"x", qos=qos)
    found = [(each.topic, each.properties.topic_alias) for each in client.take_publications()]
    assert found == [("long/topic", 1), ("", 1)]


def test_a_topic_that_was_too_large_to_send_is_not_known_by_its_alias() -> None:
    broker_api = BrokerApi()
    publisher = broker_api.connect("p")
    limits = Properties(topic_alias_maximum=1, maximum_packet_size=40)
    client = broker_api.connect("c", properties=limits)
    client.subscribe("#", qos=1)
    for size in (100, 1, 1):
        publisher.publish("a/topic", bytes(size), qos=1)
    found = [(each.topic, each.properties.topic_alias) for each in client.take_publications()]
    assert found == [("a/topic", 1), ("", 1)]


def test_an_in_flight_message_may_be_too_large_for_the_next_connection() -> None:
    broker_api = BrokerApi()
    publisher = broker_api.connect("p")
    kept: dict[str, Any] = {"session_expiry_interval_s": 50}
    client = broker_api.connect("c", properties=Properties(**kept))
    client.subscribe("#", qos=1)
    for size in (100, 1):
        publisher.publish("a", bytes(size), qos=1)
    client.lose()
    properties = Properties(maximum_packet_size=40, **kept)
    again = broker_api.connect("c", clean_start=False, properties=properties)
    assert [len(payload) for payload in again.take_payloads()] == [1]
    assert again.connection.session.inflight == 0


def test_a_code_without_a_3_1_1_connack_form() -> None:
    other = BrokerApi(LaterAccess()).open()
    other.send(Connect("c"))
    reason = "the broker shuts down"
    other.connection.disconnect(ReasonCode.SERVER_SHUTTING_DOWN, reason, other.broker_api.now_us)
    other.broker_api.carry_out(other.broker_api.clients.take_effects())
    [connack] = other.take()
    assert connack.reason_code is ReasonCode.SERVER_UNAVAILABLE
    assert connack.properties.reason_string == reason


class LaterAccess:
    def admit(self, credentials: ClientCredentials) -> ClientAdmission | None:
        return None


# --- bounded caches -------------------------------------------------------------------------------


class CountingPermissions:
    def __init__(self) -> None:
        self.asked: list[str] = []

    def may_publish(self, topic: str) -> bool:
        self.asked.append(topic)
        return True

    def may_subscribe(self, topic_filter: str) -> bool:
        return True


class ImmediateAccess:
    def __init__(self) -> None:
        self.permissions = CountingPermissions()

    def admit(self, credentials: ClientCredentials) -> ClientAdmission | None:
        return ClientAdmission(permissions=self.permissions)


def test_permissions_are_asked_once_for_a_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incoming, "_REMEMBERED_PERMISSIONS", 2)
    access = ImmediateAccess()
    client = BrokerApi(access).connect("c")
    for topic in ("a", "a", "b", "a", "c", "a"):
        client.publish(topic)
    assert access.permissions.asked == ["a", "b", "c", "a"]


def test_messages_that_never_came_back_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "MAX_RECENT", 10)
    front_end = FrontEnd("B1", 0)
    for number in range(100):
        front_end.publish(PublishedMessage("a", b"%d" % number, "p", number))
    assert len(front_end._recent) <= 10
    requests = front_end.take()
    first = requests[-1].request.publications[0]  # type: ignore[attr-defined]
    message = front_end.message(first, 0)
    assert message is not None
    assert message.payload == b"0"


def test_records_of_removals_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retained, "MAX_REMOVALS", 3)
    store = RetainedStore(10)
    for number in range(5):
        store.keep(PublishedMessage(f"t{number}", b"", "p", number))
    assert [message.topic for message in store.history()] == ["t2", "t3", "t4"]
