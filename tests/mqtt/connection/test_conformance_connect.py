"""The standard's statements about connecting, staying connected and disconnecting.

Numbers are those of MQTT Version 5.0, sections 3.1, 3.2, 3.12, 3.14, 3.15, 4.12 and 4.13, or of
MQTT Version 3.1.1 where a name says so.
"""

from __future__ import annotations

import pytest

from shoal.mqtt.codec.packet_types import MQTT_3_1_1, MQTT_5
from shoal.mqtt.codec.packets import (
    Auth,
    Connack,
    Connect,
    Disconnect,
    Pingreq,
    Pingresp,
    Publish,
)
from shoal.mqtt.codec.properties import Properties
from tests.mqtt.broker_api import BrokerApi, will
from tests.mqtt.connection.standard import CODES, VERSIONS, refused

NAME = "0004 4d515454"


# --- the first packet -----------------------------------------------------------------------------


@pytest.mark.parametrize("data", ["c000", "3004 0001 61 00", "f000", "2003 000000", "ff00", "0000"])
def test_mqtt_3_1_0_1_the_first_packet_is_connect(data: str) -> None:
    """Any other first packet closes the connection without an answer, as the version is unknown."""
    client = BrokerApi().open()
    client.send_bytes(data)
    assert client.closed
    assert client.take() == []


@pytest.mark.parametrize("version", VERSIONS)
def test_mqtt_3_1_0_2_a_second_connect_is_an_error(version: int) -> None:
    client = BrokerApi().connect("c", version)
    client.send(Connect(client_id="c", version=version))
    assert client.closed
    codes = [packet.reason_code for packet in client.take()]
    assert codes == ([CODES.PROTOCOL_ERROR] if version == MQTT_5 else [])


def test_mqtt_3_1_2_1_another_protocol_gets_no_answer() -> None:
    client = BrokerApi().open()
    client.send_bytes("10 0d 0004 48545450 05 02 0000 00 0000")
    assert client.closed
    assert client.written == b""


@pytest.mark.parametrize(
    ("name", "level", "version"),
    [(NAME, "03", MQTT_3_1_1), ("0006 4d5149736470", "04", MQTT_3_1_1), (NAME, "06", MQTT_5)],
)
def test_mqtt_3_1_2_2_another_version_is_refused(name: str, level: str, version: int) -> None:
    """As 3.1.1 requires [MQTT-3.1.2-2 of 3.1.1] and, above 5, as 5 does."""
    client = BrokerApi().open(version)
    body = bytes.fromhex(f"{name} {level} 02 0000 00 0000")
    client.send_bytes(bytes((0x10, len(body))) + body)
    assert refused(client).reason_code is CODES.UNSUPPORTED_PROTOCOL_VERSION


def test_mqtt_3_1_is_served_as_3_1_1() -> None:
    client = BrokerApi().open(MQTT_3_1_1)
    client.send_bytes("10 0f 0006 4d5149736470 03 02 0000 0001 63")
    assert client.take() == [Connack()]
    assert client.subscribe("a", qos=1).reason_codes == (CODES.GRANTED_QOS_1,)


@pytest.mark.parametrize(
    "packet",
    [
        "1f 0f 0006 4d5149736470 03 02 0000 0001 63",  # the fixed header's
        "10 0f 0006 4d5149736470 03 03 0000 0001 63",  # the lowest connect flag
        "10 0f 0006 4d5149736470 03 2a 0000 0001 63",  # QoS and retain of no will
    ],
)
def test_flags_without_a_meaning_in_3_1_are_ignored(packet: str) -> None:
    """As mosquitto does; 3.1.1 was the first to forbid them."""
    client = BrokerApi().open(MQTT_3_1_1)
    client.send_bytes(packet)
    assert client.take() == [Connack()]


def test_a_client_identifier_with_control_characters_is_not_valid() -> None:
    client = BrokerApi().open()
    client.send(Connect("a\x7f"))
    assert refused(client).reason_code is CODES.CLIENT_IDENTIFIER_NOT_VALID


def test_mqtt_3_1_4_1_a_malformed_connect_is_refused_with_its_reason() -> None:
    client = BrokerApi().open()
    client.send_bytes(f"10 0d {NAME} 05 03 0000 00 0000")
    connack = refused(client)
    assert connack.reason_code is CODES.MALFORMED_PACKET
    assert "reserved flag" in (connack.properties.reason_string or "")


def test_3_1_1_gets_no_connack_for_a_malformed_connect() -> None:
    client = BrokerApi().open(MQTT_3_1_1)
    client.send_bytes(f"10 0c {NAME} 04 03 0000 0000")
    assert client.closed
    assert client.take() == []


# --- client identifiers ---------------------------------------------------------------------------


