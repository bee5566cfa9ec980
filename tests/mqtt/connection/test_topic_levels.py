"""Topics with more levels than the broker allows are refused one by one, with the reason."""

from __future__ import annotations

import pytest

from shoal.mqtt.codec.packet_types import MQTT_3_1_1, MQTT_5
from shoal.mqtt.codec.packets import Connect
from shoal.mqtt.limits import DEFAULT_LIMITS
from tests.mqtt.broker_api import BrokerApi, will
from tests.mqtt.connection.standard import CODES, VERSIONS, refused

MOST = DEFAULT_LIMITS.maximum_topic_levels
DEEPEST, TOO_DEEP = ("/".join("a" * levels) for levels in (MOST, 250))
WHY = f"250 levels; at most {MOST} are accepted"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_publication_is_refused_and_the_connection_stays(version: int) -> None:
    broker_api = BrokerApi()
    client = broker_api.connect("c", version)
    assert client.subscribe("#", qos=2).reason_codes == (CODES.GRANTED_QOS_2,)
    client.publish(TOO_DEEP)
    for qos in (1, 2):
        first, *_ = client.publish(TOO_DEEP, qos=qos)
        if version == MQTT_5:
            assert first.reason_code is CODES.TOPIC_NAME_INVALID
            assert WHY in first.properties.reason_string
        else:
            assert first.reason_code is CODES.SUCCESS
    client.publish(DEEPEST, b"x", qos=1)
    assert client.take_payloads() == [b"x"]
    notices = broker_api.clients.statistics.notices
    assert [WHY in each.why for each in notices.take()] == [True] * 3
    assert notices.refusals["publish refused", "topic name invalid"] == 3


@pytest.mark.parametrize("topic_filter", [TOO_DEEP, "+/" * 249 + "#", f"$share/g/{TOO_DEEP}"])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_filter_is_refused_and_the_connection_stays(
    version: int, topic_filter: str
) -> None:
    client = BrokerApi().connect("c", version)
    suback = client.subscribe(topic_filter)
    if version == MQTT_5:
        assert suback.reason_codes == (CODES.TOPIC_FILTER_INVALID,)
        assert WHY in (suback.properties.reason_string or "")
    else:
        assert suback.reason_codes == (CODES.UNSPECIFIED_ERROR,)
    unsuback = client.unsubscribe(topic_filter)
    if version == MQTT_5:
        assert unsuback.reason_codes == (CODES.NO_SUBSCRIPTION_EXISTED,)
    assert client.subscribe(f"$share/g/{DEEPEST}").reason_codes == (CODES.SUCCESS,)


def test_a_will_is_refused_at_once() -> None:
    client = BrokerApi().open()
    client.send(Connect("c", will=will(TOO_DEEP)))
    connack = refused(client)
    assert connack.reason_code is CODES.TOPIC_NAME_INVALID
    assert WHY in (connack.properties.reason_string or "")
    old = BrokerApi().open(MQTT_3_1_1)
    old.send(Connect("c", version=MQTT_3_1_1, will=will(TOO_DEEP)))
    assert old.closed


def test_the_operator_may_allow_fewer_levels() -> None:
    client = BrokerApi(maximum_topic_levels=2).connect("c")
    assert client.subscribe("a/#").reason_codes == (CODES.SUCCESS,)
    assert client.subscribe("a/b/#").reason_codes == (CODES.TOPIC_FILTER_INVALID,)
    answers = [client.publish(topic, qos=1)[0].reason_code for topic in ("a/b", "a/b/c")]
    assert answers == [CODES.SUCCESS, CODES.TOPIC_NAME_INVALID]
    assert client.publish("a/b/c/" * 10_000, qos=1)[0].reason_code is CODES.TOPIC_NAME_INVALID
