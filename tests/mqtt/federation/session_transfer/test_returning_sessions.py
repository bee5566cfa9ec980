"""A session that returns, by way of others, to a broker that still has messages for it."""

from __future__ import annotations

from typing import Any

from shoal.mqtt.codec.packets import Connect
from shoal.mqtt.codec.properties import Properties
from tests.mqtt.broker_api import SECOND, Client
from tests.mqtt.network_broker_api import Network
from tests.mqtt.remembering import Memory

KEPT: dict[str, Any] = {
    "clean_start": False,
    "properties": Properties(session_expiry_interval_s=1_000),
}


def carry(network: Network, *ways: str) -> None:
    """Deliver the content of these links in turn, and its consequences over them."""
    for way in ways * 3:
        one, other = way.split()
        while network.links[one, other]:
            network.arrive(one, other)


def asks(network: Network, broker: str) -> Client:
    client = network[broker].open()
    client.send(Connect(client_id="c", **KEPT))
    return client


def test_messages_not_forwarded_wait_for_the_sessions_return() -> None:
    """The session goes from B3 to B1, on to B2, and back to B3, which was killed meanwhile."""
    network = Network("B1", "B2", "B3")
    memory = Memory(network)
    network.after(20)
    client = network["B3"].connect("c", **KEPT)
    client.subscribe("a", qos=1)
    client.lose()
    publisher = network["B2"].connect("p")
    network.is_slow = True
    client = asks(network, "B1")
    for way in ("B1 B2", "B2 B3", "B3 B2", "B2 B1"):
        one, other = way.split()
        while network.links[one, other]:
            network.arrive(one, other)
    assert client.take()[0].session_present
    # B2 does not know yet that the session is there; messages that B3 forwards are lost with it.
    publisher.publish("a", b"x", qos=1)
    network.arrive("B2", "B3")
    network.links["B3", "B2"].clear()
    carry(network, "B1 B2")
    network.links["B2", "B3"].clear()
    client.lose()
    client = asks(network, "B2")
    carry(network, "B2 B1", "B1 B2")
    assert client.take()[0].session_present
    client.lose()
    memory.restart("B3")
    network["B3"].now_us += SECOND - 1
    client = asks(network, "B3")
    for _ in range(10):
        carry(network, "B3 B2", "B2 B3")
        network["B3"].after(0.6)
    connack, *rest = client.take()
    assert connack.session_present
    assert [each.payload for each in rest] == [b"x"]
    network.is_slow = False
    network.settle()
    for _ in range(10):
        network.after(1)
    assert client.take() == []
