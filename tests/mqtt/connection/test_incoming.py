"""Acknowledgements of publishers in a network come once their publications are settled."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.mqtt.access import ClientAdmission, ClientCredentials, Permissions
from shoal.mqtt.codec.packets import (
    Connack,
    Connect,
    Disconnect,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    SubscriptionRequest,
)
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.connection import holding
from tests.mqtt.broker_api import Client, will
from tests.mqtt.network_broker_api import Network, Site


@pytest.fixture
def network() -> Network:
    network = Network("B1", "B2", receive_maximum=4)
    network.is_settling = False
    return network


def settle(site: Site, *at: int) -> None:
    """Settle these unsettled publications, in this order; without any, all."""
    chosen = [site.unsettled[number] for number in at or range(len(site.unsettled))]
    for publication in chosen:
        site.unsettled.remove(publication)
        site.settle([publication])


def publisher(site: Site, **fields: Any) -> Client:
    client = site.connect("p", **fields)
    settle(site)  # what brokers tell each other about it
    return client


def test_a_publication_is_answered_when_it_is_settled(network: Network) -> None:
    client = publisher(network["B1"])
    client.send(Publish("a", b"", 1, packet_id=1), Publish("a", b"", 2, packet_id=2))
    client.send(Publish("a", b""))
    assert client.take() == []
    assert client.connection.owes
    settle(network["B1"])
    assert client.take() == [Puback(1), Pubrec(2)]
    assert not client.connection.owes
    client.send(Pubrel(2))
    assert client.take() == [Pubcomp(2)]


def test_answers_go_out_in_the_order_of_the_publications(network: Network) -> None:
    client = publisher(network["B1"])
    client.send(*(Publish("a", b"", qos, packet_id=n) for n, qos in ((1, 1), (2, 2), (3, 1))))
    settle(network["B1"], 1)
    settle(network["B1"], 1)
    assert client.take() == []
    settle(network["B1"], 0)
    assert client.take() == [Puback(1), Pubrec(2), Puback(3)]


class Strict:
    """Forbids publications to `no/`."""

    def admit(self, credentials: ClientCredentials) -> ClientAdmission:
        return ClientAdmission(ReasonCode.SUCCESS, permissions=self)  # type: ignore[arg-type]

    def may_publish(self, topic: str) -> bool:
        return not topic.startswith("no/")

    def may_subscribe(self, topic: str) -> bool:
        return True


def test_a_refusal_waits_for_its_turn(network: Network) -> None:
    site = network["B1"]
    permissions: Permissions = Strict()
    site.clients._reception.access = permissions  # type: ignore[assignment]
    client = publisher(site)
    client.send(Publish("no/a", b"", 1, packet_id=1))
    (refusal,) = client.take()
    assert refusal.reason_code is ReasonCode.NOT_AUTHORIZED
    client.send(Publish("a", b"", 1, packet_id=2), Publish("no/a", b"", 1, packet_id=3))
    assert client.take() == []
    settle(site)
    assert [each.packet_id for each in client.take()] == [2, 3]


def full(site: Site, **fields: Any) -> Client:
    """A publisher with the most unsettled publications that it may have."""
    client = publisher(site, **fields)
    client.send(*(Publish("a", b"%d" % n, 1, packet_id=n) for n in range(1, 5)))
    return client


def released(client: Client) -> list[Any]:
    """Its packets once everything is settled and its held packets are handled."""
    site = client.broker_api
    assert isinstance(site, Site)
    settle(site)
    assert not client.connection.must_wait
    site.carry_out(client.connection.take_held(site.now_us))
    return client.take()


@pytest.mark.parametrize("version", [4, 5])
def test_a_publisher_with_many_unsettled_is_held_but_its_pings_answered(
    network: Network, version: int
) -> None:
    site = network["B1"]
    client = full(site, version=version)
    assert client.connection.must_wait
    client.send(Publish("a", b"5", 1, packet_id=5), Subscribe(6, (SubscriptionRequest("b"),)))
    client.send(Pingreq(), Publish("a", b"7"))
    assert client.take() == [Pingresp()]
    assert client.connection.holds
    assert len(site.unsettled) == 4
    assert [type(each) for each in released(client)] == [Puback] * 4
    assert not client.connection.holds
    assert site.clients.held_bytes == 0
    topics = [each for each in site.unsettled if "$topic" in each.attributes]
    assert [each.body[-1:] for each in topics] == [b"5", b"7"]
    settle(site)
    site.after(2)
    heard = client.take()
    assert Puback(5) in heard
    assert Suback in map(type, heard)


def test_a_held_client_does_not_time_out(network: Network) -> None:
    client = full(network["B1"], keep_alive_s=10)
    client.send(Publish("a", b"", 1, packet_id=5))
    network["B1"].after(100)
    assert not client.closed
    released(client)
    network["B1"].after(100)
    assert client.closed


def test_held_packets_are_bounded(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holding, "MAX_HELD_BYTES", 1_000)
    client = full(network["B1"])
    client.send(Publish("a", bytes(500)))
    assert client.connection.wants_reading
    client.send(Publish("a", bytes(500)))
    assert not client.connection.wants_reading
    released(client)
    assert client.connection.wants_reading


def test_a_client_without_held_packets_is_served_at_the_common_bound(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holding, "MAX_ALL_HELD_BYTES", 1_000)
    client, other = full(network["B1"]), network["B1"].connect("other")
    client.send(Publish("a", bytes(1_000)))
    assert not client.connection.wants_reading
    assert other.connection.wants_reading
    other.send(Pingreq())
    assert other.take()[-1] == Pingresp()
    released(client)
    assert client.connection.wants_reading


def test_packets_before_a_disconnect_count(network: Network) -> None:
    site = network["B1"]
    client = full(site, will=will("w"))
    client.send(Publish("a", b"", 1, packet_id=5), Disconnect())
    client.lose()
    assert not client.connection.is_closed
    client.closed = False  # its end is, which has no answer
    settle(site)
    site.carry_out(client.connection.take_held(site.now_us))
    assert client.connection.is_closed
    topics = [each.attributes.get("$topic") for each in site.unsettled]
    assert topics.count("a") == 1
    assert "w" not in topics
    assert site.clients.held_bytes == 0


def test_a_client_is_admitted_while_publications_are_held(network: Network) -> None:
    site = network["B1"]
    site.clients.is_held = True
    client = site.open()
    client.send(Connect("c"), Publish("a", b"x"), Pingreq())
    assert [type(each) for each in client.take()] == [Connack, Pingresp]
    assert site.unsettled[-1].attributes.get("$topic") is None
    site.clients.is_held = False
    site.carry_out(client.connection.take_held(site.now_us))
    assert site.unsettled[-1].attributes["$topic"] == "a"


def test_malformed_bytes_behind_held_packets_end_the_connection_in_turn(
    network: Network,
) -> None:
    client = full(network["B1"])
    client.send(Publish("a", b"", 1, packet_id=5))
    client.send_bytes("ff00")
    assert not client.closed
    assert Disconnect in map(type, released(client))
    assert client.closed


def test_a_retransmission_over_a_new_connection_is_answered_there(network: Network) -> None:
    site = network["B1"]
    first = publisher(site, clean_start=False)
    first.connection.session.expiry_interval_s = 100  # type: ignore[union-attr]
    first.send(Publish("a", b"x", 2, packet_id=7), Publish("a", b"y", 2, packet_id=8))
    count = len(site.unsettled)
    first.lose()
    second = site.connect("p", clean_start=False)
    assert second.connack.session_present
    said = len(site.unsettled)
    second.send(Publish("a", b"x", 2, False, True, 7), Publish("a", b"y", 2, False, True, 8))
    assert len(site.unsettled) == said >= count  # they are not published twice
    assert second.take() == []
    second.send(Publish("a", b"x", 2, False, True, 7))
    settle(site)
    assert second.take() == [Pubrec(7), Pubrec(8)]
    second.send(Publish("a", b"x", 2, False, True, 7))
    assert second.take() == [Pubrec(7)]


def test_a_departed_clients_publication_is_not_answered(network: Network) -> None:
    client = publisher(network["B1"])
    client.send(Publish("a", b"", 1, packet_id=1))
    client.send(Disconnect())
    settle(network["B1"])
    assert client.take() == []
