"""Fault injection: lossy links, links that break, brokers that crash.

`LinkFaults` makes every overlay link lose, delay and reorder messages at random (seeded); brokers
then run behind `shoal.simulation.links.reliable`.  Crashes and cuts are events that the world takes
at a set time (`World.crash`, `World.cut`).
"""

from __future__ import annotations

from random import Random

import msgspec

from shoal.broker.effects import Received
from shoal.simulation.event_queue import Action, EventQueue
from shoal.simulation.links.overlay_link import SimulatedLink


class LinkFaults(msgspec.Struct, frozen=True, kw_only=True):
    """Fault rates of the overlay links.

    loss        probability that a message is lost, 0 to below 1
    jitter_us   additional delay, uniform between 0 and this; messages overtake each other
    """

    loss: float = 0.0
    jitter_us: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.loss < 1:
            raise ValueError(f"loss: {self.loss} is not between 0 and below 1")
        if self.jitter_us < 0:
            raise ValueError(f"jitter_us: {self.jitter_us} is negative")

    def __bool__(self) -> bool:
        return bool(self.loss or self.jitter_us)


class FaultyLink(SimulatedLink):
    """A link that loses and reorders."""

    def __init__(
        self,
        queue: EventQueue,
        arrive: Action,
        arrive_one: Action,
        latency_us: int,
        transmission_us: int,
        faults: LinkFaults,
        random: Random,
    ) -> None:
        super().__init__(queue, arrive, arrive_one, latency_us, transmission_us)
        self._faults = faults
        self._random = random
        self._receive = arrive
        self._base_latency_us = latency_us

    def send(self, input: Received, units: int, ready_us: int, busy_us: int | None = None) -> None:
        lost = self._random.random() < self._faults.loss
        self._arrive = _vanish if lost else self._receive
        late_us = self._random.randint(0, self._faults.jitter_us)
        self.latency_us = self._base_latency_us + late_us
        super().send(input, units, ready_us, busy_us)

    def send_one(self, input: Received, ready_us: int) -> None:
        self.send(input, 1, ready_us)


def _vanish(now_us: int, input: Received) -> None:
    """Discard a lost message."""
