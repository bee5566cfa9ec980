"""A client that goes on publishing at another broker does not overtake itself.

What it published at QoS 2 where it was, and what is not settled yet, may still be on its way to
subscribers; nobody sends that again.
"""

from __future__ import annotations

from typing import Any

import pytest

from shoal.mqtt.codec.packets import (
    Disconnect,
    Pingreq,
    Pingresp,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Subscribe,
    SubscriptionRequest,
)
from tests.mqtt.broker_api import KEPT, Client
from tests.mqtt.network_broker_api import Network
from tests.mqtt.remembering import Memory


def acquainted() -> Network:
    network = Network("B1", "B2", "B3")
    network.after(20)
    return network


def leave_unsettled(network: Network, broker: str) -> Client:
    """A client that has published 0 there, which is not settled, and has lost its connection."""
    client = network[broker].connect("c", **KEPT)
    network.is_settling = False
    client.send(Publish("a", b"0", 2, packet_id=1))
    network.is_settling = True
    assert client.take() == []
    client.lose()
    return client


def settle(network: Network, broker: str) -> None:
    """What the broker's front end had published is where nothing can take it any more."""
    unsettled, network[broker].unsettled = network[broker].unsettled, []
    network[broker].settle(unsettled)


def took(client: Client) -> list[Any]:
    """What a client was answered, with what was held taken as soon as that may be."""
    client.send(Pingreq())
    return [each for each in client.take() if not isinstance(each, Pingresp)]


def test_it_waits_until_what_went_before_is_settled() -> None:
    network = acquainted()
    subscriber = network["B3"].connect("s")
    subscriber.subscribe("a")
    leave_unsettled(network, "B1")
    client = network["B2"].connect("c", **KEPT)
    client.send(Publish("a", b"1", 2, packet_id=2), Publish("a", b"2", 0))
    for _ in range(20):  # as long as that broker says that it is there
        network.after(1)
        assert took(client) == []
        assert subscriber.take_payloads() in ([], [b"0"])
    settle(network, "B1")
    network.after(0.001)
    assert took(client) == [Pubrec(2)]
    assert subscriber.take_payloads() == [b"1", b"2"]


def test_who_has_nothing_unsettled_waits_for_nothing() -> None:
    network = acquainted()
    client = network["B1"].connect("c", **KEPT)
    client.publish("a", b"0", qos=2)
    client.lose()
    client = network["B2"].connect("c", **KEPT)
    client.send(Publish("a", b"1", 2, packet_id=2))
    assert client.take() == [Pubrec(2)]


def test_what_it_asks_for_meanwhile_is_answered() -> None:
    network = acquainted()
    leave_unsettled(network, "B1")
    client = network["B2"].connect("c", **KEPT)
    assert client.subscribe("b").reason_codes == (0,)
    client.send(Publish("a", b"1", 2, packet_id=2))
    client.send(Subscribe(9, (SubscriptionRequest("d", 0),)))
    assert took(client) == []  # in the order in which it said so
    settle(network, "B1")
    network.after(0.001)
    assert [type(each).__name__ for each in took(client)] == ["Pubrec", "Suback"]


def test_a_broker_that_says_nothing_is_waited_for_5_seconds() -> None:
    network = acquainted()
    leave_unsettled(network, "B1")
    client = network["B2"].connect("c", **KEPT)
    client.send(Publish("a", b"1", 2, packet_id=2))
    network["B2"].after(4.9)
    assert took(client) == []
    network["B2"].after(0.2)
    assert took(client) == [Pubrec(2)]


def test_it_waits_wherever_it_goes_next() -> None:
    network = acquainted()
    leave_unsettled(network, "B1")
    network["B2"].connect("c", **KEPT).lose()
    client = network["B3"].connect("c", **KEPT)
    client.send(Publish("a", b"1", 2, packet_id=2))
    for _ in range(20):
        network.after(1)
        assert took(client) == []
    settle(network, "B1")
    for _ in range(2):  # by the broker between
        network.after(0.001)
    assert took(client) == [Pubrec(2)]


