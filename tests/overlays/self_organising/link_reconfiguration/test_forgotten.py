"""A broker that agreed to an exchange asks the first one, which has lost its memory."""

from __future__ import annotations

from random import Random

from shoal.broker.effects import Effect, LinkState, Send, Started
from shoal.broker.messages import Message
from shoal.broker.strategy import BrokerContext
from shoal.overlays.self_organising.exchanges import LinkExchange
from shoal.overlays.self_organising.link_reconfiguration.ring_messages import (
    Doubt,
    ExchangeDecision,
    ExchangeForgotten,
    Halted,
)
from shoal.overlays.tree.turning import TableTurn
from tests.forced_exchanges import Forced

# B3 - B1 replaces B1 - B2.
EXCHANGE = LinkExchange(cycle=("B1", "B2", "B3"), remove=0, saving=0)
KEY = ("B3", 1)


class AgreedParticipant:
    """B3, which has agreed; B1 has decided, died, and restarted without its memory."""

    def __init__(self) -> None:
        self.strategy = Forced(BrokerContext("B3", ("B2",), Random(1)))
        self.strategy.start(Started(former=(), give_up_us=60_000_000), 0, [])
        self.strategy.overlay.begin(EXCHANGE, 1, [])
        self.link("B1", LinkState.UP)
        self.strategy.receive("B2", Halted(KEY, 0, TableTurn(advertisements=(), known=())), 2, [])
        assert self.link("B1", LinkState.FAILED) == [Send("B2", Doubt(KEY))]
        assert Send("B1", Doubt(KEY)) in self.link("B1", LinkState.UP)

    def link(self, neighbour: str, state: LinkState) -> list[Effect]:
        out: list[Effect] = []
        self.strategy.link(neighbour, state, 3, out)
        return [each for each in out if isinstance(each, Send)]

    def hear(self, neighbour: str, message: Message) -> None:
        self.strategy.receive(neighbour, message, 4, [])

    @property
    def is_linked(self) -> bool | None:
        """Whether the new link belongs to its tree; None if it does not know yet."""
        overlay = self.strategy.overlay
        return None if overlay.exchanging else overlay.memory.standing("B1").is_in


def test_another_participant_knows_the_forgotten_decision() -> None:
    last = AgreedParticipant()
    last.hear("B1", ExchangeForgotten(KEY))
    assert last.is_linked is None
    last.hear("B2", ExchangeDecision(KEY, EXCHANGE, is_done=True, at_us=5, latest_us=3))
    assert last.is_linked


def test_an_exchange_that_no_broker_knows_is_aborted() -> None:
    last = AgreedParticipant()
    last.hear("B1", ExchangeForgotten(KEY))
    last.hear("B2", Doubt(KEY))
    assert last.is_linked is False
