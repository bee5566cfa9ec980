"""Back-pressure over the network: brokers with full queues announce it.

Until they have room again, no broker of the network accepts publications above QoS 0: the brokers
of the subscribers could not keep them. Only publishers are refused; links stay open for other
traffic. A broker repeats the announcement while it lasts, and the receivers let it expire.
"""

from __future__ import annotations

from collections.abc import Callable

from shoal.model import BrokerId
from shoal.mqtt.federation.controls import Full, encode_control
from shoal.mqtt.front_end.network import EVERY_BROKER, FrontEnd
from shoal.mqtt.limits import MICROSECONDS
from shoal.mqtt.timers import MqttTimers

AGAIN_US = 5 * MICROSECONDS
BELIEVED_US = 15 * MICROSECONDS

CROWDING_TIMER = "crowding"


class FullQueues:
    """Announces one broker's full queues, and records the announcements of others."""

    def __init__(
        self,
        broker_id: BrokerId,
        front_end: FrontEnd,
        timers: MqttTimers,
        is_full: Callable[[], bool],
    ) -> None:
        self._broker_id = broker_id
        self._front_end = front_end
        self._timers = timers
        self._is_full = is_full
        self._has_said = False
        # Brokers with full queues, with the expiry of their announcement.
        self._others: dict[BrokerId, int] = {}

    def changed(self) -> None:
        """The queues have become full, or have room again: announce it at once."""
        self._timers.set((CROWDING_TIMER, ()), 0)

    def report_fullness(self, now_us: int) -> None:
        is_full = self._is_full()
        if is_full or self._has_said:
            self._front_end.send(
                EVERY_BROKER, encode_control(Full(self._broker_id, is_full)), now_us
            )
        self._has_said = is_full
        if is_full:
            self._timers.set((CROWDING_TIMER, ()), now_us + AGAIN_US)

    def on_control(self, control: Full, now_us: int) -> None:
        """Record an announcement of another broker."""
        if control.is_full:
            self._others[control.broker] = now_us + BELIEVED_US
        else:
            self._others.pop(control.broker, None)

    def full(self, now_us: int) -> BrokerId | None:
        """Another broker with full queues, if there is one."""
        for broker, until_us in list(self._others.items()):
            if now_us < until_us:
                return broker
            del self._others[broker]
        return None
