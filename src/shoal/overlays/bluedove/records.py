"""Rows of the trace that a cluster writes by `Record` effects."""

from __future__ import annotations

import math

from shoal.broker.happenings import Happening
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

    matcher   None if none is ready
    step      begun; done; failed; stays: a leave that was taken back; dry run: nothing is changed
    why       the reason, with its figure; of a failure, its cause
    took_us   time since the step began
    """

    dispatcher: BrokerId
    action: str
    matcher: BrokerId | None
    step: str = "begun"
    why: str = ""
    took_us: int = 0

    def in_words(self) -> str:
        return f"{self._headline}: {self.why}" if self.why else self._headline

    @property
    def _headline(self) -> str:
        if self.matcher is None:
            return f"{self.dispatcher} would {self.action} a matcher, but none is ready"
        return f"{self.dispatcher} {self._words}"

    @property
    def _words(self) -> str:
        name, took = self.matcher, f"after {self.took_us / 1e6:.1f} s"
        has = {"add": "added", "remove": "removed"}.get(self.action, self.action)
        return {
            "done": f"has {has} {name} {took}",
            "failed": f"could not {self.action} {name} {took}",
            "stays": f"lets {name} stay {took}",
            "dry run": f"would {self.action} {name}",
        }.get(self.step, f"{self.action}s {name}")

    def happening(self) -> Happening:
        return Happening(
            at_us=self.at_us,
            kind="scaling",
            text=self._headline,
            why=self.why,
            target=self.matcher or "",
        )


class OverflowRecord(EventRow, frozen=True, kw_only=True):
    """A full buffer has lost its oldest entry: the buffer, and its owner."""

    broker: BrokerId
    buffer: str
    owner: str

    def in_words(self) -> str:
        return f"{self.broker}: {self.buffer} of {self.owner} was full, and lost its oldest"
