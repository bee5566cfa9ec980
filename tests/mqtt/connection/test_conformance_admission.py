"""The standard's statements about admission and authorisation of clients.

Numbers are those of MQTT Version 5.0, sections 3.1.4, 4.12 and 5.4.
"""

from __future__ import annotations

import pytest

from shoal.mqtt.access import ClientAdmission, ClientCredentials
from shoal.mqtt.codec.packet_types import MQTT_3_1_1, MQTT_5
from shoal.mqtt.codec.packets import (
    Auth,
    Connack,
    Connect,
    Pingreq,
    Publish,
    Subscribe,
    SubscriptionRequest,
)
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.connection.holding import MAX_HELD
from tests.mqtt.broker_api import BrokerApi, will
from tests.mqtt.connection.standard import CODES, VERSIONS, refused


class Doorkeeper:
    """Gives the answer that the test has set; None until then."""

    def __init__(self, answer: ClientAdmission | None = None) -> None:
        self.answer = answer
        self.asked: list[ClientCredentials] = []

    def admit(self, credentials: ClientCredentials) -> ClientAdmission | None:
        self.asked.append(credentials)
        return self.answer


def test_admission_gets_all_of_the_connect() -> None:
    front_end = Doorkeeper(ClientAdmission())
    client = BrokerApi(front_end).open(certificate="CN=c", address="10.0.0.1")
    client.send(Connect("c", username="u", password=b"p"))
    assert front_end.asked == [
        ClientCredentials(
            client_id="c", username="u", password=b"p", certificate="CN=c", address="10.0.0.1"
        )
    ]
    assert "b'p'" not in repr(front_end.asked)


@pytest.mark.parametrize(
    ("code", "return_code"),
    [(CODES.BAD_USER_NAME_OR_PASSWORD, 4), (CODES.NOT_AUTHORIZED, 5), (CODES.BANNED, 5),
     (CODES.SERVER_BUSY, 3), (CODES.QUOTA_EXCEEDED, 3)],
)  # fmt: skip
def test_mqtt_3_1_4_2_a_refused_client_gets_the_reason(code: ReasonCode, return_code: int) -> None:
    """[MQTT-3.2.2-7]: and the connection is closed."""
    broker_api = BrokerApi(Doorkeeper(ClientAdmission(code, reason="no")))
    client = broker_api.open()
    client.send(Connect("c"))
    assert refused(client) == Connack(code, properties=Properties(reason_string="no"))
    old = broker_api.open(MQTT_3_1_1)
    old.send(Connect("c", version=MQTT_3_1_1))
    assert old.written.hex() == f"200200{return_code:02x}"
    assert old.closed


def test_mqtt_3_1_4_6_packets_before_the_answer_wait_for_it() -> None:
    front_end = Doorkeeper()
    broker_api = BrokerApi(front_end)
    client = broker_api.open()
    subscribe = Subscribe(1, (SubscriptionRequest("a"),))
    client.send(Connect("c"), subscribe)
    client.send(Publish("a", b"x"))
    assert client.take() == []
    assert not client.connection.wants_reading
    broker_api.carry_out(client.connection.admitted(ClientAdmission(), broker_api.now_us))
    assert [type(packet).__name__ for packet in client.take()] == ["Connack", "Suback", "Publish"]
    assert client.connection.wants_reading


def test_mqtt_3_1_4_6_waiting_packets_are_dropped_after_a_refusal() -> None:
    front_end = Doorkeeper()
    broker_api = BrokerApi(front_end)
    front_end.answer = ClientAdmission()
    listener = broker_api.connect("listener")
    listener.subscribe("a")
    front_end.answer = None
    client = broker_api.open()
    client.send(Connect("c"), Publish("a", b"x"))
    refusal = ClientAdmission(CODES.NOT_AUTHORIZED)
    broker_api.carry_out(client.connection.admitted(refusal, broker_api.now_us))
    assert refused(client).reason_code is CODES.NOT_AUTHORIZED
    assert listener.take() == []


