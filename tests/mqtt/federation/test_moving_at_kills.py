"""Sessions that move between brokers of which one is killed: none is lost or incomplete."""

from __future__ import annotations

import pytest

from shoal.mqtt.codec.packets import Connect
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.federation.conversions import item_of
from shoal.mqtt.federation.session_transfer.moves import SessionMove
from shoal.mqtt.limits import DEFAULT_LIMITS
from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.sessions.session import Outgoing, Session
from tests.examples import one_in
from tests.mqtt.federation.two_brokers import come, network
from tests.seeds.sessions.random_sessions import Publisher, Subscriber
from tests.seeds.sessions.session_network import KEPT, Network

__all__ = ["network"]
COUNT = 3
WANTED = [(b"p %d" % number, 2) for number in range(1, COUNT + 1)]


def away(network: Network, home: str, names: list[str]) -> list[Subscriber]:
    """Subscribers with sessions at that broker, in which all of WANTED is queued."""
    found = [Subscriber(network, name) for name in names]
    for each in found:
        each.go_to(home)
        come(network, each)
    network.settle(1)
    for each in found:
        each.look()
        each.leave()
    publisher = Publisher(network, "p", home)
    publisher.go_to(home)
    network.settle(1)
    publisher.look()
    for _ in range(COUNT):
        publisher.publish(2)
    network.settle(1 + 0.1 * COUNT * len(names))  # a slice for each, if they are many
    publisher.look()
    assert publisher.acknowledged == WANTED
    publisher.leave()
    return found


def has_all(network: Network, broker: str, subscriber: Subscriber) -> bool:
    """Its client connects there, finds its session, and receives the queued messages once."""
    subscriber.go_to(broker)
    come(network, subscriber, seconds=2)
    come(network, subscriber, seconds=4)
    return subscriber.is_in and subscriber.taken == WANTED


@pytest.mark.parametrize("patience_s", [0.3, 12])
@pytest.mark.parametrize("back_at", ["B0", "B1"])
def test_a_client_elsewhere_keeps_its_session_while_its_broker_is_down(
    network: Network, patience_s: float, back_at: str
) -> None:
    (subscriber,) = away(network, "B1", ["s"])
    network.kill("B1")
    subscriber.go_to("B0")
    network.settle(patience_s)
    if patience_s > 10:
        assert subscriber.client is not None
        (refusal,) = subscriber.client.take()
        assert refusal.reason_code is ReasonCode.SERVER_UNAVAILABLE
    subscriber.leave()
    network.settle(15 - patience_s)
    network.start("B1")
    network.settle(5)
    assert has_all(network, back_at, subscriber)


def test_a_client_of_a_long_dead_broker_begins_anew(network: Network) -> None:
    away(network, "B1", ["s"])
    network.kill("B1")
    answers = []
    for _ in range(4):
        client = network.sites["B0"].open()
        client.send(Connect("s", clean_start=False, properties=KEPT))
        network.settle(11)
        answers += client.take()
        client.lose()
        network.settle(199)
    assert [each.reason_code for each in answers] == [ReasonCode.SERVER_UNAVAILABLE] * 3 + [0]
    assert "B1, which does not answer" in answers[0].properties.reason_string
    assert not answers[3].session_present
    network.start("B1")
    network.settle(5)
    assert "s" in network.sites["B0"].clients.sessions
    assert "s" not in network.sites["B1"].clients.sessions


@pytest.mark.parametrize("is_declared_while_it_waits", [False, True])
def test_a_client_of_a_broker_that_was_declared_dead_begins_anew(
    network: Network, is_declared_while_it_waits: bool
) -> None:
    """It was refused for ten minutes after an operator had declared its broker dead."""
    away(network, "B1", ["s"])
    network.kill("B1")
    network.settle(1)
    site = network.sites["B0"]

    def declare() -> None:
        assert site.clients.federation is not None
        site.clients.federation.left("B1", network.now_us, is_dead=True)

    if not is_declared_while_it_waits:
        declare()
    client = site.open()
    client.send(Connect("s", clean_start=False, properties=KEPT))
    network.settle(5)
    if is_declared_while_it_waits:
        declare()
    network.settle(6)
    (connack,) = client.take()
    assert (connack.reason_code, connack.session_present) == (0, False)


def test_a_session_that_a_leaving_broker_has_exported_does_not_begin_anew(network: Network) -> None:
    """The broker that has it is down, and its announcement has not come here."""
    away(network, "B1", ["s"])
    network.kill("B1")
    site = network.sites["B0"]
    assert site.clients.federation is not None
    site.clients.federation.left("B1", network.now_us)
    client = site.open()
    client.send(Connect("s", clean_start=False, properties=KEPT))
    network.settle(11)
    (refusal,) = client.take()
    assert refusal.reason_code is ReasonCode.SERVER_UNAVAILABLE


def test_a_broker_that_is_back_in_between_is_not_silent(network: Network) -> None:
    away(network, "B1", ["s"])
    answers = []
    for _ in range(3):
        network.kill("B1")
        client = network.sites["B0"].open()
        client.send(Connect("s", clean_start=False, properties=KEPT))
        network.settle(11)
        answers += client.take()
        client.lose()
        network.settle(300)
        network.start("B1")
        network.settle(10)
    assert [each.reason_code for each in answers] == [ReasonCode.SERVER_UNAVAILABLE] * 3


def test_a_3_1_1_client_is_refused_with_its_versions_code(network: Network) -> None:
    site = network.sites["B1"]
    client = site.open(4)
    client.send(Connect("old", version=4, clean_start=False))
    network.settle(1)
    network.kill("B1")
    again = network.sites["B0"].open(4)
    again.send(Connect("old", version=4, clean_start=False))
    network.settle(12)
    (refusal,) = again.take()
    assert refusal.reason_code is ReasonCode.SERVER_UNAVAILABLE
    assert again.closed


