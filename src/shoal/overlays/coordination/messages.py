"""What brokers say to each other to take the place of one that leaves (`coordinator.py`)."""

from __future__ import annotations

import msgspec

from shoal.broker.messages import Message
from shoal.broker.wire import Vocabulary
from shoal.model import AdvertisementId, BrokerId, Subscription

# The decider, and a number that it uses once.
ChangeKey = tuple[BrokerId, int]


class Change(msgspec.Struct, frozen=True, array_like=True):
    """A broker that leaves, or is dead, is contracted into one of its neighbours.

    decider  the neighbour that decides, and takes the place: the successor
    number   greater than of any change that the decider has begun before
    leaver   the broker that leaves
    others   its other neighbours, each of which is linked to the decider instead
    is_dead  whether an operator has declared it dead: then it takes no part
    linked   those of the others that are linked to the decider already; on a tree, none
    """

    decider: BrokerId
    number: int
    leaver: BrokerId
    others: tuple[BrokerId, ...]
    is_dead: bool = False
    linked: tuple[BrokerId, ...] = ()

    @property
    def key(self) -> ChangeKey:
        return self.decider, self.number

    @property
    def participants(self) -> tuple[BrokerId, ...]:
        """The decider first, then the leaving broker, if it is not dead."""
        leaver = () if self.is_dead else (self.leaver,)
        return self.decider, *leaver, *self.others

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
    """The rows that lie behind one neighbour of the broker that leaves.

    The leaving broker says which these are, or that neighbour itself, if the broker is dead.
    The decider may lack a subscription that nothing on its own side asked for.
    """

    neighbour: BrokerId
    advertisements: tuple[AdvertisementId, ...]
    subscriptions: tuple[Subscription, ...]


class Facts(msgspec.Struct, frozen=True, array_like=True):
    """What the decider must know to turn its tables.

    moves  how often publishers have moved, by advertisement, as far as the leaving broker knows
    """

    sides: tuple[Side, ...] = ()
    moves: tuple[tuple[AdvertisementId, int], ...] = ()


class ChangeMessage(Message, frozen=True):
    """Base of what is said about changes of links; it waits for no tables."""

    introduces = True


class LeaveWanted(ChangeMessage, frozen=True):
    """From a broker that wants to leave, to the neighbour that is to decide."""

    attempt: int
    others: tuple[BrokerId, ...]


class NotNow(ChangeMessage, frozen=True):
    """To a broker that wants to leave: why its change is not made now."""

    attempt: int
    reason: str


class Prepare(ChangeMessage, frozen=True):
    """From the decider: can this broker take part?"""

    change: Change


class Ready(ChangeMessage, frozen=True):
    """To the decider: this broker has voted, and is in doubt until it knows the decision.

    since_us  when it was last settled whether its link to the decider belongs to the overlay
    """

    key: ChangeKey
    since_us: int = 0
    facts: Facts = Facts()


class Refuse(ChangeMessage, frozen=True):
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

    change: Change
    at_us: int


class Installed(ChangeMessage, frozen=True):
    """Answer to a Decide of a change that the sender has installed, and forgotten since."""

    key: ChangeKey


class Query(ChangeMessage, frozen=True):
    """From a broker in doubt, to the decider or the leaving broker: what became of the change?"""

    change: Change


class Flushed(ChangeMessage, frozen=True):
    """From the leaving broker: nothing more comes from here."""

    key: ChangeKey


class Elsewhere(ChangeMessage, frozen=True):
    """From a broker that is out of the overlay: link to its successor instead."""

    successor: BrokerId


MESSAGES: Vocabulary = (
    *(LeaveWanted, NotNow, Prepare, Ready, Refuse, Abort),
    *(Decide, Installed, Query, Flushed, Elsewhere),
)
