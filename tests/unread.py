"""Tables with rows that may be looked up and not iterated over."""

from __future__ import annotations

from typing import Any


class Unread(dict[Any, Any]):
    """Rejects iteration; the test reads the rows by `rows`."""

    def __iter__(self) -> Any:
        raise AssertionError("all rows are looked at")

    keys = values = items = __iter__

    def rows(self) -> dict[Any, Any]:
        return {key: dict.__getitem__(self, key) for key in dict.__iter__(self)}
