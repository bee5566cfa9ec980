"""A client that continues to publish at another broker does not overtake itself.

Its unsettled QoS 2 publications at the former broker may still be on their way, and no one
retransmits them.
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
    """A client that has published 0 there, unsettled, and has lost its connection."""
    client = network[broker].connect("c", **KEPT)
    network.is_settling = False
    client.send(Publish("a", b"0", 2, packet_id=1))
    network.is_settling = True
    assert client.take() == []
    client.lose()
    return client


def settle(network: Network, broker: str) -> None:
    """Settle the publications of the broker's front end."""
    unsettled, network[broker].unsettled = network[broker].unsettled, []
    network[broker].settle(unsettled)


def took(client: Client) -> list[Any]:
    """The client's answers, after its held packets are handled as soon as allowed."""
    client.send(Pingreq())
    return [each for each in client.take() if not isinstance(each, Pingresp)]


def test_new_publications_wait_until_earlier_ones_are_settled() -> None:
    network = acquainted()
    subscriber = network["B3"].connect("s")
    subscriber.subscribe("a")
    leave_unsettled(network, "B1")
    client = network["B2"].connect("c", **KEPT)
    client.send(Publish("a", b"1", 2, packet_id=2), Publish("a", b"2", 0))
    for _ in range(20):  # as long as that broker reports that there are unsettled ones
        network.after(1)
        assert took(client) == []
        assert subscriber.take_payloads() in ([], [b"0"])
    settle(network, "B1")
    network.after(0.001)
    assert took(client) == [Pubrec(2)]
    assert subscriber.take_payloads() == [b"1", b"2"]


def test_a_client_without_unsettled_publications_does_not_wait() -> None:
    network = acquainted()
    client = network["B1"].connect("c", **KEPT)
    client.publish("a", b"0", qos=2)
    client.lose()
    client = network["B2"].connect("c", **KEPT)
    client.send(Publish("a", b"1", 2, packet_id=2))
    assert client.take() == [Pubrec(2)]


def test_other_requests_are_answered_meanwhile() -> None:
    network = acquainted()
    leave_unsettled(network, "B1")
    client = network["B2"].connect("c", **KEPT)
    assert client.subscribe("b").reason_codes == (0,)
    client.send(Publish("a", b"1", 2, packet_id=2))
    client.send(Subscribe(9, (SubscriptionRequest("d", 0),)))
    assert took(client) == []  # in the order of sending
    settle(network, "B1")
    network.after(0.001)
    assert [type(each).__name__ for each in took(client)] == ["Pubrec", "Suback"]


def test_a_silent_broker_is_waited_for_5_seconds() -> None:
    network = acquainted()
    leave_unsettled(network, "B1")
    client = network["B2"].connect("c", **KEPT)
    client.send(Publish("a", b"1", 2, packet_id=2))
    network["B2"].after(4.9)
    assert took(client) == []
    network["B2"].after(0.2)
    assert took(client) == [Pubrec(2)]


def test_a_client_that_moves_again_still_waits() -> None:
    network = acquainted()
    leave_unsettled(network, "B1")
    network["B2"].connect("c", **KEPT).lose()
    client = network["B3"].connect("c", **KEPT)
    client.send(Publish("a", b"1", 2, packet_id=2))
    for _ in range(20):
        network.after(1)
        assert took(client) == []
    settle(network, "B1")
    for _ in range(2):  # over the broker between
        network.after(0.001)
    assert took(client) == [Pubrec(2)]


def test_a_client_back_at_its_former_broker_does_not_wait() -> None:
    network = acquainted()
    leave_unsettled(network, "B1")
    network["B2"].connect("c", **KEPT).lose()
    client = network["B1"].connect("c", **KEPT)
    client.send(Publish("a", b"1", 2, packet_id=2))
    network.after(0.001)
    assert took(client) == [Pubrec(2)]


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_client_back_at_its_former_broker_is_answered_when_settled(is_killed: bool) -> None:
    """Otherwise it would be acknowledged at once, and lost if the broker is killed."""
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


def test_a_client_back_at_its_former_broker_may_retransmit_settled_ones() -> None:
    network = acquainted()
    leave_unsettled(network, "B1")
    network["B2"].connect("c", **KEPT).lose()
    client = network["B1"].connect("c", **KEPT)
    network.after(20)
    settle(network, "B1")
    client.send(Publish("a", b"0", 2, duplicate=True, packet_id=1))
    assert took(client) == [Pubrec(1)]


def test_held_publications_before_a_disconnect_are_published() -> None:
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


def test_the_new_broker_still_waits_after_a_kill() -> None:
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


def test_the_former_broker_reports_again_after_a_kill() -> None:
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
