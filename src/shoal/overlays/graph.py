"""The base of a system with cycles in its overlay: its links, and a broker's leave.

A leaving broker is contracted into one of its neighbours, as on a tree (`overlays/coordination`).
Cycles are allowed here, so less is to be done:

| on a tree | here |
| --- | --- |
| each of the others gets a new link | those that are linked to the decider keep that (`linked`) |
| tables turn as the change is installed | nothing turns: the new links come up as any others do |
| the leaving broker is out at once | it routes until it is drained, and sends `Flushed` then |

A system derives from `GraphStrategy`, and defines `on_link` and `on_message` in the place of `link`
and `receive`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection

from shoal.broker.effects import (
    DropLink,
    Effect,
    EndLink,
    LinkChanged,
    LinkState,
    OpenLink,
    Remember,
    Started,
    TimerKey,
)
from shoal.broker.messages import Message
from shoal.broker.strategy import BrokerContext, ProtocolError
from shoal.model import BrokerId
from shoal.overlays.coordination.coordinator import Coordinator
from shoal.overlays.coordination.host import CHANGE_TIMERS, CHANGES, Deferred
from shoal.overlays.coordination.messages import MESSAGES, ChangeMessage, Facts, Flushed, LinkChange
from shoal.overlays.coordination.strategy import CoordinatedStrategy


class GraphStrategy(CoordinatedStrategy, ABC):
    """One broker of any connected graph (`host.Host`).

    `stops`: whether it quiesces while links change. A system must if it drops copies by earlier
    ones that have passed it: otherwise a publication over a new link would count as behind all
    earlier ones, and these would be lost, or late. A system that tracks publications in transit
    need not.
    """

    stops = True

    def __init__(self, context: BrokerContext) -> None:
        self.broker = context.broker
        self.changes = Coordinator(context.broker, context.random, self)
        self._neighbours = dict.fromkeys(sorted(context.neighbours))
        self._away = dict.fromkeys(context.expected)
        # All links that are up, of the overlay or not.
        self._up = set(context.neighbours)

    # --- operations of a system ---------------------------------------------------------------

    @abstractmethod
    def on_link(
        self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]
    ) -> None:
        """A link of the overlay came up, failed or ended, and `_neighbours` have changed with it.

        One that comes up may have been up before: its other end knows nothing.
        """

    @abstractmethod
    def on_message(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        """Handle a neighbour's message.

        ProtocolError for one that is invalid from that neighbour.
        """

    @property
    @abstractmethod
    def has_clients(self) -> bool:
        """Whether any client publishes or subscribes here: then this broker does not leave yet."""

    def expect(self, neighbour: BrokerId, now_us: int, out: list[Effect]) -> None:
        """A link to this broker is to come up."""

    def dismiss(self, neighbour: BrokerId, now_us: int, out: list[Effect]) -> None:
        """No link to this broker comes up any more."""

    def send_held(self, out: list[Effect]) -> None:
        """Nothing to do: only trees hold publications for links."""

    def is_drained(self, out: list[Effect]) -> bool:
        """This broker leaves, and its neighbours have their links: whether no path needs it any
        more.

        When that may change, the system calls `changes.drain`.
        """
        return True

    # --- inputs -------------------------------------------------------------------------------

    def start(self, started: Started, now_us: int, out: list[Effect]) -> None:
        self.changes.start(started.facts.get(CHANGES, {}), now_us, out)

    def timer(self, key: TimerKey, now_us: int, out: list[Effect]) -> None:
        if key in CHANGE_TIMERS:
            self.changes.timer(key, now_us, out)

    def receive(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        """A broker that is out of the overlay may still send; its messages are ignored."""
        if neighbour in self._neighbours and not isinstance(message, ChangeMessage):
            self.on_message(neighbour, message, now_us, out)
        elif neighbour not in self._up:
            raise ProtocolError(f"{neighbour} is not a neighbour of {self.broker}")
        elif isinstance(message, ChangeMessage):
            self.changes.receive(neighbour, message, now_us, out)
            if isinstance(message, Flushed):
                self._remove_neighbour(neighbour, LinkState.ENDED, now_us, out)

    def link(self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]) -> None:
        if state is not LinkState.UP:
            self._lose_neighbour(neighbour, state, now_us, out)
            self.changes.link(neighbour, state, now_us, out)
            return
        self._up.add(neighbour)
        if self.changes.is_out or self.changes.has_left(neighbour):
            # It is up anew, and empty, and does not belong to the overlay any more.
            self._remove_neighbour(neighbour, LinkState.FAILED, now_us, out)
        is_taken = self.changes.link(neighbour, state, now_us, out)
        if self.changes.is_out:
            self.changes.flush(neighbour, out)
        if not is_taken:
            self._add_neighbour(neighbour, now_us, out)

    def passing_link(
        self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]
    ) -> None:
        """Only a change of links can make it one of the overlay's."""
        if state is LinkState.UP:
            self._up.add(neighbour)
            self.changes.opened(neighbour, now_us, out)
        else:
            self._lose_neighbour(neighbour, state, now_us, out)
            self.changes.failed(neighbour, now_us, out)

    def departed(self, broker: BrokerId, now_us: int, out: list[Effect]) -> None:
        self._away.pop(broker, None)
        self.dismiss(broker, now_us, out)
        self.changes.departed(broker, out)

    def succeeded(
        self, broker: BrokerId, successor: BrokerId, now_us: int, out: list[Effect]
    ) -> None:
        """If it was a neighbour, link to its successor."""
        if broker in self._neighbours or broker in self._away:
            self.go_elsewhere(broker, successor, now_us, out)
        self.departed(broker, now_us, out)

    # --- links of the overlay -----------------------------------------------------------------

    def _add_neighbour(self, neighbour: BrokerId, now_us: int, out: list[Effect]) -> None:
        self._away.pop(neighbour, None)
        self._neighbours[neighbour] = None
        self.on_link(neighbour, LinkState.UP, now_us, out)

    def _lose_neighbour(
        self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]
    ) -> None:
        """A neighbour with a failed link becomes one again when it reconnects."""
        self._up.discard(neighbour)
        is_one = neighbour in self._neighbours or neighbour in self._away
        self._remove_neighbour(neighbour, state, now_us, out)
        if is_one and state is LinkState.FAILED and not self.changes.has_left(neighbour):
            self._away[neighbour] = None

    def _remove_neighbour(
        self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]
    ) -> None:
        if neighbour in self._neighbours or neighbour in self._away:
            self._neighbours.pop(neighbour, None)
            self._away.pop(neighbour, None)
            self.on_link(neighbour, state, now_us, out)

    def _adopt_neighbour(self, neighbour: BrokerId, now_us: int, out: list[Effect]) -> None:
        """The link to this broker belongs to the overlay from now on, and lasts."""
        out.append(OpenLink(neighbour, is_lasting=True))
        if neighbour in self._up:
            self._add_neighbour(neighbour, now_us, out)
        else:
            self._away[neighbour] = None
            self.expect(neighbour, now_us, out)

    # --- changes of links (`host.Host`) ------------------------------------------------

    @property
    def neighbours(self) -> Collection[BrokerId]:
        return sorted(self._neighbours)

    @property
    def away(self) -> Collection[BrokerId]:
        return self._away

    def is_connected(self, broker: BrokerId) -> bool:
        return broker in self._up

    def obstacle_to(self, leaving_broker: BrokerId, *, is_dead: bool = False) -> str:
        """No tables turn, so neighbours need not be synchronised for that."""
        return "it has clients" if leaving_broker == self.broker and self.has_clients else ""

    def obstacle_to_link(self, broker: BrokerId) -> str:
        return f"its link to {broker} is down" if broker in self._away else ""

    def since_us(self, neighbour: BrokerId) -> int:
        """0: links belong to the overlay independently of any time."""
        return 0

    def facts(self, change: LinkChange) -> Facts:
        return Facts()

    def succeed(
        self, change: LinkChange, facts: Facts, at_us: int, now_us: int, out: list[Effect]
    ) -> None:
        self.follow(change, at_us, now_us, out)

    def follow(self, change: LinkChange, at_us: int, now_us: int, out: list[Effect]) -> None:
        if change.is_dead:
            self._remove_neighbour(change.leaving_broker, LinkState.ENDED, now_us, out)
        self._away.pop(change.leaving_broker, None)
        for each in change.new_links(self.broker):
            self._adopt_neighbour(each, now_us, out)

    def part(self, change: LinkChange, at_us: int, now_us: int, out: list[Effect]) -> None:
        """It stays a member until it is drained."""

    def restore(self, change: LinkChange, at_us: int, now_us: int, out: list[Effect]) -> None:
        self._away.pop(change.leaving_broker, None)
        self.dismiss(change.leaving_broker, now_us, out)
        if change.is_dead:
            out.append(DropLink(change.leaving_broker))
        for each in change.new_links(self.broker):
            self._adopt_neighbour(each, now_us, out)

    def go_elsewhere(
        self, leaving_broker: BrokerId, successor: BrokerId, now_us: int, out: list[Effect]
    ) -> None:
        self._remove_neighbour(leaving_broker, LinkState.ENDED, now_us, out)
        if successor not in (self.broker, *self._neighbours):
            self._adopt_neighbour(successor, now_us, out)
        out.append(EndLink(leaving_broker))

    def resume(self, what: Deferred, now_us: int, out: list[Effect]) -> None:
        """Lost links were handled at once; links that came up may be lost since."""
        if isinstance(what, LinkChanged) and what.up and what.neighbour in self._up:
            self._add_neighbour(what.neighbour, now_us, out)

    def record(self, out: list[Effect]) -> None:
        out.append(Remember({CHANGES: self.changes.facts}))


__all__ = ("MESSAGES", "GraphStrategy")
