"""The standard's statements about shared subscriptions.

Numbers are those of MQTT Version 5.0, section 4.8.
"""

from __future__ import annotations

import pytest

from shoal.mqtt.codec.packets import (
    Puback,
    Subscribe,
    SubscriptionRequest,
)
from tests.mqtt.broker_api import BrokerApi, Client
from tests.mqtt.connection.standard import CODES, VERSIONS, identified, kept, pair


@pytest.mark.parametrize(
    "topic_filter", ["$share/", "$share/g", "$share/g/", "$share//a", "$share/g+/a"]
)
def test_mqtt_4_8_2_1_and_2_invalid_groups_are_malformed(topic_filter: str) -> None:
    _, client = pair()
    client.send(Subscribe(1, (SubscriptionRequest(topic_filter),)))
    assert [answer.reason_code for answer in client.take()] == [CODES.PROTOCOL_ERROR]
    assert client.closed


def workers(broker_api: BrokerApi, count: int, **fields: object) -> list[Client]:
    clients = [broker_api.connect(f"w{number}", **fields) for number in range(count)]
    for client in clients:
        client.subscribe("$share/g/jobs/#", qos=1)
    return clients


@pytest.mark.parametrize("version", VERSIONS)
def test_4_8_2_each_message_goes_to_one_of_a_group(version: int) -> None:
    broker_api = BrokerApi()
    group = workers(broker_api, 3, version=version)
    other = broker_api.connect("other")
    other.subscribe("$share/h/jobs/#", qos=1)
    publisher = broker_api.connect("p")
    for number in range(6):
        publisher.publish("jobs/x", b"%d" % number, qos=1)
    assert [client.take_payloads() for client in group] == [
        [b"0", b"3"],
        [b"1", b"4"],
        [b"2", b"5"],
    ]
    assert len(other.take_payloads()) == 6


def test_mqtt_4_8_2_3_at_the_qos_of_the_member() -> None:
    publisher, client = pair()
    client.subscribe("$share/g/a", qos=0)
    publisher.publish("a", b"x", qos=2)
    assert [packet.qos for packet in client.take()] == [0]


def test_a_member_who_also_subscribed_for_itself_gets_a_copy_for_each() -> None:
    publisher, client = pair()
    client.subscribe("a", properties=identified(1))
    client.subscribe("$share/g/a", properties=identified(2))
    publisher.publish("a", b"x")
    found = sorted(packet.properties.subscription_identifiers for packet in client.take())
    assert found == [(1,), (2,)]


def test_retained_messages_are_not_for_groups() -> None:
    """Section 3.8.4: a shared subscription gets none when it is made."""
    publisher, client = pair()
    publisher.publish("a", b"x", retain=True)
    client.subscribe("$share/g/a")
    assert client.take() == []


def test_a_disconnected_member_gets_nothing_while_another_is_connected() -> None:
    broker_api = BrokerApi()
    first, second = workers(broker_api, 2, properties=kept())
    publisher = broker_api.connect("p")
    first.lose()
    for number in range(3):
        publisher.publish("jobs/x", b"%d" % number, qos=number % 2)
    assert second.take_payloads() == [b"0", b"1", b"2"]
    second.lose()
    for number in (3, 4):
        publisher.publish("jobs/x", b"%d" % number, qos=1)
    both = [
        broker_api.connect(f"w{number}", clean_start=False, properties=kept()) for number in (0, 1)
    ]
    assert sorted(each for client in both for each in client.take_payloads()) == [b"3", b"4"]
    publisher.publish("jobs/x", b"5", qos=1)
    publisher.publish("jobs/x", b"6", qos=1)
    assert sorted(len(client.take_payloads()) for client in both) == [1, 1]


def test_a_member_that_leaves_the_group_leaves_its_turns_to_the_others() -> None:
    broker_api = BrokerApi()
    group = workers(broker_api, 2)
    publisher = broker_api.connect("p")
    assert group[0].unsubscribe("$share/g/jobs/#").reason_codes == (CODES.SUCCESS,)
    for number in range(2):
        publisher.publish("jobs/x", b"%d" % number)
    assert group[1].take_payloads() == [b"0", b"1"]
    group[1].disconnect()
    publisher.publish("jobs/x", b"2")
    assert group[0].take() == []
    assert broker_api.clients.subscriptions.count == 0


def test_mqtt_4_8_2_6_a_message_that_a_member_refuses_is_not_for_another() -> None:
    broker_api = BrokerApi()
    group = workers(broker_api, 2)
    broker_api.connect("p").publish("jobs/x", b"x", qos=1)
    [packet] = group[0].take()
    group[0].send(Puback(packet.packet_id, CODES.UNSPECIFIED_ERROR))
    assert group[1].take() == []
