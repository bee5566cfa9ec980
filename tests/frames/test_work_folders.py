"""The next process removes the folder of a killed one; a living process keeps its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from shoal.frames.folders import new_folder
from shoal.frames.work_folders import abandoned, work_folder

KILLED = """
import os, signal, sys
from pathlib import Path
from shoal.frames import folders
target = Path(sys.argv[1])
with folders.new_folder(target, overwrite=True) as folder:
    (folder / "new.parquet").touch()
    if sys.argv[2] == "moved":
        target.rename(folder.parent / "old")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def hidden(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("when", ["writing", "moved"])
def test_a_killed_process_leaves_nothing_for_the_next(tmp_path: Path, when: str) -> None:
    """Also where it was killed between the former folder's removal and the new one's coming."""
    target = tmp_path / "out[1]"
    with new_folder(target) as folder:
        (folder / "old.parquet").touch()
    process = subprocess.run([sys.executable, "-c", KILLED, str(target), when], check=False)
    assert process.returncode == -9
    assert len(hidden(tmp_path)) == 1
    with pytest.raises(ValueError, match="exists already"), new_folder(target):
        pass
    assert hidden(tmp_path) == []
    assert [path.name for path in target.iterdir()] == ["old.parquet"]


def test_a_folder_in_use_and_folders_of_others_stay(tmp_path: Path) -> None:
    stranger = tmp_path / ".out.of-mine"
    stranger.mkdir()
    unlocked = tmp_path / ".out.abcdefgh"
    unlocked.mkdir()
    with work_folder(".out.", tmp_path) as folder:
        assert list(abandoned(".out.", tmp_path)) == []
        assert folder.is_dir()
    assert sorted(hidden(tmp_path)) == [unlocked.name, stranger.name]
