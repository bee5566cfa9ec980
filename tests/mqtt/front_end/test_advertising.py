"""Publications of a client that advertises wait until the network knows the advertisement."""

from __future__ import annotations

from shoal.mqtt.codec.packets import Pingreq, Pingresp, Puback, Publish
from shoal.mqtt.codec.properties import Properties
from tests.mqtt.broker_api import Client
from tests.mqtt.federation.test_granting import settle
from tests.mqtt.network_broker_api import Network

PROMISE = Properties(user_properties=(("$advertise", "x > 0"), ("$advertise", "y > 0")))
OF_X = Properties(user_properties=(("x", "5"),))


def writer(network: Network) -> Client:
    """A client that has advertised and published; the network knows neither."""
    network.is_storing = network.is_settling = False
    client = network["B1"].connect("writer", properties=PROMISE)
    client.send(Publish("a", b"5", 1, packet_id=1, properties=OF_X))
    return client


def packets_after_wait(client: Client) -> list[object]:
    """The client's packets once the conditions of its wait may hold."""
    client.send(Pingreq())
    return [type(each) for each in client.take()]


def test_publications_wait_for_the_machine_and_a_mark() -> None:
    network = Network("B1", "B2", "B3")
    here = network["B3"].connect("here")
    here.subscribe("#")
    client, site = writer(network), network["B1"]
    first, second = site.unheard
    assert packets_after_wait(client) == [Pingresp]
    site.advertised("writer", first)
    settle(network)
    assert packets_after_wait(client) == [Pingresp]
    assert here.take_payloads() == []
    site.advertised("writer", second)
    assert packets_after_wait(client) == [Pingresp]
    assert here.take_payloads() == [b"5"]
    settle(network)
    assert packets_after_wait(client) == [Puback, Pingresp]


def test_an_earlier_connections_advertisement_does_not_count() -> None:
    network = Network("B1", "B2", "B3")
    here = network["B3"].connect("here")
    here.subscribe("#")
    writer(network)
    before = network["B1"].unheard
    network["B1"].unheard = []
    client, site = writer(network), network["B1"]
    settle(network)
    for each in before:
        site.advertised("writer", each)
    packets_after_wait(client)
    assert here.take_payloads() == []
    for each in site.unheard:
        site.advertised("writer", each)
    packets_after_wait(client)
    assert here.take_payloads()[-1:] == [b"5"]


def test_a_client_without_advertisement_does_not_wait() -> None:
    network = Network("B1", "B2", "B3")
    here = network["B3"].connect("here")
    here.subscribe("#")
    network.is_storing = network.is_settling = False
    network["B1"].connect("writer").send(Publish("a", b"5", 1, packet_id=1))
    assert here.take_payloads() == [b"5"]
