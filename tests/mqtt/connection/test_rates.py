"""Rates of clients and users: a client above its rate is slowed down, loses nothing and stays."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from shoal.mqtt.access import ALL_PERMISSIONS, Admission, Credentials, Permissions
from shoal.mqtt.codec.packets import Pingreq, Pingresp, Puback, Publish, Pubrec
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.connection.rates import FEW, LONGEST_S
from tests.mqtt.house import SECOND, Client, House


class Named:
    """Lets everyone in, by the name that they give."""

    def admit(self, credentials: Credentials) -> Admission:
        return Admission(user=credentials.username or "")

    def permissions(self, user: str, client_id: str) -> Permissions:
        return ALL_PERMISSIONS


def pass_time(house: House, seconds: float) -> None:
    """As a driver does: what was held is taken as soon as it may be."""
    for _ in range(round(seconds * 20)):
        house.after(1 / 20)
        house.take_held()


def publish(client: Client, count: int, qos: int = 0, size: int = 1) -> None:
    client.send(*(Publish("a", bytes(size), qos, packet_id=n * bool(qos)) for n in range(1, count)))
    client.send(Publish("a", bytes(size), qos, packet_id=count * bool(qos)))


def received(house: House) -> int:
    return house.clients.statistics.publications_received


def test_a_client_above_its_rate_is_taken_from_at_its_rate() -> None:
    house = House(maximum_messages_per_s=100)
    reader, fast, slow = (house.connect(name) for name in ("r", "fast", "slow"))
    reader.subscribe("#", qos=0)
    for number in range(500):
        fast.send(Publish("fast", b"%d" % number))
    assert 100 <= received(house) <= 101
    slow.send(Publish("slow", b""))
    assert [each.topic for each in reader.take()][-1] == "slow"
    pass_time(house, 2)
    assert 290 <= received(house) <= 310
    pass_time(house, 3)
    assert [each.payload for each in reader.take()] == [b"%d" % n for n in range(101, 500)]
    assert not fast.closed
    assert house.clients.statistics.slowed
    whats = [each.what for each in house.clients.statistics.notices.take()]
    assert whats == ["slowed down"]


def test_it_is_told_once_a_minute() -> None:
    house = House(maximum_messages_per_s=10)
    client = house.connect("c")
    publish(client, 1_000)
    pass_time(house, 59)
    assert len(house.clients.statistics.notices.take()) == 1
    pass_time(house, 5)
    assert len(house.clients.statistics.notices.take()) == 1


@pytest.mark.parametrize("version", [4, 5])
def test_acknowledgements_come_at_the_rate_and_pings_at_once(version: int) -> None:
    house = House(maximum_messages_per_s=10)
    client = house.connect("c", version=version)
    publish(client, 30, qos=1)
    assert 10 <= len(client.take()) <= 11
    client.send(Pingreq())
    assert client.take() == [Pingresp()]
    pass_time(house, 3)
    assert [each.packet_id for each in client.take()][-1] == 30
    assert not client.closed


def test_beyond_what_is_held_nothing_is_read() -> None:
    house = House(maximum_bytes_per_s=1_000)
    client = house.connect("c")
    publish(client, 400, size=1_000)
    assert not client.connection.wants_reading
    pass_time(house, 400)
    assert client.connection.wants_reading
    assert received(house) == 400


def test_bytes_count_with_those_of_the_packet() -> None:
    house = House(maximum_bytes_per_s=10_000)
    client = house.connect("c")
    publish(client, 100, size=1_000)
    assert 10 <= received(house) <= 11
    pass_time(house, 4)
    assert 48 <= received(house) <= 52


def test_clients_of_one_user_share_its_rate_and_others_have_theirs() -> None:
    house = House(access=Named(), maximum_user_messages_per_s=100)
    ann = [house.connect(f"ann{n}", username="ann") for n in range(4)]
    for each in ann:
        publish(each, 100)
    assert 100 <= received(house) <= 104
    nobodies = [house.connect(f"nobody{n}") for n in range(2)]
    for each in (house.connect("bob", username="bob"), *nobodies):
        before = received(house)
        publish(each, 100)
        assert received(house) == before + 100
    pass_time(house, 1)
    assert 490 <= received(house) <= 510


def test_who_connects_again_has_the_same_debt() -> None:
    house = House(maximum_messages_per_s=100)
    first = house.connect("c")
    publish(first, 200)
    house.connect("c")
    assert first.closed
    before = received(house)
    publish(house.connect("c"), 10)
    assert received(house) <= before + 1


@pytest.mark.parametrize(("qos", "answer"), [(1, Puback), (2, Pubrec)])
def test_what_waiting_cannot_pay_for_is_refused(qos: int, answer: type) -> None:
    house = House(maximum_bytes_per_s=1_000)
    client = house.connect("c")
    client.send(Publish("a", bytes(LONGEST_S * 1_000), qos, packet_id=1))
    (refusal,) = client.take()
    assert isinstance(refusal, answer)
    assert refusal.reason_code is ReasonCode.QUOTA_EXCEEDED
    client.send(Publish("a", b"", 1, packet_id=2))  # it is not charged for what was refused
    assert [each.packet_id for each in client.take()] == [2]
    assert not client.closed


@pytest.mark.parametrize(("version", "qos"), [(4, 0), (4, 1), (4, 2), (5, 0)])
def test_who_cannot_be_told_pays_by_waiting(version: int, qos: int) -> None:
    house = House(maximum_bytes_per_s=1_000)
    client = house.connect("c", version=version)
    client.send(Publish("a", bytes(20_000), qos, packet_id=bool(qos)), Publish("a", b""))
    assert received(house) == 1
    pass_time(house, 18)
    assert received(house) == 1
    pass_time(house, 3)
    assert received(house) == 2
    assert not client.closed


def test_a_client_that_hangs_up_is_heard_to_the_end() -> None:
    house = House(maximum_messages_per_s=10)
    client = house.connect("c")
    publish(client, 30)
    client.lose()
    pass_time(house, 3)
    assert received(house) == 30
    assert house.clients.connection("c") is None


def test_other_rates_hold_at_once() -> None:
    house = House(maximum_messages_per_s=1)
    client = house.connect("c")
    publish(client, 50)

    def renew(**rates: int) -> None:
        limits = msgspec.structs.replace(house.clients.limits, **rates)
        access: Any = Named()
        house.carry_out(
            house.clients.renew(limits, access, lambda _: ALL_PERMISSIONS, house.now_us)
        )

    renew(maximum_messages_per_s=20)
    house.take_held()
    assert 20 <= received(house) <= 25
    renew(maximum_messages_per_s=0)
    house.take_held()
    assert received(house) == 50


def test_full_buckets_are_forgotten() -> None:
    house = House(maximum_messages_per_s=10)
    for number in range(3 * FEW):
        client = house.connect(f"c{number}")
        publish(client, 1)
        client.disconnect()
        house.now_us += SECOND // 100
    assert len(house.clients.rates._buckets) <= FEW + 2


def test_without_rates_nothing_is_counted() -> None:
    house = House()
    publish(house.connect("c"), 100)
    assert not house.clients.rates._buckets
