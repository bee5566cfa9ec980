"""Figures of a run that are summed while its rows are made, so that the rows need not be kept."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from shoal.overlays.trace_rows import LoadRow
from shoal.overlays.trace_tables import TRACE_TABLES

_SUMMED = ("messages_in", "messages_out", "control_in", "control_out")
_LOAD_PLACES = [LoadRow.__struct_fields__.index(name) for name in _SUMMED]
_PLACES = {
    table: {name: place for place, name in enumerate(columns)}
    for table, columns in TRACE_TABLES.items()
}


class RunTotals:
    """Sums over the rows of a run's tables.

    rows       number of rows, by table
    hops       of all deliveries together
    delays_us  of all deliveries together
    first_us   time of the first publication; None without any
    last_us    time of the last one
    outcomes   number of proposed links, by outcome
    """

    def __init__(self) -> None:
        self.rows: Counter[str] = Counter()
        self.hops = self.delays_us = 0
        self.first_us: int | None = None
        self.last_us: int | None = None
        self.outcomes: Counter[str] = Counter()
        # By the time at which a window begins: the sums of `_SUMMED`.
        self._load: dict[int, list[int]] = defaultdict(lambda: [0] * len(_SUMMED))

    def add(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Add rows of a table, in the order of its columns."""
        if not rows:
            return
        self.rows[table] += len(rows)
        places = _PLACES[table]
        match table:
            case "deliveries":
                hops, began, ended = (
                    places[name] for name in ("hops", "published_us", "delivered_us")
                )
                self.hops += sum(row[hops] for row in rows)
                self.delays_us += sum(row[ended] - row[began] for row in rows)
            case "publications":
                self._add_times([row[places["published_us"]] for row in rows])
            case "load":
                start = places["window_start_us"]
                for row in rows:
                    sums = self._load[row[start]]
                    for number, place in enumerate(_LOAD_PLACES):
                        sums[number] += row[place]
            case "proposals":
                self.outcomes.update(row[places["outcome"]] for row in rows)

    def _add_times(self, times_us: list[int]) -> None:
        first_us, last_us = min(times_us), max(times_us)
        self.first_us = first_us if self.first_us is None else min(self.first_us, first_us)
        self.last_us = last_us if self.last_us is None else max(self.last_us, last_us)

    @property
    def delay_mean_us(self) -> float | None:
        """Mean delay of a delivery; None without any."""
        count = self.rows["deliveries"]
        return self.delays_us / count if count else None

    @property
    def hops_mean(self) -> float | None:
        """Mean hops of a delivery; None without any."""
        count = self.rows["deliveries"]
        return self.hops / count if count else None

    @property
    def messages(self) -> int:
        """Messages in and out of all brokers, in all windows."""
        return sum(each[0] + each[1] for each in self._load.values())

    def load(self, window_us: int) -> tuple[float, float]:
        """Messages per second and broker in the windows with publications; the share of control."""
        if self.first_us is None or self.last_us is None:
            return 0.0, 0.0
        first, last = self.first_us // window_us, self.last_us // window_us
        counted = [
            sums for start_us, sums in self._load.items() if first <= start_us // window_us <= last
        ]
        entered, left, control_in, control_out = (
            sum(each[place] for each in counted) for place in range(len(_SUMMED))
        )
        period_s = (last + 1 - first) * window_us / 1_000_000
        messages, control = entered + left, control_in + control_out
        rate = entered / period_s / self.rows["brokers"]
        return rate, control / messages if messages else 0.0
