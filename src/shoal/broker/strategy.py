"""What an overlay system must provide to the broker machine.

The machine owns the door: it tells inputs apart and refuses what its own side did wrong.  All
else is the system's: six methods, one per kind of input, each appending effects to `out`, and
`tables`, `is_ready` and `keeps_order`, for whoever looks at a broker from outside.

Neighbours are those at the start.  A system may ask for links to others (`OpenLink`), whatever
the shape of its overlay; whom it may talk to is its own affair.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol

import msgspec

from shoal.broker.effects import Effect, Measured, Started, TimerKey
from shoal.broker.messages import Message
from shoal.broker.routing_table import RoutingTable
from shoal.model import BrokerId, ClientId


class BrokerContext(msgspec.Struct, frozen=True):
    """What a system is built from: who this broker is, whom it is linked to, its randomness.

    `expected` are the neighbours that it has no link to yet, and will have if they live.
    """

    broker: BrokerId
    neighbours: tuple[BrokerId, ...]
    random: Random
    expected: tuple[BrokerId, ...] = ()


class Strategy(Protocol):
    """One overlay system at one broker."""

    @property
    def tables(self) -> RoutingTable:
        """The routing table, to look at; empty in a system that does not route by last hops."""

    @property
    def is_ready(self) -> bool:
        """Whether what is published here reaches all who subscribed, as far as that can be known.

        Until then publications of local clients should wait.
        """

    @property
    def keeps_order(self) -> bool:
        """Whether a publisher's publications reach each subscriber in their order."""

    def start(self, started: Started, now_us: int, out: list[Effect]) -> None:
        """The broker starts; comes once, before all else."""

    def receive(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        """A neighbour's message.  ProtocolError when it makes no sense from that neighbour."""

    def request(self, client: ClientId, request: Message, now_us: int, out: list[Effect]) -> None:
        """A client's request.  ProtocolError when a client cannot ask that."""

    def timer(self, key: TimerKey, now_us: int, out: list[Effect]) -> None:
        """A timer set earlier fired."""

    def link(self, neighbour: BrokerId, up: bool, now_us: int, out: list[Effect]) -> None:
        """The link to a neighbour came up or went down."""

    def measured(self, measured: Measured) -> None:
        """The monitor reports the broker's recent delays."""


StrategyFactory = Callable[[BrokerContext], Strategy]


class ProtocolError(Exception):
    """A peer or client sent what the protocol does not allow here; the machine refuses it."""


def unexpected(message: object, sender: str) -> ProtocolError:
    return ProtocolError(f"{type(message).__name__} is not expected from {sender}")


__all__: Sequence[str] = (
    "BrokerContext",
    "ProtocolError",
    "Strategy",
    "StrategyFactory",
    "unexpected",
)
