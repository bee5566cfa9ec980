"""Random readable packets of clients raise nothing and disturb no other client."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.mqtt.codec.packet_types import MQTT_3_1_1, MQTT_5
from shoal.mqtt.codec.packets import Subscribe, SubscriptionRequest
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.codec.reason_codes import ReasonCode
from tests.examples import examples
from tests.mqtt.broker_api import BrokerApi
from tests.mqtt.network_broker_api import Network
from tests.mqtt.random_packets import connects, packets

VERSIONS = (MQTT_3_1_1, MQTT_5)


@pytest.mark.parametrize("is_networked", [False, True])
@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=examples(30))
@given(data=st.data())
def test_any_packets_raise_nothing_and_disturb_no_client(
    version: int, is_networked: bool, data: st.DataObject
) -> None:
    broker_api: BrokerApi = Network("B1", "B2")["B1"] if is_networked else BrokerApi()
    right = broker_api.connect("right")
    right.subscribe("fine", qos=1)
    clients = []
    for connect in data.draw(st.lists(connects(version), max_size=3)):
        client = broker_api.open(version)
        client.send(connect)
        clients.append(client)
    clients.append(broker_api.connect("one more", version))
    for packet in data.draw(st.lists(packets(version), max_size=8)):
        client = data.draw(st.sampled_from(clients))
        if not client.closed:
            client.send(packet)
        if data.draw(st.booleans()):
            broker_api.after(data.draw(st.integers(0, 100_000)))
    for client in clients:
        if not client.closed and data.draw(st.booleans()):
            client.lose()
    right.take()
    right.publish("fine", b"x", qos=1)
    assert right.take_payloads() == [b"x"]


def test_too_many_reasons_are_cut_to_a_strings_length() -> None:
    client = BrokerApi(maximum_filter_bytes=65_536, maximum_topic_filters=900).connect("c")
    requests = tuple(SubscriptionRequest(f"{'x' * 50}{number}?x>") for number in range(900))
    client.send(Subscribe(1, requests))
    [suback] = client.take()
    assert suback.reason_codes == (ReasonCode.TOPIC_FILTER_INVALID,) * 900
    assert 100 < len(suback.properties.reason_string) < 900


def test_a_long_name_leaves_no_room_for_a_response_topic() -> None:
    properties: Any = Properties(request_response_information=1)
    client = BrokerApi(maximum_client_id_bytes=65_535).connect("é" * 32_767, properties=properties)
    assert client.connack.properties.response_information is None
