"""What finds out where a publisher belongs: it traces publications, asks around, and sends it away.

`Relocation` brings a tracer what it needs to know at one broker, and makes the moves; POP and GRAPE
are one each.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any, Protocol

from shoal.broker.effects import Effect, Measured, TimerKey
from shoal.broker.messages import Message, RoutedPublication
from shoal.broker.strategy import BrokerContext
from shoal.model import BrokerId, ClientId
from shoal.overlays.tree.forwarding import Note

SendAway = Callable[[ClientId, tuple[BrokerId, ...], int, list[Effect]], None]
"""Tells a local publisher to go to the end of a path; the tracer hears `left` of it in any case."""


class Tracer(Protocol):
    """One broker's part in it.

    Its timers' keys are a name and a publisher; the names are its own.
    """

    @property
    def held_bytes(self) -> int:
        """What its structures hold, in bytes as a wire would carry them (5, figure 5e)."""

    def start(self, out: list[Effect]) -> None:
        """The broker starts."""

    # --- publications -------------------------------------------------------------------------

    def mark(
        self, publisher: ClientId, publications: tuple[RoutedPublication, ...], now_us: int
    ) -> tuple[RoutedPublication, ...]:
        """The same publications of a local publisher, with those marked that are to be traced."""

    @property
    def note(self) -> Note:
        """Hears of all that pass the broker, marked or not: the same thing for its whole life."""

    def published(self, publisher: ClientId, now_us: int, out: list[Effect]) -> None:
        """Some of a local publisher's have gone on, and were noted."""

    # --- what others say ----------------------------------------------------------------------

    def receive(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        """A neighbour says what only tracers say.  ProtocolError unless it makes sense."""

    def request(self, client: ClientId, request: Message, now_us: int, out: list[Effect]) -> None:
        """A client says what only tracers hear.  ProtocolError unless it makes sense."""

    def timer(self, key: TimerKey, now_us: int, out: list[Effect]) -> None:
        """A timer of its own fired."""

    def measured(self, measured: Measured) -> None:
        """The monitor reports the broker's recent delays, if it asked to `WatchDelays`."""

    def link(
        self,
        neighbour: BrokerId,
        up: bool,
        publishers: Container[ClientId],
        now_us: int,
        out: list[Effect],
    ) -> None:
        """The link to a neighbour came up or went down; the network has these publishers now."""

    # --- what became of a publisher -----------------------------------------------------------

    def left(self, publisher: ClientId, out: list[Effect]) -> None:
        """It is not here any more, or was sent away and stays: it is like one that is new."""

    def changed(self, publisher: ClientId, out: list[Effect]) -> None:
        """A local one changed what it advertises: what was traced of it is void."""

    def turned(self, publisher: ClientId, out: list[Effect]) -> None:
        """It has turned up in another direction: here, or elsewhere."""

    def gone(self, publisher: ClientId, out: list[Effect]) -> None:
        """One that was elsewhere has left the network."""

    # --- what became of a subscriber ----------------------------------------------------------

    def wants(self, client: ClientId, out: list[Effect]) -> None:
        """A local client changes what it subscribes to."""


TracerFactory = Callable[[BrokerContext, Any, SendAway], Tracer]
"""Builds a tracer at a broker, with its system's parameters."""
