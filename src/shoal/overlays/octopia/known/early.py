"""What comes from other clusters before this broker knows what its own wants.

Who starts again is sent at once what its earlier life had not settled, also by hosts that enter its
cluster by it and need not know anything of it to answer it.  Nobody would want it here yet.  So it
waits until the tables of the cluster are known, and what comes behind it over its link, too.
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

# Takes what a neighbour says, as it has come: (neighbour, message, now_us, out).
Receive = Callable[[BrokerId, Message, int, list[Effect]], None]
# What goes over a link as publications do, or in its place among them.
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
    """Whether this is not for one who knows no tables."""
    return isinstance(message, BEHIND) and not message.introduces


class Held(NamedTuple):
    """A message, who sent it, and its key if publications of it are unsettled."""

    neighbour: BrokerId
    message: Message
    key: Key | None


class Early:
    """At one broker; what came first is first."""

    def __init__(self) -> None:
        self._held: list[Held] = []
        self._number = 0

    def __len__(self) -> int:
        """How many messages wait."""
        return len(self._held)

    def hold(self, neighbour: BrokerId, message: Message, out: list[Effect]) -> None:
        """Let a message wait, unsettled if it carries publications."""
        if not isinstance(message, Carrier):
            self._held.append(Held(neighbour, message, None))
            return
        # One by one: as one is let in others may be, under keys of theirs.
        for routed in message.publications:
            self._number += 1
            key = ("early", str(self._number))
            out.append(Unsettled(key))
            self._held.append(Held(neighbour, message.with_publications((routed,)), key))

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
        """A neighbour's link is lost: what came over it goes back to its other end."""
        gone = [each for each in self._held if each.neighbour == neighbour]
        out += [Settled(each.key) for each in gone if each.key is not None]
        self._held = [each for each in self._held if each.neighbour != neighbour]
