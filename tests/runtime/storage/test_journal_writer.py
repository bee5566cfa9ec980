"""A broker's journal stays short, and a full disk acknowledges nothing that is not kept."""

from __future__ import annotations

import asyncio
import errno
import os
from bisect import bisect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiomqtt
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from shoal.client import Client, ClientError
from shoal.runtime.broker_service import BrokerService
from shoal.runtime.storage import journal_files, journal_writer
from shoal.runtime.storage.journal_files import JournalError, JournalFiles
from shoal.runtime.supervisor import get_json
from tests.mqtt.memory.test_journal import RandomClients, states
from tests.mqtt.remembering import RememberingBrokerApi, all_that_lasts
from tests.runtime.live import PATIENCE_S, on_asyncio, until
from tests.runtime.one_service import network

KEPT = Properties(PacketTypes.CONNECT)
KEPT.SessionExpiryInterval = 600


@asynccontextmanager
async def broker(folder: Path, sync: str = "never") -> AsyncIterator[BrokerService]:
    settings = network(1, storage={"folder": str(folder), "sync": sync})
    service = BrokerService(settings, "B1")
    await service.start()
    try:
        yield service
    finally:
        await service.stop()


def client(service: BrokerService, name: str, **options: Any) -> aiomqtt.Client:
    where = service.listening["mqtt"]
    return aiomqtt.Client(
        where.host,
        where.port,
        identifier=name,
        protocol=aiomqtt.ProtocolVersion.V5,
        clean_start=False,
        properties=KEPT,
        **options,
    )


async def payloads(reader: aiomqtt.Client, count: int) -> list[int]:
    async with asyncio.timeout(PATIENCE_S):
        return [int(bytes((await anext(reader.messages)).payload)) for _ in range(count)]


@pytest.mark.parametrize("sync", ["never", "second", "always"])
@on_asyncio
async def test_a_restarted_broker_keeps_its_state(tmp_path: Path, sync: str) -> None:
    async with broker(tmp_path, sync) as service:
        async with client(service, "r") as reader:
            await reader.subscribe("a", qos=2)
        async with Client(str(service.listening["mqtt"])) as writer:
            for number in range(5):
                await writer.publish("a", b"%d" % number, qos=2, retain=True)
    async with broker(tmp_path, sync) as service, client(service, "r") as reader:
        assert await payloads(reader, 5) == list(range(5))
        await reader.subscribe("a", qos=1)
        assert await payloads(reader, 1) == [4]
        status = await get_json(service.listening["admin"], "/status")
        assert status["journal"]["bytes"] > 500
        assert status["journal"]["is_failing"] is False


@on_asyncio
async def test_the_journal_stays_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_writer, "SMALL_BYTES", 20_000)
    monkeypatch.setattr(journal_writer, "STEP_BYTES", 2_000)
    files = tmp_path / "B1"
    async with broker(tmp_path) as service:
        async with client(service, "away") as away:
            await away.subscribe("kept", qos=1)
        async with (
            client(service, "r") as reader,
            Client(str(service.listening["mqtt"])) as writer,
        ):
            await reader.subscribe("a", qos=1)
            await asyncio.gather(*(writer.publish("kept", b"%d" % n, qos=1) for n in range(50)))
            for start in range(0, 2_000, 100):
                numbers = range(start, start + 100)
                await asyncio.gather(*(writer.publish("a", b"%d" % n, qos=1) for n in numbers))
                assert await payloads(reader, 100) == list(numbers)
            journal = service.front_end.journal
            assert journal is not None
            await until(lambda: journal.status["files"] == 1)
        # Some 300,000 bytes were written.
        assert sum(path.stat().st_size for path in files.glob("journal-*")) < 100_000
        assert min(path.name for path in files.glob("journal-*")) > "journal-00000003"
    async with broker(tmp_path) as service, client(service, "away") as away:
        assert await payloads(away, 50) == list(range(50))


@on_asyncio
async def test_a_full_disk_acknowledges_nothing_unkept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_full = False
    write = JournalFiles._write

    def refuse(files: JournalFiles, batch: bytes) -> None:
        if is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(files, batch)

    monkeypatch.setattr(JournalFiles, "_write", refuse)
    async with broker(tmp_path) as service:
        where = str(service.listening["mqtt"])
        async with client(service, "r") as reader:
            await reader.subscribe("a", qos=1)
        async with Client(where) as writer:
            await writer.publish("a", b"1", qos=1)
            is_full = True
            # This is not acknowledged: the connection ends, and later ones are refused.
            with pytest.raises(ClientError, match="cannot write to its disk"):
                async with asyncio.timeout(PATIENCE_S):
                    await writer.publish("a", b"2", qos=1)
            journal = service.front_end.journal
            assert journal is not None
            assert journal.status["is_failing"]
            assert service.missing() == ["a disk that takes the journal"]
            is_full = False
            await until(lambda: not journal.status["is_failing"])
            await writer.publish("a", b"3", qos=1)
    async with broker(tmp_path) as service, client(service, "r") as reader:
        found = await payloads(reader, 2)
        assert found in ([1, 3], [1, 2])  # it was not acknowledged; it may be kept


