"""Log lines that peers cause: a bounded number per second.

Without a bound a peer that causes log lines could fill the disk.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable

# Lines of one kind about one user or address: at once, and each second from then on.
BURST, PER_SECOND = 10.0, 1.0
# A broker or load balancer that does not fit retries every two seconds; its line is logged this
# often.
TOLD_S = 600.0
# Hosts, and reasons of theirs, that are told apart.
MOST_TOLD = 100
# Characters of a peer's text that a reason quotes.
MOST_CHARACTERS = 200


class LogBucket:
    """A bound of lines: so many at once, and each second so many more."""

    def __init__(self, burst: float, per_second: float, now_us: int) -> None:
        self.left_out = 0
        self._burst, self._per_second = burst, per_second
        self._left, self._at_us = burst, now_us

    def take(self, now_us: int) -> bool:
        """Return whether there is one for now."""
        more = (now_us - self._at_us) * self._per_second / 1e6
        self._left, self._at_us = min(self._burst, self._left + more), now_us
        if self._left < 1.0:
            self.left_out += 1
            return False
        self._left -= 1.0
        return True


class BoundedLines:
    """Bounded warnings about peers; `now_us` is the clock.

    The same of one host is said again after `TOLD_S`, and of one host no more than a `LogBucket`
    has.
    """

    def __init__(self, log: logging.Logger, what: str, now_us: Callable[[], int]) -> None:
        self._log = log
        self._what = what
        self._now_us = now_us
        self._told_us: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._buckets: OrderedDict[str, LogBucket] = OrderedDict()

    def warn(self, peer: str, reason: str) -> None:
        """Log a warning about `peer` (`host:port`)."""
        now_us, host = self._now_us(), peer.rpartition(":")[0]
        reason = reason if len(reason) <= MOST_CHARACTERS else f"{reason[:MOST_CHARACTERS]}..."
        last_us = self._told_us.get((host, reason))
        if last_us is not None and now_us - last_us < TOLD_S * 1e6:
            return
        bucket = self._buckets.pop(host, None) or LogBucket(BURST, PER_SECOND, now_us)
        self._buckets[host] = bucket
        if len(self._buckets) > MOST_TOLD:
            self._buckets.popitem(last=False)
        if not bucket.take(now_us):
            return
        self._told_us.pop((host, reason), None)
        self._told_us[host, reason] = now_us
        if len(self._told_us) > MOST_TOLD:
            self._told_us.popitem(last=False)
        extra: dict[str, str | int] = {"peer": peer, "reason": reason}
        if bucket.left_out:
            extra["left_out"], bucket.left_out = bucket.left_out, 0
        self._log.warning(self._what, extra=extra)