@pytest.mark.parametrize("clean_start", [True, False])
def test_mqtt_3_1_3_6_and_7_the_broker_names_a_client_without_name(clean_start: bool) -> None:
    """[MQTT-3.2.2-16]: each one differently."""
    broker_api = BrokerApi()
    clients = [broker_api.connect("", clean_start=clean_start) for _ in range(2)]
    names = [client.connack.properties.assigned_client_identifier for client in clients]
    assert len(set(names)) == 2
    assert names == [client.connection.client_id for client in clients]
    assert broker_api.connect("me").connack.properties.assigned_client_identifier is None


def test_mqtt_3_1_3_7_and_8_of_3_1_1_a_client_without_name_keeps_nothing() -> None:
    broker_api = BrokerApi()
    assert broker_api.connect("", MQTT_3_1_1, clean_start=True).connection.client_id
    client = broker_api.open(MQTT_3_1_1)
    client.send(Connect(clean_start=False, version=MQTT_3_1_1))
    assert refused(client).reason_code is CODES.CLIENT_IDENTIFIER_NOT_VALID


def test_mqtt_3_1_3_5_any_valid_name_is_accepted() -> None:
    broker_api = BrokerApi()
    for name in ("a" * 1_024, "é/+#$", " "):
        assert broker_api.connect(name).connection.client_id == name


@pytest.mark.parametrize("version", [MQTT_5, MQTT_3_1_1])
def test_mqtt_3_1_3_5_a_names_length_is_bounded(version: int) -> None:
    client = BrokerApi(maximum_client_id_bytes=23).open(version)
    client.send(Connect("é" * 11 + "a", version=version))
    assert client.take()[0].reason_code is CODES.SUCCESS
    client = BrokerApi(maximum_client_id_bytes=23).open(version)
    client.send(Connect("é" * 12, version=version))
    assert refused(client).reason_code is CODES.CLIENT_IDENTIFIER_NOT_VALID


def test_reserved_names_are_refused() -> None:
    client = BrokerApi().open()
    client.send(Connect("$mqtt/B1"))
    assert refused(client).reason_code is CODES.CLIENT_IDENTIFIER_NOT_VALID


# --- agreed values --------------------------------------------------------------------------------


def test_3_2_2_3_connack_has_the_granted_values() -> None:
    broker_api = BrokerApi(maximum_session_expiry_s=50, server_keep_alive_s=30)
    asked = Properties(session_expiry_interval_s=100, request_response_information=1)
    granted = broker_api.connect("c", keep_alive_s=60, properties=asked).connack.properties
    assert granted == Properties(
        session_expiry_interval_s=50,
        receive_maximum=1_024,
        maximum_packet_size=1_048_576,
        topic_alias_maximum=64,
        server_keep_alive_s=30,
        response_information="responses/c/",
        user_properties=(
            ("$maximum_topic_filters", "100000"),
            ("$maximum_filter_bytes", "4096"),
            ("$maximum_filter_tests", "1000"),
        ),
    )


def test_mqtt_3_1_2_28_connack_omits_values_granted_as_requested() -> None:
    broker_api = BrokerApi(maximum_session_expiry_s=50, server_keep_alive_s=30)
    properties = Properties(session_expiry_interval_s=50, request_response_information=0)
    granted = broker_api.connect("c", keep_alive_s=30, properties=properties).connack.properties
    assert granted.session_expiry_interval_s is None
    assert granted.server_keep_alive_s is None
    assert granted.response_information is None


def test_mqtt_3_1_2_29_reason_strings_only_on_request() -> None:
    broker_api = BrokerApi()
    for wanted in (0, 1):
        properties = Properties(request_problem_information=wanted)
        client = broker_api.connect("c", properties=properties)
        suback = client.subscribe("a?x>")
        assert suback.reason_codes == (CODES.TOPIC_FILTER_INVALID,)
        assert (suback.properties.reason_string is not None) == bool(wanted)
        client.send(Auth())
        assert client.take()[0].properties.reason_string


def test_reasons_that_make_a_packet_too_large_are_left_out() -> None:
    """[MQTT-3.2.2-19, 3.9.2-2 and 3.14.2-3]"""
    client = BrokerApi().connect("c", properties=Properties(maximum_packet_size=40))
    suback = client.subscribe("a?x>")
    assert suback.reason_codes == (CODES.TOPIC_FILTER_INVALID,)
    assert suback.properties.reason_string is None
    client.send(Auth())
    assert client.take() == [Disconnect(CODES.PROTOCOL_ERROR)]