def test_too_many_packets_before_the_answer_end_the_connection() -> None:
    client = BrokerApi(Doorkeeper()).open()
    client.send(Connect("c"))
    client.send(*[Pingreq()] * MAX_HELD)
    assert not client.closed
    client.send(Pingreq())
    assert refused(client).reason_code is CODES.QUOTA_EXCEEDED


def test_an_answer_for_a_client_that_has_gone_is_dropped() -> None:
    broker_api = BrokerApi(Doorkeeper())
    client = broker_api.open()
    client.send(Connect("c"))
    client.lose()
    assert client.connection.admitted(ClientAdmission(), broker_api.now_us) == []
    assert client.connection.client_id is None


def test_admission_without_an_answer_times_out() -> None:
    broker_api = BrokerApi(Doorkeeper(), connect_timeout_s=5)
    client = broker_api.open()
    client.send(Connect("c"))
    broker_api.after(5)
    assert refused(client).reason_code is CODES.SERVER_UNAVAILABLE


def test_mqtt_4_12_0_1_no_extended_authentication() -> None:
    client = BrokerApi().open()
    client.send(Connect("c", properties=Properties(authentication_method="SCRAM-SHA-256")))
    assert refused(client).reason_code is CODES.BAD_AUTHENTICATION_METHOD


def test_mqtt_4_12_0_6_no_auth_without_a_method() -> None:
    client = BrokerApi().connect("c")
    client.send(Auth(CODES.REAUTHENTICATE))
    assert client.take()[0].reason_code is CODES.PROTOCOL_ERROR
    assert client.closed


def test_connections_beyond_the_limit_are_refused() -> None:
    broker_api = BrokerApi(maximum_connections=1)
    first = broker_api.connect("1")
    second = broker_api.open()
    second.send(Connect("2"))
    assert refused(second).reason_code is CODES.QUOTA_EXCEEDED
    first.disconnect()
    broker_api.connect("2")


class Rules:
    """May publish and subscribe below `mine/` only."""

    def may_publish(self, topic: str) -> bool:
        return topic.startswith("mine/")

    def may_subscribe(self, topic_filter: str) -> bool:
        return topic_filter.startswith("mine/")


class RuleBrokerApi(BrokerApi):
    def __init__(self) -> None:
        super().__init__(Doorkeeper(ClientAdmission(permissions=Rules())))


def test_forbidden_publications_are_refused() -> None:
    """Refused in MQTT 5; to 3.1.1 it looks like success [MQTT-3.3.5-2 of 3.1.1]."""
    broker_api = RuleBrokerApi()
    for version in VERSIONS:
        client = broker_api.connect("c", version)
        client.subscribe("mine/#", qos=2)
        for qos in (0, 1, 2):
            answers = client.publish("other", b"x", qos=qos)
            if qos:
                expected = CODES.NOT_AUTHORIZED if version == MQTT_5 else CODES.SUCCESS
                assert answers[0].reason_code is expected
            client.publish("mine/a", b"y", qos=qos)
        assert client.take_payloads() == [b"y"] * 3
    assert broker_api.clients.statistics.publications_refused == 6


def test_forbidden_subscriptions_are_refused() -> None:
    broker_api = RuleBrokerApi()
    client = broker_api.connect("c")
    assert client.subscribe("#").reason_codes == (CODES.NOT_AUTHORIZED,)
    assert client.subscribe("$share/g/other").reason_codes == (CODES.NOT_AUTHORIZED,)
    assert client.subscribe("$share/g/mine/a", qos=1).reason_codes == (CODES.GRANTED_QOS_1,)
    assert client.subscribe("mine/?x=1").reason_codes == (CODES.SUCCESS,)


def test_a_will_that_may_not_be_published_is_refused_at_once() -> None:
    for broker_api, topic in ((RuleBrokerApi(), "other"), (BrokerApi(), "$SYS/broker/uptime")):
        client = broker_api.open()
        client.send(Connect("c", will=will(topic)))
        assert refused(client).reason_code is CODES.NOT_AUTHORIZED
