"""A live broker's log: what enters it, who may read it, and what a full disk does."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import trustme

from shoal.client import Client, ClientError
from shoal.log.errors import LogError, OffsetAheadError, OffsetGoneError
from shoal.log.merging import LoggedRecord, followed, merged
from shoal.log.publication_log import FolderLog
from shoal.log.records import LogGap, LogRecord
from shoal.log.remote import LogAnswerError, LogLogin, RemoteLog, open_logs, pages
from shoal.log.rows import json_row
from shoal.mqtt.codec.encoder import encode
from shoal.mqtt.codec.packets import Connect, WillFields
from shoal.runtime.broker_service import BrokerService
from shoal.runtime.free_ports import free_ports
from shoal.runtime.front_ends.entry.passwords import password_line
from shoal.runtime.network_file import NetworkFile, parse_network
from shoal.runtime.storage import log_writer
from tests.runtime.live import PATIENCE_S, on_loop, until
from tests.runtime.one_service import data_of, network, running


def logging_network(folder: Path, count: int = 1, port: int = 0, **tables: Any) -> NetworkFile:
    """A network whose brokers keep logs, and listen for readers at this port, or at any."""
    data = data_of(network(count))
    for broker in data["brokers"]:
        broker["log"] = f"127.0.0.1:{port}"
    section = {"folder": str(folder / "log")} | tables.pop("log", {})
    return parse_network(data | tables | {"log": section})


def remote(
    service: BrokerService, login: LogLogin | None = None, scheme: str = "http"
) -> RemoteLog:
    return RemoteLog(f"{scheme}://{service.listening['log']}", login or LogLogin())


async def rows_of(log: RemoteLog, begin: int = 0, **options: Any) -> list[tuple[int, Any]]:
    page = await asyncio.to_thread(log.page, begin, **options)
    return page.records


@on_loop
@pytest.mark.parametrize("count", [1, 2])
async def test_each_publication_is_logged_once_where_it_enters(tmp_path: Path, count: int) -> None:
    net = logging_network(tmp_path, count)
    names = [each.name for each in net.brokers]
    async with asyncio.timeout(PATIENCE_S), running(net, *names) as services:
        await until(lambda: not any(each.missing() for each in services))
        async with (
            Client(str(services[0].listening["mqtt"]), "sensor") as client,
            Client(str(services[-1].listening["mqtt"])) as elsewhere,
            elsewhere.subscribe("#", qos=1) as subscription,
        ):
            await client.publish("a/0", b"zero", qos=0)
            await client.publish("a/1", b'{"x": 1}', qos=1, content_type="application/json")
            await client.publish("a/2", b"\xff", qos=2, retain=True, attributes={"unit": "C"})
            for _ in range(3):
                await subscription.get()
        rows = await rows_of(remote(services[0]))
        for other in services[1:]:
            assert await rows_of(remote(other)) == []
    assert [offset for offset, _ in rows] == [0, 1, 2]
    assert [each.topic for _, each in rows] == ["a/0", "a/1", "a/2"]
    assert [each.qos for _, each in rows] == [0, 1, 2]
    assert {each.publisher for _, each in rows} == {"sensor"}
    assert len({each.number for _, each in rows}) == 3
    last = json_row("B1", *rows[2])
    assert last["payload_base64"] == "/w=="
    assert last["attributes"]["unit"] == "C"
    assert json_row("B1", *rows[1])["attributes"]["x"] == 1
    assert len(list(FolderLog(tmp_path / "log" / names[0]).blocks(0))) > 0


@on_loop
async def test_what_the_file_leaves_out_is_not_logged(tmp_path: Path) -> None:
    net = logging_network(tmp_path, log={"topics": ["a/#"], "qos": 1})
    async with asyncio.timeout(PATIENCE_S), running(net, "B1") as (service,):
        async with Client(str(service.listening["mqtt"])) as client:
            await client.publish("a/0", b"", qos=0)
            await client.publish("b", b"", qos=1)
            await client.publish("a/1", b"", qos=1)
        assert [each.topic for _, each in await rows_of(remote(service))] == ["a/1"]


@on_loop
async def test_a_will_is_logged_when_it_is_published(tmp_path: Path) -> None:
    net = logging_network(tmp_path)
    async with asyncio.timeout(PATIENCE_S), running(net, "B1") as (service,):
        reader, writer = await asyncio.open_connection(*service.listening["mqtt"])
        writer.write(encode(Connect("dev", version=4, will=WillFields("gone", b"bye", 1)), 4))
        await reader.readexactly(4)
        assert await rows_of(remote(service)) == []
        writer.transport.abort()
        await until(
            lambda: service.front_end.log is not None and service.front_end.log.log.next == 1
        )
        ((_, will),) = await rows_of(remote(service))
        assert (will.topic, will.payload, will.publisher) == ("gone", b"bye", "dev")


@on_loop
async def test_records_come_filtered_in_pages_and_by_time(tmp_path: Path) -> None:
    net = logging_network(tmp_path)
    async with asyncio.timeout(PATIENCE_S), running(net, "B1") as (service,):
        log = remote(service)
        async with Client(str(service.listening["mqtt"])) as client:
            for number in range(40):
                await client.publish(f"t/{number % 2}", b'{"x": %d}' % number, qos=1)
        found = await rows_of(log, topics=["t/1"], where="x > 30")
        assert [offset for offset, _ in found] == [31, 33, 35, 37, 39]
        assert [offset for offset, _ in await rows_of(log, 5, end=8)] == [5, 6, 7]
        page = await asyncio.to_thread(log.page, 0, most_bytes=1)
        assert 0 < page.next < 40
        assert (page.end, len(page.records)) == (40, page.next)
        time_us = (await rows_of(log, 7, end=8))[0][1].time_us
        offset = await asyncio.to_thread(log.offset_at, time_us)
        assert offset <= 7
        assert (await rows_of(log, offset, end=offset + 1))[0][1].time_us == time_us
        waiting = asyncio.create_task(asyncio.to_thread(log.page, 40, wait_s=20.0))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        async with Client(str(service.listening["mqtt"])) as client:
            await client.publish("t/9", b"", qos=0)
        assert [offset for offset, _ in (await waiting).records] == [40]
        with pytest.raises(OffsetAheadError, match="offset 99 was read"):
            await rows_of(log, 99)
        for wrong in ({"where": "x >"}, {"topics": ["a/#/b"]}):
            with pytest.raises(LogAnswerError, match=r"a/#/b|ends too early"):
                await rows_of(log, **wrong)


@on_loop
async def test_retention_tells_a_reader_what_is_gone(tmp_path: Path) -> None:
    net = logging_network(tmp_path, log={"keep_bytes": 4_000, "held_bytes": 0})
    async with asyncio.timeout(PATIENCE_S), running(net, "B1") as (service,):
        async with Client(str(service.listening["mqtt"])) as client:
            for _ in range(40):
                await client.publish("t", b"x" * 300, qos=1)
        log = remote(service)
        await until(lambda: service.status()["log"]["first"] > 0)
        with pytest.raises(
            OffsetGoneError, match="deleted by retention; the oldest record is"
        ) as at:
            await rows_of(log, 0)
        assert [offset for offset, _ in await rows_of(log, at.value.first)][-1] == 39


@on_loop
async def test_named_readers_are_pinned_moved_and_forgotten(tmp_path: Path) -> None:
    net = logging_network(tmp_path)
    async with asyncio.timeout(PATIENCE_S), running(net, "B1") as (service,):
        async with Client(str(service.listening["mqtt"])) as client:
            for _ in range(5):
                await client.publish("t", b"", qos=1)
        log = remote(service)

        def play() -> None:
            assert log.pin("job", "from=latest") == 5
            assert log.pin("job", "from=earliest") == 5
            assert log.pin("early", "from=2") == 2
            log.move("early", 4)
            assert [(each["name"], each["behind"]) for each in log.readers()] == [
                ("job", 0),
                ("early", 1),
            ]
            with pytest.raises(OffsetAheadError):
                log.move("early", 6)
            with pytest.raises(LogAnswerError, match="there is no reader x"):
                log.move("x", 1)
            log.forget("early")

        await asyncio.to_thread(play)
        (row,) = service.status()["log"]["readers"]
        assert (row["name"], row["offset"], row["behind"]) == ("job", 5, 0)
        await asyncio.to_thread(log.pin, "slow", "from=earliest")
        assert (await service.leaving.plan())["readers"] == {"job": 0, "slow": 5}


@on_loop
async def test_the_rules_for_subscribing_decide_who_reads_what(tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "broker.pem")
    issued.private_key_pem.write_to_path(tmp_path / "broker.key")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    (tmp_path / "users").write_text(password_line("ann", "secret") + "\n")
    net = logging_network(
        tmp_path,
        access={
            "passwords": str(tmp_path / "users"),
            "rules": [{"user": "ann", "publish": ["#"], "subscribe": ["a/#"]}],
        },
        client_tls={
            "certificate": str(tmp_path / "broker.pem"),
            "key": str(tmp_path / "broker.key"),
        },
    )
    ca = str(tmp_path / "ca.pem")
    async with asyncio.timeout(PATIENCE_S), running(net, "B1") as (service,):
        address = str(service.listening["mqtt"])
        async with Client(address, username="ann", password="secret") as client:
            await client.publish("a/1", b"yes", qos=1)
            await client.publish("b", b"no", qos=1)
        ann = remote(service, LogLogin("ann", "secret", ca), "https")
        assert [each.topic for _, each in await rows_of(ann, topics=["a/+"])] == ["a/1"]
        for log, topics, why in (
            (ann, ["#"], "do not allow this user to subscribe to #"),
            (remote(service, LogLogin("ann", "wrong", ca), "https"), ["a/+"], "password"),
            (remote(service, LogLogin(authority=ca), "https"), ["a/+"], "401|name|user"),
            (remote(service, LogLogin("ann", "secret"), "https"), ["a/+"], "CERTIFICATE"),
        ):
            with pytest.raises(LogAnswerError, match=why):
                await rows_of(log, topics=topics)


@on_loop
async def test_a_web_page_cannot_read_a_log_by_a_name_of_its_own(tmp_path: Path) -> None:
    net = logging_network(tmp_path)
    async with asyncio.timeout(PATIENCE_S), running(net, "B1") as (service,):
        reader, writer = await asyncio.open_connection(*service.listening["log"])
        writer.write(b"GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
        assert b" 403 " in await reader.readline()
        writer.close()
        reader, writer = await asyncio.open_connection(*service.listening["log"])
        writer.write(
            b"PUT /readers/x HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n"
            b"Connection: close\r\n\r\n"
        )
        assert b" 403 " in await reader.readline()
        writer.close()


REQUESTS = {
    "a long query": b"GET /records?where="
    + b"x" * 60_000
    + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "a filter of many parts": b"GET /records?where="
    + b"%20OR%20".join(b"x=%d" % each for each in range(3_000))
    + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "many topics": b"GET /records?"
    + b"&".join(b"topic=a%%2F%d%%2F%%2B" % each for each in range(3_000))
    + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "a huge offset": b"GET /records?from=" + b"9" * 400 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "no number": b"GET /records?from=-1&wait_s=nan HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "endless waiting": b"GET /records?wait_s=1e99&from=1000 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "no HTTP": b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x00\x00\x00",
    "a reader's name": b"PUT /readers/..%2F..%2Fx HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    b"X-Shoal: reader\r\nContent-Length: 0\r\n\r\n",
}


@on_loop
@pytest.mark.parametrize("request_bytes", REQUESTS.values(), ids=REQUESTS)
async def test_a_hostile_request_is_refused_and_holds_nobody_up(
    tmp_path: Path, request_bytes: bytes
) -> None:
    net = logging_network(tmp_path)
    async with asyncio.timeout(PATIENCE_S), running(net, "B1") as (service,):
        async with Client(str(service.listening["mqtt"])) as client:
            for number in range(1_000):
                await client.publish(f"a/{number}/b", b'{"x": 1, "y": "text"}', qos=0)
            await client.publish("end", b"", qos=1)
        loop = asyncio.get_running_loop()
        longest, last = 0.0, loop.time()

        async def watch() -> None:
            nonlocal longest, last
            while True:
                await asyncio.sleep(0)
                now = loop.time()
                longest, last = max(longest, now - last), now

        watching = asyncio.create_task(watch())
        reader, writer = await asyncio.open_connection(*service.listening["log"])
        writer.write(request_bytes)
        first = await reader.readline()
        assert first.startswith(b"HTTP/1.1 ")
        assert not first.startswith(b"HTTP/1.1 5")
        watching.cancel()
        print(f"longest slice {longest * 1e3:.0f} ms")
        writer.close()
        assert await rows_of(remote(service), 0, end=1)


# --- several brokers ------------------------------------------------------------------------------


@on_loop
async def test_the_logs_of_all_brokers_are_one_stream_by_time(tmp_path: Path) -> None:
    net = logging_network(tmp_path, 3)
    names = [each.name for each in net.brokers]
    async with asyncio.timeout(PATIENCE_S), running(net, *names) as services:
        await until(lambda: not any(each.missing() for each in services))
        logs = {each.node.id: remote(each) for each in services}

        async def publish(first: int) -> None:
            async with (
                Client(str(services[0].listening["mqtt"])) as a,
                Client(str(services[1].listening["mqtt"])) as b,
                Client(str(services[2].listening["mqtt"])) as c,
            ):
                for number in range(first, first + 12):
                    await (a, b, c)[number % 3].publish("t", b"%d" % number, qos=1)

        await publish(0)

        def all_of_them() -> list[LoggedRecord]:
            bounds = {name: each.bounds() for name, each in logs.items()}
            ends = {name: each.next for name, each in bounds.items()}
            return list(merged(logs, dict.fromkeys(logs, 0), ends))

        rows = await asyncio.to_thread(all_of_them)
        assert [int(each.record.payload) for each in rows] == [*range(12)]  # type: ignore[union-attr]
        assert {each.broker for each in rows} == set(names)

        def follow() -> Iterator[LoggedRecord]:
            return islice(followed(logs, dict.fromkeys(logs, 0)), 24)

        following = asyncio.create_task(asyncio.to_thread(lambda: list(follow())))
        await publish(12)
        rows = await following
        assert [int(each.record.payload) for each in rows] == [*range(24)]  # type: ignore[union-attr]


# --- a disk that takes nothing --------------------------------------------------------------------


class FullDisk:
    """Writes to the log fail while it is on."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._write = os.write
        self.is_on = False

    def __call__(self, file: int, data: bytes) -> int:
        if self.is_on and str(Path(f"/proc/self/fd/{file}").readlink()).startswith(self._folder):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._write(file, data)


