"""Interfaces of a simulated broker's driver: the machine, the network, the clients."""

from __future__ import annotations

from typing import Protocol

from shoal.broker.effects import Costs, Effect, Input
from shoal.broker.messages import Message
from shoal.broker.strategy import Strategy
from shoal.model import BrokerId, ClientId
from shoal.simulation.load_windows import LoadWindows


class Machine(Protocol):
    """A broker, with or without reliable links around it."""

    @property
    def id(self) -> BrokerId: ...

    @property
    def strategy(self) -> Strategy: ...

    def handle(self, input: Input, now_us: int) -> list[Effect]: ...


class SimulatedNetwork(Protocol):
    """A broker's surroundings that it can query."""

    load_windows: LoadWindows

    def open_link(self, source: BrokerId, target: BrokerId, *, is_lasting: bool) -> None: ...

    def reset_link(self, source: BrokerId, target: BrokerId) -> None: ...

    def end_link(self, source: BrokerId, target: BrokerId) -> None: ...

    def message_costs(self, broker: BrokerId) -> Costs:
        """Return this broker's current costs of messages."""

    def left(self, broker: BrokerId) -> None:
        """The broker has left."""

    def start_broker(self, at_us: int, broker: BrokerId) -> None:
        """Another broker is to start, unless it runs."""

    def remove_broker(self, at_us: int, broker: BrokerId) -> None:
        """The broker is to leave."""

    def keep_broker(self, at_us: int, broker: BrokerId) -> None:
        """The broker is to stay."""

    def move_client(self, client: ClientId, broker: BrokerId) -> None:
        """A client is to go there."""


class Hearer(Protocol):
    """A client that receives brokers' notices."""

    def notified(self, now_us: int, argument: tuple[BrokerId, Message]) -> None:
        """This broker says this."""
