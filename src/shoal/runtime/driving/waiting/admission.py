"""How much of what local clients publish may be under way at a time.

On a tree a full link holds back the neighbours behind it, and so, link by link, those who publish.
Where links make cycles that could be a circle, in which everybody waits for the next; so neighbours
are always read there, and each broker bounds what its own clients have under way instead.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from shoal.broker.custody import Custody
from shoal.broker.messages import Publish

# What a publication takes beside its body and texts, about.
_OVERHEAD_BYTES = 200


class Admission:
    """`hold` is told when no more should be admitted, and when it may be again."""

    def __init__(self, high_bytes: int, hold: Callable[[bool], None]) -> None:
        self._high_bytes = high_bytes
        self._hold = hold
        self._bytes = 0
        self._is_full = False

    def admit(self, request: Publish, custody: Custody | None) -> Custody:
        """The custody for a request: it counts until all of it is settled, then `custody` is."""
        size = sum(
            _OVERHEAD_BYTES
            + len(each.body)
            + sum(len(value) for value in each.attributes.values() if isinstance(value, str))
            for each in request.publications
        )
        self._bytes += size
        if self._bytes > self._high_bytes and not self._is_full:
            self._is_full = True
            self._hold(True)
        return Custody(partial(self._settled, size, custody))

    def _settled(self, size: int, custody: Custody | None) -> None:
        self._bytes -= size
        if self._is_full and self._bytes <= self._high_bytes // 2:
            self._is_full = False
            self._hold(False)
        if custody is not None:
            custody.settle()
