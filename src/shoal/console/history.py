"""Totals of a network over time: each second for ten minutes, each minute for a day.

>>> history = History()
>>> for second in range(120):
...     history.add(second, rate=10.0 + second, p99_ms=None, clients=3)
>>> seconds = history.seconds()
>>> seconds["at_s"][-1], seconds["rate"][-1], seconds["p99_ms"][-1]
(119, 129.0, None)
>>> history.minutes()["at_s"], history.minutes()["rate"]
([0], [39.5])
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

SECONDS, MINUTES = 600, 1_440


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
        self._minutes: deque[Totals] = deque(maxlen=MINUTES)
        self._minute: list[Totals] = []

    def add(self, at_s: int, *, rate: float, p99_ms: float | None, clients: int) -> None:
        """Add the totals of one second; a minute is complete when the next one begins."""
        row = Totals(at_s, round(rate, 1), p99_ms, clients)
        self._seconds.append(row)
        if self._minute and self._minute[0].at_s // 60 != at_s // 60:
            self._minutes.append(_mean(self._minute))
            self._minute = []
        self._minute.append(row)

    @property
    def last(self) -> Totals | None:
        return self._seconds[-1] if self._seconds else None

    def seconds(self) -> dict[str, list[float | int | None]]:
        """The last ten minutes, by column."""
        return _columns(self._seconds)

    def minutes(self) -> dict[str, list[float | int | None]]:
        """The complete minutes of the last day: means of rates, the highest delay."""
        return _columns(self._minutes)


def _mean(rows: list[Totals]) -> Totals:
    delays = [row.p99_ms for row in rows if row.p99_ms is not None]
    return Totals(
        rows[0].at_s // 60 * 60,
        round(sum(row.rate for row in rows) / len(rows), 1),
        max(delays, default=None),
        rows[-1].clients,
    )


def _columns(rows: deque[Totals]) -> dict[str, list[float | int | None]]:
    return {name: [row[place] for row in rows] for place, name in enumerate(Totals._fields)}