def test_mqtt_3_1_2_24_not_even_a_connack_is_too_large() -> None:
    client = BrokerApi().open()
    client.send(Connect("c", properties=Properties(maximum_packet_size=3)))
    assert client.take() == []
    assert client.closed
    client = BrokerApi().open()
    limits = Properties(maximum_packet_size=10, authentication_method="SCRAM")
    client.send(Connect("c", properties=limits))
    assert refused(client) == Connack(CODES.BAD_AUTHENTICATION_METHOD)


# --- keep alive: section 3.1.2.10 -----------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_mqtt_3_1_2_22_silence_ends_the_connection(version: int) -> None:
    broker_api = BrokerApi()
    client = broker_api.connect("c", version, keep_alive_s=10)
    broker_api.after(14.9)
    assert not client.closed
    broker_api.after(0.1)
    assert client.closed
    codes = [packet.reason_code for packet in client.take()]
    assert codes == ([CODES.KEEP_ALIVE_TIMEOUT] if version == MQTT_5 else [])


def test_mqtt_3_12_4_1_a_ping_is_answered_and_any_packet_is_a_sign_of_life() -> None:
    broker_api = BrokerApi()
    client = broker_api.connect("c", keep_alive_s=10)
    for number in range(5):
        broker_api.after(14)
        client.send(Pingreq() if number % 2 else Publish("a"))
    assert client.take() == [Pingresp()] * 2
    broker_api.after(15)
    assert client.closed


def test_no_keep_alive_means_for_ever() -> None:
    broker_api = BrokerApi()
    client = broker_api.connect("c", keep_alive_s=0)
    broker_api.after(10_000_000)
    assert not client.closed


@pytest.mark.parametrize("asked", [0, 600])
def test_mqtt_3_1_2_21_the_brokers_keep_alive_holds(asked: int) -> None:
    broker_api = BrokerApi(server_keep_alive_s=10)
    client = broker_api.connect("c", keep_alive_s=asked)
    assert client.connack.properties.server_keep_alive_s == 10
    broker_api.after(15)
    assert client.closed


def test_a_connection_without_connect_times_out() -> None:
    broker_api = BrokerApi(connect_timeout_s=5)
    silent, half = broker_api.open(), broker_api.open()
    half.send_bytes("10 ff")
    broker_api.after(5)
    assert silent.closed
    assert half.closed
    assert broker_api.clients.deadline_us is None


# --- leaving: section 3.14 ------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_mqtt_3_14_4_1_to_3_a_disconnect_is_the_last_packet(version: int) -> None:
    broker_api = BrokerApi()
    listener, client = broker_api.connect("l"), broker_api.connect("c", version, will=will("w"))
    listener.subscribe("#")
    client.send(Disconnect(), Publish("a"))
    assert client.closed
    assert client.take() == []
    broker_api.after(10)
    assert listener.take() == []
    client.lose()
    assert client.connection.receive(b"\xc0\x00", broker_api.now_us) == []


def test_mqtt_3_14_2_2_a_session_that_ends_cannot_be_kept_after_all() -> None:
    client = BrokerApi().connect("c")
    client.send(Disconnect(properties=Properties(session_expiry_interval_s=5)))
    assert client.take()[0].reason_code is CODES.PROTOCOL_ERROR
    assert client.closed


def test_3_14_2_2_2_the_expiry_interval_may_change_at_the_end() -> None:
    broker_api = BrokerApi(maximum_session_expiry_s=50)
    for at_last_s, kept_for_s in ((0, 0), (30, 30), (1_000, 50)):
        client = broker_api.connect("c", properties=Properties(session_expiry_interval_s=10))
        client.disconnect(session_expiry_interval_s=at_last_s)
        broker_api.after(kept_for_s - 1 if kept_for_s else 0)
        again = broker_api.connect(
            "c", clean_start=False, properties=Properties(session_expiry_interval_s=1)
        )
        assert again.connack.session_present == bool(kept_for_s)
        again.disconnect()
        broker_api.after(2)


def test_a_broker_that_shuts_down_sends_disconnect() -> None:
    broker_api = BrokerApi()
    client, old = broker_api.connect("c"), broker_api.connect("o", MQTT_3_1_1)
    broker_api.carry_out(broker_api.clients.shut_down(broker_api.now_us))
    assert [packet.reason_code for packet in client.take()] == [CODES.SERVER_SHUTTING_DOWN]
    assert old.take() == []
    assert client.closed
    assert old.closed


def test_4_11_a_client_is_redirected_to_another_broker() -> None:
    broker_api = BrokerApi()
    client, old = broker_api.connect("c"), broker_api.connect("o", MQTT_3_1_1)
    for each in (client, old):
        broker_api.carry_out(each.connection.redirect("b2.example:1883", broker_api.now_us))
        assert each.closed
    [packet] = client.take()
    assert packet.reason_code is CODES.USE_ANOTHER_SERVER
    assert packet.properties.server_reference == "b2.example:1883"
    assert old.take() == []
