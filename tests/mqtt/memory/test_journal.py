"""A broker restored from its journal equals the killed one, after any batch."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from shoal.mqtt.codec.packets import Puback, Pubcomp, Publish, Pubrec, Pubrel
from shoal.mqtt.codec.properties import NO_PROPERTIES, Properties
from shoal.mqtt.memory import journal as journal_module
from shoal.mqtt.memory.journal import SessionJournal
from shoal.mqtt.memory.journal_records import MessagePut, SessionEnd, SessionPut, read_records
from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.sessions.deduplication_window import (
    MOST_STREAMS,
    DeduplicationWindow,
    of_front_ends,
)
from tests.examples import examples
from tests.mqtt.broker_api import Client, will
from tests.mqtt.remembering import RememberingBrokerApi, all_that_lasts, remembered

SEEDS = range(examples(15))
STEPS = 120
NAMES = ("a", "b", "c", "d")
TOPICS = ("t", "t/1", "t/2", "u")
FILTERS = ("t", "t/#", "+", "t/+", "$share/g/t/#", "u?n>3", "u?$every=10s BY n", "+?$changed=n")


class RandomClients:
    """Clients with random actions, and random delays of their answers."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.broker_api = RememberingBrokerApi([], maximum_queued_messages=8)
        self.clients: dict[str, Client] = {}
        self.unreleased: dict[str, list[int]] = {name: [] for name in NAMES}
        self.packet_id = 0

    def step(self) -> None:
        name = self.chance.choice(NAMES)
        client = self.clients.get(name)
        if client is None or client.closed:
            self.connect(name)
            return
        deed = self.chance.choice(
            (self.subscribe, self.unsubscribe, self.publish, self.publish, self.publish,
             self.answer, self.answer, self.release, self.leave, self.wait)
        )  # fmt: skip
        deed(name, client)

    def connect(self, name: str) -> None:
        chance = self.chance
        is_5 = chance.random() < 0.7
        interval_s = chance.choice((0, 30, 600)) if is_5 else None
        properties = Properties(session_expiry_interval_s=interval_s) if is_5 else NO_PROPERTIES
        last = None
        if chance.random() < 0.5:
            delay = Properties(will_delay_interval_s=chance.choice((0, 20)) if is_5 else None)
            last = will("t/1", name.encode(), qos=chance.randrange(3), properties=delay)
        self.clients[name] = self.broker_api.connect(
            name,
            5 if is_5 else 4,
            clean_start=chance.random() < 0.3,
            properties=properties,
            will=last,
        )

    def subscribe(self, name: str, client: Client) -> None:
        chance = self.chance
        properties, options = NO_PROPERTIES, {}
        topic_filter = chance.choice(FILTERS)
        if client.version == 5:
            pairs = (
                (("$where", "n > 2"),) if chance.random() < 0.3 and "?" not in topic_filter else ()
            )
            identifiers = (chance.randrange(1, 300),) if chance.random() < 0.3 else ()
            properties = Properties(user_properties=pairs, subscription_identifiers=identifiers)
            options = {
                "no_local": chance.random() < 0.3 and not topic_filter.startswith("$share"),
                "retain_as_published": chance.random() < 0.5,
            }
        client.subscribe(topic_filter, chance.randrange(3), properties, **options)

    def unsubscribe(self, name: str, client: Client) -> None:
        client.unsubscribe(self.chance.choice(FILTERS))

    def publish(self, name: str, client: Client) -> None:
        chance = self.chance
        qos, self.packet_id = chance.randrange(3), self.packet_id % 65_000 + 1
        properties = NO_PROPERTIES
        if client.version == 5 and chance.random() < 0.5:
            properties = Properties(
                user_properties=(("n", str(chance.randrange(6))),),
                message_expiry_interval_s=chance.choice((None, 40)),
            )
        payload = b"" if chance.random() < 0.1 else b"%d" % self.packet_id
        topic, retain = chance.choice(TOPICS), chance.random() < 0.3
        packet_id = self.packet_id if qos else 0
        client.send(Publish(topic, payload, qos, retain, False, packet_id, properties))
        if qos == 2:
            self.unreleased[name].append(packet_id)

    def release(self, name: str, client: Client) -> None:
        if self.unreleased[name]:
            client.send(Pubrel(self.unreleased[name].pop()))

    def answer(self, name: str, client: Client) -> None:
        for packet in client.take():
            match packet:
                case Publish(qos=1, packet_id=packet_id):
                    client.send(Puback(packet_id))
                case Publish(qos=2, packet_id=packet_id):
                    client.send(Pubrec(packet_id))
                case Pubrel(packet_id):
                    client.send(Pubcomp(packet_id))

    def leave(self, name: str, client: Client) -> None:
        if self.chance.random() < 0.5:
            client.lose()
        else:
            client.disconnect()

    def wait(self, name: str, client: Client) -> None:
        self.broker_api.after(self.chance.choice((1, 15, 50)))
        self.broker_api.write()


def states(life: RandomClients) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """The number of batches and the time, with the state to be restored, step by step."""
    broker_api = life.broker_api
    for _ in range(STEPS):
        life.step()
        yield (
            len(broker_api.batches),
            broker_api.now_us,
            all_that_lasts(broker_api.clients, broker_api.now_us),
        )


