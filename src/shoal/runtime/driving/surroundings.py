"""What surrounds a live broker's machine, as far as its node knows it."""

from __future__ import annotations

from typing import Protocol

import msgspec

from shoal.broker.custody import Custody
from shoal.broker.effects import Deliver
from shoal.broker.messages import Message, Publish
from shoal.model import BrokerId
from shoal.runtime.driving.watching import Watched


class Client(Protocol):
    """Where a client's deliveries and notices go."""

    def deliver(self, delivery: Deliver) -> None: ...

    def notify(self, message: Message) -> None: ...


class Links(Watched, Protocol):
    """What carries a node's messages to its neighbours."""

    def send(self, neighbour: BrokerId, message: Message, custody: Custody | None = None) -> None:
        """Behind all sent before, in custody until it is settled there.

        WireError when it cannot be written.
        """

    def open(self, neighbour: BrokerId, address: str, *, is_lasting: bool) -> None: ...

    def end(self, neighbour: BrokerId) -> None:
        """For good, once all that is sent over it is settled."""

    def drop(self, neighbour: BrokerId) -> None:
        """Its other end is dead: it has ended for good."""

    def recall(self, neighbour: BrokerId, over: BrokerId | None, *, moves: bool) -> None:
        """Return what is not settled at a neighbour, to go over the link to another."""

    def reset(self, neighbour: BrokerId) -> None: ...

    def ready(self, neighbour: BrokerId) -> None:
        """Publications may go to a neighbour whose link came up."""

    def go_on(self) -> None:
        """What was held back can be brought."""


class Trace(Protocol):
    """What keeps a record of what happens at a node."""

    def published(self, request: Publish) -> None: ...

    def delivered(self, delivery: Deliver, now_us: int) -> None: ...

    def record(self, record: msgspec.Struct) -> None: ...
