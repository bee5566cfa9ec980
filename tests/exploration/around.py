"""The surroundings of brokers with changing links: links, disks, and unsettled publications."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

import msgspec

from shoal.broker.strategy import BrokerContext, Strategy, StrategyFactory

# A broker that is killed, and may start again.
DOWN = -2
Pair = frozenset[str]


class World(NamedTuple):
    """Everything outside the machines.

    linked   links that are up, or about to be
    lasting  links that come up again
    ending   links that are to end
    broken   the link that is cut
    late     links requested by a broker before it was killed, which may be up when it is back
    holds    for each broker the neighbours whose messages it accepts; None: all
    facts    for each broker, the input with which it would start again
    unsent   for each direction the unsettled publications: numbers, and whether handled
    """

    linked: frozenset[Pair]
    lasting: frozenset[Pair]
    ending: frozenset[Pair]
    broken: Pair | None
    holds: tuple[tuple[str, ...] | None, ...]
    facts: tuple[int, ...]
    unsent: tuple[tuple[tuple[int, int, bool], ...], ...]
    late: frozenset[Pair] = frozenset()


class Even(Random):
    """A random generator without randomness: every wait of a broker is equal, and no two brokers'
    waits are.
    """

    def __init__(self, broker: str) -> None:
        super().__init__(0)
        self._more = sum(broker.encode()) % 16

    def randint(self, a: int, b: int) -> int:
        return a + (b - a) * self._more // 16


def evenly(system: StrategyFactory) -> StrategyFactory:
    """The same system with brokers that choose nothing at random."""

    def made(context: BrokerContext) -> Strategy:
        return system(msgspec.structs.replace(context, random=Even(context.broker)))

    return made
