"""What publishers of a network are answered, and when: once what they published is settled."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.mqtt.access import Admission, Credentials, Permissions
from shoal.mqtt.packets import Disconnect, Puback, Pubcomp, Publish, Pubrec, Pubrel
from shoal.mqtt.reason_codes import ReasonCode
from tests.mqtt.house import Client
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


def test_who_is_owed_much_is_read_no_more(network: Network) -> None:
    client = publisher(network["B1"], keep_alive_s=10)
    client.send(*(Publish("a", b"", 1, packet_id=n) for n in range(1, 4)))
    assert client.connection.wants_reading
    client.send(Publish("a", b"", 1, packet_id=4))
    assert not client.connection.wants_reading
    network["B1"].after(100)  # nobody reads what it says meanwhile: it is not silent
    assert not client.closed
    settle(network["B1"])
    assert client.connection.wants_reading
    network["B1"].after(100)
    assert client.closed


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
