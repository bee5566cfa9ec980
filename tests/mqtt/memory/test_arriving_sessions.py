"""A large session that arrives is written in slices, and counts on disk as a whole."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from shoal.mqtt.codec.packets import Connect, Subscribe, SubscriptionRequest
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.memory import journal as journals
from shoal.mqtt.memory.journal import SessionJournal
from shoal.mqtt.memory.journal_records import CamePut, read_records
from tests.mqtt.backlogs import counted_again
from tests.mqtt.broker_api import KEPT
from tests.mqtt.federation.session_transfer.test_installing import MANY, asks, comes, settle, step
from tests.mqtt.network_broker_api import Network, Site
from tests.mqtt.remembering import Memory, RememberingBrokerApi

# Subscriptions installed in a slice.
MOST = 200


def remembering() -> tuple[Network, Memory]:
    network = Network("B1", "B2")
    memory = Memory(network)
    network.after(20)
    return network, memory


def journal(site: Site) -> SessionJournal:
    assert site.clients.journal is not None
    return site.clients.journal


def test_an_arriving_session_is_written_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """60,000 subscriptions of three tests each would take 180 ms at once."""
    brokers, memory = remembering()
    asks(brokers["B1"].connect("c", **KEPT))
    new = comes(brokers["B2"])
    written = 0
    row_of = journals.row_of

    def counted(subscription: Any) -> Any:
        nonlocal written
        written += 1
        return row_of(subscription)

    monkeypatch.setattr(journals, "row_of", counted)
    written = most = 0
    while not new.take():
        written = 0
        step(brokers["B2"])
        most = max(most, written)
    assert 0 < most <= MOST
    memory.restart("B2")
    assert brokers["B2"].clients.subscriptions.count == MANY
    assert brokers["B2"].connect("c", **KEPT).connack.session_present


def test_records_of_a_session_that_does_not_arrive_are_dropped() -> None:
    brokers, _ = remembering()
    asks(brokers["B1"].connect("c", **KEPT))
    new = comes(brokers["B2"])
    step(brokers["B2"])
    assert journal(brokers["B2"])._prepared
    new.lose()
    settle(brokers)
    assert not journal(brokers["B2"])._prepared


def waits_for(brokers: Network, count: int) -> None:
    """A client of B1 that is disconnected, and has queued messages."""
    old = brokers["B1"].connect("c", **KEPT)
    old.send(Subscribe(1, (SubscriptionRequest("a", qos=1),)))
    old.lose()
    publisher = brokers["B1"].connect("p")
    for number in range(count):
        publisher.publish("a", b"%d" % number, qos=1)


def test_an_arriving_sessions_messages_are_written_in_slices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """10,000 in the slice of the client's admission would take 40 ms."""
    monkeypatch.setattr("shoal.mqtt.federation.session_transfer.moves.ITEMS_AT_ONCE", 50)
    brokers, memory = remembering()
    waits_for(brokers, 500)
    written = most = 0
    item = SessionJournal.item

    def counted(self: SessionJournal, *about: Any) -> None:
        nonlocal written
        written += self is journal(brokers["B2"])
        item(self, *about)

    monkeypatch.setattr(SessionJournal, "item", counted)
    properties = Properties(session_expiry_interval_s=1_000, receive_maximum=1)
    new = brokers["B2"].open()
    new.send(Connect(client_id="c", clean_start=False, properties=properties))
    while not new.take():
        written = 0
        step(brokers["B2"])
        most = max(most, written)
    assert 0 < most <= 50 + 1
    assert not journal(brokers["B2"])._prepared_items
    memory.restart("B2")
    back = brokers["B2"].connect("c", **KEPT)
    assert back.take_payloads() == [b"%d" % number for number in range(500)]
    assert brokers["B2"].clients.backlog.bytes == counted_again(brokers["B2"].clients)


def test_messages_of_a_session_that_does_not_arrive_are_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("shoal.mqtt.federation.session_transfer.moves.ITEMS_AT_ONCE", 50)
    brokers, _ = remembering()
    waits_for(brokers, 500)
    new = comes(brokers["B2"])
    clients = brokers["B2"].clients
    while not journal(brokers["B2"])._prepared_items:
        step(brokers["B2"])
    assert clients.backlog.bytes
    new.lose()
    settle(brokers)
    assert not journal(brokers["B2"])._prepared_items
    assert not clients.backlog.bytes
    back = brokers["B1"].connect("c", **KEPT)
    assert back.take_payloads() == [b"%d" % number for number in range(500)]


def test_messages_beyond_the_targets_bound_are_not_written() -> None:
    brokers, memory = remembering()
    waits_for(brokers, 50)
    site = brokers["B2"]
    site.clients.sessions.limits = msgspec.structs.replace(
        site.clients.limits, maximum_queued_messages=20
    )
    properties = Properties(session_expiry_interval_s=1_000, receive_maximum=1)
    new = site.open()
    new.send(Connect(client_id="c", clean_start=False, properties=properties))
    settle(brokers)
    assert site.clients.sessions["c"].dropped == 30
    new.lose()
    memory.restart("B2")
    back = site.connect("c", **KEPT)
    assert back.take_payloads() == [b"%d" % number for number in range(20)]


def test_a_returning_session_with_a_copy_here_counts_once() -> None:
    """The user's share has room for it once."""
    brokers, memory = remembering()
    waits_for(brokers, 300)
    step_us = 300_000
    new = comes(brokers["B2"])
    while not new.take():
        step(brokers["B2"])
    new.lose()
    # B1 still has it, as it does not know that the transfer is complete.
    assert "c" in brokers["B1"].clients.sessions
    back = comes(brokers["B1"])
    for site in brokers.sites.values():
        site.now_us += step_us
    settle(brokers)
    found = back.take()
    assert found[0].session_present
    assert len(found) == 1 + 300
    assert brokers["B1"].clients.backlog.bytes == counted_again(brokers["B1"].clients)
    memory.restart("B1")
    again = brokers["B1"].connect("c", **KEPT)
    assert len(again.take_payloads()) == 300


def test_messages_taken_during_a_transfer_are_reported_in_parts() -> None:
    broker_api = RememberingBrokerApi([])
    broker_api.connect("c", **KEPT)
    session = broker_api.clients.sessions["c"]
    keys = {("p", number): None for number in range(5_000)}

    class Diversion:
        known, held = keys, ()

    session.arriving_us, session.diversion = 7, Diversion()  # type: ignore[assignment]
    said = list(broker_api.clients.restate())
    assert max(said) <= 500 * 64
    assert broker_api.clients.journal is not None
    records = read_records(broker_api.clients.journal.take())
    parts = [each.keys for each in records if isinstance(each, CamePut)]
    assert [key for part in parts for key in part] == list(keys)
    assert max(map(len, parts)) <= 500