@on_loop
@pytest.mark.parametrize("full", ["refuse", "skip"])
async def test_a_full_disk_leaves_a_gap_and_never_a_silent_one(tmp_path: Path, full: str) -> None:
    net = logging_network(tmp_path, log={"full": full})
    disk = FullDisk(tmp_path / "log")
    with patch.object(os, "write", disk), patch.object(log_writer, "TICK_S", 0.05):
        async with asyncio.timeout(PATIENCE_S), running(net, "B1") as (service,):
            async with Client(str(service.listening["mqtt"]), "c") as client:
                await client.publish("t", b"0", qos=1)
                disk.is_on = True
                if full == "skip":
                    await client.publish("t", b"1", qos=1)
                else:
                    await client.publish("t", b"1", qos=0)
                    await until(lambda: service.status()["log"]["is_failing"])
                    with pytest.raises(ClientError, match="the log cannot be written"):
                        await client.publish("t", b"2", qos=1)
                    assert "room on disk: the log cannot be written" in service.missing()
                await client.publish("t", b"3", qos=0)
                await until(lambda: service.status()["log"]["missing"] == 2)
                disk.is_on = False
                await until(lambda: not service.status()["log"]["is_failing"])
                await client.publish("t", b"4", qos=1)
            rows = await rows_of(remote(service))
    assert [offset for offset, _ in rows] == [0, 1, 2]
    first, gap, last = (each for _, each in rows)
    assert isinstance(first, LogRecord)
    assert isinstance(gap, LogGap)
    assert isinstance(last, LogRecord)
    assert (first.payload, gap.missing, last.payload) == (b"0", 2, b"4")
    assert "No space left" in gap.reason


