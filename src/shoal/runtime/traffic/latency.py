"""Latency of deliveries, by sampled messages: from arrival at the first broker to the write to
subscribers, except slow ones.

A duration needs one clock. Publications of this broker use its clock; for publications of another
broker the two machines' clocks are compared, so the result is as exact as they agree, and is kept
apart. If clocks differ by more than the delay, deliveries seem to precede their publication: they
count as 0, and are counted.

>>> latencies = Latencies()
>>> for milliseconds in (1, 1, 1, 40):
...     latencies.note(milliseconds * 1_000, HERE, weight=1, now_us=0)
>>> found = latencies.status(now_us=1)[HERE]
>>> found["count"], 0.0005 < found["p50_s"] <= 0.001, 0.025 < found["p99_s"] <= 0.05
(4, True, True)
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import Any

HERE, ELSEWHERE = "here", "elsewhere"
# Upper ends, in seconds.
BUCKETS = (
    *(0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)
_ENDS_US = tuple(end * 1e6 for end in BUCKETS)
# Percentiles are of the last one to two of these.
WINDOW_US = 60_000_000


class _Histogram:
    """Since the start, and lately."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.sum_s = 0.0
        self._now = [0] * (len(BUCKETS) + 1)
        self._before = [0] * (len(BUCKETS) + 1)
        self._since_us = 0

    def note(self, took_us: int, weight: int, now_us: int) -> None:
        self._turn(now_us)
        place = bisect_left(_ENDS_US, took_us)
        self.counts[place] += weight
        self._now[place] += weight
        self.sum_s += weight * took_us / 1e6

    def _turn(self, now_us: int) -> None:
        passed = (now_us - self._since_us) // WINDOW_US
        if passed >= 1:
            empty = [0] * (len(BUCKETS) + 1)
            self._before = self._now if passed == 1 else empty
            self._now = list(empty)
            self._since_us = now_us

    def lately(self, now_us: int) -> list[int]:
        """Counts per bucket, of the last one to two windows."""
        self._turn(now_us)
        return [sum(each) for each in zip(self._now, self._before, strict=True)]

    def status(self, now_us: int) -> dict[str, Any]:
        lately = self.lately(now_us)
        return {
            "count": sum(self.counts),
            "sum_s": self.sum_s,
            "buckets": list(accumulate(self.counts)),
            "p50_s": quantile(lately, 0.5),
            "p99_s": quantile(lately, 0.99),
        }


class Latencies:
    """Those of one broker; where messages were published is HERE or ELSEWHERE."""

    def __init__(self) -> None:
        self._histograms = {HERE: _Histogram(), ELSEWHERE: _Histogram()}
        # number of deliveries that seem to precede their publication
        self._ahead = 0

    def note(self, took_us: int, where: str, weight: int, now_us: int) -> None:
        """So many messages took so long."""
        if took_us < 0:
            self._ahead += weight
        self._histograms[where].note(max(0, took_us), weight, now_us)

    def status(self, now_us: int) -> dict[str, Any]:
        """Counts, buckets that add up, and percentiles of the last minute or two."""
        found: dict[str, Any] = {
            where: each.status(now_us) for where, each in self._histograms.items()
        }
        return {**found, "ahead": self._ahead}

    def lately(self, now_us: int) -> list[int]:
        """Deliveries of the last minute or two of messages of this broker, by `BUCKETS`."""
        return self._histograms[HERE].lately(now_us)


def quantile(counts: list[int], share: float) -> float | None:
    """Within its bucket as if all there were spread evenly; None if there are none.

    >>> quantile([0, 0, 0, 10] + [0] * 13, 0.5)
    0.00075
    """
    total = sum(counts)
    if not total:
        return None
    wanted, below = share * total, 0
    for place, count in enumerate(counts):
        if count and below + count >= wanted:
            low = BUCKETS[place - 1] if place else 0.0
            high = BUCKETS[place] if place < len(BUCKETS) else BUCKETS[-1]
            return low + (high - low) * (wanted - below) / count
        below += count
    return BUCKETS[-1]
