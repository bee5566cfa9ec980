"""The later CONNECT wins, however late the broker of an earlier one takes its next step.

Brokers do not notice here that the client has hung up, so each continues with its connection.
"""

from __future__ import annotations

from typing import Any

import pytest

from shoal.mqtt.codec.packets import Connect
from tests.mqtt.broker_api import KEPT, will
from tests.mqtt.federation.test_evacuating import evacuate
from tests.mqtt.network_broker_api import Network

ANEW: dict[str, Any] = {**KEPT, "clean_start": True}


@pytest.fixture
def network() -> Network:
    """Three brokers in a line; the session of c is at B1, and messages wait in their links."""
    network = Network("B1", "B2", "B3")
    network.after(20)
    network["B1"].connect("c", **KEPT).subscribe("old", qos=1)
    network.after(1)
    network.is_slow = True
    return network


def exchange(network: Network, *names: str) -> None:
    """All messages between these brokers arrive, and their answers."""
    links = [ends for ends in network.links if {*ends} <= {*names}]
    while waiting := [ends for ends in links if network.links[ends]]:
        network.arrive(*waiting[0])


def connect_anew(network: Network) -> Any:
    """The client connects at B3, and says clean start."""
    network.after(1)
    client = network["B3"].connect("c", **ANEW)
    client.subscribe("new", qos=1)
    network.after(1)
    return client


def check(network: Network, client: Any) -> None:
    """At the end the client has its new session."""
    network.is_slow = False
    network.settle()
    network.after(20)
    assert not client.closed
    sites = network.sites.values()
    found = [site.clients.sessions.get("c") for site in sites]
    assert [None if each is None else tuple(each.subscriptions) for each in found] == [
        None,
        None,
        ("new",),
    ]


def test_a_session_that_has_come_does_not_end_a_later_one(network: Network) -> None:
    network["B2"].open().send(Connect("c", **KEPT))
    client = connect_anew(network)
    exchange(network, "B1", "B2")
    assert "c" in network["B2"].clients.sessions
    check(network, client)


def test_a_return_that_is_announced_late_does_not_end_a_later_session(network: Network) -> None:
    network["B2"].open().send(Connect("c", **KEPT))
    network.after(1)
    back = network["B1"].connect("c", **KEPT)
    client = connect_anew(network)
    exchange(network, "B1", "B2")
    assert not back.closed
    check(network, client)


def test_a_session_of_a_leaving_broker_does_not_end_a_later_one(network: Network) -> None:
    (old,) = network["B1"]._ends.values()
    old.lose()
    client = connect_anew(network)
    network.is_slow = False
    network.settle = lambda: exchange(network, "B1", "B2")  # type: ignore[method-assign]
    evacuate(network, "B1", "B2")
    assert "c" in network["B2"].clients.sessions
    del network.settle  # type: ignore[method-assign]
    check(network, client)


@pytest.mark.parametrize("client_id", "abcdefgh")
def test_a_takeover_does_not_end_the_session_of_a_client_that_is_back(client_id: str) -> None:
    """Whichever broker is its registrar: B3 does not know of the session, and begins another."""
    network = Network("B1", "B2", "B3")
    network.after(20)
    network.is_slow = True
    network["B1"].connect(client_id, **KEPT).subscribe("old", qos=1)
    network.after(1)
    network["B3"].connect(client_id, **KEPT)
    network.after(1)
    client = network["B1"].connect(client_id, **KEPT)
    assert client.connack.session_present
    network.is_slow = False
    network.settle()
    network.after(20)
    assert not client.closed
    assert [*network["B1"].clients.sessions[client_id].subscriptions] == ["old"]
    assert client_id not in network["B3"].clients.sessions


def test_the_will_of_a_connection_is_published_however_long_its_client_waited(
    network: Network,
) -> None:
    """It would be dropped if the client could have published since its CONNECT."""
    network.is_slow = False
    watcher = network["B2"].connect("watcher")
    watcher.subscribe("w")
    network["B1"].connect("d", will=will("w"))
    network.after(1)
    network.is_slow = True
    federation = network["B3"].clients.federation
    assert federation is not None
    starting = federation.session_transfer.starting
    starting.others = lambda: ["B4"]
    federation.joined(network["B3"].now_us)
    client = network["B3"].open()
    client.send(Connect("d", **KEPT))
    assert starting._waiting.keys() == {"d"}
    network.after(9)
    assert client.take()
    network.is_slow = False
    network.settle()
    assert watcher.take_payloads() == [b"gone"]
