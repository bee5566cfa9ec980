"""A broker that joins late, or was disconnected, learns what the others know."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from shoal.mqtt.broker_clients import BrokerClients
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.federation.controls import decode_control
from shoal.mqtt.federation.time_slices import MOST_AT_ONCE
from tests.mqtt.network_broker_api import Network

NAMES = ("B1", "B2", "B3")


@pytest.fixture
def network() -> Network:
    network = Network(*NAMES)
    network.after(20)
    return network


def restart(network: Network, name: str) -> None:
    """Restart the MQTT side of a broker, without memory."""
    site = network[name]
    site.clients = BrokerClients(name, site.now_us, limits=site.clients.limits, networked=True)
    site.carry_out(site.clients.take_effects())


def retained(network: Network, name: str) -> dict[str, bytes]:
    store = network[name].clients.retained
    return {each.topic: each.payload for each in store.matching("#", network[name].now_us)}


def digest(network: Network, name: str) -> int:
    return network[name].clients.retained.digest


def controls_said(network: Network) -> list[str]:
    """The names of the controls that brokers send from now on."""
    said: list[str] = []
    for site in network.sites.values():
        front_end = site.clients.front_end
        assert front_end is not None

        def send(to: str, body: bytes, now_us: int, send: Any = front_end.send) -> int:
            said.append(type(decode_control(body)).__name__)
            return int(send(to, body, now_us))

        front_end.send = send  # type: ignore[method-assign]
    return said


def test_retained_messages_are_learnt(network: Network) -> None:
    publisher = network["B1"].connect("p")
    for number in range(5):
        publisher.publish(f"a/{number}", b"x", qos=1, retain=True)
    publisher.publish("a/0", b"", retain=True)
    restart(network, "B3")
    assert retained(network, "B3") == {}
    network.after(1)
    assert retained(network, "B3") == {f"a/{number}": b"x" for number in range(1, 5)}
    client = network["B3"].connect("c")
    client.subscribe("a/1", qos=1)
    assert [packet.qos for packet in client.take_publications()] == [1]


def test_a_new_broker_repeats_its_hello_until_answered() -> None:
    network = Network("B1", "B2")
    network.cut("B1", "B2")
    for site in network.sites.values():
        assert site.clients.federation is not None
        site.clients.federation.joining.is_joining = site.machine.id == "B2"
    said = controls_said(network)
    network.after(60)
    assert said.count("FederationHello") > 50
    network.heal("B1", "B2")
    network.after(5)
    said.clear()
    network.after(60)
    assert "FederationHello" not in said


def test_a_new_broker_whose_first_link_fails_is_no_end_of_a_split(network: Network) -> None:
    """The link was ending for the broker's former incarnation; the first answers are lost."""
    network["B1"].connect("p").publish("a", b"x", retain=True)
    restart(network, "B3")
    federation = network["B3"].clients.federation
    assert federation is not None
    federation.joining.is_joining = True
    for is_ready in (False, True):
        federation.linked("B2", is_ready, network["B3"].now_us)
    said = controls_said(network)
    network.is_slow = True
    network.after(1)
    for link in network.links.values():
        link.clear()
    network.is_slow = False
    network.after(2)
    assert federation.joining.is_told
    assert retained(network, "B3") == {"a": b"x"}
    assert "Rejoined" not in said
    # From now on it is a member, and may be an end of a split.
    federation.joined(network["B3"].now_us)
    network.cut("B2", "B3")
    network.heal("B2", "B3")
    network.after(1)
    assert said.count("Rejoined") == 2


def test_a_new_broker_whose_link_was_lost_repeats_its_hello_until_answered() -> None:
    network = Network("B1", "B2")
    joiner = network["B2"]
    assert joiner.clients.federation is not None
    joiner.clients.federation.joining.is_joining = network.is_slow = True
    for is_ready in (False, True):
        joiner.clients.federation.linked("B1", is_ready, joiner.now_us)
    said = controls_said(network)
    joiner.after(60)
    assert said.count("FederationHello") > 50
    while network.step(Random(1)):  # one by one: `settle` would nest all the answers
        pass
    network.is_slow = False
    network.after(5)
    said.clear()
    network.after(60)
    assert "FederationHello" not in said


def test_a_joined_broker_asks_once_after_a_split(network: Network) -> None:
    federation = network["B3"].clients.federation
    assert federation is not None
    federation.joining.is_joining = True
    federation.joined(network["B3"].now_us)
    network.cut("B2", "B3")
    network.heal("B2", "B3")
    network.after(60)
    assert federation.joining._hellos == 1


