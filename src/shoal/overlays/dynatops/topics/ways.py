"""The paths of a view, seen from one broker: messages go hop by hop, and never over a broken link.

Messages from one broker to another take one path in a view, so none is overtaken, and nothing
follows a message that was lost with a link. Messages of a view that has not begun here yet are
kept, also before the first one, for brokers that start slowly; messages of a past view are dropped:
their senders repeat them in the next.
"""

from __future__ import annotations

from collections.abc import Iterable

from shoal.broker.effects import Effect, Send
from shoal.broker.messages import Message
from shoal.model import BrokerId
from shoal.overlays.dynatops.members.membership import ViewMembership
from shoal.overlays.dynatops.messages import (
    OfView,
    RowsHandedOver,
    RowsWanted,
    ToHomes,
    TopicInterest,
)


class Ways:
    """At one broker."""

    def __init__(self, membership: ViewMembership) -> None:
        self._membership = membership
        # Messages that wait for a link that is to come up, and for a view that is to begin.
        self._queued: dict[BrokerId, list[Message]] = {}
        self._early: list[OfView] = []
        self.has_begun = False

    def __len__(self) -> int:
        """Number of waiting messages."""
        return len(self._early) + sum(map(len, self._queued.values()))

    @property
    def hops_awaited(self) -> list[BrokerId]:
        """The brokers that something waits for a link with."""
        return sorted(self._queued)

    # --- sending ------------------------------------------------------------------------------

    def send(self, target: BrokerId, message: Message, out: list[Effect]) -> None:
        """One hop towards another member."""
        places = self._membership.places
        assert places is not None
        self.put(places.next_hop(self._membership.broker, target), message, out)

    def answer(self, target: BrokerId, message: Message, out: list[Effect]) -> None:
        """The same for messages that may overtake: directly if there is a link."""
        if self._membership.links.may_send(target):
            out.append(Send(target, message))
        else:
            self.send(target, message, out)

    def spread(
        self, message: TopicInterest, targets: tuple[BrokerId, ...], out: list[Effect]
    ) -> None:
        """One hop towards all of these, which are others."""
        for hop, behind in self.hops(targets):
            self.put(hop, _for(message, behind), out)

    def spread_question(
        self, message: RowsWanted, targets: tuple[BrokerId, ...], out: list[Effect]
    ) -> None:
        """The same of a question to all."""
        for hop, behind in self.hops(targets):
            self._membership.spend(1)
            self.put(hop, RowsWanted(message.age, message.broker, behind), out)

    def hand_over(self, message: RowsHandedOver, out: list[Effect]) -> None:
        """One hop towards the broker that takes the rows."""
        self._membership.spend(1)
        self.send(message.target, message, out)

    def spread_publications(
        self, message: ToHomes, targets: tuple[BrokerId, ...], out: list[Effect]
    ) -> None:
        """The same of publications."""
        for hop, behind in self.hops(targets):
            self.put(hop, _copies(message, behind), out)

    def hops(self, targets: Iterable[BrokerId]) -> list[tuple[BrokerId, tuple[BrokerId, ...]]]:
        places, broker = self._membership.places, self._membership.broker
        assert places is not None
        found = places.hops(broker, targets)
        return [(hop, tuple(behind)) for hop, behind in found.items()]

    def put(self, hop: BrokerId, message: Message, out: list[Effect]) -> None:
        """Over a link that there is, or is to be."""
        links = self._membership.links
        if hop in links.broken:
            return
        if links.may_send(hop):
            out.append(Send(hop, message))
        else:
            self._queued.setdefault(hop, []).append(message)

    def linked(self, neighbour: BrokerId, out: list[Effect]) -> None:
        """A link may be used: send the messages that wait for it; drop those for a broken one."""
        links = self._membership.links
        if neighbour in links.broken:
            self._queued.pop(neighbour, None)
        elif links.may_send(neighbour):
            out.extend(Send(neighbour, each) for each in self._queued.pop(neighbour, ()))

    # --- receiving ----------------------------------------------------------------------------

    def is_due(self, message: OfView) -> bool:
        """Whether the message belongs to the present view; an early one is kept."""
        view = self._membership.view
        if view is None or not self.has_begun or message.age > view.age:
            self._early.append(message)
            return False
        return message.age == view.age

    def begin(self) -> list[OfView]:
        """A view has begun: drop waiting messages of the last one, handle early ones of this
        one.
        """
        self.has_begun = True
        self._queued.clear()
        early, self._early = self._early, []
        return [message for message in early if self.is_due(message)]


def _for(message: TopicInterest, targets: tuple[BrokerId, ...]) -> TopicInterest:
    return TopicInterest(
        message.age,
        message.home,
        targets,
        message.number,
        message.added,
        message.removed,
        message.is_all,
        message.asks,
    )


def _copies(message: ToHomes, targets: tuple[BrokerId, ...]) -> ToHomes:
    return ToHomes(
        message.publications,
        message.age,
        message.entry,
        message.life,
        message.total,
        message.hops + 1,
        message.first_view,
        targets,
        message.in_turn,
    )
