"""Rates of clients and users: a client above its rate is slowed down and loses nothing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from shoal.mqtt.access import ALL_PERMISSIONS, ClientAdmission, ClientCredentials, Permissions
from shoal.mqtt.codec.packets import Pingreq, Pingresp, Puback, Publish, Pubrec
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.connection.rates import FEW, LONGEST_S
from tests.mqtt.broker_api import SECOND, BrokerApi, Client


class Named:
    """Admits every client with the user name that it gives."""

    def admit(self, credentials: ClientCredentials) -> ClientAdmission:
        return ClientAdmission(user=credentials.username or "")

    def permissions(self, user: str, client_id: str) -> Permissions:
        return ALL_PERMISSIONS


def pass_time(broker_api: BrokerApi, seconds: float) -> None:
    """Let time pass, and handle held packets as soon as allowed, as a driver does."""
    for _ in range(round(seconds * 20)):
        broker_api.after(1 / 20)
        broker_api.take_held()


def publish(client: Client, count: int, qos: int = 0, size: int = 1) -> None:
    client.send(*(Publish("a", bytes(size), qos, packet_id=n * bool(qos)) for n in range(1, count)))
    client.send(Publish("a", bytes(size), qos, packet_id=count * bool(qos)))


def received(broker_api: BrokerApi) -> int:
    return broker_api.clients.statistics.publications_received


def test_a_client_above_its_rate_is_slowed_to_it() -> None:
    broker_api = BrokerApi(maximum_messages_per_s=100)
    reader, fast, slow = (broker_api.connect(name) for name in ("r", "fast", "slow"))
    reader.subscribe("#", qos=0)
    for number in range(500):
        fast.send(Publish("fast", b"%d" % number))
    assert 100 <= received(broker_api) <= 101
    slow.send(Publish("slow", b""))
    assert [each.topic for each in reader.take()][-1] == "slow"
    pass_time(broker_api, 2)
    assert 290 <= received(broker_api) <= 310
    pass_time(broker_api, 3)
    assert [each.payload for each in reader.take()] == [b"%d" % n for n in range(101, 500)]
    assert not fast.closed
    assert broker_api.clients.statistics.slowed
    whats = [each.what for each in broker_api.clients.statistics.notices.take()]
    assert whats == ["slowed down"]


def test_an_exceeded_rate_is_logged_once_a_minute() -> None:
    broker_api = BrokerApi(maximum_messages_per_s=10)
    client = broker_api.connect("c")
    publish(client, 1_000)
    pass_time(broker_api, 59)
    assert len(broker_api.clients.statistics.notices.take()) == 1
    pass_time(broker_api, 5)
    assert len(broker_api.clients.statistics.notices.take()) == 1


@pytest.mark.parametrize("version", [4, 5])
def test_acknowledgements_come_at_the_rate_and_pings_at_once(version: int) -> None:
    broker_api = BrokerApi(maximum_messages_per_s=10)
    client = broker_api.connect("c", version=version)
    publish(client, 30, qos=1)
    assert 10 <= len(client.take()) <= 11
    client.send(Pingreq())
    assert client.take() == [Pingresp()]
    pass_time(broker_api, 3)
    assert [each.packet_id for each in client.take()][-1] == 30
    assert not client.closed


def test_beyond_the_bound_of_held_packets_nothing_is_read() -> None:
    broker_api = BrokerApi(maximum_bytes_per_s=1_000)
    client = broker_api.connect("c")
    publish(client, 400, size=1_000)
    assert not client.connection.wants_reading
    pass_time(broker_api, 400)
    assert client.connection.wants_reading
    assert received(broker_api) == 400


def test_a_packets_bytes_count() -> None:
    broker_api = BrokerApi(maximum_bytes_per_s=10_000)
    client = broker_api.connect("c")
    publish(client, 100, size=1_000)
    assert 10 <= received(broker_api) <= 11
    pass_time(broker_api, 4)
    assert 48 <= received(broker_api) <= 52


def test_clients_of_one_user_share_its_rate_and_others_have_theirs() -> None:
    broker_api = BrokerApi(access=Named(), maximum_user_messages_per_s=100)
    ann = [broker_api.connect(f"ann{n}", username="ann") for n in range(4)]
    for each in ann:
        publish(each, 100)
    assert 100 <= received(broker_api) <= 104
    nobodies = [broker_api.connect(f"nobody{n}") for n in range(2)]
    for each in (broker_api.connect("bob", username="bob"), *nobodies):
        before = received(broker_api)
        publish(each, 100)
        assert received(broker_api) == before + 100
    pass_time(broker_api, 1)
    assert 490 <= received(broker_api) <= 510


def test_a_reconnect_keeps_the_debt() -> None:
    broker_api = BrokerApi(maximum_messages_per_s=100)
    first = broker_api.connect("c")
    publish(first, 200)
    broker_api.connect("c")
    assert first.closed
    before = received(broker_api)
    publish(broker_api.connect("c"), 10)
    assert received(broker_api) <= before + 1


@pytest.mark.parametrize(("qos", "answer"), [(1, Puback), (2, Pubrec)])
def test_a_packet_above_the_bucket_is_refused(qos: int, answer: type) -> None:
    broker_api = BrokerApi(maximum_bytes_per_s=1_000)
    client = broker_api.connect("c")
    client.send(Publish("a", bytes(LONGEST_S * 1_000), qos, packet_id=1))
    (refusal,) = client.take()
    assert isinstance(refusal, answer)
    assert refusal.reason_code is ReasonCode.QUOTA_EXCEEDED
    client.send(Publish("a", b"", 1, packet_id=2))  # refused packets cost no tokens
    assert [each.packet_id for each in client.take()] == [2]
    assert not client.closed


@pytest.mark.parametrize(("version", "qos"), [(4, 0), (4, 1), (4, 2), (5, 0)])
def test_a_3_1_1_client_above_the_bucket_waits(version: int, qos: int) -> None:
    broker_api = BrokerApi(maximum_bytes_per_s=1_000)
    client = broker_api.connect("c", version=version)
    client.send(Publish("a", bytes(20_000), qos, packet_id=bool(qos)), Publish("a", b""))
    assert received(broker_api) == 1
    pass_time(broker_api, 18)
    assert received(broker_api) == 1
    pass_time(broker_api, 3)
    assert received(broker_api) == 2
    assert not client.closed


def test_a_disconnected_clients_held_packets_are_handled() -> None:
    broker_api = BrokerApi(maximum_messages_per_s=10)
    client = broker_api.connect("c")
    publish(client, 30)
    client.lose()
    pass_time(broker_api, 3)
    assert received(broker_api) == 30
    assert broker_api.clients.connection("c") is None


def test_changed_rates_hold_at_once() -> None:
    broker_api = BrokerApi(maximum_messages_per_s=1)
    client = broker_api.connect("c")
    publish(client, 50)

    def renew(**rates: int) -> None:
        limits = msgspec.structs.replace(broker_api.clients.limits, **rates)
        access: Any = Named()
        broker_api.carry_out(
            broker_api.clients.renew(limits, access, lambda _: ALL_PERMISSIONS, broker_api.now_us)
        )

    renew(maximum_messages_per_s=20)
    broker_api.take_held()
    assert 20 <= received(broker_api) <= 25
    renew(maximum_messages_per_s=0)
    broker_api.take_held()
    assert received(broker_api) == 50


def test_full_buckets_are_forgotten() -> None:
    broker_api = BrokerApi(maximum_messages_per_s=10)
    for number in range(3 * FEW):
        client = broker_api.connect(f"c{number}")
        publish(client, 1)
        client.disconnect()
        broker_api.now_us += SECOND // 100
    assert len(broker_api.clients.rates._buckets) <= FEW + 2


def test_without_rates_nothing_is_counted() -> None:
    broker_api = BrokerApi()
    publish(broker_api.connect("c"), 100)
    assert not broker_api.clients.rates._buckets
