"""Windows in which brokers hear of their links' traffic.

A broker that has heard of a window without traffic is not asked again until one of its links has
traffic, comes or goes: idle brokers cost nothing, however many there are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

Report = tuple[int, Callable[[int], None]]


class LoadedBroker(Protocol):
    """A broker as these windows see it."""

    window_us: int | None

    @property
    def may_sleep(self) -> bool:
        """Whether there is nothing to report until the broker stirs."""

    def report_loads(self, now_us: int) -> None:
        """Report the traffic of the window that ends now."""


class LoadWindows:
    """The windows of one world."""

    def __init__(self) -> None:
        # By width of a window: when the next one ends.
        self._ends: dict[int, int] = {}
        self._widths: dict[int, None] = {}
        self._stirred: set[LoadedBroker] = set()
        # The order of brokers' reports: that in which they were made.
        self._numbers: dict[LoadedBroker, int] = {}

    @property
    def next_us(self) -> float:
        """When the next window ends."""
        return min(self._ends.values(), default=float("inf"))

    def watch(self, window_us: int) -> None:
        """A broker wants to hear of windows of this width."""
        self._widths[window_us] = None

    def stir(self, broker: LoadedBroker) -> None:
        """A broker is new, or there is something about its links to report."""
        self._numbers.setdefault(broker, len(self._numbers))
        self._stirred.add(broker)

    def reports(self, at_us: int) -> list[Report]:
        """Of the first window that ended, and the last, if nothing happened between them."""
        if not self._widths:
            return []
        awake = [
            each for each in self._stirred if each.window_us is not None and not each.may_sleep
        ]
        self._stirred = {*awake}
        awake.sort(key=self._numbers.__getitem__)
        found: list[Report] = []
        for window_us in self._widths:
            last_us = at_us - at_us % window_us
            first_us = self._ends.get(window_us, last_us)
            self._ends[window_us] = max(first_us, last_us + window_us)
            found += [
                (ended_us, node.report_loads)
                for ended_us in sorted({first_us, last_us})
                if first_us <= ended_us <= at_us and ended_us > 0
                for node in awake
                if node.window_us == window_us
            ]
        return found