def test_only_one_broker_answers_if_all_agree(network: Network) -> None:
    network["B1"].connect("p").publish("a", b"x", retain=True)
    restart(network, "B3")
    told: list[str] = []
    for name in ("B1", "B2"):
        front_end = network[name].clients.front_end
        assert front_end is not None
        send = front_end.send

        def listen(to: str, body: bytes, now_us: int, name: str = name, send=send) -> None:  # type: ignore[no-untyped-def]
            if b"RetainedState" in body:
                told.append(name)
            send(to, body, now_us)

        front_end.send = listen  # type: ignore[method-assign]
    network.after(20)
    assert len(told) == 1


def test_a_retained_message_removed_meanwhile_does_not_come_back(network: Network) -> None:
    publisher = network["B1"].connect("p")
    publisher.publish("a", b"x", retain=True)
    network.cut("B1", "B2")
    publisher.publish("a", b"", retain=True)
    publisher.publish("b", b"y", retain=True)
    assert retained(network, "B3") == {"a": b"x"}
    network.heal("B1", "B2")
    network.after(2)
    assert [retained(network, name) for name in NAMES] == [{"b": b"y"}] * 3


def test_two_reconnected_parts_exchange_everything_once() -> None:
    network = Network("B1", "B2", "B3", "B4")
    kept = Properties(session_expiry_interval_s=1_000)
    network["B1"].connect("p").publish("a", b"x", retain=True)
    network.after(20)
    network.cut("B2", "B3")
    for name in network.sites:
        publisher = network[name].connect(f"p{name}")
        for number in range(20):
            publisher.publish(f"{name}/{number}", b"x", retain=True)
    away = network["B4"].connect("c", properties=kept)
    away.subscribe("b", qos=1)
    network.after(5)  # those that cannot ask their former brokers because of the cut wait
    for site in network.sites.values():
        site.take_held()
    said = controls_said(network)
    network.heal("B2", "B3")
    network.after(20)
    assert len({digest(network, name) for name in network.sites}) == 1
    assert len(retained(network, "B1")) == 81
    # All goes over the link once in each direction; through the tree, the differences of each part.
    assert said.count("Tell") == 2
    assert said.count("RetainedState") <= 2 * (81 + 40)
    # Of p and c, which all know; of the others their registrars are told, except themselves.
    assert said.count("Entered") == 2 * 2
    assert said.count("Register") <= 2 * 4 * 2
    back = network["B1"].connect("c", clean_start=False, properties=kept)
    assert back.connack.session_present


def test_two_parts_connected_over_another_link_agree() -> None:
    network = Network("B1", "B2", "B3")
    network.after(20)
    network.cut("B2", "B3")
    for name in network.sites:
        network[name].connect(f"p{name}").publish(name, b"x", retain=True)
    network.heal("B1", "B3")
    network.after(20)
    assert [retained(network, name) for name in NAMES] == [dict.fromkeys(NAMES, b"x")] * 3


def test_a_short_link_failure_causes_no_new_join(network: Network) -> None:
    said = controls_said(network)
    network.heal("B1", "B2")
    network.after(20)
    assert said == []


def test_expiry_continues_after_a_join(network: Network) -> None:
    properties = Properties(message_expiry_interval_s=60)
    network["B1"].connect("p").publish("a", b"x", retain=True, properties=properties)
    network.after(30)
    restart(network, "B3")
    network.after(1)
    client = network["B3"].connect("c")
    client.subscribe("a")
    assert client.take()[0].properties.message_expiry_interval_s == 29
    network.after(30)
    assert retained(network, "B3") == {}


def test_a_joined_broker_learns_clients_places(network: Network) -> None:
    kept = Properties(session_expiry_interval_s=1_000)
    old = network["B1"].connect("c", properties=kept)
    old.subscribe("a", qos=1)
    restart(network, "B3")
    network.after(1)
    new = network["B3"].connect("c", clean_start=False, properties=kept)
    assert new.connack.session_present
    assert old.closed


def test_an_asked_broker_that_died_is_not_waited_for(network: Network) -> None:
    network["B1"].connect("p").publish("a", b"x", retain=True)
    restart(network, "B3")
    network.is_slow = True
    network["B3"].after(1)
    chance = Random(1)
    joining = network["B3"].clients.federation.joining
    while joining._asked is None:
        network.step(chance)
    for link in network.links.values():
        link.clear()
    network.is_slow = False
    network.after(60)
    assert retained(network, "B3") == {"a": b"x"}


