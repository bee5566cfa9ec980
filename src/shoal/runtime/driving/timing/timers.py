"""The timers that a live broker's machine has set."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from shoal.broker.effects import TimerKey
from shoal.runtime.driving.timing.clock import Clock
from shoal.runtime.driving.timing.pauses import Alarm


class NodeTimers:
    """`fire` is told the key, and for when it was set."""

    def __init__(self, clock: Clock, fire: Callable[[TimerKey, int], None]) -> None:
        self._clock = clock
        self._tell = fire
        self._alarms: dict[TimerKey, Alarm] = {}

    def set(self, key: TimerKey, at_us: int) -> None:
        """Fire at that time; one of that key before is replaced."""
        self.cancel(key)
        fire = partial(self._fire, key, at_us)
        self._alarms[key] = Alarm(asyncio.get_running_loop(), self._clock, at_us, fire)

    def cancel(self, key: TimerKey) -> None:
        alarm = self._alarms.pop(key, None)
        if alarm is not None:
            alarm.cancel()

    def stop(self) -> None:
        """Fire none any more."""
        for alarm in self._alarms.values():
            alarm.cancel()
        self._alarms.clear()

    def _fire(self, key: TimerKey, at_us: int) -> None:
        del self._alarms[key]
        self._tell(key, at_us)
