"""Other brokers as clients: the packets of mosquitto's bridges, and the answers.

mosquitto 2 sets the highest bit of the protocol level of 3.1 and 3.1.1 (`try_private`), publishes
its state to `$SYS/broker/connection/CLIENT/state` (`notifications`), and with version 5 requests
`no local` and `retain as published` itself.
"""

from __future__ import annotations

import pytest

from shoal.mqtt.codec.packet_types import MQTT_3_1_1, MQTT_5
from shoal.mqtt.codec.packets import Connack, Connect, Puback, WillFields
from shoal.mqtt.codec.reason_codes import ReasonCode
from tests.mqtt.broker_api import BrokerApi
from tests.mqtt.connection.standard import CODES, VERSIONS, refused
from tests.mqtt.network_broker_api import Network
from tests.mqtt.test_users import Users

STATE = "$SYS/broker/connection/site/state"
DOWN = WillFields(STATE, b"0", 1, retain=True)
NAME, OLD_NAME = "0004 4d515454", "0006 4d5149736470"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_bridges_state_is_retained(version: int) -> None:
    broker_api = BrokerApi()
    bridge = broker_api.connect("site", version, will=DOWN)
    answer = bridge.publish(STATE, b"1", qos=1, retain=True)
    code = CODES.NO_MATCHING_SUBSCRIBERS if version == MQTT_5 else CODES.SUCCESS
    assert answer == [Puback(1, code)]
    reader = broker_api.connect("reader")
    reader.subscribe("#", qos=1)
    assert reader.take() == []  # as no topic that begins with $
    reader.subscribe("$SYS/broker/connection/+/state", qos=1)
    assert [(each.payload, each.retain) for each in reader.take()] == [(b"1", True)]
    bridge.lose()
    assert [each.payload for each in reader.take()] == [b"0"]


@pytest.mark.parametrize("topic", ["$SYS/broker/uptime", "$SYS/broker/connection/a/b/state"])
def test_a_bridge_cannot_publish_other_system_topics(topic: str) -> None:
    broker_api = BrokerApi()
    client = broker_api.open()
    client.send(Connect("c", will=WillFields(topic, b"0")))
    assert refused(client).reason_code is CODES.NOT_AUTHORIZED
    (answer,) = broker_api.connect("d").publish(topic, b"1", qos=1)
    assert answer.reason_code is CODES.NOT_AUTHORIZED


def test_a_bridge_that_may_not_publish_its_state_is_admitted_without_one() -> None:
    broker_api = BrokerApi(Users())  # clients that may publish below open/
    bridge = broker_api.connect("site", will=DOWN)
    (answer,) = bridge.publish(STATE, b"1", qos=1, retain=True)
    assert answer.reason_code is CODES.NOT_AUTHORIZED
    bridge.lose()
    assert [notice.what for notice in broker_api.clients.statistics.notices.take()] == [
        "publish refused",
        "publish refused",
    ]
    assert broker_api.clients.retained.last(STATE) is None


@pytest.mark.parametrize(
    "hello",
    [
        f"10 10 {NAME} 84 02 0000 0004 73697465",
        f"10 12 {OLD_NAME} 83 02 0000 0004 73697465",
        # Without the bit (`try_private false`) its will has the same content.
        f"10 36 {NAME} 04 26 0000 0004 73697465 0021 {STATE.encode().hex()} 0001 30",
    ],
)
def test_a_3_1_1_bridge_has_no_local_and_retain_as_published(hello: str) -> None:
    broker_api = BrokerApi()
    bridge = broker_api.open(MQTT_3_1_1)
    bridge.send_bytes(hello)
    assert bridge.take() == [Connack()]
    assert bridge.subscribe("mb/#", qos=1).reason_codes == (ReasonCode.GRANTED_QOS_1,)
    bridge.publish("mb/a", b"own", qos=1, retain=True)
    other = broker_api.connect("other")
    other.publish("mb/b", b"kept", retain=True)
    other.publish("mb/c", b"passing")
    found = [(each.payload, each.retain) for each in bridge.take()]
    assert found == [(b"kept", True), (b"passing", False)]


def test_a_lasting_session_remains_a_bridges() -> None:
    broker_api = BrokerApi()
    hello = Connect("site", clean_start=False, version=MQTT_3_1_1, is_bridge=True)
    for is_first in (True, False):
        bridge = broker_api.open(MQTT_3_1_1)
        bridge.send(hello)
        assert bridge.take() == [Connack(session_present=not is_first)]
        if is_first:
            bridge.subscribe("mb/#", qos=1)
        bridge.publish("mb/a", b"own", qos=1)
        assert bridge.take() == []
        bridge.lose()


def test_a_bridge_may_be_a_member_of_a_group() -> None:
    broker_api = BrokerApi()
    bridge = broker_api.open(MQTT_3_1_1)
    bridge.send(Connect("site", version=MQTT_3_1_1, is_bridge=True))
    assert bridge.take() == [Connack()]
    bridge.subscribe("$share/g/mb/#", qos=1)
    broker_api.connect("other").publish("mb/a", b"x", qos=1)
    assert [each.payload for each in bridge.take()] == [b"x"]


@pytest.mark.parametrize("name_and_level", [f"{NAME} 85", f"{NAME} 83", f"{OLD_NAME} 84"])
def test_an_unsupported_level_with_the_bit_is_answered_as_3_1_1(
    name_and_level: str,
) -> None:
    """So mosquitto tries again without it."""
    client = BrokerApi().open(MQTT_3_1_1)
    body = bytes.fromhex(f"{name_and_level} 02 0000 0001 61")
    client.send_bytes(bytes((0x10, len(body))) + body)
    assert client.closed
    assert client.written.hex() == "20020001"


def test_a_bridges_state_is_known_at_every_broker() -> None:
    network = Network("B1", "B2")
    reader = network.sites["B2"].connect("r")
    reader.subscribe("$SYS/broker/connection/+/state", qos=1)
    bridge = network.sites["B1"].connect("site", MQTT_3_1_1, will=DOWN)
    bridge.publish(STATE, b"1", qos=1, retain=True)
    assert reader.take_payloads() == [b"1"]
    bridge.lose()
    assert reader.take_payloads() == [b"0"]
    late = network.sites["B2"].connect("s")
    late.subscribe("$SYS/broker/connection/#")
    assert late.take_payloads() == [b"0"]
