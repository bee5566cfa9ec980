"""A broker restarts without the decision on an exchange that it had agreed to."""

from __future__ import annotations

from shoal.broker.effects import LinkChanged, LinkState, OpenLink, Received, Send, Started
from shoal.broker.machine import Broker
from shoal.overlays.registry import strategy_factory
from shoal.overlays.self_organising.exchanges import LinkExchange
from shoal.overlays.self_organising.link_reconfiguration.ring_messages import (
    ExchangeDecision,
    Greeting,
    LinkStanding,
)

DONE = ExchangeDecision(
    key=("B9", 5),
    exchange=LinkExchange(cycle=("B3", "B0", "B9"), remove=1, saving=0),
    is_done=True,
    at_us=9,
    latest_us=0,
)


def test_the_end_of_its_old_link_does_not_void_the_decision() -> None:
    """B0 has done its part, and may have exchanged links since: it would not hear of the void."""
    machine = Broker("B9", (), strategy_factory("self_organising"), expected=("B0",))
    machine.handle(Started(facts={"standings": {"B0": [True, 0]}, "done": []}), 20)
    for neighbour, state in (("B0", LinkState.UP), ("B0", LinkState.ENDED), ("B3", LinkState.UP)):
        machine.handle(LinkChanged(neighbour, state), 21)
    greeting = Greeting(LinkStanding(True, 9), (DONE,))
    effects = machine.handle(Received("B3", greeting), 22)
    sent = [each.message for each in effects if isinstance(each, Send)]
    assert not any(isinstance(each, ExchangeDecision) and each.is_void for each in sent)
    assert OpenLink("B3", is_lasting=True) in effects
