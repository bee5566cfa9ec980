"""The rows that a machine records: all are counted and traced, the last of some are shown."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping

import msgspec

from shoal.broker.happenings import Happening, HappeningRow
from shoal.runtime.driving.surroundings import TraceSink

_ROWS_KEPT = 100


class RecordRows:
    """Those of one node; `shown` has the last of these kinds, by the name of their table."""

    def __init__(
        self,
        counts: Counter[str],
        shown: Mapping[str, type[msgspec.Struct]],
        trace: TraceSink | None,
    ) -> None:
        self.shown = {name: deque[msgspec.Struct](maxlen=_ROWS_KEPT) for name in shown}
        self._shown_as = {kind: name for name, kind in shown.items()}
        self._counts = counts
        self._trace = trace
        # gets the rows that an operator wants to see as they come
        self.at_happening: Callable[[Happening], None] | None = None

    def record(self, row: msgspec.Struct) -> None:
        """Count something that happened, and trace it."""
        self._counts[type(row).__name__] += 1
        if (name := self._shown_as.get(type(row))) is not None:
            self.shown[name].append(row)
            if (outcome := getattr(row, "outcome", None)) is not None:
                self._counts[f"{name} {outcome}"] += 1
        if self.at_happening is not None and isinstance(row, HappeningRow):
            self.at_happening(row.happening())
        if self._trace is not None:
            self._trace.record(row)
