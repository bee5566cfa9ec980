"""Messages of the two-phase commit by which a broker takes a leaving broker's place."""

from __future__ import annotations

import msgspec

from shoal.broker.messages import Message
from shoal.broker.wire import Vocabulary
from shoal.model import AdvertisementId, BrokerId, Subscription

# The decider, and a number that it uses once.
ChangeKey = tuple[BrokerId, int]


class LinkChange(msgspec.Struct, frozen=True, array_like=True):
    """The contraction of a leaving or dead broker into one of its neighbours.

    decider  the neighbour that decides, and takes the place: the successor
    number   greater than that of any earlier change of this decider
    leaving broker   the broker that leaves
    others   its other neighbours, each of which is linked to the decider instead
    is_dead  whether an operator has declared it dead: then it takes no part
    linked   those of the others that are linked to the decider already; on a tree, none
    """

    decider: BrokerId
    number: int
    leaving_broker: BrokerId
    others: tuple[BrokerId, ...]
    is_dead: bool = False
    linked: tuple[BrokerId, ...] = ()

    @property
    def key(self) -> ChangeKey:
        return self.decider, self.number

    @property
    def participants(self) -> tuple[BrokerId, ...]:
        """The decider first, then the leaving broker, if it is not dead."""
        leaving_broker = () if self.is_dead else (self.leaving_broker,)
        return self.decider, *leaving_broker, *self.others

    @property
    def opens(self) -> tuple[BrokerId, ...]:
        """The others to which the decider opens a link."""
        return tuple(each for each in self.others if each not in self.linked)

    def new_links(self, broker: BrokerId) -> tuple[BrokerId, ...]:
        """The other ends of the new links of a participant."""
        if broker == self.decider:
            return self.opens
        return (self.decider,) if broker in self.opens else ()


class Side(msgspec.Struct, frozen=True, array_like=True):
    """The rows that lie behind one neighbour of the leaving broker.

    The leaving broker sends them, or that neighbour itself, if the broker is dead. The decider may
    lack a subscription that no advertisement on its own side overlaps.
    """

    neighbour: BrokerId
    advertisements: tuple[AdvertisementId, ...]
    subscriptions: tuple[Subscription, ...]


class Facts(msgspec.Struct, frozen=True, array_like=True):
    """Facts that the decider needs to turn its tables.

    moves  number of moves of each publisher, by advertisement, as the leaving broker knows them
    """

    sides: tuple[Side, ...] = ()
    moves: tuple[tuple[AdvertisementId, int], ...] = ()


class ChangeMessage(Message, frozen=True):
    """Base of the messages about link changes; they may precede the synchronisation of tables."""

    introduces = True


class LeaveWanted(ChangeMessage, frozen=True):
    """From a broker that wants to leave, to the neighbour that is to decide."""

    attempt: int
    others: tuple[BrokerId, ...]


class NotNow(ChangeMessage, frozen=True):
    """To a broker that wants to leave: the reason why the decider has not made the change."""

    attempt: int
    reason: str


class Prepare(ChangeMessage, frozen=True):
    """From the decider: a request for this broker's vote."""

    change: LinkChange


class Ready(ChangeMessage, frozen=True):
    """To the decider: this broker has voted, and is in doubt until it knows the decision.

    since_us  when it was last decided whether its link to the decider belongs to the overlay
    """

    key: ChangeKey
    since_us: int = 0
    facts: Facts = Facts()


class RefuseChange(ChangeMessage, frozen=True):
    """To the decider: this broker cannot take part now, or is not linked to the dead broker."""

    key: ChangeKey
    reason: str
    is_linked: bool = True


class Abort(ChangeMessage, frozen=True):
    """The change is not made, and never will be."""

    key: ChangeKey


class Decide(ChangeMessage, frozen=True):
    """The sender has installed the change: it is decided; first of all that follows from it.

    at_us  since when the new links belong to the overlay
    """

    change: LinkChange
    at_us: int


class Installed(ChangeMessage, frozen=True):
    """Answer to a Decide about a change that the sender has installed and forgotten."""

    key: ChangeKey


class Query(ChangeMessage, frozen=True):
    """From a broker in doubt, to the decider or the leaving broker: a request for the decision."""

    change: LinkChange


class Flushed(ChangeMessage, frozen=True):
    """From the leaving broker: it sends nothing more."""

    key: ChangeKey


class GoElsewhere(ChangeMessage, frozen=True):
    """From a broker that is out of the overlay: link to its successor instead."""

    successor: BrokerId


MESSAGES: Vocabulary = (
    *(LeaveWanted, NotNow, Prepare, Ready, RefuseChange, Abort),
    *(Decide, Installed, Query, Flushed, GoElsewhere),
)
