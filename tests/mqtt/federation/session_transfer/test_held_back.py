"""Messages held back for an arriving session are bounded, and delivered in slices."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.mqtt.codec.packets import Publish
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.federation import time_slices
from shoal.mqtt.federation.controls import Item
from shoal.mqtt.federation.conversions import item_of
from shoal.mqtt.federation.session_transfer.moves import SessionMove
from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.sessions.delivering.outgoing import Outgoing
from shoal.mqtt.sessions.session import Session
from tests.mqtt.backlogs import counted_again
from tests.mqtt.broker_api import KEPT, BrokerApi, Client
from tests.mqtt.network_broker_api import Network, Site

MANY = 1_000
AT_ONCE = time_slices.MOST_AT_ONCE


def held_back(**limits: Any) -> tuple[Network, Client, list[bytes]]:
    """A client has connected at B2, B1 sends nothing more, and B2 receives many messages for it."""
    network = Network("B1", "B2", **limits)
    network.after(20)
    old = network["B1"].connect("c", **KEPT)
    old.subscribe("#", qos=1)
    properties = Properties(session_expiry_interval_s=1_000, receive_maximum=MANY + 10)
    new = network["B2"].connect("c", clean_start=False, properties=properties)
    assert new.connack.session_present
    network.cut("B1", "B2")
    publisher = network["B2"].connect("p")
    payloads = [b"%d" % number for number in range(MANY)]
    for payload in payloads:
        publisher.publish("a", payload, qos=1)
    assert new.take() == []
    return network, new, payloads


def turn(site: Site) -> bool:
    """The next event within 10 s; whether there is one."""
    deadline_us = site.clients.deadline_us
    if deadline_us is None or deadline_us > site.now_us + 10_000_000:
        return False
    site.now_us = max(site.now_us, deadline_us)
    site.carry_out(site.clients.advance(site.now_us))
    return True


def session_at(network: Network, name: str) -> Session:
    return network[name].clients.sessions["c"]


@pytest.mark.parametrize("at_once", [50, AT_ONCE])
def test_held_messages_are_delivered_in_slices_before_later_ones(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """50,000 in one slice would take 0.1 s."""
    network, new, payloads = held_back()
    monkeypatch.setattr(time_slices, "MOST_AT_ONCE", at_once)
    publisher, site, got = network["B2"].connect("q"), network["B2"], []
    meanwhile = []
    while turn(site):
        more = [each.payload for each in new.take() if isinstance(each, Publish)]
        assert len(more) <= at_once
        got += more
        if got and len(meanwhile) < 5:
            meanwhile.append(b"meanwhile %d" % len(meanwhile))
            publisher.publish("a", meanwhile[-1], qos=1)
    got += [each.payload for each in new.take() if isinstance(each, Publish)]
    assert got == payloads + meanwhile
    assert site.clients.backlog.bytes == counted_again(site.clients)


def test_a_session_that_ends_meanwhile_is_uncounted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    network, new, _ = held_back()
    monkeypatch.setattr(time_slices, "MOST_AT_ONCE", 50)
    site = network["B2"]
    while not new.take():
        turn(site)
    site.carry_out(site.clients.take_effects())
    session = session_at(network, "B2")
    assert session.diversion is not None
    assert session.diversion.held
    new.lose()
    site.clients.sessions.end(session, site.now_us)
    while turn(site):
        pass
    assert site.clients.backlog.bytes == counted_again(site.clients) == 0


def test_held_messages_are_bounded_like_a_queue() -> None:
    """Messages beyond the queue's bound would be dropped at delivery anyway."""
    network, _, _ = held_back(maximum_queued_messages=100)
    session = session_at(network, "B2")
    assert session.diversion is not None
    assert len(session.diversion.held) == 100
    assert session.dropped == MANY - 100


def moving(**limits: Any) -> tuple[Session, SessionMove]:
    session = BrokerApi(**limits).clients.sessions.add("c")
    move = session.diversion = SessionMove(session, ("c", 5), lambda *about: None)
    return session, move


def message(number: int) -> PublishedMessage:
    made = PublishedMessage("a", b"x" * 100, publisher="p", published_us=1, qos=1)
    made.key = ("p", number)
    return made


def item(number: int) -> Item:
    """A message as the former broker forwards it."""
    return item_of(Outgoing(message(number), 1, False, ()), ("c", 5), 1)


def test_held_bytes_are_bounded() -> None:
    session, move = moving(maximum_queued_bytes=1_000)
    for number in range(20):
        move.deliver(message(number), 1, False, (), 1)
    assert len(move.held) == 1_000 // message(1).size
    assert session.dropped == 20 - len(move.held)
    assert sum(each.message.size for each in move.held) == move._held_bytes
    while move.held:
        move.release(2)
    assert move._held_bytes == 0


def test_messages_from_the_source_make_room() -> None:
    session, move = moving(maximum_queued_messages=10)
    for number in range(10):
        move.deliver(message(number), 1, False, (), 1)
    for number in range(4):
        move.came(item(number), 1)
    for number in range(10, 16):
        move.deliver(message(number), 1, False, (), 1)
    assert session.dropped == 2
    while move.held:
        move.release(2)
    got = [each.message.key for each in session.on_its_way()]
    assert got == [("p", number) for number in range(10)]


def test_late_messages_from_the_source_follow_held_ones() -> None:
    _, move = moving()
    for number in range(5):
        move.deliver(message(number), 1, False, (), 1)
    move.release(2)
    move.came(item(9), 3)
    got = [each.message.key for each in move.session.on_its_way()]
    assert got == [("p", number) for number in (0, 1, 2, 3, 4, 9)]
