"""The standard's statements about sessions, takeover and wills.

Numbers are those of MQTT Version 5.0, sections 3.1.2.4, 3.1.2.5, 3.1.2.11, 3.1.3 and 4.1.
"""

from __future__ import annotations

import pytest

from shoal.mqtt.codec.packet_types import MQTT_3_1_1, MQTT_5
from shoal.mqtt.codec.packets import Connect, Publish
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.limits import NEVER_S
from tests.mqtt.broker_api import BrokerApi, Client, will
from tests.mqtt.connection.standard import CODES, VERSIONS, kept


def listener(broker_api: BrokerApi) -> Client:
    client = broker_api.connect("listener")
    client.subscribe("#", qos=2)
    return client


# --- sessions -------------------------------------------------------------------------------------


def test_mqtt_3_1_2_4_to_6_and_3_2_2_2_to_5_a_session_is_resumed_or_not() -> None:
    broker_api = BrokerApi()
    first = broker_api.connect("c", properties=kept())
    assert not first.connack.session_present
    first.subscribe("a", qos=1)
    first.lose()
    again = broker_api.connect("c", clean_start=False, properties=kept())
    assert again.connack.session_present
    broker_api.connect("p").publish("a", b"x", qos=1)
    assert again.take_payloads() == [b"x"]
    again.lose()
    anew = broker_api.connect("c", clean_start=True, properties=kept())
    assert not anew.connack.session_present
    broker_api.connect("p").publish("a", b"y", qos=1)
    assert anew.take() == []


def test_mqtt_4_1_0_1_and_2_a_session_lasts_as_long_as_agreed() -> None:
    """[MQTT-3.1.2-23]: state is kept while the expiry interval runs, and dropped after it."""
    broker_api = BrokerApi()
    client = broker_api.connect("c", properties=kept(60))
    client.subscribe("a", qos=1)
    client.lose()
    broker_api.after(59)
    client = broker_api.connect("c", clean_start=False, properties=kept(60))
    assert client.connack.session_present
    client.lose()
    broker_api.after(60)
    assert not broker_api.connect("c", clean_start=False).connack.session_present
    assert broker_api.clients.subscriptions.count == 0


def test_without_expiry_interval_a_session_ends_with_its_connection() -> None:
    broker_api = BrokerApi()
    broker_api.connect("c").lose()
    assert not broker_api.connect("c", clean_start=False).connack.session_present


def test_a_session_may_be_kept_for_ever() -> None:
    broker_api = BrokerApi(maximum_session_expiry_s=NEVER_S)
    broker_api.connect("c", properties=kept(NEVER_S)).lose()
    broker_api.after(100 * 365 * 86_400)
    assert broker_api.connect("c", clean_start=False).connack.session_present


def test_mqtt_3_1_2_4_of_3_1_1_clean_session() -> None:
    broker_api = BrokerApi()
    client = broker_api.connect("c", MQTT_3_1_1, clean_start=False)
    client.subscribe("a", qos=1)
    client.disconnect()
    broker_api.after(86_400)
    publisher = broker_api.connect("p")
    publisher.publish("a", b"1", qos=1)
    client = broker_api.connect("c", MQTT_3_1_1, clean_start=False)
    assert client.connack.session_present
    assert client.take_payloads() == [b"1"]
    client.disconnect()
    client = broker_api.connect("c", MQTT_3_1_1, clean_start=True)
    assert not client.connack.session_present
    client.disconnect()
    assert not broker_api.connect("c", MQTT_3_1_1, clean_start=False).connack.session_present


def test_a_client_may_change_its_version_between_connections() -> None:
    broker_api = BrokerApi()
    client = broker_api.connect("c", MQTT_3_1_1, clean_start=False)
    client.subscribe("a", qos=1)
    client.lose()
    broker_api.connect("p").publish("a", b"1", qos=1, properties=Properties(content_type="t"))
    client = broker_api.connect("c", MQTT_5, clean_start=False)
    assert client.connack.session_present
    assert client.take()[0].properties == Properties(content_type="t")


