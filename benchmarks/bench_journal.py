"""The cost of a journal: a broker's MQTT side with and without one, and the choice of its place.

Run `python benchmarks/bench_journal.py [FOLDER]`. First, without sockets: one publisher, and
subscribers with lasting sessions, QoS 1, 100 bytes. Every read of the publisher's connection, and
every answer of the subscribers, is one batch of the journal, written before any packet. Then the
same changes as rows of SQLite, and as a log in it (write-ahead log, synchronous off: like `sync =
"never"`). The output has medians of RUNS runs, in processor time.
"""

from __future__ import annotations

import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from shoal.mqtt.broker_clients import BrokerClients
from shoal.mqtt.codec.decoder import Decoder
from shoal.mqtt.codec.encoder import encode
from shoal.mqtt.codec.packet_types import MQTT_5
from shoal.mqtt.codec.packets import (
    Connect,
    Packet,
    Puback,
    Publish,
    Subscribe,
    SubscriptionRequest,
)
from shoal.mqtt.codec.properties import NO_PROPERTIES, Properties
from shoal.mqtt.connection.connection import Connection
from shoal.mqtt.connection.effects import Write
from shoal.mqtt.limits import MqttLimits
from shoal.mqtt.memory.journal_records import ItemEnd, ItemPut, MessagePut, read_records
from shoal.mqtt.restoring import Remembered, restore
from shoal.runtime.storage.journal_files import JournalFiles

RUNS = 5
READS = 40
PAYLOAD = b"x" * 100
QUIET = MqttLimits(statistics_interval_s=0)
KEPT = Properties(session_expiry_interval_s=3_600)

Keep = Callable[[bytes], None]


def send(connection: Connection, *packets: Packet) -> None:
    connection.receive(b"".join(encode(packet, MQTT_5) for packet in packets), 0)


def run(messages: int, subscribers: int, properties: Properties, keep: Keep | None) -> float:
    """Microseconds of processor time for each delivery, acknowledged."""
    clients = BrokerClients("B1", 0, limits=QUIET)
    journal = None
    if keep is not None:
        restore(clients, Remembered(), 0)
        journal = clients.journal
    for number in range(subscribers):
        subscribe = Subscribe(1, (SubscriptionRequest("a", 1),))
        send(clients.open(0), Connect(f"s{number}", properties=properties), subscribe)
    publisher = clients.open(0)
    send(publisher, Connect("p"))
    packets = [Publish("a", PAYLOAD, 1, packet_id=number + 1) for number in range(messages)]
    read = b"".join(encode(packet, MQTT_5) for packet in packets)
    spent_s, deliveries = 0.0, 0

    def receive(connection: Connection, data: bytes) -> list[Write]:
        nonlocal spent_s
        started = time.process_time()
        effects = connection.receive(data, 1)
        if journal is not None and keep is not None and (batch := journal.take()):
            keep(batch)
        spent_s += time.process_time() - started
        return [effect for effect in effects if isinstance(effect, Write)]

    for _ in range(READS):
        for effect in receive(publisher, read):
            if effect.connection is not publisher:
                found = [p for p in Decoder(MQTT_5).feed(effect.data) if isinstance(p, Publish)]
                deliveries += len(found)
                acknowledged = b"".join(encode(Puback(p.packet_id), MQTT_5) for p in found)
                receive(effect.connection, acknowledged)
    assert deliveries == READS * messages * subscribers
    return spent_s / deliveries * 1e6


def in_files(folder: Path) -> Keep:
    files = JournalFiles(folder, "bench", "B1")
    files.read(lambda batch: None)
    return files.append


def _sqlite(folder: Path) -> sqlite3.Connection:
    folder.mkdir(parents=True)
    found = sqlite3.connect(folder / "journal", isolation_level=None)
    for pragma in ("locking_mode = exclusive", "journal_mode = wal", "synchronous = off"):
        found.execute(f"pragma {pragma}")
    return found


def in_sqlite_log(folder: Path) -> Keep:
    database = _sqlite(folder)
    database.execute("create table log (number integer primary key, batch blob)")
    return lambda batch: database.execute("insert into log (batch) values (?)", (batch,)) and None


def in_sqlite_rows(folder: Path) -> Keep:
    database = _sqlite(folder)
    database.execute("create table messages (number integer primary key, body blob, at integer)")
    database.execute(
        "create table items (serial integer primary key, client text, message integer, "
        "qos integer, retain integer, packet_id integer, released integer)"
    )

    def keep(batch: bytes) -> None:
        records = read_records(batch)
        messages = [(r.number, r.body, r.published_us) for r in records if type(r) is MessagePut]
        items = [
            (r.serial, r.client_id, r.message, r.qos, r.retain, r.packet_id, r.released)
            for r in records
            if type(r) is ItemPut
        ]
        ends = [(r.serial,) for r in records if type(r) is ItemEnd]
        database.execute("begin")
        database.executemany("insert into messages values (?, ?, ?)", messages)
        database.executemany("insert into items values (?, ?, ?, ?, ?, ?, ?)", items)
        database.executemany("delete from items where serial = ?", ends)
        database.execute("commit")

    return keep


KINDS: dict[str, tuple[Properties, Callable[[Path], Keep] | None]] = {
    "no journal": (KEPT, None),
    "journal, sessions that end with the connection": (NO_PROPERTIES, in_files),
    "journal": (KEPT, in_files),
    "the same in SQLite, as a log": (KEPT, in_sqlite_log),
    "the same in SQLite, as rows (without removing messages)": (KEPT, in_sqlite_rows),
}


def main(folder: str | None) -> int:
    for messages, subscribers in ((1, 1), (20, 1), (250, 1), (20, 50)):
        print(f"{messages} publications a read, {subscribers} subscribers, QoS 1")
        for name, (properties, kind) in KINDS.items():
            found = []
            for number in range(RUNS):
                with tempfile.TemporaryDirectory(dir=folder) as home:
                    keep = kind(Path(home) / str(number)) if kind is not None else None
                    found.append(run(messages, subscribers, properties, keep))
            cost_us = statistics.median(found)
            print(f"  {name:<56} {cost_us:6.2f} us a delivery, {1e6 / cost_us:>9,.0f}/s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else None))