class SmallDisk:
    """Lets the files of a folder have so many bytes together."""

    def __init__(self, folder: Path, bytes: int) -> None:
        self._folder = folder
        self._bytes = bytes
        self._write = os.write
        self._allocate = os.posix_fallocate

    def _take(self, wanted: int) -> None:
        used = sum(path.stat().st_size for path in self._folder.glob("**/*") if path.is_file())
        if used + wanted > self._bytes:
            raise OSError(errno.ENOSPC, "No space left on device")

    def write(self, file: int, data: memoryview) -> int:
        self._take(len(data))
        return self._write(file, data)

    def allocate(self, file: int, start: int, size: int) -> None:
        self._take(size)
        self._allocate(file, start, size)


@on_asyncio
async def test_a_disk_filled_by_the_journal_recovers_when_queues_drain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SmallDisk(tmp_path, 1_000_000)
    monkeypatch.setattr(journal_files.os, "write", disk.write)
    monkeypatch.setattr(journal_files.os, "posix_fallocate", disk.allocate)
    monkeypatch.setattr(journal_writer, "RESERVE_BYTES", 100_000)
    monkeypatch.setattr(journal_writer, "TICK_S", 0.1)
    payload = b"x" * 20_000
    async with broker(tmp_path) as service:
        journal = service.front_end.journal
        assert journal is not None
        async with client(service, "r") as reader:
            await reader.subscribe("a", qos=1)
        async with Client(str(service.listening["mqtt"])) as writer:
            taken = 0
            with suppress(ClientError):
                while True:
                    await writer.publish("a", payload, qos=1)
                    taken += 1
            assert taken > 20
            # The queue is larger than the reserve, so that no retry fits.
            await asyncio.sleep(0.5)
            assert journal.status["is_failing"]
            assert journal.status["files"] <= 2
            async with client(service, "r") as reader, asyncio.timeout(PATIENCE_S):
                for _ in range(taken):
                    assert (await anext(reader.messages)).payload == payload
            await until(lambda: not journal.status["is_failing"])
            await writer.publish("a", b"7", qos=1)
            await until(lambda: (tmp_path / "B1" / "reserve").exists())
    async with broker(tmp_path) as service, client(service, "r") as reader:
        assert await payloads(reader, 1) == [7]


def test_an_unusable_journal_is_an_error(tmp_path: Path) -> None:
    settings = network(1, storage={"folder": str(tmp_path)})
    (tmp_path / "B1").mkdir()
    (tmp_path / "B1" / "journal-00000001").write_bytes(b"not what you think it is")

    async def run() -> None:
        with pytest.raises(JournalError, match="what begins at byte 0 is damaged"):
            BrokerService(settings, "B1")

    asyncio.run(run())


@pytest.mark.parametrize("seed", range(6))
def test_a_kill_within_any_write_is_recovered(tmp_path: Path, seed: int) -> None:
    life = RandomClients(seed)
    known = {count: (now_us, state) for count, now_us, state in states(life)}
    files = JournalFiles(tmp_path / "whole", "n", "B1")
    files.read(lambda batch: None)
    start = files.size
    ends = []
    for batch in life.broker_api.batches:
        files.append(batch)
        ends.append(files.size)
    files.close()
    whole = (tmp_path / "whole" / "journal-00000001").read_bytes()
    compared = 0
    for cut in life.chance.sample(range(start, len(whole)), 60):
        count = bisect(ends, cut)
        if count not in known:
            continue  # in the middle of one step's writes
        folder = tmp_path / str(cut)
        folder.mkdir()
        (folder / "journal-00000001").write_bytes(whole[:cut])
        found = JournalFiles(folder, "n", "B1")
        batches: list[bytes] = []
        found.read(batches.append)
        found.close()
        now_us, state = known[count]
        again = RememberingBrokerApi(batches, now_us, maximum_queued_messages=8)
        assert all_that_lasts(again.clients, now_us) == state
        compared += 1
    assert compared > 10
