"""Totals of a network over time: each second for ten minutes.

>>> history = History()
>>> for second in range(120):
...     history.add(second, rate=10.0 + second, p99_ms=None, clients=3)
>>> seconds = history.seconds()
>>> seconds["at_s"][-1], seconds["rate"][-1], seconds["p99_ms"][-1]
(119, 129.0, None)
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

SECONDS = 600


class Totals(NamedTuple):
    """Totals of all brokers: publications handled a second, delivery delay, connected clients."""

    at_s: int
    rate: float
    p99_ms: float | None
    clients: int


class History:
    """Of one network."""

    def __init__(self) -> None:
        self._seconds: deque[Totals] = deque(maxlen=SECONDS)

    def add(self, at_s: int, *, rate: float, p99_ms: float | None, clients: int) -> None:
        """Add the totals of one second."""
        self._seconds.append(Totals(at_s, round(rate, 1), p99_ms, clients))

    @property
    def last(self) -> Totals | None:
        return self._seconds[-1] if self._seconds else None

    def seconds(self) -> dict[str, list[float | int | None]]:
        """The last ten minutes, by column."""
        return {
            name: [row[place] for row in self._seconds] for place, name in enumerate(Totals._fields)
        }
