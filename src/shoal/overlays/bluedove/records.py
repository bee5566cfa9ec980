"""Rows of the trace that a cluster writes by `Record` effects."""

from __future__ import annotations

import math

from shoal.model import BrokerId
from shoal.overlays.trace_rows import EventRow


class ServedRecord(EventRow, frozen=True, kw_only=True):
    """A matcher serves something else on a dimension from now on.

    Places from `low` up to, but not including, `high` on the dimension of this number, from 0;
    nothing where they are equal.
    """

    matcher: BrokerId
    dimension: int
    low: float
    high: float

    def in_words(self) -> str:
        if self.low == self.high:
            what = "nothing"
        elif self.low == -math.inf:
            what = "everything" if self.high == math.inf else f"all below {self.high:g}"
        else:
            end = "on" if self.high == math.inf else f"to {self.high:g}"
            what = f"from {self.low:g} {end}"
        return f"{self.matcher} serves, of dimension {self.dimension + 1}, {what}"


class DeathRecord(EventRow, frozen=True, kw_only=True):
    """A matcher took another for dead."""

    matcher: BrokerId
    dead: BrokerId

    def in_words(self) -> str:
        return f"{self.matcher} took {self.dead} for dead"


class ScaleRecord(EventRow, frozen=True, kw_only=True):
    """The controller adds or removes a matcher, or would if one were ready.

    `matcher` is None then.
    """

    dispatcher: BrokerId
    action: str
    matcher: BrokerId | None

    def in_words(self) -> str:
        if self.matcher is None:
            return f"{self.dispatcher} would {self.action} a matcher, but none is ready"
        return f"{self.dispatcher} {self.action}s {self.matcher}"


class OverflowRecord(EventRow, frozen=True, kw_only=True):
    """A full buffer has lost its oldest entry: the buffer, and its owner."""

    broker: BrokerId
    buffer: str
    owner: str

    def in_words(self) -> str:
        return f"{self.broker}: {self.buffer} of {self.owner} was full, and lost its oldest"
