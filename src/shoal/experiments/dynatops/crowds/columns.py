"""Required columns of a file of real users."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def check_columns(path: Path, columns: Sequence[str], what: str) -> None:
    """ValueError unless the file is Parquet with these columns, which `what` need."""
    import pyarrow as pa  # type: ignore[import-untyped]  # pyarrow ships no types
    import pyarrow.parquet as pq  # type: ignore[import-untyped]  # as above

    try:
        names = pq.read_schema(path).names
    except (OSError, pa.ArrowInvalid) as error:
        raise ValueError(f"{path}: cannot be read as Parquet: {error}") from None
    missing = [name for name in columns if name not in names]
    if missing:
        raise ValueError(f"{path}: has no column {', '.join(missing)}; {what} need them")
