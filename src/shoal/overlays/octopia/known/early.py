"""Input from other clusters that waits until this broker knows its own cluster's tables.

A restarted broker gets at once the publications that its earlier incarnation had not settled, also
from hosts that enter its cluster by it and need no tables to be answered. Without tables they would
have no subscriber here. So they wait until the tables of the cluster are known, and so does
everything behind them on their link.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from shoal.broker.effects import Continue, Effect, Key, Settled, Unsettled
from shoal.broker.messages import Carrier, Message
from shoal.model import BrokerId
from shoal.overlays.octopia.messages import (
    CARRIERS,
    EntryLeft,
    NumbersBegin,
    NumbersEnd,
    NumbersOpen,
    Sweep,
    Swept,
    WayCleared,
    WayClosed,
    WayLost,
    WayOpened,
)

# Handles a message of a neighbour: (neighbour, message, now_us, out).
Receive = Callable[[BrokerId, Message, int, list[Effect]], None]
# Messages that go over a link as publications do, or in their order.
BEHIND = (
    *CARRIERS,
    EntryLeft,
    NumbersBegin,
    NumbersEnd,
    NumbersOpen,
    Sweep,
    Swept,
    WayCleared,
    WayClosed,
    WayLost,
    WayOpened,
)


def waits(message: Message) -> bool:
    """Whether this message needs tables."""
    return isinstance(message, BEHIND) and not message.introduces


class HeldPublication(NamedTuple):
    """A message, its sender, and its key if publications of it are unsettled."""

    neighbour: BrokerId
    message: Message
    key: Key | None


class Early:
    """Waiting messages of one broker, first in, first out."""

    def __init__(self) -> None:
        self._held: list[HeldPublication] = []
        self._number = 0

    def __len__(self) -> int:
        """Number of waiting messages."""
        return len(self._held)

    def hold(self, neighbour: BrokerId, message: Message, out: list[Effect]) -> None:
        """Let a message wait, unsettled if it carries publications."""
        if not isinstance(message, Carrier):
            self._held.append(HeldPublication(neighbour, message, None))
            return
        # One by one: when one is released, others may be, under their own keys.
        for routed in message.publications:
            self._number += 1
            key = ("early", str(self._number))
            out.append(Unsettled(key))
            self._held.append(HeldPublication(neighbour, message.with_publications((routed,)), key))

    def let_in(self, receive: Receive, now_us: int, out: list[Effect]) -> None:
        """Nothing more has to wait."""
        held, self._held = self._held, []
        for neighbour, message, key in held:
            out.append(Continue(key))
            receive(neighbour, message, now_us, out)
            if key is not None:
                out.append(Settled(key))
        if held:
            out.append(Continue(None))

    def lost(self, neighbour: BrokerId, out: list[Effect]) -> None:
        """A neighbour's link is lost: its messages are returned to it."""
        gone = [each for each in self._held if each.neighbour == neighbour]
        out += [Settled(each.key) for each in gone if each.key is not None]
        self._held = [each for each in self._held if each.neighbour != neighbour]
