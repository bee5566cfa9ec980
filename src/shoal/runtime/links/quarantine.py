"""Neighbours with connections that are refused repeatedly because their bytes are malformed.

Each such connection comes up before it is refused. So the link would never count as disconnected:
its broker would keep messages for the neighbour in memory, and publishers would wait for that
neighbour's acknowledgement as long as the fault lasts. After REFUSED_TIMES such connections in a
row the link is in quarantine: the neighbour counts as disconnected (its messages go to disk), and
is dialled less and less often. A connection that lasts GOOD_US ends the quarantine.

>>> quarantine = Quarantine()
>>> for second in range(5):
...     quarantine.on_link_up(second * 1_000_000)
...     begins = quarantine.ended(second * 1_000_000 + 100_000, "a damaged frame")
>>> begins, quarantine.reason, quarantine.pause_s
(True, 'a damaged frame', 2.0)
>>> quarantine.on_link_up(10_000_000)
>>> quarantine.is_over(20_000_000), quarantine.is_over(20_000_001)
(False, True)
"""

from __future__ import annotations

REFUSED_TIMES = 5
GOOD_US = 10_000_000
FIRST_PAUSE_S, LONGEST_PAUSE_S = 2.0, 10.0


class Quarantine:
    """Of one link; `reason` says why it is in quarantine, and is empty while it is not."""

    def __init__(self) -> None:
        self.reason = ""
        self._refused_times = 0
        self._up_us: int | None = None
        self._ended_us = 0

    @property
    def pause_s(self) -> float:
        """Return how long the end that connects waits before it does so again."""
        if not self.reason:
            return 0.0
        doubled = min(self._refused_times - REFUSED_TIMES, 10)
        return min(FIRST_PAUSE_S * 2.0**doubled, LONGEST_PAUSE_S)

    def refuses(self, now_us: int) -> bool:
        """Return whether the other end connects too early: it may not have heard why it was
        refused.
        """
        return now_us - self._ended_us < self.pause_s / 2 * 1e6

    def on_link_up(self, now_us: int) -> None:
        self._up_us = now_us

    def ended(self, now_us: int, refused: str) -> bool:
        """A connection ended, `refused` if that is not empty; whether the quarantine begins."""
        up_us, self._up_us, self._ended_us = self._up_us, None, now_us
        if not refused or up_us is None:
            return False
        lasted = now_us - up_us > GOOD_US
        self._refused_times = 1 if lasted else self._refused_times + 1
        before, self.reason = self.reason, refused
        if self._refused_times < REFUSED_TIMES:
            self.reason = ""
        return bool(self.reason) and not before

    def is_over(self, now_us: int) -> bool:
        """Return whether the quarantine has just ended: to be asked about every second."""
        if self._up_us is None or now_us - self._up_us <= GOOD_US:
            return False
        reason, self.reason, self._refused_times = self.reason, "", 0
        return bool(reason)
