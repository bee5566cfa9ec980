"""The cost of a log for a broker, and the rate of reading it, beside Parquet.

Run `python benchmarks/bench_log.py [FOLDER]`. First, without sockets: one publisher and one
subscriber, QoS 1, 100 bytes; every read of the publisher's connection is one write of the log, as
in a flush. Off is a broker without a log. Each round runs all kinds; the ratios are medians of the
rounds' ratios, in processor time. Then a broker process with clients on sockets, with and without a
log by turns. Then the records are read back: as they are, filtered, as Arrow columns, and the same
columns from Parquet.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import uvloop

import bench_live
from shoal.log.columns import to_batch
from shoal.log.publication_log import LogSettings, PublicationLog
from shoal.log.records import Entry, LogRecord
from shoal.log.selections import RecordSelection, read_answer
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
from shoal.mqtt.connection.connection import Connection
from shoal.mqtt.connection.effects import Write
from shoal.mqtt.limits import MqttLimits
from shoal.mqtt.messages import PublishedMessage

ROUNDS = 7
READS = 200
RECORDS = 1_000_000
PAYLOAD = b'{"x": 41, "carrier": "UA", "text": "%s"}' % (b"x" * 60)
QUIET = MqttLimits(statistics_interval_s=0)


class GatheredLog:
    """A log as `LogWriter` writes it, without a loop."""

    def __init__(self, folder: Path) -> None:
        self.log = PublicationLog(folder, "bench", "B1", LogSettings(), 1)
        self._gathered: list[Entry] = []
        self._number = 0

    def note(self, message: PublishedMessage) -> None:
        self._number += 1
        self._gathered.append(
            LogRecord(
                message.published_us,
                message.publisher,
                self._number,
                message.topic,
                message.payload,
                message.qos,
                message.retain,
            )
        )

    def write(self) -> None:
        records, self._gathered = self._gathered, []
        self.log.write(records)


def publish(messages: int, log: GatheredLog | None) -> float:
    """Microseconds of processor time for each publication, delivered and acknowledged."""
    clients = BrokerClients("B1", 0, limits=QUIET)
    if log is not None:
        clients.at_publication = log.note

    def send(connection: Connection, *packets: Packet) -> None:
        connection.receive(b"".join(encode(packet, MQTT_5) for packet in packets), 0)

    subscriber, publisher = clients.open(0), clients.open(0)
    send(subscriber, Connect("s"), Subscribe(1, (SubscriptionRequest("a", 1),)))
    send(publisher, Connect("p"))
    packets = [Publish("a", PAYLOAD, 1, packet_id=number + 1) for number in range(messages)]
    read = b"".join(encode(packet, MQTT_5) for packet in packets)
    spent_s, deliveries = 0.0, 0
    for _ in range(READS):
        started = time.process_time()
        effects = publisher.receive(read, 1)
        if log is not None:
            log.write()
        spent_s += time.process_time() - started
        for effect in effects:
            if isinstance(effect, Write) and effect.connection is subscriber:
                found = [p for p in Decoder(MQTT_5).feed(effect.data) if isinstance(p, Publish)]
                deliveries += len(found)
                answers = b"".join(encode(Puback(p.packet_id), MQTT_5) for p in found)
                started = time.process_time()
                subscriber.receive(answers, 1)
                spent_s += time.process_time() - started
    assert deliveries == READS * messages
    return spent_s / deliveries * 1e6


def costs(folder: str | None) -> None:
    for messages in (1, 20, 250):
        off, on = [], []
        for _ in range(ROUNDS):
            with tempfile.TemporaryDirectory(dir=folder) as home:
                off.append(publish(messages, None))
                log = GatheredLog(Path(home) / "log")
                on.append(publish(messages, log))
                log.log.close()
        ratio = statistics.median(b / a for a, b in zip(off, on, strict=True))
        print(
            f"{messages:>4} publications a read: off {statistics.median(off):5.2f} us, "
            f"on {statistics.median(on):5.2f} us, on / off {ratio:.3f}"
        )


def live() -> None:
    """The rate of acknowledged publications through a process, with a log and without, by turns."""
    load = bench_live.saturated(1, 1, 20_000)
    with bench_live.shoal() as off, bench_live.shoal(logs=True) as on:
        rates: dict[str, list[float]] = {"off": [], "on": []}
        for _ in range(ROUNDS):
            for name, brokers in (("off", off), ("on", on)):
                rates[name].append(uvloop.run(load(brokers.places[0])))
    ratio = statistics.median(b / a for a, b in zip(*rates.values(), strict=True))
    medians = ", ".join(f"{name} {statistics.median(each):,.0f}/s" for name, each in rates.items())
    print(f"a broker process, QoS 1: {medians}, on / off {ratio:.3f}")


def reading(folder: str | None) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as home:
        log = PublicationLog(Path(home) / "log", "bench", "B1", LogSettings(), 1)
        for first in range(0, RECORDS, 1_000):
            log.write(
                [
                    LogRecord(number, f"p{number % 50}", number, f"t/{number % 100}", PAYLOAD, 1)
                    for number in range(first, first + 1_000)
                ]
            )
        everything, filtered = RecordSelection(), RecordSelection(("t/+",), "x > 50")

        def columns() -> int:
            rows = 0
            for block in log.blocks(0):
                batch = to_batch("B1", everything.records(block))  # type: ignore[arg-type]
                rows += batch.num_rows
            return rows

        def answers(selection: RecordSelection) -> int:
            return sum(1 for block in log.blocks(0) for _ in read_answer(selection.answer(block)))

        batches = [
            to_batch("B1", everything.records(block))  # type: ignore[arg-type]
            for block in log.blocks(0)
        ]
        path = Path(home) / "log.parquet"
        pq.write_table(pa.Table.from_batches(batches), path)
        kinds: dict[str, Callable[[], int]] = {
            "blocks, not decoded": lambda: sum(1 for _ in log.blocks(0)),
            "records": lambda: answers(everything),
            "records that a filter of content leaves out": lambda: answers(filtered),
            "all columns, as Arrow": columns,
            "the same columns, from Parquet": lambda: pq.read_table(path).num_rows,
        }
        print(f"{RECORDS:,} records of {log.size / RECORDS:.0f} bytes")
        for name, read in kinds.items():
            spent = []
            for _ in range(3):
                started = time.perf_counter()
                read()
                spent.append(time.perf_counter() - started)
            print(f"  {name:<46} {RECORDS / statistics.median(spent):>12,.0f} records/s")


def main(folder: str | None) -> int:
    costs(folder)
    live()
    reading(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else None))