@pytest.mark.parametrize("seed", SEEDS)
def test_the_broker_is_restored_after_any_batch(seed: int) -> None:
    life = RandomClients(seed)
    for count, now_us, state in states(life):
        again = RememberingBrokerApi(
            life.broker_api.batches[:count], now_us, maximum_queued_messages=8
        )
        assert all_that_lasts(again.clients, now_us) == state
        # And it continues from there: its own journal restores the same.
        third = RememberingBrokerApi(again.batches, now_us, maximum_queued_messages=8)
        assert all_that_lasts(third.clients, now_us) == state


@pytest.mark.parametrize("seed", SEEDS)
def test_records_before_a_snapshot_are_not_needed(seed: int) -> None:
    life = RandomClients(seed)
    broker_api = life.broker_api
    restating: Iterator[int] | None = None
    begun = needed = 0
    rounds = 0
    for count, now_us, state in states(life):
        batches = broker_api.batches[needed:count]
        again = RememberingBrokerApi(batches, now_us, maximum_queued_messages=8)
        assert all_that_lasts(again.clients, now_us) == state
        if restating is None and life.chance.random() < 0.1:
            begun, restating = len(broker_api.batches), broker_api.clients.restate()
        elif restating is not None:
            for _ in range(life.chance.randrange(1, 6)):
                if next(restating, None) is None:
                    restating = None
                    needed = begun
                    rounds += 1
                    break
            broker_api.write()
    assert rounds


def test_a_message_for_many_is_written_once() -> None:
    broker_api = RememberingBrokerApi([])
    kept = Properties(session_expiry_interval_s=60)
    for number in range(50):
        broker_api.connect(f"s{number}", properties=kept).subscribe("a", qos=1)
    before = len(broker_api.batches)
    broker_api.connect("p").publish("a", b"x" * 1_000, qos=1, retain=True)
    records = [record for batch in broker_api.batches[before:] for record in read_records(batch)]
    assert len([record for record in records if isinstance(record, MessagePut)]) == 1
    assert sum(map(len, broker_api.batches[before:])) < 3_000


def test_short_sessions_write_nothing() -> None:
    broker_api = RememberingBrokerApi([])
    broker_api.connect("s0").subscribe("a", qos=2)
    broker_api.connect("s1", properties=Properties(session_expiry_interval_s=60)).subscribe(
        "b", qos=2
    )
    before = len(broker_api.batches)
    publisher = broker_api.connect("p")
    for qos in range(3):
        publisher.publish("a", qos=qos)
    publisher.publish("b")
    assert len(broker_api.batches) == before


def test_records_of_unknown_sessions_are_ignored() -> None:
    broker_api = RememberingBrokerApi([])
    kept = Properties(session_expiry_interval_s=60)
    client = broker_api.connect("c", properties=kept)
    before = len(broker_api.batches)
    client.subscribe("a", qos=2)
    client.publish("a", qos=2)
    client.unsubscribe("a")
    client.take_publications()
    found = remembered(broker_api.batches[before:])
    assert not found.sessions


def lacking() -> tuple[RememberingBrokerApi, SessionJournal]:
    """A session that lacks ten publications of a stream, with its journal."""
    broker_api = RememberingBrokerApi([])
    broker_api.connect("a", properties=Properties(session_expiry_interval_s=600)).subscribe("t", 1)
    broker_api.clients.sessions["a"].had = DeduplicationWindow({}, {"p": ((0, 10),)})
    broker_api.write()
    assert broker_api.clients.journal is not None
    return broker_api, broker_api.clients.journal


def make_up(broker_api: RememberingBrokerApi, number: int) -> None:
    message = PublishedMessage("t", b"", qos=1, publisher="p", published_us=broker_api.now_us)
    message.key = ("p", number)
    broker_api.clients._fan_out.make_up(message, "p", number, broker_api.now_us)


def test_a_sessions_gaps_are_written_once_per_batch() -> None:
    broker_api, journal = lacking()
    for number in range(1, 6):
        make_up(broker_api, number)
    puts = [each for each in read_records(journal.take()) if isinstance(each, SessionPut)]
    assert [each.gaps for each in puts] == [{"p": ((5, 10),)}]
    assert journal.take() == b""


def test_an_ended_sessions_gaps_are_not_written() -> None:
    broker_api, journal = lacking()
    make_up(broker_api, 1)
    journal.ended(broker_api.clients.sessions["a"])
    kinds = [type(each) for each in read_records(journal.take())]
    assert SessionEnd in kinds
    assert SessionPut not in kinds


def test_the_last_numbers_of_front_ends_are_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams are added, dropped, and read from a disk."""
    monkeypatch.setattr(journal_module, "MAX_STREAMS", 2 * MOST_STREAMS)
    chance, journal, seen = Random(0), SessionJournal(), set()
    for number in range(20 * MOST_STREAMS):
        name = chance.choice(("", "$mqtt/")) + f"B{chance.randrange(3 * MOST_STREAMS)}"
        journal.record_received(name + chance.choice(("", "", "\0=a")), number)
        if number % 100 == 99:
            again = SessionJournal()
            again.restore_heard(journal.heard)
            is_all = len(journal.heard) <= MOST_STREAMS
            seen.add(is_all)
            told = journal.heard if is_all else of_front_ends(journal.heard)
            for short in (journal.heard_in_short, again.heard_in_short):
                assert (short.last, short.is_all) == (told, is_all)
    assert seen == {True, False}
