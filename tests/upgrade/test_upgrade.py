"""What earlier versions have written is read to the letter; what later ones write is refused."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import msgspec
import pytest

from shoal.broker.wire import FrameReader, WireError
from shoal.runtime.broker_service import BrokerService
from shoal.runtime.storage.journal_files import JournalError, framed
from shoal.runtime.storage.overlay_file import LinkRow, Overlay
from tests.examples import at_length
from tests.upgrade.record import FRAMES, HERE, OVERLAY
from tests.upgrade.said import CODEC, SAID, THERE
from tests.upgrade.scene import know, play, two_brokers

VERSIONS = sorted(HERE.glob("version_*"))
*EARLIER, NEWEST = VERSIONS


@pytest.mark.parametrize("version", [NEWEST, *at_length(EARLIER)], ids=lambda path: path.name)
def test_brokers_know_what_an_earlier_version_wrote(version: Path, tmp_path: Path) -> None:
    """Sessions, what waits in them, QoS 2 in the middle, retained messages, and spools."""
    folder = tmp_path / "data"
    shutil.copytree(version, folder)
    asyncio.run(asyncio.wait_for(know(folder), 60))


@pytest.mark.parametrize("version", VERSIONS, ids=lambda path: path.name)
def test_frames_of_an_earlier_version_are_read(version: Path) -> None:
    found = [CODEC.decode(body) for body in FrameReader().feed((version / FRAMES).read_bytes())]
    assert tuple(found) == SAID


@pytest.mark.parametrize("version", VERSIONS, ids=lambda path: path.name)
def test_the_overlay_of_an_earlier_version_is_read(version: Path) -> None:
    overlay = Overlay(version / OVERLAY)
    assert overlay.links == {"B4": LinkRow(5, "h:4"), "B5": LinkRow(6, ends=True)}
    assert overlay.ended == {"B6": 7}
    assert overlay.brokers == {"B2": THERE}
    assert overlay.facts == {"links": [["B1", "B4"]], "at": 8}


def rewrite(path: Path, **changes: int) -> None:
    """An overlay file in which something is different."""
    data = msgspec.json.decode(path.read_bytes()) if path.exists() else {}
    path.write_bytes(msgspec.json.encode(data | changes))


def begin(path: Path, heading: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(framed(msgspec.msgpack.encode(heading)))


@pytest.mark.parametrize("file", ["journal-00000001", "spool/B2/00000001", "overlay.json"])
def test_what_a_later_version_wrote_is_refused_and_not_touched(file: str, tmp_path: Path) -> None:
    path = tmp_path / "B1" / file
    path.parent.mkdir(parents=True)
    match file:
        case "overlay.json":
            rewrite(path, format=2)
        case "journal-00000001":
            begin(path, ["shoal journal 2", "upgrade", "B1", "something new"])
        case _:
            begin(path, "shoal spool 3")
    before = path.read_bytes()
    with pytest.raises(JournalError) as caught:
        BrokerService(two_brokers(tmp_path), "B1")
    said = str(caught.value)
    assert f"{path}: another version of shoal wrote it (format " in said
    assert "start that version, or name another folder; nothing was changed" in said
    assert path.read_bytes() == before


def test_a_frame_of_a_later_version_is_refused() -> None:
    with pytest.raises(WireError, match="version 3; this broker reads version 2"):
        CODEC.decode(b"\x03\x91\xa4Ends")


def test_a_message_with_a_field_more_is_read() -> None:
    """So brokers of one link version understand each other while they are upgraded one by one."""
    (body,) = FrameReader().feed(CODEC.encode(SAID[0]))
    name, *fields = msgspec.msgpack.decode(body[1:])
    longer = msgspec.msgpack.encode([name, *fields, "new"])
    assert CODEC.decode(body[:1] + longer) == SAID[0]


def test_what_this_version_writes_it_reads(tmp_path: Path) -> None:
    async def run() -> None:
        await play(tmp_path)
        await know(tmp_path)

    asyncio.run(asyncio.wait_for(run(), 60))