def test_back_where_it_was_it_goes_on_at_once() -> None:
    network = acquainted()
    leave_unsettled(network, "B1")
    network["B2"].connect("c", **KEPT).lose()
    client = network["B1"].connect("c", **KEPT)
    client.send(Publish("a", b"1", 2, packet_id=2))
    network.after(0.001)
    assert took(client) == [Pubrec(2)]


@pytest.mark.parametrize("is_killed", [False, True])
def test_back_where_it_was_it_is_told_that_is_settled_what_is(is_killed: bool) -> None:
    """That was acknowledged at once, and lost when the broker was killed before it had gone on."""
    network = acquainted()
    memory = Memory(network)
    leave_unsettled(network, "B1")
    network["B2"].connect("c", **KEPT).lose()
    client = network["B1"].connect("c", **KEPT)
    assert client.connack.session_present
    network.after(1)
    if is_killed:
        network["B1"].unsettled.clear()
        network.is_settling = False
        memory.restart("B1")
        network.is_settling = True
        client = network["B1"].connect("c", **KEPT)
    client.send(Publish("a", b"0", 2, duplicate=True, packet_id=1))
    for _ in range(20):
        network.after(1)
        assert took(client) == []
    settle(network, "B1")
    assert took(client) == [Pubrec(1)]
    client.send(Pubrel(1))
    assert took(client) == [Pubcomp(1)]


def test_back_where_it_was_it_may_ask_when_that_is_settled() -> None:
    network = acquainted()
    leave_unsettled(network, "B1")
    network["B2"].connect("c", **KEPT).lose()
    client = network["B1"].connect("c", **KEPT)
    network.after(20)
    settle(network, "B1")
    client.send(Publish("a", b"0", 2, duplicate=True, packet_id=1))
    assert took(client) == [Pubrec(1)]


def test_who_says_goodbye_meanwhile_has_published_before() -> None:
    network = acquainted()
    subscriber = network["B3"].connect("s")
    subscriber.subscribe("a")
    leave_unsettled(network, "B1")
    client = network["B2"].connect("c", **KEPT)
    client.send(Publish("a", b"1", 2, packet_id=2), Disconnect())
    network.after(1)
    subscriber.take()
    settle(network, "B1")
    network.after(0.001)
    client.broker_api.carry_out(client.connection.take_held(client.broker_api.now_us))
    assert subscriber.take_payloads() == [b"1"]


def test_who_took_it_in_still_waits_when_it_has_been_killed() -> None:
    network = acquainted()
    memory = Memory(network)
    leave_unsettled(network, "B1")
    network["B2"].connect("c", **KEPT)
    memory.restart("B2")
    client = network["B2"].connect("c", **KEPT)
    assert client.connack.session_present
    client.send(Publish("a", b"1", 2, packet_id=2))
    for _ in range(20):
        network.after(1)
        assert took(client) == []
    settle(network, "B1")
    network.after(0.001)
    assert took(client) == [Pubrec(2)]
    memory.restart("B2")
    client = network["B2"].connect("c", **KEPT)
    client.send(Publish("a", b"2", 2, packet_id=3))
    assert took(client) == [Pubrec(3)]


def test_where_it_was_is_killed_and_says_it_again() -> None:
    network = acquainted()
    memory = Memory(network)
    leave_unsettled(network, "B1")
    client = network["B2"].connect("c", **KEPT)
    client.send(Publish("a", b"1", 2, packet_id=2))
    network["B1"].unsettled.clear()
    network.is_settling = False
    memory.restart("B1")
    network.is_settling = True
    for _ in range(20):
        network.after(1)
        assert took(client) == []
    settle(network, "B1")
    network.after(0.001)
    assert took(client) == [Pubrec(2)]
