"""Brokers whose queues are full say so, and until they have room again no broker of the network
takes publications above QoS 0: what is settled at their subscribers' brokers could not be kept.

Only publishers are told.  Links are not held up: publications of others travel behind.  A broker
says it again while it lasts, and who has not heard it for a while believes it no more.
"""

from __future__ import annotations

from collections.abc import Callable

from shoal.model import BrokerId
from shoal.mqtt.door.network import EVERY_BROKER, Door
from shoal.mqtt.federation.controls import Full, encode_control
from shoal.mqtt.limits import MICROSECONDS
from shoal.mqtt.timers import Timers

AGAIN_US = 5 * MICROSECONDS
BELIEVED_US = 15 * MICROSECONDS

CROWDING_TIMER = "crowding"


class Crowding:
    """What one broker says, and has heard of others; `is_full` is about its own queues."""

    def __init__(
        self, broker_id: BrokerId, door: Door, timers: Timers, is_full: Callable[[], bool]
    ) -> None:
        self._broker_id = broker_id
        self._door = door
        self._timers = timers
        self._is_full = is_full
        self._has_said = False
        # Who is full, and until when that is believed.
        self._others: dict[BrokerId, int] = {}

    def changed(self) -> None:
        """The queues are full, or have room again; which, others hear at once."""
        self._timers.set((CROWDING_TIMER, ()), 0)

    def due(self, now_us: int) -> None:
        is_full = self._is_full()
        if is_full or self._has_said:
            self._door.send(EVERY_BROKER, encode_control(Full(self._broker_id, is_full)), now_us)
        self._has_said = is_full
        if is_full:
            self._timers.set((CROWDING_TIMER, ()), now_us + AGAIN_US)

    def hear(self, control: Full, now_us: int) -> None:
        """Another broker says how it is."""
        if control.is_full:
            self._others[control.broker] = now_us + BELIEVED_US
        else:
            self._others.pop(control.broker, None)

    def full(self, now_us: int) -> BrokerId | None:
        """Another broker whose queues are full, if there is one."""
        for broker, until_us in list(self._others.items()):
            if now_us < until_us:
                return broker
            del self._others[broker]
        return None
