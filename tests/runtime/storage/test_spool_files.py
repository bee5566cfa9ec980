"""Spools on disk: whole records or none, within a bound, and synced as configured."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from shoal.broker.ack_tracker import AckTracker
from shoal.broker.links.controls import CONTROLS
from shoal.broker.links.session import LinkSession
from shoal.broker.links.spool import SpoolRecord
from shoal.broker.wire import COMMON, Codec
from shoal.overlays.tree.placeholder import placeholder
from shoal.runtime.driving.timing.clock import Clock
from shoal.runtime.node import Node
from shoal.runtime.storage import spool_files
from shoal.runtime.storage.spool_files import SpoolFiles, Spools, SpoolSettings, waits_for
from tests.runtime.live import on_loop, until
from tests.runtime.test_node import Machine

RECORDS = [SpoolRecord(b"one", True), SpoolRecord(b"\0" * 30, False), SpoolRecord(b"three", True)]


def test_segments_are_read_again_until_they_are_removed(tmp_path: Path) -> None:
    files = SpoolFiles(tmp_path / "B2")
    assert not files.is_known
    assert files.segments() == {}
    files.know()
    assert files.is_known
    sizes = {1: files.append(1, RECORDS[:1]) + files.append(1, RECORDS[1:])}
    sizes[2] = files.append(2, RECORDS)
    files.close()
    files = SpoolFiles(tmp_path / "B2")
    assert files.segments() == sizes
    assert files.load(1) == files.load(2) == RECORDS
    files.remove(1)
    assert files.segments() == {2: sizes[2]}
    files.forget()
    assert not files.is_known


def test_a_crash_at_any_byte_leaves_the_records_before_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = SpoolFiles(tmp_path)
    ends = [files.append(1, [record]) for record in RECORDS]
    path = tmp_path / "00000001"
    whole = path.read_bytes()
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        assert files.load(1) == RECORDS[: (cut >= ends[0]) + (cut >= ends[0] + ends[1])]
    assert not caplog.records
    files.close()


def test_damaged_records_are_set_aside_and_the_rest_sent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = SpoolFiles(tmp_path)
    first, *_ = [files.append(1, [record]) for record in RECORDS]
    path = tmp_path / "00000001"
    data = bytearray(path.read_bytes())
    data[first + 14] ^= 1
    path.write_bytes(data)
    assert files.load(1) == RECORDS[:1]
    assert "damaged" in caplog.text
    files.remove(1)
    assert (tmp_path / "damaged-00000001").read_bytes() == data
    assert files.segments() == {}


def test_a_half_written_record_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = SpoolFiles(tmp_path)
    files.append(1, RECORDS[:1])
    write = os.write

    def half(file: int, data: memoryview) -> int:
        monkeypatch.setattr(os, "write", full)
        return write(file, data[: len(data) // 2])

    def full(file: int, data: memoryview) -> int:
        raise OSError(28, "no space")

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(OSError, match="no space"):
        files.append(1, RECORDS)
    monkeypatch.undo()
    files.append(1, RECORDS[1:])
    assert files.load(1) == RECORDS
    files.close()


def test_later_records_follow_earlier_ones(tmp_path: Path) -> None:
    files = SpoolFiles(tmp_path)
    files.append(1, RECORDS[:1])
    files.close()
    files.append(1, RECORDS[1:])
    files.close()
    assert SpoolFiles(tmp_path).load(1) == RECORDS


def test_neighbours_with_spools_are_known(tmp_path: Path) -> None:
    assert waits_for(tmp_path) == []
    for name in ("B2", "B3"):
        SpoolFiles(tmp_path / "spool" / name).know()
    SpoolFiles(tmp_path / "spool" / "B3").append(1, RECORDS)
    assert waits_for(tmp_path) == ["B3"]


def spools(folder: Path, **settings: Any) -> Spools:
    return Spools(
        Node(Machine(lambda input: []), Clock()),  # type: ignore[arg-type]
        SpoolSettings(folder=folder, **settings),
        placeholder,
    )


@on_loop
async def test_a_bound_holds_for_all_neighbours_together(tmp_path: Path) -> None:
    both = spools(tmp_path, sync="never", maximum_bytes=1_000)
    told: list[str] = []
    both.at_full = told.append
    left, right = both.spool_of("B1"), both.spool_of("B3")
    settled: list[str] = []
    for name, spool in (("left", left), ("right", right), ("more", right)):
        ack_tracker = AckTracker(lambda name=name: settled.append(name))  # type: ignore[misc]
        spool.append(b"x" * 400, ack_tracker)
        ack_tracker.settle()
        both.write()
    assert settled == ["left", "right"]
    assert told == ["too much waits for broker B3, which is disconnected or cannot write"]
    left.clear()
    both.write()
    assert settled == ["left", "right", "more"]
    assert told[1:] == [""]
    await both.stop()


@on_loop
async def test_a_neighbour_without_tables_has_a_placeholder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tables are unknown until it has sent them, although it was connected."""
    monkeypatch.setattr(spool_files, "PLACEHOLDER_US", -1)
    machine = Machine(lambda input: [])
    both = Spools(Node(machine, Clock()), SpoolSettings(folder=tmp_path), placeholder)  # type: ignore[arg-type]
    codec = Codec(COMMON + CONTROLS)
    here = LinkSession("n", "B1", "B2", 1, codec, is_graceful=True, spool=both.spool_of("B2"))
    there = LinkSession("n", "B2", "B1", 2, codec, is_graceful=True)
    both.here("B2")
    both.expect(here)
    said, answer = here.hello(), there.hello()
    there.connected(said, 0)
    here.connected(answer, 0)
    both.here("B2")
    both.placeholder()
    assert machine.inputs == []  # it may still send them
    here.lost(0)
    both.placeholder()
    assert machine.inputs == placeholder("B2", "B1")
    both.placeholder()
    assert len(machine.inputs) == len(placeholder("B2", "B1"))
    await both.stop()


@pytest.mark.parametrize(("sync", "syncs"), [("never", 0), ("second", 1), ("always", 2)])
@on_loop
async def test_spools_are_synced_like_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: str, syncs: int
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", synced.append)
    monkeypatch.setattr(spool_files, "TICK_S", 0.01)
    both = spools(tmp_path, sync=sync)
    spool = both.spool_of("B2")
    both.start()
    for _ in range(2):
        spool.append(b"x", None)
        both.write()
    if sync == "second":
        await until(lambda: bool(synced))
    await both.stop()
    assert len(synced) == syncs


@on_loop
async def test_messages_after_the_end_are_not_settled_and_remove_nothing(
    tmp_path: Path,
) -> None:
    """While a broker stops, a client's last publications may be for a disconnected neighbour."""
    both = spools(tmp_path)
    spool = both.spool_of("B2")
    settled: list[bytes] = []
    for data in (b"one", b"two"):
        ack_tracker = AckTracker(lambda data=data: settled.append(data))  # type: ignore[misc]
        spool.append(data, ack_tracker)
        ack_tracker.settle()
        both.write()
        await both.stop()
    assert settled == [b"one"]
    assert [each.data for each in SpoolFiles(tmp_path / "spool" / "B2").load(1)] == [b"one"]