def test_mqtt_3_1_3_2_only_qos_1_and_2_are_queued() -> None:
    broker_api = BrokerApi()
    client = broker_api.connect("c", properties=kept())
    client.subscribe("a", qos=2)
    client.connection.pause()
    publisher = broker_api.connect("p")
    for qos in (0, 1, 2):
        publisher.publish("a", b"%d" % qos, qos=qos)
    client.lose()
    for qos in (0, 1, 2):
        publisher.publish("a", b"away %d" % qos, qos=qos)
    again = broker_api.connect("c", clean_start=False)
    assert again.take_payloads() == [b"1", b"2", b"away 1", b"away 2"]


# --- takeover: [MQTT-3.1.4-3] ---------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_mqtt_3_1_4_3_the_old_connection_is_closed(version: int) -> None:
    broker_api = BrokerApi()
    old = broker_api.connect("c", version)
    new = broker_api.connect("c", version)
    assert old.closed
    assert not new.closed
    codes = [packet.reason_code for packet in old.take()]
    assert codes == ([CODES.SESSION_TAKEN_OVER] if version == MQTT_5 else [])
    old.lose()
    new.subscribe("a")
    new.publish("a", b"x")
    assert new.take_payloads() == [b"x"]
    assert broker_api.clients.statistics.connected == 1


def test_a_takeover_keeps_in_flight_messages() -> None:
    broker_api = BrokerApi()
    old = broker_api.connect("c", properties=kept())
    old.subscribe("a", qos=1)
    broker_api.connect("p").publish("a", b"x", qos=1)
    [packet] = old.take()
    new = broker_api.connect("c", clean_start=False, properties=kept())
    assert new.connack.session_present
    assert new.take() == [Publish("a", b"x", 1, duplicate=True, packet_id=packet.packet_id)]


def test_a_refused_connect_takes_nothing_over() -> None:
    broker_api = BrokerApi()
    old = broker_api.connect("c")
    wrong = broker_api.open()
    wrong.send_bytes("10 0e 0004 4d515454 05 03 0000 00 0001 63")
    assert wrong.closed
    assert not old.closed


# --- wills ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_mqtt_3_1_2_7_to_8_a_will_is_published_when_the_connection_breaks(
    version: int, qos: int
) -> None:
    broker_api = BrokerApi()
    watcher = listener(broker_api)
    client = broker_api.connect("c", version, will=will("w", b"gone", qos=qos, retain=True))
    client.lose()
    [packet] = watcher.take_publications()
    assert (packet.topic, packet.payload, packet.qos) == ("w", b"gone", qos)
    late = broker_api.connect("late")
    late.subscribe("w")
    assert [each.retain for each in late.take_publications()] == [True]


def test_mqtt_3_1_2_14_and_15_a_will_is_retained_only_if_it_says_so() -> None:
    broker_api = BrokerApi()
    broker_api.connect("c", will=will("w")).lose()
    late = broker_api.connect("late")
    late.subscribe("w")
    assert late.take() == []


@pytest.mark.parametrize("version", VERSIONS)
def test_mqtt_3_1_2_8_a_will_is_published_when_the_broker_closes_the_connection(
    version: int,
) -> None:
    broker_api = BrokerApi()
    watcher = listener(broker_api)
    broker_api.connect("1", version, will=will("w", b"garbage")).send_bytes("00 00")
    broker_api.connect("2", version, will=will("w", b"silence"), keep_alive_s=1)
    broker_api.after(2)
    broker_api.connect("3", version, will=will("w", b"taken"))
    broker_api.connect("3", version)
    assert watcher.take_payloads() == [b"garbage", b"silence", b"taken"]


def test_mqtt_3_1_2_10_a_normal_disconnect_removes_the_will() -> None:
    broker_api = BrokerApi()
    watcher = listener(broker_api)
    broker_api.connect("c", will=will("w")).disconnect()
    assert watcher.take() == []


