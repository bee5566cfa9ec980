"""The interface between the broker machine and an overlay system.

The machine tells inputs apart and refuses invalid ones.  A system handles each kind of input in one
method, which appends effects to `out`.

A system writes the members of `OverlaySystem`, which have no defaults.  Everything else is an
optional capability (`shoal.broker.capabilities`): `BaseStrategy` has a default for each, and the
machine works with their sum, `Strategy`.

`BrokerContext.neighbours` are the links at the start.  A system may open others (`OpenLink`),
whatever the shape of its overlay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Protocol

import msgspec

from shoal.broker.capabilities import (
    Introspection,
    LoadReports,
    MatchingCost,
    Membership,
    OperatorOrders,
    ProcessControl,
    Retransmission,
)
from shoal.broker.effects import Effect, LinkState, Started, TimerKey
from shoal.broker.errors import ProtocolError, unexpected
from shoal.broker.messages import Message, PublicationBatch
from shoal.matching import Outcomes, OutcomesFactory
from shoal.model import BrokerId, ClientId


class BrokerContext(msgspec.Struct, frozen=True):
    """A system is built from this: the broker's name, its links, its randomness.

    broker      the name of this broker
    neighbours  brokers that are linked when the broker starts
    random      the only randomness that the system may draw from
    expected    neighbours whose links will come up if these brokers live
    outcomes    a factory for routing tables: `Outcomes`, or tables that share `Classes`
    is_founder  whether the broker was there when its network began, and so knows the other
                founders by its parameters.  A joiner is outside until the members take it in, and
                a member from then on (`Started.facts`).
    """

    broker: BrokerId
    neighbours: tuple[BrokerId, ...]
    random: Random
    expected: tuple[BrokerId, ...] = ()
    outcomes: OutcomesFactory = Outcomes
    is_founder: bool = True


# Handles one neighbour's batch at `now_us` and appends effects.
ReceiveBatch = Callable[[BrokerId, PublicationBatch, int, list[Effect]], object]


class OverlaySystem(Protocol):
    """One system at one broker: the members that every system writes."""

    @property
    def description(self) -> Mapping[str, int]:
        """Sizes of the system's tables, for status and metrics."""

    @property
    def is_ready(self) -> bool:
        """Whether a publication reaches all its subscribers, as far as this broker can know.

        Until then the driver holds publications of local clients back.
        """

    @property
    def keeps_order(self) -> bool:
        """Whether each subscriber gets a publisher's publications in their order."""

    def receive(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        """Handle a neighbour's message; ProtocolError if that neighbour must not send it."""

    def request(self, client: ClientId, request: Message, now_us: int, out: list[Effect]) -> None:
        """Handle a client's request; ProtocolError if the client must not make it."""

    def link(self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]) -> None:
        """The link to a neighbour came up, failed or ended."""


class LifeEvents(Protocol):
    """The start of a broker, its timers, and the fast path of its publications."""

    def start(self, started: Started, now_us: int, out: list[Effect]) -> None:
        """The broker starts; the first input of its life."""
        return

    def timer(self, key: TimerKey, now_us: int, out: list[Effect]) -> None:
        """A timer fired that this system set."""
        return

    @property
    def receive_batch(self) -> ReceiveBatch:
        """The handler of a neighbour's batch; the same object for the strategy's life.

        By default `receive`.  Most messages are batches, so a system may save one call for each.
        """
        return self.receive  # type: ignore[attr-defined,no-any-return]


class Strategy(
    OverlaySystem,
    LifeEvents,
    MatchingCost,
    Introspection,
    Membership,
    LoadReports,
    Retransmission,
    OperatorOrders,
    ProcessControl,
    Protocol,
):
    """One overlay system at one broker, with every capability: what the machine calls."""


class BaseStrategy(
    LifeEvents,
    MatchingCost,
    Introspection,
    Membership,
    LoadReports,
    Retransmission,
    OperatorOrders,
    ProcessControl,
):
    """The defaults of all capabilities.  A system derives from it and writes `OverlaySystem`."""


StrategyFactory = Callable[[BrokerContext], Strategy]

__all__: Sequence[str] = (
    "BaseStrategy",
    "BrokerContext",
    "OverlaySystem",
    "ProtocolError",
    "ReceiveBatch",
    "Strategy",
    "StrategyFactory",
    "unexpected",
)
