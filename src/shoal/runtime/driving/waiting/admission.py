"""Admission control: bounds the publications of local clients that are under way.

On a tree a full link holds back the neighbours behind it, and so, link by link, the publishers.
Where links make cycles this back pressure could form a circle; so neighbours are always read there,
and each broker bounds the publications of its own clients instead.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from shoal.broker.ack_tracker import AckTracker
from shoal.broker.messages import Publish

# Bytes of a publication beside its body and texts, about.
_OVERHEAD_BYTES = 200


class RequestAdmission:
    """`hold` is told when no more should be admitted, and when it may be again."""

    def __init__(self, high_bytes: int, hold: Callable[[bool], None]) -> None:
        self._high_bytes = high_bytes
        self._hold = hold
        self._bytes = 0
        self._is_full = False

    def admit(self, request: Publish, ack_tracker: AckTracker | None) -> AckTracker:
        """Return the tracker for a request: it counts until all of it is settled, then
        `ack_tracker` is.
        """
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
        return AckTracker(partial(self._settled, size, ack_tracker))

    def _settled(self, size: int, ack_tracker: AckTracker | None) -> None:
        self._bytes -= size
        if self._is_full and self._bytes <= self._high_bytes // 2:
            self._is_full = False
            self._hold(False)
        if ack_tracker is not None:
            ack_tracker.settle()
