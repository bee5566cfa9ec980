"""Traces of live brokers: the pipeline's tables, file by file, with the oldest removed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pyarrow.parquet as pq

from shoal.broker.effects import Deliver
from shoal.broker.messages import Publish, RoutedPublication
from shoal.broker.records import RefusalRecord
from shoal.clients.records import MigrationRecord, ReturnRecord
from shoal.experiments.run_files import RUN_TABLES
from shoal.model import MessageId, Publication
from shoal.runtime.network_sections import TraceSection
from shoal.runtime.operations.trace_writer import WRITTEN, TraceWriter


def publication(number: int) -> Publication:
    return Publication(publisher="P", sequence=number, published_us=number * 10, attributes={})


def delivery(number: int) -> Deliver:
    routed = RoutedPublication(publication(number), MessageId("B1", "P", number))
    return Deliver("C", routed, ("s1", "s2"), 2)


def test_rows_become_files_and_the_oldest_go(tmp_path: Path) -> None:
    section = TraceSection(folder=str(tmp_path / "trace"), rows=10, keep=2)

    async def run() -> None:
        writer = TraceWriter(section, "B1", 7)
        writer.start()
        for number in range(25):
            writer.published(Publish((publication(number),)))
            writer.delivered(delivery(number), 500 + number)
            await asyncio.gather(*writer._writing)
        writer.record(RefusalRecord(broker="B1", sender="C", reason="no"))
        writer.record(
            MigrationRecord(
                publisher="P", source="B1", target="B2", path_hops=1, paused_us=1, resumed_us=2
            )
        )
        writer.record(
            ReturnRecord(publisher="P", broker="B1", target="B2", paused_us=1, resumed_us=2)
        )
        await writer.stop()

    asyncio.run(run())
    tables = {name: pq.read_table(tmp_path / "trace" / f"{name}.parquet") for name in WRITTEN}
    assert tables["publications"]["sequence"].to_pylist() == list(range(10, 25))
    assert tables["publications"].schema == RUN_TABLES["publications"]
    assert tables["deliveries"].num_rows == 20  # two files are kept, of five
    last = tables["deliveries"].slice(19).to_pylist()[0]
    assert last == {
        "publisher": "P",
        "sequence": 24,
        "subscription": "s2",
        "client": "C",
        "broker": "B1",
        "published_us": 240,
        "delivered_us": 524,
        "hops": 2,
    }
    assert tables["refusals"].to_pylist() == [{"broker": "B1", "sender": "C", "reason": "no"}]
    assert tables["migrations"].num_rows == tables["failed_migrations"].num_rows == 1
    assert tables["selections"].num_rows == 0
    assert not list(tmp_path.rglob("*.partial"))


def test_a_full_disk_does_not_stop_the_broker(tmp_path: Path) -> None:
    async def run() -> None:
        writer = TraceWriter(TraceSection(folder=str(tmp_path / "trace")), "B1", 7)
        writer.start()
        (tmp_path / "trace" / "publications.parquet").rmdir()
        writer.published(Publish((publication(1),)))
        await writer.stop()

    asyncio.run(run())
