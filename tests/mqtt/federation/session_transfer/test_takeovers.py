"""A client that connects elsewhere: its old will precedes its new publications."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.mqtt.codec.packets import Connack, Connect, Pingreq, Pingresp, Publish, WillFields
from shoal.mqtt.federation.session_transfer.directory.registering import registrars
from shoal.mqtt.federation.session_transfer.takeovers import WAIT_US
from shoal.mqtt.limits import MICROSECONDS
from tests.mqtt.broker_api import KEPT, Client
from tests.mqtt.federation.session_transfer.test_announcements import (
    NAMES,
    client_with,
    restart,
    session_transfer,
)
from tests.mqtt.network_broker_api import Network

WAIT_S = WAIT_US / MICROSECONDS


@pytest.fixture
def network() -> Network:
    """Brokers in a line that know each other."""
    network = Network(*NAMES)
    network.after(20)
    return network


def will(qos: int = 1) -> WillFields:
    return WillFields("state", b"offline", qos, retain=True)


def subscribed(network: Network) -> list[Client]:
    """A subscriber at each broker."""
    found = []
    for name in NAMES:
        reader = network[name].connect(f"reader at {name}")
        reader.subscribe("state", qos=1)
        found.append(reader)
    return found


def move(network: Network, name: str, to: str, **options: Any) -> Client:
    """A client connects at another broker and publishes at once, over slow links."""
    client = network[to].open()
    network.is_slow = True
    client.send(Connect(name, **options), Publish("state", b"online", 0, retain=True))
    network.settle()
    network.after(0.1)  # announcements to all may be gathered for so long
    network.is_slow = False
    network.settle()
    network[to].take_held()
    return client


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("registrars", [("B2", "B3"), ("B1", "B3"), ("B5", "B3"), ("B4", "B6")])
def test_the_old_will_precedes_publications_elsewhere(
    network: Network, registrars: tuple[str, ...], qos: int
) -> None:
    """The client moves from B1 to B5, whichever brokers are its registrars."""
    readers, name = subscribed(network), client_with(*registrars)
    old = network["B1"].connect(name, will=will(qos))
    move(network, name, "B5")
    assert old.closed
    for reader in readers:
        assert reader.take_payloads() == [b"offline", b"online"]


@pytest.mark.parametrize("is_kept", [False, True])
@pytest.mark.parametrize("was_kept", [False, True])
@pytest.mark.parametrize("clean_start", [False, True])
def test_the_old_will_precedes_publications_of_lasting_sessions(
    network: Network, was_kept: bool, is_kept: bool, clean_start: bool
) -> None:
    readers, name = subscribed(network), client_with("B2", "B3")
    old = network["B1"].connect(name, will=will(), **(KEPT if was_kept else {}))
    network.after(1)
    move(network, name, "B5", **(KEPT if is_kept else {}) | {"clean_start": clean_start})
    assert old.closed
    for reader in readers:
        assert reader.take_payloads() == [b"offline", b"online"]


def test_only_publications_wait_for_the_old_will(network: Network) -> None:
    network.is_slow = True
    client = network["B1"].open()
    client.send(Connect(client_with("B4", "B5")), Pingreq(), Publish("a", b"x", 1, packet_id=1))
    assert [type(packet) for packet in client.take()] == [Connack, Pingresp]
    network["B1"].take_held()
    assert client.take() == []
    network.settle()
    network["B1"].take_held()
    (puback,) = client.take()
    assert puback.packet_id == 1


def test_brokers_that_do_not_answer_are_waited_for_once(network: Network) -> None:
    names = [f"c{number}" for number in range(99)]
    name, *others = [each for each in names if registrars(each, NAMES) == ("B4", "B6")]
    network.cut("B3", "B4")
    client = network["B1"].open()
    client.send(Connect(name), Publish("a", b"x", 1, packet_id=1))
    network.after(WAIT_S - 0.1)
    assert len(client.take()) == 1
    network.after(0.2)
    network["B1"].take_held()
    assert len(client.take()) == 1
    assert others
    for other in others:
        client = network["B1"].open()
        client.send(Connect(other), Publish("a", b"x", 1, packet_id=1))
        assert len(client.take()) == 2


def test_a_will_that_comes_too_late_is_dropped(network: Network) -> None:
    """The old broker was cut off when its client connected elsewhere."""
    readers, name = subscribed(network), client_with("B5", "B6")
    old = network["B1"].connect(name, will=will())
    network.after(0.01)
    network.cut("B1", "B2")
    client = network["B5"].connect(name)
    network.after(WAIT_S + 1)
    client.publish("state", b"online", retain=True)
    network.heal("B1", "B2")
    network.after(30)
    assert old.closed
    for reader in readers[1:]:
        assert reader.take_payloads() == [b"online"]


def test_a_will_that_waited_for_its_broker_to_start_is_dropped(network: Network) -> None:
    readers, name = subscribed(network), client_with("B5", "B6")
    network["B1"].connect(name, will=will())
    restart(network, "B1", waits=False)
    client = network["B5"].connect(name)
    client.publish("state", b"online", retain=True)
    network.after(30)
    assert session_transfer(network, "B5").registry.place(name) == "B5"
    for reader in readers[1:]:
        assert reader.take_payloads() == [b"online"]
