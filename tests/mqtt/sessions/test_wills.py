"""Wills take a bounded part of memory: before, 100,000 connections could have one of 1 MB each."""

from __future__ import annotations

from shoal.mqtt.codec.packets import Connack, Connect, Will
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.codec.reason_codes import ReasonCode
from tests.mqtt.house import KEPT, House
from tests.mqtt.sessions.test_user_queues import Named

LARGE = Will("w", bytes(60_000))


def code(house: House, name: str, will: Will | None, user: str | None = None) -> ReasonCode:
    client = house.open()
    client.send(Connect(name, will=will, username=user))
    connack = client.take()[0]
    assert isinstance(connack, Connack)
    return connack.reason_code


def test_who_brings_more_than_all_wills_may_take_is_refused() -> None:
    house = House(maximum_all_queued_bytes=200_000)
    clients = [house.connect(f"c{number}", will=LARGE) for number in range(3)]
    assert code(house, "c3", LARGE) is ReasonCode.QUOTA_EXCEEDED
    assert code(house, "small", None) is ReasonCode.SUCCESS
    # Who comes again brings nothing more, and who goes leaves room.
    assert code(house, "c1", LARGE) is ReasonCode.SUCCESS
    clients[0].disconnect()
    assert code(house, "c3", LARGE) is ReasonCode.SUCCESS
    clients[2].lose()
    assert code(house, "c4", LARGE) is ReasonCode.SUCCESS


def test_so_is_who_brings_more_than_one_user_s_may_take() -> None:
    house = House(Named(), maximum_user_queued_bytes=100_000)
    assert code(house, "a", LARGE, "bob") is ReasonCode.SUCCESS
    assert code(house, "b", LARGE, "bob") is ReasonCode.QUOTA_EXCEEDED
    assert code(house, "c", LARGE, "alice") is ReasonCode.SUCCESS


def test_user_properties_count_and_what_waits_counts_until_it_is_published() -> None:
    house = House(maximum_all_queued_bytes=50_000)
    pairs = (("name", "value"),) * 200
    late = Properties(will_delay_interval_s=10, user_properties=pairs)
    client = house.connect("c", will=Will("w", b"", properties=late), **KEPT)
    client.lose()
    assert code(house, "d", Will("w", bytes(20_000))) is ReasonCode.QUOTA_EXCEEDED
    house.after(11)
    assert house.clients.backlog.will_bytes == 0
    assert code(house, "d", Will("w", bytes(20_000))) is ReasonCode.SUCCESS
