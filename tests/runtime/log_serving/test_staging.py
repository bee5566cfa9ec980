"""Rows staged at live brokers: published once each, also when a broker is killed between them."""

from __future__ import annotations

import asyncio
import errno
import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from shoal.client import Client
from shoal.log.records import LogRecord, read_records
from shoal.log.remote import LogAnswerError, LogLogin, RemoteLog
from shoal.log.staging.parts import Attempt
from shoal.log.staging.remote import RemoteStaging, commit_batch
from shoal.log.staging.staged_rows import StagedRow
from shoal.runtime.broker_service import BrokerService
from shoal.runtime.front_ends.entry.passwords import password_line
from shoal.runtime.log_serving import staging_area
from tests.runtime.live import PATIENCE_S, on_loop, until
from tests.runtime.log_serving.test_log_serving import logging_network
from tests.runtime.one_service import running


def area(service: BrokerService, login: LogLogin | None = None) -> RemoteStaging:
    log = RemoteLog(f"http://{service.listening['log']}", login or LogLogin())
    return RemoteStaging(log, patience_s=0.0)


def rows(prefix: str, count: int, topic: str = "t", qos: int = 1) -> list[StagedRow]:
    return [StagedRow(topic, f"{prefix} {number}".encode(), qos) for number in range(count)]


async def stage(service: BrokerService, batch: int, name: str, staged: list[StagedRow]) -> Attempt:
    staging = area(service)
    count = await asyncio.to_thread(staging.stage, "q", batch, name, iter(staged))
    return Attempt(service.node.id, name, count)


async def commit(services: list[BrokerService], batch: int, attempts: list[Attempt]) -> int:
    brokers = {each.node.id: area(each) for each in services}
    return await asyncio.to_thread(commit_batch, brokers, "q", batch, attempts)


def logged(services: list[BrokerService]) -> list[str]:
    """The payloads of the staged rows in all logs, in the order of each."""
    found = []
    for service in services:
        assert service.front_end.log is not None
        found += [
            record.payload.decode()
            for block in service.front_end.log.log.blocks(0)
            for record in read_records(block)
            if isinstance(record, LogRecord) and record.publisher.startswith("$mqtt/rows/")
        ]
    return found


def with_storage(folder: Path, count: int, **tables: Any) -> Any:
    storage = {"folder": str(folder / "data"), "sync": "never"}
    return logging_network(folder, count, storage=storage, **tables)


async def subscribed(stack: AsyncExitStack, service: BrokerService) -> list[str]:
    """What a client at this broker gets on `t`."""
    got: list[str] = []
    client = await stack.enter_async_context(Client(str(service.listening["mqtt"]), "listener"))
    subscription = client.subscribe("t", qos=1)
    await subscription.granted()

    async def take() -> None:
        while True:
            got.append((await client.next_message(subscription)).payload.decode())

    task = asyncio.create_task(take())
    stack.callback(task.cancel)
    return got


@on_loop
@pytest.mark.parametrize("count", [1, 2])
async def test_each_batch_is_published_once_in_order(tmp_path: Path, count: int) -> None:
    net = with_storage(tmp_path, count)
    names = [each.name for each in net.brokers]
    async with (
        asyncio.timeout(PATIENCE_S),
        running(net, *names) as services,
        AsyncExitStack() as stack,
    ):
        await until(lambda: not any(each.missing() for each in services))
        got = await subscribed(stack, services[0])
        last = services[-1]
        assert last.staging is not None
        expected = []
        for batch in range(3):
            attempts = [
                await stage(each, batch, f"a{number}", rows(f"{batch} {each.node.id}", 250))
                for number, each in enumerate(services)
            ]
            await stage(last, batch, "not-named", rows("never", 3))
            assert await commit(services, batch, attempts) == 250 * count
            # Again, with attempts that come too late.
            late = [await stage(last, batch, "late", rows("late", 7))]
            assert await commit(services, batch, late) == 250 * count
            expected += [f"{batch} {name} {number}" for name in names for number in range(250)]
        # An earlier batch is over.
        assert await commit(services, 1, [await stage(last, 1, "old", rows("old", 2))]) == 0
        await until(lambda: len(got) >= len(expected))
        assert sorted(got) == sorted(expected) == sorted(logged(services))
        for name in names:
            own = [each for each in got if f" {name} " in each]
            assert own == [each for each in expected if f" {name} " in each]
        (row,) = last.staging.rows()
        assert (row["query"], row["batch"], row["rows"], row["published"]) == ("q", 2, 250, 250)
        assert [
            each for each in last.front_end.clients.sessions.client_ids() if "rows" in each
        ] == []
        assert await asyncio.to_thread(area(last).forget, "q") is None
        assert (last.staging.rows(), last.staging.attempts.bytes) == ([], 0)


