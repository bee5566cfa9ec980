"""Changes that a format allows to later versions, and files that a broker refuses."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from shoal.batches import framed
from shoal.broker.links.controls import Hello
from shoal.broker.wire import FrameReader, WireError
from shoal.runtime.broker_service import BrokerService
from shoal.runtime.storage.journal_files import JournalError
from shoal.runtime.storage.overlay_file import LinkRow, OverlayFile
from tests.upgrade.said import CODEC, SAID, THERE
from tests.upgrade.scene import know, play, two_brokers


def rewrite(path: Path, **changes: object) -> None:
    """An overlay file with changes."""
    data = msgspec.json.decode(path.read_bytes()) if path.exists() else {}
    path.write_bytes(msgspec.json.encode(data | changes))


def begin(path: Path, heading: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(framed(msgspec.msgpack.encode(heading)))


@pytest.mark.parametrize("file", ["journal-00000001", "spool/B2/00000001", "overlay.json"])
def test_files_of_a_later_version_are_refused_and_not_changed(file: str, tmp_path: Path) -> None:
    path = tmp_path / "B1" / file
    path.parent.mkdir(parents=True)
    match file:
        case "overlay.json":
            rewrite(path, format=2)
        case "journal-00000001":
            begin(path, ["shoal journal 2", "upgrade", "B1", "something new"])
        case _:
            begin(path, "shoal spool 2")
    before = path.read_bytes()
    with pytest.raises(JournalError) as caught:
        BrokerService(two_brokers(tmp_path), "B1")
    said = str(caught.value)
    assert f"{path}: another version of shoal wrote it (format " in said
    assert "start that version, or name another folder; nothing was changed" in said
    assert path.read_bytes() == before


def test_a_frame_of_a_later_version_is_refused() -> None:
    with pytest.raises(WireError, match="version 2; this broker reads version 1"):
        CODEC.decode(b"\x02\x91\xa4Ends")


def test_a_message_may_gain_a_last_field() -> None:
    """Brokers of one link protocol understand each other during a rolling upgrade."""
    hello = SAID[0]
    assert isinstance(hello, Hello)
    (body,) = FrameReader().feed(CODEC.encode(hello))
    name, *fields = msgspec.msgpack.decode(body[1:])
    longer, shorter = (
        body[:1] + msgspec.msgpack.encode([name, *each])
        for each in ([*fields, "unknown"], fields[:-1])
    )
    assert CODEC.decode(longer) == hello
    assert CODEC.decode(shorter) == msgspec.structs.replace(hello, opened_us=None)


def test_the_overlay_file_may_gain_a_field(tmp_path: Path) -> None:
    overlay = OverlayFile(tmp_path)
    overlay.opened("B4", 5, "h:4")
    overlay.met(THERE)
    rewrite(tmp_path / "overlay.json", unknown=1)
    found = OverlayFile(tmp_path)
    assert (found.links, found.brokers) == ({"B4": LinkRow(5, "h:4")}, {"B2": THERE})
    (tmp_path / "overlay.json").write_text('{"format": 1}')
    assert OverlayFile(tmp_path).is_member


def test_this_versions_messages_can_be_read_by_it() -> None:
    frames = b"".join(map(CODEC.encode, SAID))
    assert tuple(CODEC.decode(body) for body in FrameReader().feed(frames)) == SAID


def test_this_versions_files_can_be_read_by_it(tmp_path: Path) -> None:
    """Sessions, their queues, QoS 2 handshakes in progress, retained messages, and spools."""

    async def run() -> None:
        await play(tmp_path)
        await know(tmp_path)

    asyncio.run(asyncio.wait_for(run(), 60))