def test_a_clean_start_does_not_wait_for_a_broker_that_is_down(network: Network) -> None:
    away(network, "B1", ["s"])
    network.kill("B1")
    client = network.sites["B0"].open()
    client.send(Connect("s", clean_start=True, properties=KEPT))
    network.settle(0.2)
    (connack,) = client.take()
    assert not connack.reason_code
    network.start("B1")
    network.settle(5)
    assert not client.closed
    assert "s" not in network.sites["B1"].clients.sessions


@pytest.mark.parametrize("killed", ["B0", "B1"])
@pytest.mark.parametrize("steps", one_in(2, [0, 1, 2, 3, 5, 10, 15, 40]))
def test_a_broker_killed_while_sessions_move_loses_none(
    network: Network, killed: str, steps: int
) -> None:
    subscribers = away(network, "B1", [f"s{number}" for number in range(10)])
    for each in subscribers:
        each.go_to("B0")
    network.settle(steps / 10)
    network.kill(killed)
    for each in subscribers:
        each.look()
        each.leave()
    network.settle(1)
    network.start(killed)
    network.settle(5)
    for number, each in enumerate(subscribers):
        each.go_to(f"B{number % 2}")
    for _ in range(4):
        come(network, *subscribers, seconds=4)
    for each in subscribers:
        assert each.is_in
        assert each.taken == WANTED
    for name in network.names:
        assert not network.sites[name].clients.federation.session_transfer.giving._moves
        assert not network.sites[name].clients.federation.session_transfer.fetching.waiting


def test_a_session_whose_request_ended_stays_and_continues(network: Network) -> None:
    (subscriber,) = away(network, "B1", ["s"])
    client = network.sites["B0"].open()
    client.send(Connect("s", clean_start=False, properties=KEPT))
    client.lose()
    network.settle(5)
    assert "s" not in network.sites["B0"].clients.sessions
    session = network.sites["B1"].clients.sessions["s"]
    assert session.going is None
    assert session.diversion is None
    assert has_all(network, "B1", subscriber)


def test_expiry_of_a_staying_session_continues(network: Network) -> None:
    away(network, "B1", ["s"])
    client = network.sites["B0"].open()
    client.send(Connect("s", clean_start=False, properties=KEPT))
    client.lose()
    network.settle(5)
    network.pass_time(100_000)
    assert "s" not in network.sites["B1"].clients.sessions


# --- shared subscriptions -------------------------------------------------------------------------


def group(network: Network, expiry: Properties = KEPT) -> tuple[Subscriber, Subscriber]:
    """One member at each broker; the one at B1 keeps its session for so long."""
    stays, goes = (Subscriber(network, name, "$share/g/a") for name in ("stays", "goes"))
    goes.terms = expiry
    for each, broker in ((stays, "B0"), (goes, "B1")):
        each.go_to(broker)
        come(network, each)
        come(network, each)
    assert stays.is_subscribed
    assert goes.is_subscribed
    return stays, goes


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("down_s", [3, 80])
@pytest.mark.parametrize("expiry", [KEPT, Properties(session_expiry_interval_s=0)])
def test_a_groups_messages_arrive_once_while_a_member_is_down(
    network: Network, qos: int, down_s: int, expiry: Properties
) -> None:
    stays, goes = group(network, expiry)
    publisher = Publisher(network, "p", "B0")
    publisher.go_to("B0")
    come(network, publisher)
    network.kill("B1")
    for _ in range(20):
        publisher.publish(qos)
    network.settle(down_s)
    network.start("B1")
    come(network, stays, publisher, seconds=70 if down_s > 60 else 5)
    if expiry is KEPT:
        goes.go_to("B1")
        come(network, goes, seconds=3)
    come(network, stays, goes, publisher, seconds=3)
    assert len(publisher.acknowledged) == 20
    assert sorted(stays.taken + goes.taken) == sorted(publisher.acknowledged)


def test_a_retransmission_after_the_transfer_is_not_taken_twice() -> None:
    """With several ways of publications no link orders the messages of both brokers."""
    session = Session("c", DEFAULT_LIMITS)
    move = SessionMove(session, ("c", 7), lambda *_: None)
    session.diversion = move
    came, later = (
        PublishedMessage("a", payload, publisher="p", published_us=1, qos=2)
        for payload in (b"1", b"2")
    )
    came.key, later.key = ("p", 1), ("p", 2)
    move.came(item_of(Outgoing(came, 2, False, ()), ("c", 7), 1), 1)
    move.close()
    for message in (came, later):
        session.deliver(message, 2, False, (), 2)
    assert [each.message.payload for each in session.on_its_way()] == [b"1", b"2"]


def test_messages_after_a_kill_do_not_overtake_kept_ones() -> None:
    """A broker killed during the export of a session sends all of it, in order."""
    session, sent = Session("c", DEFAULT_LIMITS), list[bytes]()
    move = SessionMove(session, None, lambda outgoing, *_: sent.append(outgoing.message.payload))
    session.diversion = move
    first, second = (
        PublishedMessage("a", payload, publisher="p", published_us=1, qos=2)
        for payload in (b"1", b"2")
    )
    first.key, second.key = ("p", 1), ("p", 2)
    move.give_to("B2", ("c", 7))
    session.deliver(first, 2, False, (), 1)
    assert sent == [b"1"]
    move.is_restored = True
    session.deliver(second, 2, False, (), 2)
    assert sent == [b"1"]
    assert [each.message.payload for each in session.on_its_way()] == [b"1", b"2"]