@on_loop
async def test_acknowledged_publications_are_in_the_log_after_a_kill(tmp_path: Path) -> None:
    net = logging_network(tmp_path)
    async with asyncio.timeout(PATIENCE_S):
        async with running(net, "B1") as (service,):
            async with Client(str(service.listening["mqtt"])) as client:
                for number in range(20):
                    await client.publish("t", b"%d" % number, qos=1)
            # As the disk is at this moment.
            copy = tmp_path / "copy"
            copy.mkdir()
            for path in (tmp_path / "log" / "B1").iterdir():
                (copy / path.name).write_bytes(path.read_bytes())
    (log,) = open_logs(str(copy)).values()
    assert [each.payload for _, each in log.page(0).records] == [  # type: ignore[union-attr]
        b"%d" % number for number in range(20)
    ]


@on_loop
async def test_a_reader_waits_for_a_broker_that_starts_again(tmp_path: Path) -> None:
    (port,) = free_ports("127.0.0.1", 1)
    net = logging_network(tmp_path, port=port)
    async with asyncio.timeout(PATIENCE_S):
        async with running(net, "B1") as (service,):
            async with Client(str(service.listening["mqtt"])) as client:
                for number in range(3):
                    await client.publish("t", b"%d" % number, qos=1)
            found = pages(remote(service), 0, 3, most_bytes=1, patience_s=PATIENCE_S)
            read = [await asyncio.to_thread(next, found)]
            impatient = RemoteLog(remote(service).url)
        with pytest.raises(LogAnswerError, match="does not answer"):
            await asyncio.to_thread(list, pages(impatient, 0, 3))
        reading = asyncio.create_task(asyncio.to_thread(list, found))
        await asyncio.sleep(0.3)
        async with running(net, "B1"):
            read += await reading
    assert [offset for page in read for offset, _ in page.records] == [0, 1, 2]


def test_a_folder_without_a_log_says_so(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="has no log"):
        open_logs(str(tmp_path))
    path = tmp_path / "net.toml"
    path.write_text('[[brokers]]\nname = "B1"\n')
    with pytest.raises(LogError, match="no broker has a listener for readers"):
        open_logs(str(path))
