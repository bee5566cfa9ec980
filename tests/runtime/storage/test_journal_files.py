"""Batches on disk: complete or absent, whatever happens to the file."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from shoal.runtime.storage.journal_files import JournalError, JournalFiles

BATCHES = [b"one", b"two" * 100, b"\0\0z" * 13, b"four"]


@contextmanager
def opened(folder: Path, broker: str = "B1", network: str = "n") -> Iterator[JournalFiles]:
    files = JournalFiles(folder, network, broker)
    try:
        yield files
    finally:
        files.close()


def read(folder: Path) -> list[bytes]:
    found: list[bytes] = []
    with opened(folder) as files:
        files.read(found.append)
    return found


def write(folder: Path, batches: list[bytes] = BATCHES) -> Path:
    """A folder whose last file ends with these batches; that file."""
    with opened(folder) as files:
        files.read(lambda batch: None)
        for batch in batches:
            files.append(batch)
        return files._path(files._number)


def test_written_batches_are_read_repeatedly(tmp_path: Path) -> None:
    assert read(tmp_path) == []
    write(tmp_path)
    assert read(tmp_path) == BATCHES
    write(tmp_path, [b"five"])
    assert read(tmp_path) == [*BATCHES, b"five"]


def test_a_crash_at_any_byte_leaves_the_batches_before_it(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole").read_bytes()
    ends, end = [], len(whole)
    for batch in reversed(BATCHES):
        ends.append(end)
        end -= 12 + len(batch)
    for cut in range(len(whole)):
        folder = tmp_path / str(cut)
        folder.mkdir()
        for zeros in (0, 100):  # as file systems leave them after a power cut
            (folder / "journal-00000001").write_bytes(whole[:cut] + bytes(zeros))
            expected = [batch for batch, end in zip(BATCHES, ends[::-1], strict=True) if end <= cut]
            assert read(folder) == expected
            assert read(folder) == expected  # the torn end is gone
            for path in folder.glob("journal-*"):
                path.unlink()


def warnings(folder: Path) -> list[str]:
    with opened(folder) as files:
        files.read(lambda batch: None)
        return files.warnings


def test_unknowable_losses_are_logged(tmp_path: Path) -> None:
    last = write(tmp_path)
    assert warnings(tmp_path) == []
    damaged = bytearray(last.read_bytes())
    damaged[-1] ^= 1
    size = 12 + len(BATCHES[-1])
    shutil.copytree(tmp_path, tmp_path / "a")
    (tmp_path / "a" / last.name).write_bytes(damaged)
    (tmp_path / "a" / "journal-00000002").unlink()
    (tmp_path / "a" / "lock").write_text("1\n1\n")
    (warning,) = warnings(tmp_path / "a")
    assert f"its last batch, {size} bytes from byte {len(damaged) - size} on, was not" in warning
    shutil.copytree(tmp_path, tmp_path / "b")
    (tmp_path / "b" / "journal-00000002").write_bytes(b"")
    (warning,) = warnings(tmp_path / "b")
    assert "journal-00000002: it has no heading" in warning
    (tmp_path / "journal-00000002").unlink()
    (warning,) = warnings(tmp_path)
    assert "journal-00000002 was written last, and is missing" in warning
    assert warnings(tmp_path / "new") == []


def test_a_changed_byte_is_an_error_and_changes_no_file(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole").read_bytes()
    last = len(whole) - 12 - len(BATCHES[-1])
    chance = Random(1)
    folder = tmp_path / "changed"
    folder.mkdir()
    path = folder / "journal-00000001"
    for place in chance.sample(range(last), 150):
        changed = bytearray(whole)
        changed[place] ^= 1 << chance.randrange(8)
        path.write_bytes(changed)
        with pytest.raises(JournalError, match=r"journal-00000001: what begins at byte \d+ is "):
            read(folder)
        assert path.read_bytes() == changed
    assert len(list(folder.glob("journal-*"))) == 1


def test_damage_before_the_last_file_is_never_a_torn_end(tmp_path: Path) -> None:
    first = write(tmp_path)
    write(tmp_path, [b"five"])
    data = first.read_bytes()
    os.truncate(first, len(data) - 1)
    begins = len(data) - 12 - len(BATCHES[-1])
    with pytest.raises(JournalError, match=f"at byte {begins} is damaged.*truncate -s {begins}"):
        read(tmp_path)
    # The remedy of the message.
    os.truncate(first, begins)
    for path in sorted(tmp_path.glob("journal-*"))[1:]:
        path.unlink()
    assert read(tmp_path) == BATCHES[:-1]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path, [b"%d" % number])
    (tmp_path / "journal-00000002").unlink()
    with pytest.raises(JournalError, match="journal-00000002 is missing"):
        read(tmp_path)
    (tmp_path / "journal-00000001").unlink()
    with pytest.raises(JournalError, match="journal-00000001 is missing"):
        read(tmp_path)


def test_a_file_that_is_damaged_before_its_mark_is_named(tmp_path: Path) -> None:
    """The files before it are gone on purpose."""
    with opened(tmp_path) as files:
        files.read(lambda batch: None)
        files.begin()
        files.append(b"a" * 50)
        files.mark()
        files.remove_former()
    (path,) = tmp_path.glob("journal-*")
    whole = path.read_bytes()
    for damaged in (whole[:-30], whole[:-30] + b"!" + whole[-29:]):
        path.write_bytes(damaged)
        with pytest.raises(JournalError, match=f"{path.name}: what begins at byte .* is damaged"):
            read(tmp_path)
        assert path.read_bytes() == damaged


@pytest.mark.parametrize("data", [b"hello, I am no journal at all", b"\x85" * 4_000, b"{}" * 20])
def test_a_file_that_is_no_journal_is_an_error(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "journal-00000001").write_bytes(data)
    with pytest.raises(JournalError, match="what begins at byte 0 is damaged"):
        read(tmp_path)


def test_other_files_are_ignored(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "journal-of-mine.txt").write_text("dear diary")
    assert read(tmp_path) == BATCHES
    assert (tmp_path / "journal-of-mine.txt").exists()


def test_an_invalid_batch_is_named(tmp_path: Path) -> None:
    write(tmp_path)

    def apply(batch: bytes) -> None:
        if batch == b"four":
            raise ValueError("four is right out")

    with opened(tmp_path) as files, pytest.raises(JournalError, match="four is right out"):
        files.read(apply)


def test_a_journal_of_another_broker_is_refused(tmp_path: Path) -> None:
    write(tmp_path)
    for broker, network in (("B2", "n"), ("B1", "m")):
        with (
            opened(tmp_path, broker, network) as files,
            pytest.raises(JournalError, match="is the journal of broker 'B1' of network 'n', not"),
        ):
            files.read(lambda batch: None)
    assert read(tmp_path) == BATCHES


def test_a_folder_in_use_is_refused_until_its_process_is_gone(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from shoal.runtime.storage.journal_files import JournalFiles\n"
        "files = JournalFiles(Path(sys.argv[1]), 'n', 'B1')\n"
        "print('mine', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        (sys.executable, "-c", program, str(tmp_path)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"mine\n"
        with pytest.raises(JournalError, match=f"in use by process {process.pid};"):
            JournalFiles(tmp_path, "n", "B1")
        process.kill()
    assert read(tmp_path) == []


def test_an_impossible_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(JournalError, match="cannot be used: "):
        JournalFiles(tmp_path / "file" / "below", "n", "B1")


def test_files_before_a_mark_are_removed(tmp_path: Path) -> None:
    write(tmp_path)
    with opened(tmp_path) as files:
        files.read(lambda batch: None)
        files.append(b"a")
        files.begin()
        files.append(b"b")
        files.mark()
        files.append(b"c")
        # Killed before the others are removed: they are not read.
        for path in tmp_path.glob("journal-*"):
            (tmp_path / "copy").mkdir(exist_ok=True)
            (tmp_path / "copy" / path.name).write_bytes(path.read_bytes())
        files.remove_former()
        files.forget_former()
        assert len(list(tmp_path.glob("journal-*"))) == files.count == 1
        assert files.size == next(tmp_path.glob("journal-*")).stat().st_size
    assert read(tmp_path) == [b"b", b"c"]
    assert read(tmp_path / "copy") == [b"b", b"c"]
    assert not (tmp_path / "copy" / "journal-00000001").exists()


def test_a_new_file_without_a_mark_needs_the_ones_before(tmp_path: Path) -> None:
    with opened(tmp_path) as files:
        files.read(lambda batch: None)
        files.append(b"a")
        files.begin()
        files.append(b"b")
    assert read(tmp_path) == [b"a", b"b"]


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """No file of this process may grow beyond this: the kernel writes a part, then nothing."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_batch_without_room_is_not_written_in_part(tmp_path: Path) -> None:
    with opened(tmp_path) as files:
        files.read(lambda batch: None)
        files.append(b"first")
        with largest_file(files.size + 20), pytest.raises(OSError, match="File too large"):
            files.append(b"x" * 100)
        with largest_file(10), pytest.raises(OSError, match="File too large"):
            files.begin()
        files.append(b"second")
    assert read(tmp_path) == [b"first", b"second"]
