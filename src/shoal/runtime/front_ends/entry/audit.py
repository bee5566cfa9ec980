"""Notices about clients, in the log: one line each, so many a second and no more.

Each kind of notice has a bound per user or address, or per client if neither is known, so that a
client that is refused all the time hides no other; and all together have one. A line says how many
before it were left out.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable

from shoal.ledger import Ledger, LedgerMeasure
from shoal.mqtt.notices import Notice, Notices
from shoal.runtime.bounded_lines import BURST, PER_SECOND, LogBucket
from shoal.runtime.front_ends.entry.password_checks import source_of

ALL_BURST, ALL_PER_SECOND = 100.0, 20.0
# Kinds and users that are told apart.
MOST_BUCKETS = 1_024
BUCKET_BYTES = 500
# A topic or reason may be of 65,535 bytes.
MOST_CHARACTERS = 200

_log = logging.getLogger("shoal.audit")


class Audit:
    """Writes notices; `now_us` is the clock."""

    def __init__(self, now_us: Callable[[], int]) -> None:
        self._now_us = now_us
        self._all = LogBucket(ALL_BURST, ALL_PER_SECOND, now_us())
        self._buckets: OrderedDict[tuple[str, str], LogBucket] = OrderedDict()
        # gets the notices that are written
        self.at_notice: Callable[[Notice], None] | None = None

    def register(self, ledger: Ledger) -> None:
        ledger.register(
            "notices by user or address",
            lambda: LedgerMeasure(
                len(self._buckets), len(self._buckets) * BUCKET_BYTES, MOST_BUCKETS
            ),
        )

    def write(self, notices: Notices) -> None:
        """Write the new ones among them."""
        self._all.left_out += notices.beyond
        notices.beyond = 0
        self._write_each(notices.take())

    def _write_each(self, notices: Iterable[Notice]) -> None:
        now_us = self._now_us()
        for notice in notices:
            bucket = self._bucket(notice, now_us)
            if not notice.is_order and not (bucket.take(now_us) and self._all.take(now_us)):
                continue
            extra: dict[str, str | int] = {
                "client": _short(notice.who.client),
                "user": _short(notice.who.user or ""),
                "address": notice.who.address or "",
                "where": _short(notice.where),
                "why": _short(notice.why),
            }
            if notice.times > 1:
                extra["times"] = notice.times
            if left_out := bucket.left_out + self._all.left_out:
                extra["left_out"] = left_out
                bucket.left_out = self._all.left_out = 0
            level = logging.WARNING if notice.is_refusal else logging.INFO
            _log.log(level, notice.what, extra=extra)
            if self.at_notice is not None:
                self.at_notice(notice)

    def _bucket(self, notice: Notice, now_us: int) -> LogBucket:
        who = notice.who
        key = notice.what, who.user or source_of(who.address) or who.client
        bucket = self._buckets.pop(key, None) or LogBucket(BURST, PER_SECOND, now_us)
        self._buckets[key] = bucket
        if len(self._buckets) > MOST_BUCKETS:
            _, oldest = self._buckets.popitem(last=False)
            self._all.left_out += oldest.left_out
        return bucket


def _short(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}..."
