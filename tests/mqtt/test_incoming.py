"""What publishers of a network are answered, and when: once what they published is settled."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.mqtt.access import Admission, Credentials, Permissions
from shoal.mqtt.packets import (
    Disconnect,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Unsuback,
    Unsubscribe,
)
from shoal.mqtt.reason_codes import ReasonCode
from tests.mqtt.house import Client, will
from tests.mqtt.network_house import Network, Site


@pytest.fixture
def network() -> Network:
    network = Network("B1", "B2", receive_maximum=4)
    network.is_settling = False
    return network


def settle(site: Site, *at: int) -> None:
    """These of what is not settled are, in this order; without any, all."""
    chosen = [site.unsettled[number] for number in at or range(len(site.unsettled))]
    for publication in chosen:
        site.unsettled.remove(publication)
        site.settle([publication])


def publisher(site: Site, **fields: Any) -> Client:
    client = site.connect("p", **fields)
    settle(site)  # what brokers tell each other about it
    return client


def subscriber(site: Site) -> Client:
    client = site.connect("reader")
    site.network.is_settling = True
    client.subscribe("#")
    site.network.is_settling = False
    return client


def test_an_answer_is_owed_until_the_publication_is_settled(network: Network) -> None:
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
    """Lets nobody publish to `no/`."""

    def admit(self, credentials: Credentials) -> Admission:
        return Admission(ReasonCode.SUCCESS, permissions=self)  # type: ignore[arg-type]

    def may_publish(self, topic: str) -> bool:
        return not topic.startswith("no/")

    def may_subscribe(self, topic: str) -> bool:
        return True


def test_a_refusal_waits_for_its_turn(network: Network) -> None:
    site = network["B1"]
    permissions: Permissions = Strict()
    site.clients._access = permissions  # type: ignore[assignment]
    client = publisher(site)
    client.send(Publish("no/a", b"", 1, packet_id=1))
    (refusal,) = client.take()
    assert refusal.reason_code is ReasonCode.NOT_AUTHORIZED
    client.send(Publish("a", b"", 1, packet_id=2), Publish("no/a", b"", 1, packet_id=3))
    assert client.take() == []
    settle(site)
    assert [each.packet_id for each in client.take()] == [2, 3]


def test_what_is_published_by_who_is_owed_much_waits_and_pings_are_answered(
    network: Network,
) -> None:
    site = network["B1"]
    reader = subscriber(site)
    client = publisher(site)
    client.send(*(Publish("a", b"%d" % n, 1, packet_id=n) for n in range(1, 7)))
    client.send(Publish("a", b"at 0"), Unsubscribe(9, ("b",)), Pingreq())
    assert client.take() == [Pingresp()]
    assert client.connection.wants_reading
    assert reader.take_payloads() == [b"1", b"2", b"3", b"4"]
    settle(site, 0)
    site.after(0)
    assert client.take() == [Puback(1)]
    assert reader.take_payloads() == [b"5"]
    settle(site)
    site.after(0)
    unsuback = Unsuback(9, (ReasonCode.NO_SUBSCRIPTION_EXISTED,))
    assert client.take() == [*(Puback(n) for n in range(2, 6)), unsuback]
    assert reader.take_payloads() == [b"6", b"at 0"]
    settle(site)
    assert client.take() == [Puback(6)]


def test_who_is_owed_much_and_goes_on_is_read_no_more(network: Network) -> None:
    client = publisher(network["B1"], keep_alive_s=10)
    client.send(*(Publish("a", b"", 1, packet_id=n) for n in range(1, 5)))
    client.send(Publish("a", b"x" * 30_000, 1, packet_id=5))
    assert client.connection.wants_reading
    client.send(Publish("a", b"x" * 40_000, 1, packet_id=6))
    assert not client.connection.wants_reading
    network["B1"].after(100)  # nobody reads what it says meanwhile: it is not silent
    assert not client.closed
    settle(network["B1"])
    network["B1"].after(0)
    assert client.connection.wants_reading
    network["B1"].after(100)
    assert client.closed


@pytest.mark.parametrize("is_said", [True, False])
def test_what_who_is_owed_much_said_before_it_went_counts(network: Network, is_said: bool) -> None:
    site = network["B1"]
    reader = subscriber(site)
    client = publisher(site, will=will("gone"))
    client.send(*(Publish("a", b"%d" % n, 1, packet_id=n) for n in range(1, 6)))
    if is_said:
        client.send(Disconnect())
    client.lose()
    found = [(packet.topic, packet.payload) for packet in reader.take_publications()]
    assert found[:5] == [("a", b"%d" % n) for n in range(1, 6)]
    assert [topic for topic, _ in found[5:]] == [] if is_said else ["gone"]


def test_what_is_sent_again_over_a_new_connection_is_answered_there(network: Network) -> None:
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


def test_nobody_is_told_when_its_client_is_gone(network: Network) -> None:
    client = publisher(network["B1"])
    client.send(Publish("a", b"", 1, packet_id=1))
    client.send(Disconnect())
    settle(network["B1"])
    assert client.take() == []
