"""Records the origin of publications: files with their digests, declaration, version of shoal."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import msgspec

from shoal.frames.table_places import named
from shoal.pipeline.checks.provenance import file_digest
from shoal.pipeline.sources.raw_rows import RowSource


class FileRecord(msgspec.Struct, frozen=True):
    """A file: its path, its size in bytes and the SHA-256 of its content."""

    file: str
    bytes: int
    sha256: str


class Lineage(msgspec.Struct, frozen=True, kw_only=True):
    """The origin of publications.

    shoal         the version that made them
    declaration   the file, or the name of a source that is built in
    files         all files that were read, in order
    """

    shoal: str
    declaration: FileRecord | str
    files: list[FileRecord]


def lineage(declaration: Path | str, source: RowSource) -> Lineage:
    """Return the origin of what is made of a source's files, by a file or a built-in mapping."""
    files = {split.name: split.file for split in source.splits}
    return Lineage(
        shoal=metadata.version("shoal"),
        declaration=_record(named(str(declaration)), declaration)
        if isinstance(declaration, Path)
        else declaration,
        files=[_record(name, file) for name, file in files.items()],
    )


def _record(name: str, file: Path) -> FileRecord:
    return FileRecord(name, file.stat().st_size, file_digest(file))
