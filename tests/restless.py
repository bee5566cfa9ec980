"""Three brokers that exchange links all the time: a broker with one link begins an exchange.

Other brokers may be linked to them; those links stay.
"""

from __future__ import annotations

from collections.abc import Mapping

from shoal.broker.effects import Effect, SetTimer, Started, TimerKey
from shoal.broker.strategy import BrokerContext
from shoal.overlays.coordination.messages import MESSAGES as CHANGE_MESSAGES
from shoal.overlays.self_organising.exchanges import LinkExchange
from shoal.overlays.self_organising.link_reconfiguration.ring_messages import MESSAGES
from shoal.overlays.system import NoParameters, System
from shoal.overlays.tree.messages import MESSAGES as TREE_MESSAGES
from shoal.overlays.tree.oracle import table_problems
from tests.forced_exchanges import Forced

NAMES = {"B1", "B2", "B3"}
AGAIN: TimerKey = ("again",)
AGAIN_US = (20_000, 200_000)


class Restless(Forced):
    """One of them; it counts the exchanges that it began."""

    def __init__(self, context: BrokerContext) -> None:
        super().__init__(context)
        self._context = context
        self._count = 0

    @property
    def description(self) -> Mapping[str, int]:
        return {**super().description, "exchanged": self._count}

    def start(self, started: Started, now_us: int, out: list[Effect]) -> None:
        super().start(started, now_us, out)
        self._set(now_us, out)

    def timer(self, key: TimerKey, now_us: int, out: list[Effect]) -> None:
        if key != AGAIN:
            super().timer(key, now_us, out)
            return
        self._set(now_us, out)
        here, neighbours = self._context.broker, NAMES & {*self.overlay.tree.propagation.neighbours}
        if here in NAMES and len(neighbours) == 1 and not self.overlay.busy:
            (far,) = NAMES - {here, *neighbours}
            remove = self._context.random.randrange(2)
            exchange = LinkExchange(cycle=(far, *neighbours, here), remove=remove, saving=0)
            self.overlay.begin(exchange, now_us, out)

    def _set(self, now_us: int, out: list[Effect]) -> None:
        out.append(SetTimer(AGAIN, now_us + self._context.random.randint(*AGAIN_US)))

    def done(self, exchange: LinkExchange, now_us: int, out: list[Effect]) -> None:
        self._count += self._context.broker == exchange.cycle[-1]

    def refused(self, exchange: LinkExchange, reason: str, now_us: int, out: list[Effect]) -> None:
        """Try again."""


def _strategy(context: BrokerContext, parameters: NoParameters) -> Restless:
    return Restless(context)


SYSTEM = System(
    name="restless",
    strategy=_strategy,
    messages=(*TREE_MESSAGES, *CHANGE_MESSAGES, *MESSAGES),
    is_quiet=False,
    oracle=table_problems,
)
