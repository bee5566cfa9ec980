"""What is so around brokers whose links change: links, disks, and what is not settled."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

import msgspec

from shoal.broker.strategy import BrokerContext, Strategy, StrategyFactory

# A broker that is killed, and may start again.
DOWN = -2
Pair = frozenset[str]


class World(NamedTuple):
    """What is so around the machines.

    linked   links that are up, or about to be
    lasting  links that come up again
    ending   links that are to end
    broken   the link that is cut
    late     links that a broker had asked for as it was killed, and may be there when it is back
    holds    for each broker, from whom it takes messages; None: from everybody
    facts    for each broker, the input with which it would start again
    unsent   for each way the publications that are not settled, with their numbers and whether
             they are handled there
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
    """Randomness without any: a broker waits as long each time, and no two wait equally long."""

    def __init__(self, broker: str) -> None:
        super().__init__(0)
        self._more = sum(broker.encode()) % 16

    def randint(self, a: int, b: int) -> int:
        return a + (b - a) * self._more // 16


def evenly(system: StrategyFactory) -> StrategyFactory:
    """The same system, whose brokers choose nothing by chance."""

    def made(context: BrokerContext) -> Strategy:
        return system(msgspec.structs.replace(context, random=Even(context.broker)))

    return made
