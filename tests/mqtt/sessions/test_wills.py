"""Wills take a bounded part of memory."""

from __future__ import annotations

from shoal.mqtt.codec.packets import Connack, Connect, WillFields
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.codec.reason_codes import ReasonCode
from tests.mqtt.broker_api import KEPT, BrokerApi
from tests.mqtt.sessions.test_user_queues import Named

LARGE = WillFields("w", bytes(60_000))


def code(
    broker_api: BrokerApi, name: str, will: WillFields | None, user: str | None = None
) -> ReasonCode:
    client = broker_api.open()
    client.send(Connect(name, will=will, username=user))
    connack = client.take()[0]
    assert isinstance(connack, Connack)
    return connack.reason_code


def test_a_will_beyond_the_common_bound_is_refused() -> None:
    broker_api = BrokerApi(maximum_all_queued_bytes=200_000)
    clients = [broker_api.connect(f"c{number}", will=LARGE) for number in range(3)]
    assert code(broker_api, "c3", LARGE) is ReasonCode.QUOTA_EXCEEDED
    assert code(broker_api, "small", None) is ReasonCode.SUCCESS
    # A reconnect takes no more, and a disconnect makes room.
    assert code(broker_api, "c1", LARGE) is ReasonCode.SUCCESS
    clients[0].disconnect()
    assert code(broker_api, "c3", LARGE) is ReasonCode.SUCCESS
    clients[2].lose()
    assert code(broker_api, "c4", LARGE) is ReasonCode.SUCCESS


def test_a_will_beyond_the_users_bound_is_refused() -> None:
    broker_api = BrokerApi(Named(), maximum_user_queued_bytes=100_000)
    assert code(broker_api, "a", LARGE, "bob") is ReasonCode.SUCCESS
    assert code(broker_api, "b", LARGE, "bob") is ReasonCode.QUOTA_EXCEEDED
    assert code(broker_api, "c", LARGE, "alice") is ReasonCode.SUCCESS


def test_user_properties_and_delayed_wills_count() -> None:
    broker_api = BrokerApi(maximum_all_queued_bytes=50_000)
    pairs = (("name", "value"),) * 200
    late = Properties(will_delay_interval_s=10, user_properties=pairs)
    client = broker_api.connect("c", will=WillFields("w", b"", properties=late), **KEPT)
    client.lose()
    assert code(broker_api, "d", WillFields("w", bytes(20_000))) is ReasonCode.QUOTA_EXCEEDED
    broker_api.after(11)
    assert broker_api.clients.backlog.will_bytes == 0
    assert code(broker_api, "d", WillFields("w", bytes(20_000))) is ReasonCode.SUCCESS
