"""Interfaces between a live broker's machine and its surroundings."""

from __future__ import annotations

from typing import Protocol

import msgspec

from shoal.broker.ack_tracker import AckTracker
from shoal.broker.effects import Deliver
from shoal.broker.messages import Message, Publish
from shoal.model import BrokerId
from shoal.runtime.driving.watching import Watched


class NodeClient(Protocol):
    """Destination of a client's deliveries and notices."""

    def deliver(self, delivery: Deliver) -> None: ...

    def notify(self, message: Message) -> None: ...


class NodeLinks(Watched, Protocol):
    """Carries a node's messages to its neighbours."""

    def send(
        self, neighbour: BrokerId, message: Message, ack_tracker: AckTracker | None = None
    ) -> None:
        """Send behind all earlier messages; `ack_tracker` settles once they are settled there.

        WireError when it cannot be written.
        """

    def open(self, neighbour: BrokerId, address: str, *, is_lasting: bool) -> None: ...

    def end(self, neighbour: BrokerId) -> None:
        """For good, once all that is sent over it is settled."""

    def drop(self, neighbour: BrokerId) -> None:
        """Its other end is dead: it has ended for good."""

    def recall(self, neighbour: BrokerId, over: BrokerId | None, *, moves: bool) -> None:
        """Take back messages that a neighbour has not settled, to send them over the link to
        another.
        """

    def reset(self, neighbour: BrokerId) -> None: ...

    def ready(self, neighbour: BrokerId) -> None:
        """Allow publications to a neighbour after its link came up."""

    def go_on(self) -> None:
        """Resume: bring the held input."""


class TraceSink(Protocol):
    """Records events at a node."""

    def published(self, request: Publish) -> None: ...

    def delivered(self, delivery: Deliver, now_us: int) -> None: ...

    def record(self, record: msgspec.Struct) -> None: ...
