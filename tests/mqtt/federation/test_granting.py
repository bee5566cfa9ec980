"""SUBACK in a network comes when every broker knows the subscription."""

from __future__ import annotations

import pytest

from shoal.mqtt.codec.packets import (
    Pingreq,
    Pingresp,
    Publish,
    Suback,
    Subscribe,
    SubscriptionRequest,
    Unsubscribe,
)
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.federation import granting
from shoal.mqtt.messages import PublishedMessage
from tests.calls import Calls
from tests.mqtt.broker_api import BrokerApi, Client
from tests.mqtt.network_broker_api import Network


def settle(network: Network) -> None:
    """Settle everything."""
    for site in network.sites.values():
        while site.unsettled:
            publications, site.unsettled = site.unsettled, []
            site.settle(publications)


def ask(client: Client, packet_id: int, *topic_filters: str) -> None:
    client.send(Subscribe(packet_id, tuple(SubscriptionRequest(each, 1) for each in topic_filters)))


def ids(client: Client) -> list[int]:
    return [packet.packet_id for packet in client.take() if isinstance(packet, Suback)]


def test_a_subscription_is_granted_when_it_is_known_everywhere() -> None:
    network = Network("B1", "B2", "B3")
    publisher, client = network["B1"].connect("p"), network["B3"].connect("c")
    publisher.publish("a", b"kept", retain=True)
    settle(network)
    network.is_settling = False
    ask(client, 1, "a")
    ask(client, 2, "b")
    ask(client, 3, "c")
    assert client.take() == []
    settle(network)
    suback, kept, *more = client.take()
    assert (suback.packet_id, kept.payload, kept.retain) == (1, b"kept", True)
    assert [each.packet_id for each in more] == [2, 3]


def test_a_subscription_is_granted_when_it_is_stored_as_well() -> None:
    network = Network("B1", "B2")
    network.is_storing = False
    client, site = network["B1"].connect("c"), network["B1"]
    ask(client, 1, "a")
    ask(client, 2, "b")
    assert client.take() == []
    first, second = site.unstored
    site.store(second)
    assert ids(client) == []
    site.store(first)
    assert ids(client) == [1, 2]
    network.is_settling = False
    ask(client, 3, "c")
    site.store(site.unstored.pop())
    assert ids(client) == []
    settle(network)
    assert ids(client) == [3]
    ask(client, 4, "d")
    settle(network)
    network.after(1.9)
    assert ids(client) == []
    network.after(0.2)
    assert ids(client) == [4]


def test_a_subscription_repeated_after_an_unsubscribe_is_stored_separately() -> None:
    """The first ends with its unsubscribe, and does not stand for the second."""
    network = Network("B1", "B2")
    network.is_storing = False
    client, site = network["B1"].connect("c"), network["B1"]
    ask(client, 1, "a")
    client.send(Unsubscribe(2, ("a",)))
    ask(client, 3, "a")
    first, second = site.unstored
    assert first == second
    site.store(first)
    assert ids(client) == []
    site.store(second)
    assert ids(client) == [1, 3]


def test_a_client_redirected_meanwhile_gets_no_suback() -> None:
    network = Network("B1", "B2")
    properties = Properties(session_expiry_interval_s=100)
    client = network["B1"].connect("c", properties=properties)
    network.is_settling = False
    ask(client, 1, "a")
    network["B1"].carry_out(client.connection.redirect("B2", network["B1"].now_us))
    settle(network)
    assert ids(client) == []


def test_subscriptions_that_come_meanwhile_share_a_mark() -> None:
    network = Network("B1", "B2")
    network.is_settling = False
    client = network["B1"].connect("c")
    settle(network)
    before = network["B1"].clients.front_end._sequence
    for number in range(1, 101):
        ask(client, number, f"t/{number}")
    assert ids(client) == []
    settle(network)
    assert ids(client) == list(range(1, 101))
    assert network["B1"].clients.front_end._sequence == before + 2


def test_a_grant_waits_a_bounded_time() -> None:
    network = Network("B1", "B2")
    network.is_settling = False
    client = network["B1"].connect("c")
    ask(client, 1, "a")
    ask(client, 2, "b")
    network.after(1.9)
    assert ids(client) == []
    network.after(0.2)
    assert ids(client) == [1]
    network.after(2)
    assert ids(client) == [2]
    ask(client, 3, "c")
    settle(network)
    assert ids(client) == [3]


def test_refusals_are_immediate_and_departed_clients_not_answered() -> None:
    network = Network("B1", "B2")
    network.is_settling = False
    client = network["B1"].connect("c", properties=Properties(session_expiry_interval_s=9))
    ask(client, 1, "a?x>")
    assert ids(client) == [1]
    ask(client, 2, "a")
    client.lose()
    settle(network)
    back = network["B1"].connect(
        "c", clean_start=False, properties=Properties(session_expiry_interval_s=9)
    )
    network["B2"].connect("p").send(Publish("a", b"1", 1, packet_id=1))
    assert back.take_payloads() == [b"1"]


def test_a_single_broker_grants_at_once() -> None:
    network = Network("B1")
    client = network["B1"].connect("c")
    assert client.subscribe("a").packet_id == 1


