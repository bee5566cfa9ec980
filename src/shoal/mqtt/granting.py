"""A subscription is granted when every broker has heard of it: what is published next, comes.

A mark follows what the door has asked for, to every other door.  On each link it is behind the
subscription, so when it is settled the subscription is known wherever there is somebody; then the
SUBACK is sent.  One mark is under way at a time: subscriptions made meanwhile share the next.
Where brokers are away or slow a client does not wait for ever.
"""

from __future__ import annotations

from collections.abc import Callable

from shoal.mqtt.controls import Mark, encode_control
from shoal.mqtt.limits import MICROSECONDS
from shoal.mqtt.network import EVERY_BROKER, Door
from shoal.mqtt.timers import Timers

# A client that asks waits no longer than this for brokers that do not answer.
PATIENCE_US = 2 * MICROSECONDS

GRANTING_TIMER = "granting"

Answer = Callable[[int], None]


class Granting:
    """The SUBACKs that one broker owes; each is given the time when it is sent."""

    def __init__(self, broker_id: str, door: Door, timers: Timers) -> None:
        self._mark = encode_control(Mark(broker_id))
        self._door = door
        self._timers = timers
        self._under_way: list[Answer] = []
        self._next: list[Answer] = []
        self._number = 0
        self._now_us = 0

    def owe(self, answer: Answer, now_us: int) -> None:
        """Answer when what the door has asked for is known everywhere."""
        self._next.append(answer)
        self._now_us = now_us
        if not self._under_way:
            self._send(now_us)

    def settled(self, number: int) -> None:
        """A mark has come everywhere."""
        if number == self._number:
            self._timers.cancel((GRANTING_TIMER, 0))
            self._answer(self._now_us)

    def due(self, now_us: int) -> None:
        """Nobody is waited for any longer."""
        self._answer(now_us)

    def _answer(self, now_us: int) -> None:
        answers, self._under_way = self._under_way, []
        for answer in answers:
            answer(now_us)
        if self._next and not self._under_way:
            self._send(now_us)

    def _send(self, now_us: int) -> None:
        self._under_way, self._next = self._next, []
        self._number = self._door.send(EVERY_BROKER, self._mark, now_us)
        self._door.notice(self._number, self.settled)
        self._timers.set((GRANTING_TIMER, 0), now_us + PATIENCE_US)
