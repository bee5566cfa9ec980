"""Packed files: their detection, and errors of cut off or damaged ones.

>>> packed_by(b"BZh91AY"), packed_by(b"id,v")
('bzip2', '')
"""

from __future__ import annotations

import contextlib
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

GZIP_ENDING = ".gz"
_BEGINS = {
    b"\x1f\x8b": "gzip",
    b"PK\x03\x04": "zip",
    b"BZh": "bzip2",
    b"\x28\xb5\x2f\xfd": "Zstandard",
    b"\xfd7zXZ": "xz",
}


def packed_by(begins: bytes) -> str:
    """Return the compression of a file that begins so; empty for none."""
    return next((name for magic, name in _BEGINS.items() if begins.startswith(magic)), "")


def check_plain(file: Path, begins: bytes, ending: str, error: type[Exception]) -> None:
    """An `error` for a file that is packed and does not say so by the ending of its name."""
    packed = packed_by(begins)
    if packed:
        hint = f"end its name in {ending}" if packed == "gzip" else "unpack it, or pack it by gzip"
        raise error(f"{file}: is packed by {packed}; {hint}")


def unpacked_bytes(file: Path, ending: str, error: type[Exception]) -> bytes:
    """All of a file, which is packed if its name says so by `ending`."""
    content = file.read_bytes()
    if is_gzip(file):
        with unpacking(file, error):
            return gzip.decompress(content)
    check_plain(file, content, ending, error)
    return content


def is_gzip(file: Path) -> bool:
    """Return whether the name says so."""
    return file.suffix == GZIP_ENDING


def cut_off(file: Path) -> str:
    """Return the message about a file whose end is missing."""
    return f"{file}: ends too early; it was cut off, or is still being written"


@contextlib.contextmanager
def unpacking(file: Path, error: type[Exception]) -> Iterator[None]:
    """Turn errors of unpacking in this block into an `error` that names the file."""
    try:
        yield
    except EOFError:
        raise error(cut_off(file)) from None
    except (gzip.BadGzipFile, zlib.error) as damage:
        raise error(f"{file}: cannot be unpacked; it is damaged, or no gzip ({damage})") from None