def test_a_filter_the_front_end_already_has_costs_no_messages() -> None:
    network = Network("B1", "B2", "B3")
    site = network["B1"]
    first, second = site.connect("c"), site.connect("d")
    network.after(1)  # every broker knows both
    network.is_settling = False
    ask(first, 1, "a")
    ask(second, 1, "a")  # and shares the mark that is under way
    assert len(site.unsettled) == 1
    assert ids(first) == ids(second) == []
    settle(network)
    assert ids(first) == ids(second) == [1]
    ask(second, 2, "a")
    assert ids(second) == [2]
    first.send(Unsubscribe(3, ("a",)))
    second.send(Unsubscribe(3, ("a",)))
    ask(second, 4, "a")
    assert ids(second) == []
    settle(network)
    assert ids(second) == [4]


def advertises(network: Network, broker: str, name: str) -> Client:
    promise = Properties(user_properties=(("$advertise", "n > 0"),))
    return network[broker].connect(name, properties=promise)


def test_publications_wait_until_the_advertisement_is_known_everywhere() -> None:
    """Otherwise it would be acknowledged, and miss subscribers behind a slow link."""
    network = Network("B1", "B2", "B3")
    reader = network["B3"].connect("r")
    reader.subscribe("a", 1)
    settle(network)
    network.is_settling = False
    client, site = advertises(network, "B1", "c"), network["B1"]
    client.send(Publish("a", b'{"n": 1}', qos=1, packet_id=1), Pingreq())
    assert [type(each) for each in client.take()] == [Pingresp]
    assert reader.take() == []
    settle(network)
    site.carry_out(client.connection.take_held(site.now_us))
    assert [each.payload for each in reader.take()] == [b'{"n": 1}']


def test_disconnected_brokers_are_waited_for_briefly() -> None:
    network = Network("B1", "B2")
    network.is_settling = False
    client = advertises(network, "B1", "c")
    network.after(9.9)
    assert client.connection.must_wait
    network.after(0.2)
    assert not client.connection.must_wait


def test_clients_of_a_single_broker_do_not_wait() -> None:
    client = BrokerApi().connect(
        "c", properties=Properties(user_properties=(("$advertise", "n > 0"),))
    )
    assert not client.connection.must_wait


def test_retained_messages_of_simultaneous_grants_are_sent_in_slices() -> None:
    """1,000 messages for each of 10 clients in one slice would take 0.13 s."""
    network = Network("B1", "B2")
    publisher, site = network["B1"].connect("p"), network["B1"]
    for number in range(1_500):
        publisher.publish(f"a/{number}", b"x", retain=True)
    clients = [site.connect(f"c{number}") for number in range(5)]
    settle(network)
    network.is_settling = False
    ask(clients[0], 1, "a/#")
    for client in clients[1:]:
        ask(client, 1, "a/#")
    settle(network)
    found = [client.take() for client in clients]
    assert [type(each[0]) for each in found] == [Suback] * 5
    assert 900 <= sum(map(len, found)) - 5 <= 1_000
    network.after(0.1)
    for first, client in zip(found, clients, strict=True):
        topics = [each.topic for each in (*first[1:], *client.take())]
        assert sorted(topics) == sorted(f"a/{number}" for number in range(1_500))


def test_vain_searches_of_simultaneous_grants_are_sliced() -> None:
    """20 clients, each with a search of 4,000 topics, must not share one slice."""
    network = Network("B1", "B2")
    site = network["B1"]
    for number in range(4_000):
        site.clients.retained.keep(PublishedMessage(f"a/{number}/b", b"x", "p", 1, retain=True))
    clients = [site.connect(f"c{number}") for number in range(20)]
    settle(network)
    network.is_settling = False
    for client in clients:
        ask(client, 1, "a/+/c", "a/+/b?x > 1")
    with Calls() as calls:
        settle(network)
    assert calls.count < 60_000
    assert [ids(client) for client in clients] == [[1]] * 20
    rounds = 0
    while (due_us := site.clients.deadline_us) is not None and due_us <= site.now_us + 10:
        site.now_us += 10
        with Calls() as calls:
            site.carry_out(site.clients.advance(site.now_us))
        assert calls.count < 60_000
        rounds += 1
    assert rounds > 10


def test_waiting_clients_are_answered_in_slices_before_later_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(granting, "MOST_AT_ONCE", 10)
    network = Network("B1", "B2")
    network.is_settling = False
    site, client = network["B1"], network["B1"].connect("c")
    settle(network)
    for number in range(1, 26):
        ask(client, number, f"t/{number}")
    found = []
    for _ in range(10):
        found.append(ids(client))
        if found[-1] and found[-1][-1] == 11:
            ask(client, 26, "late")
            assert not site.unsettled
        if site.unsettled:
            publications, site.unsettled = site.unsettled, []
            site.settle(publications)
        else:
            site.now_us += 1
            site.carry_out(site.clients.advance(site.now_us))
    found = [each for each in found if each]
    assert found == [[1], [*range(2, 12)], [*range(12, 22)], [*range(22, 26)], [26]]
