"""Times as people write them for a log.

>>> instant_us("1970-01-01T00:01"), instant_us("1970-01-01T01:00+01:00")
(60000000, 0)
"""

from __future__ import annotations

import datetime

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)


def instant_us(text: str) -> int:
    """The µs since 1970 of an ISO time, in UTC if it has no zone; ValueError for another text."""
    at = datetime.datetime.fromisoformat(text)
    at = at.replace(tzinfo=datetime.UTC) if at.tzinfo is None else at
    return max(0, (at - _EPOCH) // _MICROSECOND)
