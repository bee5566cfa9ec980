"""A bounded ring of identified events; readers follow it, each at its own position.

>>> ring = EventRing("1", kept=2)
>>> for text in ("a", "b", "c"):
...     ring.append("happened", {"text": text})
>>> [(each.id, each.data["text"]) for each in ring.after("")]
[('1:2', 'b'), ('1:3', 'c')]
>>> [each.id for each in ring.after("1:2")], [each.id for each in ring.after("0:9")]
(['1:3'], ['1:2', '1:3'])
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple


class BrokerEvent(NamedTuple):
    """One event of a stream; `id` is empty for a state, which is never replayed."""

    kind: str
    data: Mapping[str, Any]
    id: str = ""


class EventRing:
    """The last `kept` events of one incarnation of a broker."""

    def __init__(self, incarnation: str, kept: int) -> None:
        self._incarnation = incarnation
        self._events: deque[BrokerEvent] = deque(maxlen=kept)
        self.count = 0

    def append(self, kind: str, data: Mapping[str, Any]) -> None:
        self.count += 1
        self._events.append(BrokerEvent(kind, data, f"{self._incarnation}:{self.count}"))

    def after(self, identifier: str) -> list[BrokerEvent]:
        """The kept events behind this one; all, for one of another incarnation or none."""
        incarnation, _, number = identifier.partition(":")
        if incarnation != self._incarnation or not number.isdecimal():
            return list(self._events)
        return self.beyond(int(number))

    def beyond(self, count: int) -> list[BrokerEvent]:
        """The kept events after the first `count`."""
        new = min(self.count - count, len(self._events))
        return [] if new <= 0 else list(self._events)[-new:]
