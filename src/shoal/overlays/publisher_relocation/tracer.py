"""Interface of tracers, which find a publisher's best broker, and send it there.

`Relocation` passes a tracer the events of one broker, and makes the moves; POP and GRAPE are one
each.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any, Protocol

from shoal.broker.effects import Effect, MeasuredDelays, TimerKey
from shoal.broker.messages import Message, RoutedPublication
from shoal.broker.strategy import BrokerContext
from shoal.model import BrokerId, ClientId
from shoal.overlays.tree.forwarding import Note

SendAway = Callable[[ClientId, tuple[BrokerId, ...], int, list[Effect]], None]
"""Requests a local publisher to move to the end of a path; `left` follows in any case."""


class Tracer(Protocol):
    """One broker's part in it.

    Its timers' keys are a name and a publisher; the names are its own.
    """

    @property
    def held_bytes(self) -> int:
        """Size of its structures, in bytes as a wire would carry them (5, figure 5e)."""

    def start(self, out: list[Effect]) -> None:
        """The broker starts."""

    # --- publications -------------------------------------------------------------------------

    def mark(
        self, publisher: ClientId, publications: tuple[RoutedPublication, ...], now_us: int
    ) -> tuple[RoutedPublication, ...]:
        """The same publications of a local publisher, with those marked that are to be traced."""

    @property
    def note(self) -> Note:
        """Callback for all publications of the broker, marked or not.

        The same one for the tracer's lifetime.
        """

    @property
    def only_notes(self) -> bool:
        """Whether `note` has no effects, and reads of a route its neighbours and the number of its
        clients: then it may be called late, but before the broker's next input.
        """

    def published(self, publisher: ClientId, now_us: int, out: list[Effect]) -> None:
        """Some publications of a local publisher were forwarded, and noted."""

    # --- messages and requests ----------------------------------------------------------------

    def receive(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        """Handle a neighbour's message to tracers.  ProtocolError for an invalid one."""

    def request(self, client: ClientId, request: Message, now_us: int, out: list[Effect]) -> None:
        """Handle a client's request to tracers.  ProtocolError for an invalid one."""

    def timer(self, key: TimerKey, now_us: int, out: list[Effect]) -> None:
        """A timer of its own fired."""

    def measured(self, measured: MeasuredDelays) -> None:
        """The monitor reports the broker's recent delays, if it got `WatchDelays`."""

    def link(
        self,
        neighbour: BrokerId,
        up: bool,
        publishers: Container[ClientId],
        now_us: int,
        out: list[Effect],
    ) -> None:
        """The link to a neighbour came up or went down; the network has these publishers now."""

    # --- events of publishers -----------------------------------------------------------------

    def left(self, publisher: ClientId, out: list[Effect]) -> None:
        """It is not here any more, or was sent away and stays: it counts as a new one."""

    def changed(self, publisher: ClientId, out: list[Effect]) -> None:
        """A local one changed its advertisements: its traces are void."""

    def turned(self, publisher: ClientId, out: list[Effect]) -> None:
        """It has turned up in another direction: here, or elsewhere."""

    def gone(self, publisher: ClientId, out: list[Effect]) -> None:
        """One that was elsewhere has left the network."""

    # --- events of subscribers ----------------------------------------------------------------

    def wants(self, client: ClientId, out: list[Effect]) -> None:
        """A local client changes its subscriptions."""


TracerFactory = Callable[[BrokerContext, Any, SendAway], Tracer]
"""Builds a tracer at a broker, with its system's parameters."""
