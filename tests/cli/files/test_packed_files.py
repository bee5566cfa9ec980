"""A truncated or damaged packed file is named with the reason, by every reader."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path

import pytest

from shoal.cli.main import main

CSV = "id,at,v\n" + "".join(f"{n},{n * 7919},{n * 7919 % 1000}\n" for n in range(2_000))
LINES = "".join(f'{{"id": "{n}", "at": {n * 7919}}}\n' for n in range(2_000))
PUBLICATIONS = "".join(f'{{"id": "{n}", "attributes": {{"v": {n}}}}}\n' for n in range(2_000))
SOURCE = """\
publisher = ["id"]
time = { column = "at", format = "epoch_s" }
[columns]
id = "string"
"""


def changed(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :]


DAMAGES = {
    "cut": (lambda packed: packed[: len(packed) // 2], "ends too early"),
    "without its end": (lambda packed: packed[:-4], "ends too early"),
    "in the middle": (lambda packed: changed(packed, len(packed) // 2), "cannot be"),
    "in its check sum": (lambda packed: changed(packed, -6), "cannot be"),
    "with more behind": (lambda packed: packed + b"more", "cannot be"),
    "not packed": (gzip.decompress, "cannot be"),
    "by another": (lambda packed: bz2.compress(gzip.decompress(packed)), "cannot be"),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(
    ("command", "name", "content"),
    [("ingest", "d.csv.gz", CSV), ("ingest", "d.jsonl.gz", LINES), ("match", "d.csv.gz", CSV),
     ("match", "d.jsonl.gz", PUBLICATIONS)],
)  # fmt: skip
def test_a_damaged_file_is_named_with_the_reason(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    damage: str,
    command: str,
    name: str,
    content: str,
) -> None:
    change, reason = DAMAGES[damage]
    file = tmp_path / name
    file.write_bytes(change(gzip.compress(content.encode())))
    code, out, err = run(tmp_path, capfd, command, file)
    assert (code, out) == (2, "")
    assert err.startswith(f"shoal: {file}: ")
    assert reason in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["ingest", "match"])
def test_what_is_packed_and_does_not_say_so_is_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], command: str
) -> None:
    for name, packed, reason in (
        ("d.csv", gzip.compress(CSV.encode()), "is packed by gzip"),
        ("d.jsonl", gzip.compress(LINES.encode()), "is packed by gzip"),
        ("d.csv.bz2", bz2.compress(CSV.encode()), "is packed by bzip2; unpack it"),
        ("d.csv.zst", b"\x28\xb5\x2f\xfd...", "is packed by Zstandard; unpack it"),
    ):
        file = tmp_path / name
        file.write_bytes(packed)
        code, _, err = run(tmp_path, capfd, command, file)
        assert (code, err.startswith(f"shoal: {file}: {reason}")) == (2, True), err


@pytest.mark.parametrize(
    ("option", "name"),
    [("--brokers", "b.csv.gz"), ("--subscriptions", "s.csv.gz"),
     ("--subscriptions", "s.jsonl.gz"), ("--publishers", "p.csv.gz")],
)  # fmt: skip
def test_what_a_workload_is_given_is_named_too(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], option: str, name: str
) -> None:
    assert run(tmp_path, capfd, "ingest", plain(tmp_path, "d.csv", CSV))[0] == 0
    file, other = tmp_path / name, tmp_path / name.removesuffix(".gz")
    file.write_bytes(gzip.compress(CSV.encode())[:-9])
    other.write_bytes(gzip.compress(CSV.encode()))
    for given, reason in ((file, "ends too early"), (other, "is packed by gzip")):
        words = ["workload", str(tmp_path / "out"), "--brokers", "3", option, str(given)]
        with pytest.raises(SystemExit) as caught:
            main([*words, "--out", str(tmp_path / "w")])
        err = capfd.readouterr().err
        assert (caught.value.code, err.startswith(f"shoal: {given}: {reason}")) == (2, True), err


def plain(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text)
    return file


def test_packed_lines_are_matched(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "d.jsonl.gz"
    file.write_bytes(gzip.compress(PUBLICATIONS.encode()))
    code, out, _ = run(tmp_path, capfd, "match", file)
    assert (code, out.splitlines()[1]) == (0, '{"publication": "1", "subscriptions": ["a"]}')


def run(
    folder: Path, capfd: pytest.CaptureFixture[str], command: str, file: Path
) -> tuple[int, str, str]:
    (folder / "source.toml").write_text(SOURCE)
    (folder / "s.jsonl").write_text('{"id": "a", "filter": "v = 1"}\n')
    words = {
        "ingest": [str(folder / "source.toml"), str(file), "--out", str(folder / "out")],
        "match": ["--subscriptions", str(folder / "s.jsonl"), "--publications", str(file)],
    }
    with pytest.raises(SystemExit) as caught:
        main([command, *words[command]])
    out, err = capfd.readouterr()
    return int(caught.value.code or 0), out, err
