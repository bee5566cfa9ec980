"""What is left to happen where links are exchanged, and what brokers are made to do."""

from __future__ import annotations

from typing import Any, NamedTuple

from shoal.broker.effects import Effect
from shoal.broker.machine import Broker
from shoal.overlays.self_organising.exchanges import LinkExchange
from shoal.overlays.self_organising.link_reconfiguration.steps import TIMER
from tests.exploration.network import Doing

Fault = tuple[str, ...]

# What is published at the end, when all is quiet.
LAST = 99


class Left(NamedTuple):
    """What the script still has, and what the world around the brokers knows.

    asked     how many requests of clients have been made
    begins    how many exchanges are still to begin
    fault     that has not happened
    broken    the fault that has, until it is mended
    old       for each way, how much of it was said before the fault
    holding   for each broker the neighbours from whom it takes messages; None: from all
    up        the links that are there, or about to be
    lasting   the links that are brought up again
    ending    those that end when nothing is in them

    Of a publisher that moves:

    publications  that it has not published
    moves         paths along which it has not been told to go
    handed        what it has handed to a broker
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
