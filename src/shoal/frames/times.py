"""Times that people write, as integer microseconds since 1970 UTC.

>>> instant("1970-01-01T00:00:01+00:00"), instant("1970-01-02")
(1000000, 86400000000)
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant(text: str) -> int:
    """A date or time of ISO 8601 (UTC unless it tells its offset); ValueError for another text."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is not a time; write it as 2013-01-31 or 2013-01-31T17:00"
        ) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1)
