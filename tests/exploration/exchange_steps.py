"""The remaining script of exchanges of links, and broken rules for brokers."""

from __future__ import annotations

from typing import Any, NamedTuple

from shoal.broker.effects import Effect
from shoal.broker.machine import Broker
from shoal.overlays.self_organising.exchanges import LinkExchange
from shoal.overlays.self_organising.link_reconfiguration.steps import TIMER
from tests.exploration.network import Doing

Fault = tuple[str, ...]

# The last publication, when everything is at rest.
LAST = 99


class RemainingScript(NamedTuple):
    """The rest of the script, and facts about the surroundings of brokers.

      asked     number of requests that clients have made
      begins    number of exchanges still to begin
      fault     the fault that is to happen
      broken    the fault that has happened, until it is mended
      old       for each direction, the number of messages sent before the fault
      holding   for each broker the neighbours whose messages it accepts; None: all
      up        the links that are up, or about to be
      lasting   the links that are brought up again
      ending    the links that end when they are empty
      disks     for each broker the number of the facts on its disk; None: none
      refused   links that the other end has ended while a broker was dead, as it starts

    Of a publisher that moves:

      publications  those still to publish
      moves         paths still to be ordered
      handed        publications sent to a broker
    """

    asked: int = 0
    begins: int = 1
    fault: Fault = ()
    broken: Fault = ()
    old: tuple[int, ...] = ()
    holding: tuple[tuple[str, ...] | None, ...] = ()
    up: frozenset[frozenset[str]] = frozenset()
    lasting: frozenset[frozenset[str]] = frozenset()
    ending: frozenset[frozenset[str]] = frozenset()
    disks: tuple[int | None, ...] = ()
    refused: frozenset[frozenset[str]] = frozenset()
    publications: tuple[int, ...] = ()
    moves: tuple[tuple[str, ...], ...] = ()
    handed: tuple[int, ...] = ()


def beginning(exchange: LinkExchange) -> Doing:
    def do(broker: Broker, now_us: int) -> list[Effect]:
        out: list[Effect] = []
        strategy: Any = broker.strategy
        strategy.overlay.begin(exchange, now_us, out)
        return out

    return Doing(("begins", exchange.cycle, exchange.remove), do)


def being_late() -> Doing:
    def do(broker: Broker, now_us: int) -> list[Effect]:
        out: list[Effect] = []
        strategy: Any = broker.strategy
        strategy.timer(TIMER, now_us, out)
        return out

    return Doing(("late",), do)
