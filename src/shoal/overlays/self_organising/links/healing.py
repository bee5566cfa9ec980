"""Healing: a broker replaces a lost neighbour by a link to one of that neighbour's neighbours.

Broadcasts contain the links of their path, so a broker knows its neighbours' neighbours. When a
link of the tree has been down for `HEAL_US` the broker asks them in turn, over a temporary link, in
the order of their names. The new link replaces the one that is down in the tree; a greeting informs
the lost broker if it comes back later (`overlay.py`).

| asked broker | action |
| --- | --- |
| is linked to the lost one | asks it, and agrees if it does |
| has lost it, too | agrees if it comes first by name, else it will ask itself |
| has lost it and moved | the same |
| exchanges links, or does not know it | declines: the next is asked, and all again later |

Both were neighbours of the lost broker, and it is not between them: so they are in different parts
of the tree, and their link closes no cycle. The lost broker, if it is alive, agrees unless it has
moved itself, or has begun to and comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from shoal.broker.effects import CancelTimer, Effect, EndLink, OpenLink, Send, SetTimer
from shoal.broker.messages import Message
from shoal.broker.wire import Vocabulary
from shoal.model import BrokerId

# Time for which a link is down before it is replaced, and between two attempts.
HEAL_US = 10_000_000
HEAL = "heal"


class HealingMessage(Message, frozen=True):
    """`lost` is the broker that another replaces."""

    introduces = True

    lost: BrokerId


class Orphaned(HealingMessage, frozen=True):
    """To a neighbour of the lost one: may I be linked to you?"""


class Vouch(HealingMessage, frozen=True):
    """To the lost one, which is not: may `orphan` be linked to me instead?"""

    orphan: BrokerId


class Vouched(HealingMessage, frozen=True):
    """Answer: whether the lost broker agrees, and since when the old link is out of the tree."""

    orphan: BrokerId
    agrees: bool
    at_us: int


class AdoptionAccepted(HealingMessage, frozen=True):
    """To the asking broker: the link belongs to the tree from now on."""

    at_us: int


class AdoptionDeclined(HealingMessage, frozen=True):
    """To the asking broker: a refusal, for now or in general."""


HEALING: Vocabulary = (Orphaned, Vouch, Vouched, AdoptionAccepted, AdoptionDeclined)


class HealingHost(Protocol):
    """The broker that heals its links."""

    @property
    def exchanging(self) -> str:
        """Why its links must stay as they are now."""

    def is_up(self, neighbour: BrokerId) -> bool: ...

    def is_neighbour(self, neighbour: BrokerId) -> bool:
        """Whether there is a link of the tree, as far as is known."""

    def since_us(self, neighbour: BrokerId) -> int:
        """When it was last settled whether the link belongs to the tree."""

    def put_in(self, neighbour: BrokerId, at_us: int, now_us: int, out: list[Effect]) -> None:
        """The link belongs to the tree."""

    def put_out(self, neighbour: BrokerId, at_us: int, now_us: int, out: list[Effect]) -> None:
        """It does not."""


class _Loss:
    """A lost neighbour: the brokers still to be asked in this round, and the one asked."""

    def __init__(self) -> None:
        self.left: list[BrokerId] = []
        self.asked: BrokerId | None = None
        # Whether a broker was asked in any round.
        self.has_asked = False


class Healing:
    """One broker's part; `may_link` is the operator's permission for a link."""

    def __init__(
        self, broker: BrokerId, host: HealingHost, may_link: Callable[[BrokerId], bool] | None
    ) -> None:
        self._broker = broker
        self._host = host
        self._may_link = may_link
        # The neighbours of each neighbour.
        self._behind: dict[BrokerId, dict[BrokerId, None]] = {}
        self._losses: dict[BrokerId, _Loss] = {}
        # Neighbours that this broker has left as they were lost.
        self._moved: dict[BrokerId, None] = {}

    # --- places of brokers --------------------------------------------------------------------

    def on_broadcast(self, way: Sequence[BrokerId]) -> None:
        """A broadcast came over these brokers, the last of which is a neighbour."""
        for others in self._behind.values():
            others.pop(way[0], None)
        if len(way) == 2:
            self._behind.setdefault(way[1], {})[way[0]] = None
        self._moved.pop(way[0], None)

    # --- links --------------------------------------------------------------------------------

    def lost(self, neighbour: BrokerId, now_us: int, out: list[Effect]) -> None:
        """A link of the tree is down."""
        if self._may_link is not None and neighbour not in self._losses:
            self._losses[neighbour] = _Loss()
            out.append(SetTimer((HEAL, neighbour), now_us + HEAL_US))

    def found(self, neighbour: BrokerId, out: list[Effect]) -> None:
        """It is a link of the tree's again, or will never be."""
        self._moved.pop(neighbour, None)
        loss = self._losses.pop(neighbour, None)
        if loss is not None:
            out.append(CancelTimer((HEAL, neighbour)))
            self._release(loss, out)

    def parted(self, neighbour: BrokerId, out: list[Effect]) -> None:
        """The other end has removed the link from the tree, as there are others in its place.

        Ignored if that end has only agreed that another adopts this broker, which may be pending.
        """
        loss = self._losses.get(neighbour)
        if loss is not None and not loss.has_asked:
            self.found(neighbour, out)

    def linked(self, neighbour: BrokerId, out: list[Effect]) -> bool:
        """A link is up; returns whether this broker has asked for it."""
        lost = self._asked_for(neighbour)
        if lost is not None:
            out.append(Send(neighbour, Orphaned(lost)))
        return lost is not None

    def unlinked(self, neighbour: BrokerId, out: list[Effect]) -> None:
        """A link is down, or did not come up."""
        lost = self._asked_for(neighbour)
        if lost is not None:
            self._losses[lost].asked = None
            self._ask_next(lost, out)

    def timer(self, lost: BrokerId, now_us: int, out: list[Effect]) -> None:
        """The link is still down: ask all brokers behind it."""
        loss, may_link = self._losses.get(lost), self._may_link
        if loss is None or may_link is None:
            return
        out.append(SetTimer((HEAL, lost), now_us + HEAL_US))
        if self._host.exchanging:
            return
        self._release(loss, out)
        loss.left = [
            each
            for each in sorted(self._behind.get(lost, ()))
            if may_link(each) and not self._host.is_neighbour(each)
        ]
        self._ask_next(lost, out)

    def _asked_for(self, neighbour: BrokerId) -> BrokerId | None:
        return next((lost for lost, row in self._losses.items() if row.asked == neighbour), None)

    def _ask_next(self, lost: BrokerId, out: list[Effect]) -> None:
        loss = self._losses[lost]
        if loss.left:
            loss.asked, loss.has_asked = loss.left.pop(0), True
            if self._host.is_up(loss.asked):
                out.append(Send(loss.asked, Orphaned(lost)))
            else:
                out.append(OpenLink(loss.asked))

    def _release(self, loss: _Loss, out: list[Effect]) -> None:
        asked, loss.asked = loss.asked, None
        if asked is not None and not self._host.is_neighbour(asked):
            out.append(EndLink(asked))

    # --- messages -----------------------------------------------------------------------------

    def receive(
        self, neighbour: BrokerId, message: HealingMessage, now_us: int, out: list[Effect]
    ) -> None:
        lost = message.lost
        match message:
            case Orphaned():
                self._orphaned(neighbour, lost, now_us, out)
            case Vouch(_, orphan) if lost == self._broker:
                self._vouch(neighbour, orphan, now_us, out)
            case Vouched(_, orphan, agrees, at_us) if neighbour == lost:
                if agrees and self._is_free_for(orphan):
                    self._adopt(orphan, lost, at_us, now_us, out)
                else:
                    out.append(Send(orphan, AdoptionDeclined(lost)))
            case AdoptionAccepted(_, at_us):
                self._adopted(neighbour, lost, at_us, now_us, out)
            case AdoptionDeclined() if self._asked_for(neighbour) == lost:
                self._release(self._losses[lost], out)
                self._ask_next(lost, out)

    def _is_free_for(self, orphan: BrokerId) -> bool:
        host, may_link = self._host, self._may_link
        if may_link is None or host.exchanging or host.is_neighbour(orphan):
            return False
        return host.is_up(orphan) and may_link(orphan)

    def _orphaned(self, orphan: BrokerId, lost: BrokerId, now_us: int, out: list[Effect]) -> None:
        if not self._is_free_for(orphan):
            out.append(Send(orphan, AdoptionDeclined(lost)))
        elif self._host.is_neighbour(lost) and self._host.is_up(lost):
            out.append(Send(lost, Vouch(lost, orphan)))
        elif (lost in self._losses or lost in self._moved) and self._broker < orphan:
            self._adopt(orphan, lost, now_us, now_us, out)
        else:
            out.append(Send(orphan, AdoptionDeclined(lost)))

    def _vouch(self, neighbour: BrokerId, orphan: BrokerId, now_us: int, out: list[Effect]) -> None:
        """The orphan takes this broker for dead, but it is alive."""
        loss, host = self._losses.get(orphan), self._host
        asks = loss is not None and loss.asked is not None and self._broker < orphan
        has_moved = orphan in self._moved
        agrees = not (asks or has_moved or host.is_up(orphan) or host.exchanging)
        at_us = 0
        if agrees:
            at_us = max(now_us, host.since_us(orphan) + 1)
            host.put_out(orphan, at_us, now_us, out)
            self.found(orphan, out)
        out.append(Send(neighbour, Vouched(self._broker, orphan, agrees, at_us)))

    def _adopt(
        self, orphan: BrokerId, lost: BrokerId, at_us: int, now_us: int, out: list[Effect]
    ) -> None:
        at_us = max(at_us, self._host.since_us(orphan) + 1)
        out.append(Send(orphan, AdoptionAccepted(lost, at_us)))
        self._host.put_in(orphan, at_us, now_us, out)

    def _adopted(
        self, parent: BrokerId, lost: BrokerId, at_us: int, now_us: int, out: list[Effect]
    ) -> None:
        host = self._host
        if self._asked_for(parent) != lost:
            # The lost one has come back, or another has been faster.
            host.put_out(parent, at_us + 1, now_us, out)
            return
        self._losses[lost].asked = None
        self.found(lost, out)
        self._moved[lost] = None
        host.put_out(lost, max(at_us, host.since_us(lost) + 1), now_us, out)
        host.put_in(parent, max(at_us, host.since_us(parent) + 1), now_us, out)
