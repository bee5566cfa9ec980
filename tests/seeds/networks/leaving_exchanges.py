"""Large random networks with constant exchanges of links while half of the brokers leave."""

from __future__ import annotations

from random import Random
from unittest.mock import patch

from shoal.broker.effects import TimerFired
from shoal.overlays.registry import SYSTEMS
from tests.forced_exchanges import BEGIN, SYSTEM, Exchanged
from tests.seeds.networks.random_changes import ChangingNetwork
from tests.seeds.networks.random_network import END_US, SECOND_US, SETTLE_US, UNTIL_US
from tests.seeds.networks.trees import path

# Longer cycles would quiesce too many brokers at once for other exchanges.
MOST_ON_CYCLE = 8


class LeavingExchanges(ChangingNetwork):
    """One seed's network of 48 to 60 brokers; `run` gives the violations."""

    def __init__(self, seed: int) -> None:
        with patch.dict(SYSTEMS, {SYSTEM.name: SYSTEM}):
            super().__init__(
                seed,
                system=SYSTEM.name,
                sizes=(48, 60),
                clocks=seed % 2 == 1,
                interval_us=4 * SECOND_US,
            )
        at_us, random = SETTLE_US, Random(f"exchanges/{seed}")
        while at_us < END_US:
            self.world.queue.push(at_us, self._exchange, random.random())
            at_us += random.randint(1, SECOND_US)

    @property
    def exchanges(self) -> int:
        """The number of exchanges."""
        return sum(isinstance(row, Exchanged) for row in self.world.trace.records)

    def _exchange(self, now_us: int, drawn: float) -> None:
        """A random broker decides on the exchange of a link."""
        random, links, brokers = Random(drawn), self.world.links, self.world.brokers
        there = {name for ends in links for name in ends}
        if not there <= brokers.keys() or len(links) != len(there) - 1:
            return  # a broker is leaving just then
        cycle = path(links, *random.sample(sorted(there), 2))
        if 2 < len(cycle) <= MOST_ON_CYCLE:
            key = (BEGIN, str(random.randrange(len(cycle) - 1)), *cycle)
            brokers[cycle[-1]].bring(now_us, TimerFired(key))

    def run(self, until_us: int | None = None) -> list[str]:
        with patch.dict(SYSTEMS, {SYSTEM.name: SYSTEM}):
            problems = super().run(until_us or UNTIL_US)
        overlays = [node.machine.strategy.overlay for node in self.world.brokers.values()]  # type: ignore[attr-defined]
        return problems + [each.contradiction for each in overlays if each.contradiction]
