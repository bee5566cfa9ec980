"""A session that comes with much is written a bit at a time, and on disk as a whole."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.mqtt.memory import journal as journals
from shoal.mqtt.memory.journal import Journal
from shoal.mqtt.memory.journal_records import CamePut, read_records
from tests.mqtt.federation.roaming.test_filling import MANY, asks, comes, settle, step
from tests.mqtt.house import KEPT
from tests.mqtt.network_house import Network, Site
from tests.mqtt.remembering import Memory, RememberingHouse

# Subscriptions that are filed in a turn.
MOST = 200


def remembering() -> tuple[Network, Memory]:
    network = Network("B1", "B2")
    memory = Memory(network)
    network.after(20)
    return network, memory


def journal(site: Site) -> Journal:
    assert site.clients.journal is not None
    return site.clients.journal


def test_what_comes_with_a_session_is_written_bit_by_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """60,000 subscriptions, of three tests each, took 180 ms at once."""
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


def test_what_was_written_for_a_session_that_does_not_come_is_forgotten() -> None:
    brokers, _ = remembering()
    asks(brokers["B1"].connect("c", **KEPT))
    new = comes(brokers["B2"])
    step(brokers["B2"])
    assert journal(brokers["B2"])._prepared
    new.lose()
    settle(brokers)
    assert not journal(brokers["B2"])._prepared


def test_what_a_session_has_got_while_it_comes_is_said_again_in_parts() -> None:
    house = RememberingHouse([])
    house.connect("c", **KEPT)
    session = house.clients.sessions["c"]
    keys = {("p", number): None for number in range(5_000)}

    class Diversion:
        known, held = keys, ()

    session.arriving_us, session.diversion = 7, Diversion()  # type: ignore[assignment]
    said = list(house.clients.restate())
    assert max(said) <= 500 * 64
    assert house.clients.journal is not None
    records = read_records(house.clients.journal.take())
    parts = [each.keys for each in records if isinstance(each, CamePut)]
    assert [key for part in parts for key in part] == list(keys)
    assert max(map(len, parts)) <= 500
