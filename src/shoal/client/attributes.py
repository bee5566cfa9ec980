"""Encodes attribute values as MQTT user properties, which are text, for brokers to read back.

>>> [plain_text(value) for value in (41, 4.5, True, "UA", "41")]
['41', '4.5', 'true', 'UA', "'41'"]
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

from shoal.language import read_plain_value
from shoal.log.instants import begin_us
from shoal.model import Value


def plain_text(value: Value) -> str:
    """The text of a value for brokers; ValueError for values without one (infinities, NaN)."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} has no form as a user property; leave the attribute out")
    if isinstance(value, int | float):
        return repr(value)
    if value.startswith("'") or not isinstance(read_plain_value(value), str):
        return "'" + value.replace("'", "''") + "'"
    return value


def since_text(since: str | datetime | timedelta) -> str:
    """The text of `$from`; ValueError for a text that is no time. A time without zone is local.

    >>> since_text(timedelta(minutes=10)), since_text("-10m")
    ('-600.000000s', '-10m')
    """
    if isinstance(since, timedelta):
        since = f"-{abs(since.total_seconds()):.6f}s"
    elif isinstance(since, datetime):
        since = since.astimezone(UTC).isoformat()
    begin_us(since, 0)
    return since


def every_text(every: str | timedelta) -> str:
    """The text of `$every`.

    >>> every_text(timedelta(seconds=10)), every_text("10s BY sensor")
    ('10000.000ms', '10s BY sensor')
    """
    if isinstance(every, timedelta):
        return f"{every / timedelta(milliseconds=1):.3f}ms"
    return every
