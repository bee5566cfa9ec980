"""Congestion of each output of a broker, from its load by window (VII-B, Eq. 10).

Eq. 10 has lost its symbols. It is made of CE, the input of an output queue divided by its output in
the last window, and of the queue's length Q; the text calls a queue with CE = 1 and Q = 0 free of
congestion. Both readings are here: CE * Q, under which that holds for any CE, and CE * (1 + Q).

In either a window without arrivals has CE = 0, so a long queue that drains counts as free, and a
new publication makes it congested again. `Congestion.STEADY` does without that: it takes the
present queue, with the sends since the window ended beyond a busy output's throughput in a window,
and calls an output free again only below half of the threshold.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping

from shoal.broker.effects import LinkLoad
from shoal.model import BrokerId
from shoal.overlays.octopia.parameters import Congestion


def congestion_element(load: LinkLoad) -> float:
    """CE: the input if nothing left; 1 if nothing happened."""
    if not load.entered and not load.left:
        return 1.0
    return load.entered / max(load.left, 1)


FORMULAS: dict[Congestion, Callable[[LinkLoad], float]] = {
    Congestion.PAPER: lambda load: congestion_element(load) * (1 + load.waiting),
    Congestion.PRODUCT: lambda load: congestion_element(load) * load.waiting,
    Congestion.STEADY: lambda load: float(load.waiting),
}


class OutputLoads:
    """The link status table (LST) of one broker."""

    def __init__(self, congestion: Congestion, threshold: float) -> None:
        self._formula = FORMULAS[congestion]
        self._is_steady = congestion is Congestion.STEADY
        self._threshold = threshold
        self._costs: dict[BrokerId, float] = {}
        # Sends to each output since the window ended, and a busy output's throughput in a window.
        self._sent: Counter[BrokerId] = Counter()
        self._capacity: dict[BrokerId, int] = {}
        # An output that has not been busy yet counts as fast as the fastest busy one.
        self._most: int | None = None
        # Since when outputs have been congested, by windows.
        self.since_us: dict[BrokerId, int] = {}
        self._free_since_us: dict[BrokerId, int] = {}
        # Leaving brokers carry nothing for others.
        self.shunned: set[BrokerId] = set()

    def renew(self, links: Mapping[BrokerId, LinkLoad], now_us: int) -> None:
        """A window has ended."""
        self._costs = {name: self._formula(load) for name, load in links.items()}
        self._capacity |= {name: load.left for name, load in links.items() if load.waiting}
        self._most = max(self._capacity.values(), default=None)
        self._sent.clear()
        before, self.since_us = self.since_us, {}
        for name, cost in self._costs.items():
            if cost > self._limit(name in before):
                self.since_us[name] = before.get(name, now_us)
        for name in before.keys() - self.since_us.keys():
            self._free_since_us[name] = now_us

    def _limit(self, was_congested: bool) -> float:
        return self._threshold / 2 if self._is_steady and was_congested else self._threshold

    def is_free(self, neighbour: BrokerId, for_us: int, now_us: int) -> bool:
        """Whether an output has been free of congestion for this time."""
        if neighbour in self.since_us:
            return False
        return now_us - self._free_since_us.get(neighbour, now_us - for_us) >= for_us

    def sent(self, neighbour: BrokerId, publications: int) -> None:
        """Publications have been put into an output."""
        self._sent[neighbour] += publications

    def cost(self, neighbour: BrokerId) -> float:
        """The value that is compared with the threshold."""
        if neighbour in self.shunned:
            return math.inf
        cost = self._costs.get(neighbour, 0.0)
        if not self._is_steady:
            return cost
        capacity = self._capacity.get(neighbour, self._most)
        if capacity is not None:
            cost += max(0, self._sent[neighbour] - capacity)
        if neighbour in self.since_us and cost <= self._threshold:
            return self._threshold + (1 + cost) / (1 + self._threshold)
        return cost