def said_in_turns(network: Network, name: str, kind: str) -> list[int]:
    """The number of controls of this kind that a broker sends in each slice from now on."""
    site, counts = network[name], [0]
    front_end = site.clients.front_end
    assert front_end is not None

    def send(to: str, body: bytes, now_us: int, send: Any = front_end.send) -> int:
        counts[-1] += type(decode_control(body)).__name__ == kind
        return int(send(to, body, now_us))

    front_end.send = send  # type: ignore[method-assign]

    def in_turns(does: Any) -> Any:
        def turn(*about: Any) -> Any:
            counts.append(0)
            return does(*about)

        return turn

    for of in ("deliver", "advance"):
        setattr(site.clients, of, in_turns(getattr(site.clients, of)))
    return counts


def begins_to_be_told(network: Network, kind: str) -> list[int]:
    """B2 restarts, and B1 has begun to send to it; returns as `said_in_turns`."""
    counts = said_in_turns(network, "B1", kind)
    restart(network, "B2")
    while not any(counts):
        network.after(0.000_001)
    return counts


def with_retained(count: int) -> Network:
    """B1 and B2 have so many retained messages."""
    network = Network("B1", "B2")
    network.after(20)
    publisher = network["B1"].connect("p")
    for number in range(count):
        publisher.publish(f"a/{number}", b"x", retain=True)
    return network


def test_many_retained_messages_are_sent_in_slices() -> None:
    """200,000 messages in one slice would take seconds."""
    network = with_retained(3_000)
    publisher = network["B1"].connect("p")
    counts = begins_to_be_told(network, "RetainedState")
    # Changes meanwhile are known in the end as well.
    publisher.publish("a/0", b"y", retain=True)
    publisher.publish("a/2999", b"", retain=True)
    publisher.publish("b", b"z", retain=True)
    network.after(5)
    assert max(counts) <= MOST_AT_ONCE
    assert sum(counts) >= 2_999
    assert len(retained(network, "B2")) == 3_000
    assert retained(network, "B1") == retained(network, "B2")
    assert digest(network, "B1") == digest(network, "B2")


def test_a_repeated_request_restarts_the_answer() -> None:
    network = with_retained(1_500)
    counts = begins_to_be_told(network, "RetainedState")
    restart(network, "B2")
    network.after(5)
    assert retained(network, "B1") == retained(network, "B2")
    assert sum(counts) == MOST_AT_ONCE + 1_500


def test_many_sessions_are_announced_in_slices() -> None:
    """20,000 in one slice would take 28 ms; a broker may have 200,000."""
    network = Network("B1", "B2")
    network.after(20)
    kept = Properties(session_expiry_interval_s=1_000)
    count = 8_000  # more than fit in 30 controls
    for number in range(count):
        network["B1"].connect(f"c{number}", properties=kept).lose()
    network.after(1)
    counts = begins_to_be_told(network, "Several")
    ended = network["B1"].connect("c7999", properties=Properties(session_expiry_interval_s=0))
    ended.disconnect()
    network["B1"].connect("late", properties=kept)
    network["B1"].clients.federation.session_transfer.send_clients("B2", network["B1"].now_us)
    network.after(5)
    assert count / 256 < sum(counts) < 4 * count / 256
    assert max(counts) <= 30
    federation = network["B2"].clients.federation
    assert federation is not None
    assert not federation.session_transfer.starting.unheard(network["B2"].now_us)
    assert federation.session_transfer.homes.get("c0") == "B1"
    assert federation.session_transfer.homes.get("late") == "B1"
    assert federation.session_transfer.homes.get("c7999") is None


def test_many_groups_are_announced_in_slices() -> None:
    network = Network("B1", "B2")
    network.after(20)
    client = network["B1"].connect("c")
    for number in range(1_500):
        client.subscribe(f"$share/g/{number}")
    network.after(1)
    counts = begins_to_be_told(network, "FederationMembers")
    client.unsubscribe("$share/g/1499")
    client.subscribe("$share/g/1500")
    network.after(5)
    assert max(counts) <= MOST_AT_ONCE
    federation = network["B2"].clients.federation
    assert federation is not None
    membership = federation.sharing.membership
    assert len(membership) == 1_500
    assert membership.members_of("$share/g/1500")
    assert not membership.members_of("$share/g/1499")
