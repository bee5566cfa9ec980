"""Observations that a live machine asks for: delays, its links' loads, costs.

Delays come about every second, loads for each window that differs from the quiet one before it,
costs at once and when they change.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from shoal.broker.effects import Costs, Input, LinkLoad, Loads
from shoal.model import BrokerId
from shoal.runtime.driving.busy import BusyMeter
from shoal.runtime.driving.monitor import Monitor

MONITOR_INTERVAL_S = 1.0
_MICROSECONDS = 1_000_000

# Per link: the total that entered its queue, and the present length.
Queues = Mapping[BrokerId, tuple[int, int]]


class Watched(Protocol):
    """Observable part of the carrier of a node's messages."""

    def delays_us(self) -> Mapping[BrokerId, int]: ...

    def queues(self) -> Queues: ...


class Watching:
    """Observations of one node for its machine: `bring` passes each to the machine as an input."""

    def __init__(self, bring: Callable[[Input], None]) -> None:
        # For a machine that watches its delays.
        self.monitor: Monitor | None = None
        self.links: Watched | None = None
        self._bring = bring
        self._reports: asyncio.TimerHandle | None = None
        self._busy: BusyMeter | None = None
        self._reported_ns = 0
        self._window_s = 0.0
        self._windows: asyncio.TimerHandle | None = None
        self._before: Queues = {}
        self._loads = Loads({})
        # Called when the machine asks for costs.
        self.at_costs: Callable[[], None] = _ignore_watching
        self._watches_costs = False
        self._busy_us = self._publications = 0
        self._costs: Costs | None = None

    def stop(self) -> None:
        for timer in (self._reports, self._windows):
            if timer is not None:
                timer.cancel()

    def watch_delays(self) -> None:
        """Report delays from now on."""
        if self.monitor is None:
            self.monitor = Monitor()
            self._busy, self._reported_ns = BusyMeter(), time.monotonic_ns()
            self._reports = self._later(MONITOR_INTERVAL_S, self._report)

    def watch_loads(self, window_us: int) -> None:
        """Report the links' loads from now on; the last window counts."""
        if self._windows is not None:
            self._windows.cancel()
        self._window_s = window_us / _MICROSECONDS
        self._before = self._queues()
        self._windows = self._later(self._window_s, self._report_loads)

    def watch_costs(self) -> None:
        """Report known costs, at once and whenever they change."""
        self._watches_costs = True
        self.at_costs()
        if self._costs is not None:
            self._bring(self._costs)

    def report_costs(self, costs: Costs) -> None:
        """Report the current costs of messages."""
        if costs != self._costs:
            self._costs = costs
            if self._watches_costs:
                self._bring(costs)

    def handled(self, publications: int, waited_us: int, busy_us: int) -> None:
        """Count handled publications: each waited `waited_us`, all together took `busy_us`."""
        self._busy_us += busy_us
        self._publications += publications
        if self.monitor is not None:
            self.monitor.handled(publications, waited_us, busy_us)

    @property
    def handled_in_us(self) -> float:
        """Return the mean time per publication so far; 0 before the first."""
        return self._busy_us / self._publications if self._publications else 0.0

    def _report(self) -> None:
        assert self.monitor is not None
        assert self._busy is not None
        self._reports = self._later(MONITOR_INTERVAL_S, self._report)
        delays_us = self.links.delays_us() if self.links is not None else {}
        now_ns = time.monotonic_ns()
        passed_us, self._reported_ns = (now_ns - self._reported_ns) // 1_000, now_ns
        self._bring(self.monitor.report(delays_us, self._busy.read(), passed_us))

    def _report_loads(self) -> None:
        self._windows = self._later(self._window_s, self._report_loads)
        before, self._before = self._before, self._queues()
        found = {name: _load(before.get(name), now) for name, now in self._before.items()}
        told, self._loads = self._loads, Loads(found)
        if self._loads != told or any(load.entered or load.left for load in found.values()):
            self._bring(self._loads)

    def _queues(self) -> Queues:
        return {} if self.links is None else self.links.queues()

    @staticmethod
    def _later(after_s: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(after_s, call)


def _load(before: tuple[int, int] | None, now: tuple[int, int]) -> LinkLoad:
    """Of one link; a session that has begun since has no before."""
    if before is None or before[0] > now[0]:
        before = (0, 0)
    entered = now[0] - before[0]
    return LinkLoad(entered, max(0, before[1] + entered - now[1]), now[1])


def _ignore_watching() -> None:
    """Placeholder until a listener is set."""