def test_mqtt_3_14_2_1_a_disconnect_may_ask_for_the_will() -> None:
    broker_api = BrokerApi()
    watcher = listener(broker_api)
    client = broker_api.connect("c", will=will("w"))
    client.disconnect(CODES.DISCONNECT_WITH_WILL)
    assert watcher.take_payloads() == [b"gone"]


def delayed(seconds: int) -> object:
    return will("w", properties=Properties(will_delay_interval_s=seconds))


def test_mqtt_3_1_3_9_a_delayed_will_is_not_published_if_the_client_returns() -> None:
    broker_api = BrokerApi()
    watcher = listener(broker_api)
    broker_api.connect("c", will=delayed(10), properties=kept()).lose()
    broker_api.after(9)
    again = broker_api.connect("c", clean_start=False, properties=kept())
    broker_api.after(100)
    assert watcher.take() == []
    again.lose()
    broker_api.after(100)
    assert watcher.take() == []


def test_3_1_3_2_2_a_delayed_will_is_published_after_its_delay_or_with_the_session() -> None:
    broker_api = BrokerApi()
    watcher = listener(broker_api)
    broker_api.connect("delay", will=delayed(10), properties=kept(60)).lose()
    broker_api.after(9)
    assert watcher.take() == []
    broker_api.after(1)
    [packet] = watcher.take()
    assert packet.properties == Properties()
    broker_api.connect("session", will=delayed(60), properties=kept(10)).lose()
    broker_api.after(10)
    assert watcher.take_payloads() == [b"gone"]
    broker_api.after(100)
    broker_api.connect("none", will=delayed(60)).lose()
    assert watcher.take_payloads() == [b"gone"]


def test_a_clean_start_ends_the_session_and_publishes_the_will_that_waited() -> None:
    """Section 3.1.4, the comment to [MQTT-3.1.4-3]; a resumed session does not."""
    broker_api = BrokerApi()
    watcher = listener(broker_api)
    broker_api.connect("c", will=delayed(10), properties=kept())
    broker_api.connect("c", clean_start=True, will=delayed(10), properties=kept())
    assert watcher.take_payloads() == [b"gone"]
    broker_api.connect("c", clean_start=False, properties=kept())
    broker_api.after(100)
    assert watcher.take() == []


def test_a_will_has_the_properties_of_a_message() -> None:
    broker_api = BrokerApi()
    watcher = listener(broker_api)
    properties = Properties(
        payload_format_indicator=1,
        message_expiry_interval_s=7,
        content_type="t",
        response_topic="r",
        correlation_data=b"c",
        user_properties=(("a", "b"),),
    )
    broker_api.connect("c", will=will("w", properties=properties)).lose()
    assert watcher.take()[0].properties == properties


@pytest.mark.parametrize("topic", ["", "a/+", "#", "a\x01"])
def test_a_will_to_an_invalid_topic_is_refused(topic: str) -> None:
    broker_api = BrokerApi()
    for version in VERSIONS:
        client = broker_api.open(version)
        client.send(Connect("c", version=version, will=will(topic)))
        assert client.closed
        codes = [packet.reason_code for packet in client.take()]
        assert codes == ([CODES.MALFORMED_PACKET] if version == MQTT_5 else [])


def test_a_session_that_takes_over_gets_the_will_after_its_connack() -> None:
    broker_api = BrokerApi()
    broker_api.connect("c", will=will("w"), properties=kept()).subscribe("w", qos=1)
    again = broker_api.connect("c", clean_start=False, properties=kept())
    assert again.connack.session_present
    assert again.take_payloads() == []
    watcher = broker_api.connect("d", properties=kept())
    watcher.subscribe("w", qos=1)
    broker_api.connect("c2", will=will("w", qos=1)).lose()
    assert watcher.take_payloads() == [b"gone"]
