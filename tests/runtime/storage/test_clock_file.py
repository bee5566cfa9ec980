"""A broker's clock does not run back between incarnations, whatever its machine's does."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

from shoal.client import Client
from shoal.runtime.driving.timing.clock import Clock
from shoal.runtime.storage.clock_file import FILE, ClockFile
from tests.runtime.live import PATIENCE_S, on_asyncio
from tests.runtime.one_service import network, running
from tests.runtime.storage.test_backup import stays

HOUR_NS = 3_600 * 1_000_000_000


@contextmanager
def set_back(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The machine's clock is an hour behind."""
    now_ns = time.time_ns
    with monkeypatch.context() as changed:
        changed.setattr(time, "time_ns", lambda: now_ns() - HOUR_NS)
        yield


@pytest.mark.parametrize("topics", ["t", "$share/g/t"])
@pytest.mark.parametrize("system", ["tree", "octopia"])
@on_asyncio
async def test_publications_after_a_clock_set_back_arrive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str, topics: str
) -> None:
    both = network(2, system=system, storage={"folder": str(tmp_path), "sync": "never"})
    async with asyncio.timeout(2 * PATIENCE_S), running(both, "B2") as (second,):
        async with running(both, "B1") as (first,), stays(second, "subscriber") as client:
            await client.subscribe(topics, 2)
            async with Client(str(first.listening["mqtt"]), "publisher") as publisher:
                await publisher.publish("t", b"before", qos=2)
            assert (await anext(aiter(client.messages))).payload == b"before"
        with set_back(monkeypatch):
            async with running(both, "B1") as (first,), stays(second, "subscriber") as client:
                async with Client(str(first.listening["mqtt"]), "publisher") as publisher:
                    for number in range(3):
                        await publisher.publish("t", b"after %d" % number, qos=2)
                messages = aiter(client.messages)
                found = [(await anext(messages)).payload for _ in range(3)]
                assert found == [b"after 0", b"after 1", b"after 2"]


def test_each_incarnation_begins_after_the_former(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ended_us = ClockFile(tmp_path).clock.now_us()
    with set_back(monkeypatch):
        for _ in range(3):
            began_us = ClockFile(tmp_path).clock.now_us()  # killed: nothing is written at its end
            assert 0 <= began_us - ended_us < 1_000_000
            ended_us = began_us
    assert "the machine's clock was set back" in caplog.text


def test_a_later_incarnation_uses_the_machines_clock(tmp_path: Path) -> None:
    file = ClockFile(tmp_path)
    file.clock = Clock(time.time_ns() // 1_000 - 10_000_000)
    file.stop()
    assert abs(ClockFile(tmp_path).clock.now_us() - time.time_ns() // 1_000) < 1_000_000


def test_a_quick_restart_is_not_ahead_of_other_brokers(tmp_path: Path) -> None:
    """With a later time it would take over clients that have connected elsewhere meanwhile."""
    for _ in range(3):
        began_us = ClockFile(tmp_path).clock.now_us()
        assert abs(began_us - time.time_ns() // 1_000) < 500_000


def test_a_reboot_may_have_lost_the_last_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended_us = ClockFile(tmp_path).clock.now_us()
    (tmp_path / FILE).write_text(f"{ended_us} 17 another-start-of-the-machine\n")
    with set_back(monkeypatch):
        assert ClockFile(tmp_path).clock.now_us() - ended_us >= 60_000_000


@pytest.mark.parametrize("text", ["", "soon\n", "\x00" * 30])
def test_an_unreadable_clock_file_is_logged_and_ignored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    (tmp_path / FILE).write_text(text)
    assert abs(ClockFile(tmp_path).clock.now_us() - time.time_ns() // 1_000) < 1_000_000
    assert "cannot be read" in caplog.text


@on_asyncio
async def test_the_time_is_written_while_it_runs(tmp_path: Path) -> None:
    file = ClockFile(tmp_path)
    before = (tmp_path / FILE).read_text()
    file.start()
    with patch.object(os, "open", side_effect=OSError(errno.EMFILE, "clients have them all")):
        async with asyncio.timeout(PATIENCE_S):
            while (tmp_path / FILE).read_text() == before:
                await asyncio.sleep(0.05)
    file.stop()
