"""What a simulated broker's driver has around it: the machine, the network, the clients."""

from __future__ import annotations

from typing import Protocol

from shoal.broker.effects import Costs, Effect, Input
from shoal.broker.messages import Message
from shoal.broker.strategy import Strategy
from shoal.model import BrokerId, ClientId


class Machine(Protocol):
    """A broker, with or without reliable links around it."""

    @property
    def id(self) -> BrokerId: ...

    @property
    def strategy(self) -> Strategy: ...

    def handle(self, input: Input, now_us: int) -> list[Effect]: ...


class Network(Protocol):
    """What surrounds a broker, as far as it can ask for it."""

    def open_link(self, source: BrokerId, target: BrokerId, *, is_lasting: bool) -> None: ...

    def reset_link(self, source: BrokerId, target: BrokerId) -> None: ...

    def end_link(self, source: BrokerId, target: BrokerId) -> None: ...

    def message_costs(self, broker: BrokerId) -> Costs:
        """What messages cost this broker now."""

    def left(self, broker: BrokerId) -> None:
        """The broker has left."""

    def move_client(self, client: ClientId, broker: BrokerId) -> None:
        """A client is to go there."""


class Hearer(Protocol):
    """A client to whom brokers say something."""

    def notified(self, now_us: int, argument: tuple[BrokerId, Message]) -> None:
        """This broker says this."""
