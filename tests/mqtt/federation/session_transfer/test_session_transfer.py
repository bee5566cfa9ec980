"""A client and its session at one broker after the other, as if they were one broker."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from shoal.language import parse
from shoal.model import EVERYTHING
from shoal.model.values import Kind
from shoal.mqtt.codec.packets import (
    Connect,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
)
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.federation import conversions
from shoal.mqtt.federation.controls import (
    Item,
    SessionPart,
    SessionState,
    SubscriptionState,
    encode_control,
)
from shoal.mqtt.federation.conversions import parts_of
from shoal.mqtt.federation.session_transfer.directory import announcing
from shoal.mqtt.sessions.session import ClientSubscription
from tests.mqtt.broker_api import KEPT, will
from tests.mqtt.network_broker_api import Network

CODES = ReasonCode


@pytest.fixture(params=["strangers", "acquainted"])
def network(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Network:
    """New brokers announce everything to all; introduced ones only to the brokers concerned."""
    monkeypatch.setattr(announcing, "GATHER_US", 0)
    network = Network("B1", "B2", "B3")
    if request.param == "acquainted":
        network.after(20)
    return network


def test_a_client_that_connects_elsewhere_loses_its_old_connection(network: Network) -> None:
    watcher = network["B2"].connect("watcher")
    watcher.subscribe("w", qos=1)
    old = network["B1"].connect("c", will=will("w", qos=1))
    old.subscribe("a")
    new = network["B3"].connect("c")
    assert old.closed
    assert old.take()[-1].reason_code is CODES.SESSION_TAKEN_OVER
    assert not new.connack.session_present
    assert watcher.take_payloads() == [b"gone"]
    watcher.publish("a", b"x")
    assert new.take() == []
    assert network["B1"].clients.subscriptions.count == 0


def test_a_session_follows_its_client(network: Network) -> None:
    publisher = network["B2"].connect("p")
    old = network["B1"].connect("c", **KEPT)
    old.subscribe("a/+", qos=1, properties=Properties(subscription_identifiers=(7,)))
    old.subscribe("f?x>5", qos=2)
    old.subscribe("a/1", qos=1, no_local=True)
    old.lose()
    publisher.publish("a/1", b"1", qos=1)
    new = network["B3"].connect("c", **KEPT)
    assert new.connack.session_present
    publisher.publish("a/1", b"2", qos=1)
    for x in ("1", "9"):
        properties = Properties(user_properties=(("x", x),))
        publisher.publish("f", x.encode(), qos=2, properties=properties)
    network.after(10)
    found = new.take_publications()
    assert [each.payload for each in found] == [b"1", b"2", b"9"]
    assert found[0].properties.subscription_identifiers == (7,)
    assert new.unsubscribe("a/+", "f?x>5", "a/1").reason_codes == (CODES.SUCCESS,) * 3
    assert network["B1"].clients.subscriptions.count == 0


def test_in_flight_messages_are_retransmitted_with_their_identifiers(network: Network) -> None:
    publisher = network["B2"].connect("p")
    old = network["B1"].connect("c", **KEPT)
    old.subscribe("a", qos=2)
    for number in range(3):
        publisher.publish("a", b"%d" % number, qos=2)
    ids = {packet.payload: packet.packet_id for packet in old.take()}
    old.send(Pubrec(ids[b"0"]))
    old.send(Publish("b", b"mine", 2, packet_id=9))
    new = network["B3"].connect("c", **KEPT)
    assert old.closed
    assert new.take() == [
        Pubrel(ids[b"0"]),
        Publish("a", b"1", 2, duplicate=True, packet_id=ids[b"1"]),
        Publish("a", b"2", 2, duplicate=True, packet_id=ids[b"2"]),
    ]
    assert new.connection.session.received == {9}


def test_a_clean_start_elsewhere_ends_the_session(network: Network) -> None:
    watcher = network["B2"].connect("watcher")
    watcher.subscribe("w")
    delayed = will("w", properties=Properties(will_delay_interval_s=50))
    network["B1"].connect("c", will=delayed, **KEPT).lose()
    assert watcher.take() == []
    new = network["B3"].connect("c", clean_start=True)
    assert not new.connack.session_present
    assert watcher.take_payloads() == [b"gone"]
    new.disconnect()
    assert not network["B1"].connect("c", **KEPT).connack.session_present


def test_a_delayed_will_is_not_published_if_the_client_returns_elsewhere(network: Network) -> None:
    """[MQTT-3.1.3-9]"""
    watcher = network["B2"].connect("watcher")
    watcher.subscribe("w")
    delayed = will("w", properties=Properties(will_delay_interval_s=5))
    network["B1"].connect("c", will=delayed, **KEPT).lose()
    network["B3"].connect("c", **KEPT)
    network.after(100)
    assert watcher.take() == []


def test_a_session_that_has_ended_is_not_waited_for(network: Network) -> None:
    network["B1"].connect("c", **KEPT).lose()
    network.after(1_001)
    assert not network["B3"].connect("c", **KEPT).connack.session_present


def test_a_broker_that_does_not_answer_is_not_waited_for_long(network: Network) -> None:
    network["B1"].connect("c", **KEPT).lose()
    network.is_slow = True
    site = network["B3"]
    client = site.open()
    client.send(Connect("c", **KEPT), Publish("a", b"x", 1, packet_id=1))
    site.after(1.9)
    assert client.take() == []
    site.after(0.1)
    (connack, *rest) = client.take()
    site.after(3)  # no broker knows whether the client is connected elsewhere
    site.take_held()
    (puback,) = [*rest, *client.take()]
    assert (connack.session_present, puback.packet_id) == (False, 1)
    network.settle()
    network.after(10)
    assert not client.closed
    assert network["B1"].clients.subscriptions.count == 0


def test_a_client_that_does_not_wait_for_its_session_keeps_it(network: Network) -> None:
    old = network["B1"].connect("c", **KEPT)
    old.subscribe("a", qos=1)
    old.lose()
    network.is_slow = True
    hasty = network["B3"].open()
    hasty.send(Connect("c", **KEPT))
    hasty.lose()
    network.settle()
    network.is_slow = False
    network["B2"].connect("p").publish("a", b"x", qos=1)
    network.after(10)
    again = network["B3"].connect("c", **KEPT)
    assert again.connack.session_present
    assert again.take_payloads() == [b"x"]


def test_a_client_that_connects_twice_while_its_session_is_under_way(network: Network) -> None:
    network["B1"].connect("c", **KEPT).subscribe("a", qos=1)
    network.is_slow = True
    first, second = network["B3"].open(), network["B3"].open()
    for each in (first, second):
        each.send(Connect("c", **KEPT))
    assert first.take()[0].reason_code is CODES.SERVER_BUSY
    network.settle()
    assert second.take()[0].session_present
    third = network["B3"].open()
    third.send(Connect("c", clean_start=True))
    assert not third.take()[0].session_present
    assert second.closed


def test_of_two_simultaneous_connections_the_later_stays(network: Network) -> None:
    network.is_slow = True
    first = network["B1"].connect("c")
    network["B3"].after(0.1)
    second = network["B3"].connect("c")
    network.settle()
    assert first.closed
    assert not second.closed


def test_the_valid_part_of_an_invalid_session_is_installed(network: Network) -> None:
    network["B1"].connect("c", **KEPT).lose()
    network.is_slow = True
    client = network["B3"].open()
    client.send(Connect("c", **KEPT))
    [(transfer, _)] = network["B3"].clients.federation.session_transfer.fetching.waiting.values()
    where = parse("x > 1").expression
    no_filter = msgspec.structs.replace(where, kind=Kind.STRING)
    rows = [
        SubscriptionState(topic_filter, topic_filter, where, 1, False, False, ())
        for topic_filter, where in (("a/#/b", ""), ("a", no_filter), ("b", where), ("c", ""))
    ]
    front_end = network["B2"].clients.front_end
    item = Item(transfer, b"garbage", 0, None, None, 1, False, (), 0, False)
    state = SessionState(transfer, True, items=1, parts=1)
    for control in (item, state, SessionPart(transfer, tuple(rows))):
        front_end.send("B3", encode_control(control), 0)
    network["B2"].carry_out(network["B2"].clients.take_effects())
    network.settle()
    assert client.take()[0].session_present
    assert list(client.connection.session.subscriptions) == ["b", "c"]
    problems = network["B3"].clients.problems
    assert [each.split(" of ")[0] for each in problems] == [
        "subscription 'a/#/b'",
        "subscription 'a'",
    ]


def test_unsettled_publications_stay_in_the_former_brokers_journal(network: Network) -> None:
    """The journal keeps them until they are settled, wherever the client is."""
    client = network["B1"].connect("c", **KEPT)
    network.is_settling = False
    client.send(Publish("a", b"x", 2, packet_id=1))
    published, network["B1"].unsettled = network["B1"].unsettled, []
    network.is_settling = True
    assert network["B3"].connect("c", **KEPT).connack.session_present
    network.after(20)
    assert "c" in network["B1"].clients.sessions
    network["B1"].settle(published)
    network.after(10)
    assert "c" not in network["B1"].clients.sessions


def test_a_deeply_nested_filter_is_transferred(network: Network) -> None:
    where = "NOT (n = 1 AND " * 50 + "n NOT BETWEEN 7 AND 8" + ")" * 50
    asked = Properties(user_properties=(("$where", where),))
    client = network["B1"].connect("c", **KEPT)
    client.subscribe("a", properties=asked)
    client.lose()
    network.settle()
    client = network["B3"].open()
    client.send(Connect("c", **KEPT))
    network.settle()
    assert client.connection.session.subscriptions["a"].content == parse(where)


def test_a_session_of_any_size_moves_in_controls_of_bounded_size(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversions, "PART_BYTES", 10_000)
    site = network["B1"]
    client = site.connect("c", **KEPT)
    session = client.connection.session
    count = 600
    for number in range(count):
        text = f"{number}/{'x' * 50}"
        subscription = ClientSubscription(
            session,
            text,
            text,
            EVERYTHING,
            qos=1,
            no_local=False,
            retain_as_published=False,
            identifiers=(),
        )
        site.clients.subscriptions.add(subscription)
    site.carry_out(site.clients.take_effects())
    parts = tuple(
        parts_of(session.subscriptions.values(), ("c", 1), ((f"p{n}", n) for n in range(10_000)))
    )
    assert max(len(encode_control(each)) for each in parts if each.subscriptions) < 10_500
    assert sum(len(each.came) for each in parts) == 10_000
    again = network["B3"].open()
    again.send(Connect(client_id="c", **KEPT))
    network["B3"].after(0.1)  # it is installed in slices
    assert again.take()[0].session_present
    assert network["B3"].clients.subscriptions.count == count


# --- redirected clients ---------------------------------------------------------------------------


class RedirectedClient:
    """A client at B1 with unacknowledged publications that is redirected to B3."""

    def __init__(self, network: Network) -> None:
        self.publisher = network["B2"].connect("p")
        self.client = network["B1"].connect("c", **KEPT)
        self.client.subscribe("a", qos=2)
        for number, qos in enumerate((1, 2, 2, 1)):
            self.publisher.publish("a", b"%d" % number, qos=qos)
        self.ids = [packet.packet_id for packet in self.client.take()]
        site = network["B1"]
        site.carry_out(self.client.connection.redirect("there:1883", site.now_us))
        (goodbye,) = self.client.take()
        assert goodbye.reason_code is CODES.USE_ANOTHER_SERVER
        assert goodbye.properties.server_reference == "there:1883"
        assert self.client.half_closed

    def acknowledge(self) -> None:
        """Acknowledge all but the last."""
        first, second, third, _ = self.ids
        self.client.send(Puback(first), Pubrec(second), Pubrec(third), Pubcomp(second))

    @property
    def left(self) -> list[Any]:
        """The messages that the next broker still has."""
        _, _, third, last = self.ids
        return [Pubrel(third), Publish("a", b"3", 1, duplicate=True, packet_id=last)]


def test_messages_acknowledged_after_a_redirect_are_not_retransmitted(network: Network) -> None:
    sent = RedirectedClient(network)
    sent.acknowledge()
    assert not sent.client.closed
    sent.client.lose()
    new = network["B3"].connect("c", **KEPT)
    assert new.connack.session_present
    assert new.take() == sent.left
    sent.publisher.publish("a", b"4", qos=1)
    network.after(10)
    assert new.take_payloads() == [b"4"]


def test_a_session_waits_for_its_clients_last_packets(network: Network) -> None:
    sent = RedirectedClient(network)
    new = network["B3"].open()
    new.send(Connect("c", **KEPT))
    assert new.take() == []
    network.after(0.6)  # and it is requested again
    sent.acknowledge()
    assert new.take() == []
    sent.client.lose()
    connack, *packets = new.take()
    assert connack.session_present
    assert packets == sent.left


def test_a_connection_that_its_client_does_not_close_is_not_waited_for_long(
    network: Network,
) -> None:
    sent = RedirectedClient(network)
    new = network["B3"].open()
    new.send(Connect("c", **KEPT))
    sent.acknowledge()
    network.after(1.1)
    assert sent.client.closed
    connack, *packets = new.take()
    assert connack.session_present
    assert packets == sent.left


def test_a_client_that_ignores_a_redirect_is_closed(network: Network) -> None:
    sent = RedirectedClient(network)
    sent.client.send(Publish("a", b"no more", 1, packet_id=9))
    network.after(29)
    sent.acknowledge()
    assert not sent.client.closed
    network.after(2)
    assert sent.client.closed
    new = network["B3"].connect("c", **KEPT)
    assert new.take() == sent.left


@pytest.mark.parametrize("garbage", ["40020063ff", "5002", "ffff"])
def test_a_redirected_client_that_breaks_the_protocol_is_closed(
    network: Network, garbage: str
) -> None:
    sent = RedirectedClient(network)
    sent.acknowledge()
    sent.client.send_bytes(garbage)
    network.after(31)
    assert sent.client.closed
    assert network["B3"].connect("c", **KEPT).take() == sent.left


def test_a_redirected_client_may_come_back(network: Network) -> None:
    sent = RedirectedClient(network)
    sent.acknowledge()
    again = network["B1"].connect("c", **KEPT)
    assert sent.client.closed
    assert again.take() == sent.left
    sent.publisher.publish("a", b"4", qos=1)
    assert again.take_payloads() == [b"4"]


def test_a_clean_start_after_a_redirect_ends_the_session(network: Network) -> None:
    sent = RedirectedClient(network)
    new = network["B3"].connect("c", clean_start=True)
    assert not new.connack.session_present
    sent.acknowledge()
    sent.client.lose()
    network.after(10)
    assert new.take() == []
    assert network["B1"].clients.subscriptions.count == 0
