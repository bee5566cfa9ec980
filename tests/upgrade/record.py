"""Records what this version writes, for later ones to read: `python -m tests.upgrade.record 2`.

A record is made when a format changes, by the code that writes it from then on.  From the first
release on it is never changed: it stands for what operators have on their disks.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from pathlib import Path

from shoal.runtime.storage.overlay_file import Overlay
from tests.upgrade.said import CODEC, SAID, THERE
from tests.upgrade.scene import play

HERE = Path(__file__).parent
FRAMES, OVERLAY = "frames", "overlay"
# What is a process's own, or as large as a disk's reserve.
NOT_KEPT = ("lock", "reserve")


def record(target: Path) -> None:
    """Write the brokers' folders and the frames of a link."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(play(Path(folder)))
        shutil.copytree(folder, target, ignore=shutil.ignore_patterns(*NOT_KEPT))
    (target / OVERLAY).mkdir()
    change(Overlay(target / OVERLAY))
    (target / FRAMES).write_bytes(b"".join(map(CODEC.encode, SAID)))


def change(overlay: Overlay) -> None:
    """What becomes of a broker's links and neighbours."""
    overlay.opened("B4", 5, "h:4")
    overlay.opened("B5", 6)
    overlay.ends("B5")
    overlay.has_ended("B6", 7)
    overlay.met(THERE)
    overlay.remember({"links": [["B1", "B4"]], "at": 8})


if __name__ == "__main__":
    record(HERE / f"version_{int(sys.argv[1])}")