@on_loop
@pytest.mark.parametrize("count", [1, 2])
async def test_a_killed_broker_goes_on_with_the_next_row(tmp_path: Path, count: int) -> None:
    """As by a kill: neither the journal nor the log is ended in order."""
    net = with_storage(tmp_path, count)
    names = [each.name for each in net.brokers]
    async with asyncio.timeout(PATIENCE_S):
        async with running(net, *names) as services:
            await until(lambda: not any(each.missing() for each in services))
            first = services[0]
            attempt = await stage(first, 0, "a", rows("row", 3_000))
            assert first.staging is not None
            with patch.object(staging_area, "NOTED_ROWS", 600):
                staging = area(first)
                await asyncio.to_thread(staging.offer, "q", 0, ["a"])
                await asyncio.to_thread(staging.decide, "q", 0, [attempt])
                await asyncio.to_thread(staging.publish, "q", 0, [attempt], 0.0)
                await until(lambda: first.front_end.clients.statistics.publications_received > 900)
                # All that is gathered is lost, and so is the task.
                await first.staging.stop()
                part = first.staging.lists.part("q")
                assert part is not None
                assert 0 < part.done < 3_000
        async with running(net, *names) as services, AsyncExitStack() as stack:
            first = services[0]
            await subscribed(stack, first)
            assert await commit(services, 0, []) == 3_000
            assert logged(services[:1]) == [f"row {number}" for number in range(3_000)]


@on_loop
async def test_a_row_that_may_not_be_published_names_its_reason(tmp_path: Path) -> None:
    lines = [password_line(name, "secret") for name in ("ann", "bob")]
    (tmp_path / "users").write_text("\n".join(lines))
    access = {
        "anonymous": False,
        "passwords": str(tmp_path / "users"),
        "rules": [{"user": "ann", "publish": ["mine/#"]}, {"user": "bob", "publish": ["#"]}],
    }
    net = with_storage(tmp_path, 1, access=access)
    async with asyncio.timeout(PATIENCE_S), running(net, "B1") as (service,):
        ann, bob = (area(service, LogLogin(name, "secret")) for name in ("ann", "bob"))
        for staged, text in (
            (
                [*rows("x", 2, "mine/a"), StagedRow("yours", b"")],
                "row 2, for topic 'yours': the rule",
            ),
            ([StagedRow("mine/+", b"")], "no topic to publish to"),
            ([StagedRow("$SYS/x", b"")], "the rules do not allow"),
            ([StagedRow("mine/a", b"x" * 1_048_576)], "larger than a packet may be"),
        ):
            with pytest.raises(LogAnswerError, match=text):
                await asyncio.to_thread(ann.stage, "q", 0, "a", iter(staged))
        await asyncio.to_thread(ann.stage, "q", 0, "b", iter(rows("x", 1, "mine/a")))
        await asyncio.to_thread(ann.offer, "q", 0, ["b"])
        with pytest.raises(LogAnswerError, match="query q is another user's"):
            await asyncio.to_thread(bob.stage, "q", 0, "c", iter(rows("x", 1)))
        with pytest.raises(LogAnswerError, match="query q is another user's"):
            await asyncio.to_thread(bob.forget, "q")


@on_loop
async def test_a_full_disk_and_too_many_rows_are_named(tmp_path: Path) -> None:
    net = with_storage(tmp_path, 1, log={"staged_bytes": 2_000})
    async with asyncio.timeout(PATIENCE_S), running(net, "B1") as (service,):
        with pytest.raises(LogAnswerError, match=r"of 2,000 bytes \(staged_bytes\)"):
            await stage(service, 0, "a", rows("x", 200))
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with (
            patch("shoal.log.staging.attempts.os.pwrite", side_effect=full),
            pytest.raises(LogAnswerError, match="cannot be kept: No space left on device"),
        ):
            await stage(service, 0, "b", rows("x", 2))
        for name in ("../../../data/B1/journal", ".", "a/b"):
            with pytest.raises(LogAnswerError, match="is no name"):
                await commit([service], 0, [Attempt("B1", name, 1)])
        # What has room afterwards is taken.
        attempt = await stage(service, 0, "b", rows("x", 2))
        lost = msgspec.structs.replace(attempt, name="c")
        with pytest.raises(LogAnswerError, match="0 of 2 rows are here: its list names what"):
            await commit([service], 0, [lost])


@on_loop
async def test_a_broker_without_a_journal_takes_no_rows(tmp_path: Path) -> None:
    async with (
        asyncio.timeout(PATIENCE_S),
        running(logging_network(tmp_path), "B1") as (service,),
    ):
        with pytest.raises(LogAnswerError, match="say delivery = at_least_once"):
            await stage(service, 0, "a", rows("x", 1))
