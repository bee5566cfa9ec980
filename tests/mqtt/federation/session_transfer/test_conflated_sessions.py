"""Sessions with `$every` and `$changed` that follow their clients: values, held messages and the
rest of intervals travel."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from shoal.mqtt.codec.packets import MQTT_5, Connect
from shoal.mqtt.federation.session_transfer.installing import ITEMS_AT_ONCE, SessionInstallation
from tests.mqtt.broker_api import KEPT
from tests.mqtt.network_broker_api import Network
from tests.mqtt.remembering import Memory


def value(number: int) -> bytes:
    return b'{"v": %d}' % number


def test_the_rest_of_an_interval_travels() -> None:
    network = Network("B1", "B2", "B3")
    publisher = network["B2"].connect("p")
    old = network["B1"].connect("c", **KEPT)
    old.subscribe("t?$every=10s", qos=1)
    publisher.publish("t", b"1", qos=1)
    assert old.take_payloads() == [b"1"]
    network.after(4)
    publisher.publish("t", b"2", qos=1)
    new = network["B3"].connect("c", **KEPT)
    assert new.connack.session_present
    network.after(1)
    publisher.publish("t", b"3", qos=1)
    network.after(4)
    assert new.take_payloads() == []
    network.after(2)
    assert new.take_payloads() == [b"3"]


def test_the_values_delivered_last_travel() -> None:
    network = Network("B1", "B2", "B3")
    publisher = network["B2"].connect("p")
    old = network["B1"].connect("c", **KEPT)
    old.subscribe("t?$changed=v", qos=1)
    publisher.publish("t", value(1), qos=1)
    assert old.take_payloads() == [value(1)]
    old.lose()
    publisher.publish("t", value(2), qos=1)
    publisher.publish("t", value(1), qos=1)
    new = network["B3"].connect("c", **KEPT)
    network.after(20)
    publisher.publish("t", value(1), qos=1)
    publisher.publish("t", value(3), qos=1)
    network.after(1)
    assert new.take_payloads() == [value(3)]


def test_one_message_per_key_after_a_kill_and_a_move() -> None:
    network = Network("B1", "B2", "B3")
    memory = Memory(network)
    publisher = network["B2"].connect("p")
    old = network["B1"].connect("c", **KEPT)
    old.subscribe("+?$every=10s", qos=1)
    old.lose()
    for topic in ("t", "u", "t", "u"):
        publisher.publish(topic, topic.encode(), qos=1)
    memory.restart("B1")
    network.after(20)
    new = network["B3"].connect("c", **KEPT)
    network.after(20)
    assert sorted(new.take_payloads()) == [b"t", b"u"]


@pytest.mark.parametrize("comes_back", [False, True])
def test_many_keys_are_read_in_slices(monkeypatch: pytest.MonkeyPatch, comes_back: bool) -> None:
    sizes: list[int] = []
    take = SessionInstallation.take_keys

    def counted(self: SessionInstallation, states: Any, now_us: int) -> None:
        sizes.append(len(states))
        take(self, states, now_us)

    monkeypatch.setattr(SessionInstallation, "take_keys", counted)
    network = Network("B1", "B2", "B3")
    publisher = network["B2"].connect("p")
    old = network["B1"].connect("c", **KEPT)
    old.subscribe("+?$every=10s", qos=1)
    old.lose()
    topics = [f"t{number}" for number in range(ITEMS_AT_ONCE + 50)]
    for topic in topics:
        publisher.publish(topic, topic.encode(), qos=1)
    network.after(20)
    found = []
    for name in ("B3", "B1") if comes_back else ("B3",):
        new = network[name].open()
        new.send(Connect(client_id="c", version=MQTT_5, **KEPT))
        network.after(20)
        connack, *new._inbox = new.take()
        assert connack.session_present
        if name == "B3" and comes_back:
            new.lose()
    for _ in range(300):
        network.after(0.1)
        found += [each.topic for each in new.take_publications()]
    assert sorted(found) == sorted(topics)
    assert sum(sizes) >= len(topics)
    assert max(sizes) <= ITEMS_AT_ONCE


def test_keys_that_a_killed_source_sends_again_are_held_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    take = SessionInstallation.take_keys

    def twice(self: SessionInstallation, states: Any, now_us: int) -> None:
        # A retained message of another broker has no key.
        states = [(name, replace(state, message_key=None)) for name, state in states]
        take(self, states, now_us)
        take(self, states, now_us)

    monkeypatch.setattr(SessionInstallation, "take_keys", twice)
    network = Network("B1", "B2", "B3")
    publisher = network["B2"].connect("p")
    old = network["B1"].connect("c", **KEPT)
    old.subscribe("t?$every=10s", qos=1)
    old.lose()
    publisher.publish("t", b"1", qos=1)
    new = network["B3"].connect("c", **KEPT)
    session = network["B3"].clients.sessions["c"]
    network.after(20)
    assert new.take_payloads() == [b"1"]
    assert (len(session.withheld), session.withheld_bytes) == (0, 0)
