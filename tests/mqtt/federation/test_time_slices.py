"""A message for many groups is handed out in time slices, without loss or duplicates.

In one slice a QoS 1 PUBLISH to 16,000 groups at another broker would take 8.8 s.
"""

from __future__ import annotations

import pytest

from shoal.mqtt.codec.packets import Pingresp, Publish
from shoal.mqtt.federation import sharing
from shoal.mqtt.federation.time_slices import MOST_AT_ONCE, copy_work
from tests.examples import at_length
from tests.mqtt.broker_api import KEPT, Client
from tests.mqtt.network_broker_api import Network
from tests.mqtt.remembering import Memory

GROUPS = 2 * MOST_AT_ONCE
TOPIC = "jobs"


def in_groups(network: Network, broker: str, name: str, count: int = GROUPS) -> Client:
    client = network[broker].connect(name, **KEPT)
    for number in range(count):
        client.subscribe(f"$share/{name}{number}/{TOPIC}", qos=2)
    network.after(0.01)
    return client


@pytest.fixture
def network() -> Network:
    return Network("B1", "B2")


@pytest.mark.parametrize("broker", ["B1", "B2"])
def test_other_clients_are_served_meanwhile_and_publish_behind_it(
    network: Network, broker: str
) -> None:
    member = in_groups(network, broker, "m")
    first, second = (network["B1"].connect(each) for each in ("p", "q"))
    first.send(Publish(TOPIC, b"1", 1, packet_id=1))
    got = member.take_payloads()
    assert 0 < len(got) <= MOST_AT_ONCE
    second.send(Publish(TOPIC, b"2", 1, packet_id=1))
    second.send_bytes(b"\xc0\0")
    assert isinstance(second.take()[0], Pingresp)
    assert not first.take()
    network.after(0.1)
    site = network["B1"]
    for client in (first, second):
        site.carry_out(client.connection.take_held(site.now_us))
    network.after(0.1)
    got += member.take_payloads()
    assert got == [b"1"] * GROUPS + [b"2"] * GROUPS
    assert len(first.take()) == len(second.take()) == 1
    assert not site.clients.federation.sharing._open


def test_large_copies_for_other_brokers_cost_more(network: Network) -> None:
    member = in_groups(network, "B2", "m", 100)
    publisher = network["B1"].connect("p")
    publisher.send(Publish(TOPIC, bytes(500_000)))
    assert 0 < len(member.take_payloads()) <= MOST_AT_ONCE // copy_work(500_000) + 1


def test_copies_wait_while_links_are_full(network: Network) -> None:
    member = in_groups(network, "B2", "m")
    publisher = network["B1"].connect("p")
    publisher.send(Publish(TOPIC, b"1", 1, packet_id=1))
    got = member.take_payloads()
    clients = network["B1"].clients
    clients.is_held = True
    network.after(1)
    assert not member.take_payloads()
    clients.is_held = False
    network.after(1)
    assert len(got + member.take_payloads()) == GROUPS


@pytest.mark.parametrize("turns", [1, 9, *at_length((3, 5, 7, 11))])
def test_a_broker_killed_in_between_resumes_the_fan_out(network: Network, turns: int) -> None:
    memory = Memory(network)
    members = [in_groups(network, broker, broker) for broker in ("B1", "B2")]
    site = network["B1"]
    publisher = site.connect("p", **KEPT)
    publisher.send(Publish(TOPIC, b"1", 2, packet_id=1))
    for _ in range(turns):
        site.now_us += 1
        site.carry_out(site.clients.advance(site.now_us))
    assert site.clients.is_sharing == (turns < 10)
    publisher.closed = members[0].closed = True
    memory.restart("B1")
    publisher = site.connect("p", **KEPT)
    publisher.send(Publish(TOPIC, b"1", 2, duplicate=True, packet_id=1))
    network.after(100)
    if publisher.connection.holds:
        site.carry_out(publisher.connection.take_held(site.now_us))
    assert len(publisher.take()) == 1
    for broker in ("B1", "B2"):
        session = network[broker].clients.sessions[broker]
        assert session.inflight + session.queued == GROUPS
    assert not site.clients.federation.sharing._open


def test_the_search_for_groups_is_sliced(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    """Topic filters with wildcards that all match: each path through them is followed."""
    levels = 11
    topic = "/".join(f"l{at}" for at in range(levels))
    client = network["B2"].connect("m")
    for number in range(2**levels):
        parts = ("+" if number >> at & 1 else f"l{at}" for at in range(levels))
        client.subscribe("$share/g/" + "/".join(parts))
    network.after(0.01)
    monkeypatch.setattr(sharing, "MANY_GROUPS", 100)
    monkeypatch.setattr(sharing, "PLACES_PER_WORK", 2)
    sharing_there = network["B1"].clients.federation.sharing
    publisher = network["B1"].connect("p")
    publisher.send(Publish(topic, b"1", 1, packet_id=1))
    assert sharing_there.handing.is_on
    assert not client.take_payloads()
    client.subscribe("$share/h/other/#")
    network.after(1)
    assert client.take_payloads() == [b"1"] * 2**levels
    assert len(publisher.take()) == 1
