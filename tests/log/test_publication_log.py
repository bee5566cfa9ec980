"""A broker's log in a folder: offsets, kills, power cuts, damage, retention, readers."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path
from unittest.mock import patch

import pytest

from shoal.log import publication_log, segments
from shoal.log.errors import LogError, OffsetAheadError, OffsetGoneError
from shoal.log.offsets import RESERVED
from shoal.log.publication_log import FolderLog, LogSettings, LogView, PublicationLog
from shoal.log.records import Entry, LogGap, LogRecord, RecordProperties, read_head
from shoal.log.selections import RecordSelection, read_answer
from tests.examples import one_in

SMALL = LogSettings(keep_bytes=4_000, keep_us=10_000_000, held_bytes=4_000, segment_bytes=1_000)


def record(number: int, time_us: int | None = None, topic: str = "a/b") -> LogRecord:
    at_us = number if time_us is None else time_us
    return LogRecord(at_us, "me", number, topic, b'{"x": %d}' % number, 1)


def records(count: int, first: int = 0) -> list[Entry]:
    return [record(number) for number in range(first, first + count)]


def begun(folder: Path, settings: LogSettings = LogSettings(), now_us: int = 1) -> PublicationLog:  # noqa: B008
    return PublicationLog(folder, "net", "B1", settings, now_us)


def contents(log: LogView, offset: int | None = None) -> list[tuple[int, Entry]]:
    """Every record from an offset on, as a reader gets it."""
    begin = log.first if offset is None else offset
    return [row for block in log.blocks(begin) for row in RecordSelection().records(block, begin)]


def test_records_come_back_with_their_offsets(tmp_path: Path) -> None:
    log = begun(tmp_path)
    sent = [
        *records(3),
        LogRecord(9, "ü", 1, "ä/ö", b"\x00\xff", 2, True, RecordProperties("text/plain")),
        LogGap(9, 9, 9, 2, "no space"),
    ]
    log.write(sent[:2])
    log.write(sent[2:])
    assert contents(log) == list(enumerate(sent))
    assert contents(log, 3) == list(enumerate(sent))[3:]
    log.close()
    assert contents(begun(tmp_path)) == list(enumerate(sent))
    assert contents(FolderLog(tmp_path)) == list(enumerate(sent))


def test_a_kill_loses_nothing_that_was_written(tmp_path: Path) -> None:
    log = begun(tmp_path)
    log.write(records(5))
    log.abandon()
    log = begun(tmp_path, now_us=2)
    log.write(records(1, 5))
    assert contents(log) == list(enumerate(records(6)))
    assert log.next == 6


def test_an_offset_is_never_given_twice_after_a_power_cut(tmp_path: Path) -> None:
    log = begun(tmp_path)
    log.write(records(5))
    log.abandon()
    last = log._files.segments[-1].path
    os.truncate(last, last.stat().st_size // 2)  # the disk had not the rest
    with patch.object(publication_log, "this_boot", lambda: "the next boot"):
        log = begun(tmp_path, now_us=2)
        found = contents(log)
    assert log.next == RESERVED + 1
    offset, gap = found[-1]
    assert (offset, type(gap)) == (RESERVED, LogGap)
    assert isinstance(gap, LogGap)
    assert (gap.reason, gap.missing) == ("a power cut", None)
    log.close()
    assert begun(tmp_path).next == RESERVED + 1


def test_offsets_stay_after_everything_was_deleted(tmp_path: Path) -> None:
    log = begun(tmp_path)
    log.write(records(7))
    log.close()
    for path in tmp_path.glob("log-*"):
        path.unlink()
    assert begun(tmp_path).next == 7


def test_missing_segments_at_the_end_are_an_error(tmp_path: Path) -> None:
    log = begun(tmp_path, SMALL)
    for number in range(60):
        log.write([record(number)])
    log.close()
    log._files.segments[-1].path.unlink()
    with pytest.raises(LogError, match=r"records from offset \d+ to 59 are missing"):
        begun(tmp_path, SMALL)


@pytest.mark.parametrize("cut", one_in(4, range(1, 60)))
def test_a_torn_block_at_the_end_is_cut_off(tmp_path: Path, cut: int) -> None:
    log = begun(tmp_path)
    log.write(records(2))
    log.write([record(2)])
    log.abandon()
    path = log._files.segments[-1].path
    whole = path.stat().st_size
    os.truncate(path, whole - cut)
    log = begun(tmp_path)
    assert log.next == 2
    assert "was not whole" in log.warnings[0]
    log.write([record(9)])
    assert [offset for offset, _ in contents(log)] == [0, 1, 2]


@pytest.mark.parametrize(
    ("place", "has_ended"), [(-5, True), (90, True), (90, False), (300, False)]
)
def test_damage_is_refused_by_name_and_changes_nothing(
    tmp_path: Path, place: int, has_ended: bool
) -> None:
    log = begun(tmp_path)
    for number in range(0, 12, 3):
        log.write(records(3, number))
    if has_ended:
        log.close()
    else:
        log.abandon()
    path = log._files.segments[0].path
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)
    with pytest.raises(LogError, match=r"log-0+: the block at byte \d+ is damaged"):
        begun(tmp_path)
    assert path.read_bytes() == data


def test_another_brokers_folder_is_refused(tmp_path: Path) -> None:
    begun(tmp_path).close()
    with pytest.raises(LogError, match="is the log of broker 'B1' of network 'net'"):
        PublicationLog(tmp_path, "net", "B2", LogSettings(), 1)


def test_two_processes_cannot_write_one_log(tmp_path: Path) -> None:
    log = begun(tmp_path)
    with pytest.raises(LogError, match="in use by another process"):
        begun(tmp_path)
    log.close()


@pytest.mark.parametrize("seed", range(6))
def test_segments_and_indexes_agree_with_a_list(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    settings = LogSettings(segment_bytes=chance.choice([300, 2_000, 10**6]))
    twin: list[Entry] = []
    with patch.object(segments, "INDEX_BYTES", chance.choice([1, 200, 10**6])):
        log = begun(tmp_path, settings)
        for step in range(60):
            more = [
                record(len(twin) + each, time_us=len(twin) // 3)
                for each in range(chance.choice([1, 1, 2, 20]))
            ]
            log.write(more)
            twin += more
            if chance.random() < 0.1:
                log.close() if chance.random() < 0.5 else log.abandon()
                log = begun(tmp_path, settings, now_us=step)
            begin = chance.randrange(len(twin) + 1)
            rows = contents(log, begin)
            assert [offset for offset, _ in rows] == list(range(begin, len(twin)))
            assert [row.number for _, row in rows if isinstance(row, LogRecord)] == list(
                range(begin, len(twin))
            )
            time_us = chance.randrange(-1, len(twin))
            times = [each.time_us for _, each in contents(log)]
            wanted = next((at for at, each in enumerate(times) if each >= time_us), len(times))
            assert log.offset_at(time_us) == wanted


def test_times_do_not_fall(tmp_path: Path) -> None:
    log = begun(tmp_path)
    log.write([record(1, time_us=50), record(2, time_us=40)])
    log.close()
    log = begun(tmp_path)
    log.write([record(3, time_us=10)])
    assert [each.time_us for _, each in contents(log)] == [50, 50, 50]


# --- retention and readers ------------------------------------------------------------------------


def filled(folder: Path, count: int = 200) -> PublicationLog:
    log = begun(folder, SMALL)
    for number in range(count):
        log.write([record(number, time_us=1_000_000)])
    return log


def test_the_oldest_segments_go_beyond_the_bound_of_bytes(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.retain(1_000_000)
    assert SMALL.keep_bytes <= log.size < SMALL.keep_bytes + 2 * SMALL.segment_bytes
    assert log.first > 0
    assert [offset for offset, _ in contents(log)] == list(range(log.first, 200))
    with pytest.raises(OffsetGoneError, match=f"the oldest record is {log.first}"):
        contents(log, log.first - 1)
    assert len(list(tmp_path.glob("log-*"))) == len(list(tmp_path.glob("index-*"))) + 1


def test_old_records_go_also_from_a_quiet_log(tmp_path: Path) -> None:
    log = begun(tmp_path, SMALL)
    log.write([record(1, time_us=1_000_000)])
    log.retain(3_000_000)
    assert log.first == 0
    log.retain(12_000_000)
    assert (log.first, log.next) == (1, 1)


def test_a_reader_holds_back_deletion_up_to_a_bound_and_is_told(tmp_path: Path) -> None:
    log = begun(tmp_path, SMALL)
    log.readers.pin("job", "ann", 0, 1)
    for number in range(90):
        log.write([record(number, time_us=1_000_000)])
    log.retain(1_000_000)
    assert (log.first, log.size > SMALL.keep_bytes) == (0, True)
    for number in range(90, 300):
        log.write([record(number, time_us=1_000_000)])
    log.retain(1_000_000)
    assert log.first > 0
    assert log.size >= SMALL.keep_bytes
    assert [each.is_lost for each in log.readers] == [True]
    with pytest.raises(ValueError, match="reader job was too far behind"):
        log.readers.move("job", 250, 2)
    assert log.readers.pin("job", "ann", log.first, 3).offset == log.first


def test_readers_outlast_a_restart_and_their_cursors_only_grow(tmp_path: Path) -> None:
    log = begun(tmp_path)
    log.write(records(9))
    assert log.readers.pin("job", "ann", 2, 1).offset == 2
    assert log.readers.pin("job", "ann", 7, 1).offset == 2
    assert log.readers.move("job", 5, 2).offset == 5
    assert log.readers.move("job", 4, 3).offset == 5
    log.abandon()
    log = begun(tmp_path)
    assert [(each.name, each.offset) for each in log.readers] == [("job", 5)]
    log.readers.forget("job")
    with pytest.raises(ValueError, match="no name of a reader"):
        log.readers.pin("../x", "ann", 0, 1)
    assert list(log.readers) == []


def test_a_restored_older_copy_is_noticed_by_a_reader(tmp_path: Path) -> None:
    log = begun(tmp_path, now_us=100)
    log.write(records(3))
    log.close()
    older = {path: path.read_bytes() for path in tmp_path.iterdir()}
    log = begun(tmp_path, now_us=200)
    log.write(records(3, 3))
    run = read_head(next(log.blocks(5))).run
    assert len(list(log.blocks(6, run))) == 0
    log.close()
    for path in tmp_path.iterdir():
        path.unlink()
    for path, data in older.items():
        path.write_bytes(data)
    log = begun(tmp_path, now_us=300)
    with pytest.raises(OffsetAheadError, match="an older copy of its folder was restored"):
        log.blocks(6, run)
    log.write(records(6, 3))
    with pytest.raises(OffsetAheadError, match="offset 6 was read"):
        log.blocks(6, run)


# --- a disk that takes nothing --------------------------------------------------------------------


def test_a_failed_write_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    log = begun(tmp_path)
    log.write(records(2))
    whole = os.write

    def writes_a_part(file: int, data: bytes) -> int:
        if len(data) > 20:
            return whole(file, data[:20])
        raise OSError(errno.ENOSPC, "No space left on device")

    with patch.object(os, "write", writes_a_part), pytest.raises(OSError, match="No space left"):
        log.write(records(2, 2))
    assert log.next == 2
    log.write([LogGap(9, 3, 9, 2, "full"), *records(1, 9)])
    assert [type(each) for _, each in contents(log)] == [LogRecord, LogRecord, LogGap, LogRecord]
    log.close()
    assert begun(tmp_path).next == 4


# --- selections -----------------------------------------------------------------------------------


def test_a_selection_takes_topics_content_and_gaps(tmp_path: Path) -> None:
    log = begun(tmp_path)
    gap = LogGap(5, 4, 5, 1, "full")
    log.write([record(1, topic="a/b"), record(20, topic="a/c"), gap, record(30, topic="b")])
    (block,) = log.blocks(0)

    def numbers(selection: RecordSelection) -> list[int]:
        return [offset for offset, _ in selection.records(block)]

    assert numbers(RecordSelection(("a/+",))) == [0, 1, 2]
    assert numbers(RecordSelection(("a/+", "b"), "x > 10")) == [1, 2, 3]
    assert numbers(RecordSelection(("#",), "`$topic` = 'b'")) == [2, 3]
    answers = RecordSelection(("b",)).answer(block) + RecordSelection().answer(block, 3)
    assert [offset for offset, _ in read_answer(answers)] == [2, 3, 3]
    assert [offset for offset, _ in read_answer(RecordSelection().answer(block, 1, 2))] == [1]
    with pytest.raises(ValueError, match="damaged at byte 0"):
        list(read_answer(answers[:-1][20:]))


def test_the_last_number_is_that_of_the_last_publication(tmp_path: Path) -> None:
    log = PublicationLog(tmp_path, "net", "B1", LogSettings(), now_us=5)
    assert log.last_number == -1
    log.write([LogRecord(6, "me", 41, "a", b"")])
    log.write([LogRecord(7, "me", 42, "a", b"")])
    log.write([LogGap(8, 7, 8, 1, "the disk is full")])
    assert log.last_number == 42
    log.close()
