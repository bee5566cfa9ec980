"""Packed files: which are, and what is said of one that is cut off or damaged.

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
    """What packed a file that begins so; empty for none."""
    return next((name for magic, name in _BEGINS.items() if begins.startswith(magic)), "")


def is_gzip(file: Path) -> bool:
    """Whether the name says so."""
    return file.suffix == GZIP_ENDING


def cut_off(file: Path) -> str:
    """What is said of a file whose end is missing."""
    return f"{file}: ends too early; it was cut off, or is still being written"


@contextlib.contextmanager
def unpacking(file: Path, error: type[Exception]) -> Iterator[None]:
    """What is wrong with a file that is unpacked in this block, as an `error` that names it."""
    try:
        yield
    except EOFError:
        raise error(cut_off(file)) from None
    except (gzip.BadGzipFile, zlib.error) as damage:
        raise error(f"{file}: cannot be unpacked; it is damaged, or no gzip ({damage})") from None
