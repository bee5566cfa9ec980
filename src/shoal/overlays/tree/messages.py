"""What brokers of a tree say to each other beside what clients say, too.

When a link has come up they say when all of their tables is said (`exchange.py`).  Of what they say
when one of them leaves (`leaving.py`, `succession.py`) `attempt` is the leaver's number of its
attempt: what belongs to an earlier one is out of date.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from shoal.broker.messages import Message
from shoal.broker.wire import Vocabulary
from shoal.model import AdvertisementId, BrokerId, Subscription, SubscriptionId

# --- tables that are said ---------------------------------------------------------------------


class AdvertisementsSaid(Message, frozen=True):
    """To a neighbour: all advertisements from elsewhere are said, those not said are gone."""

    introduces = True


class SubscriptionsSaid(Message, frozen=True):
    """To a neighbour, who has said its advertisements: so are all subscriptions that follow them.

    It may send publications from now on.
    """

    introduces = True


# --- a broker that leaves ---------------------------------------------------------------------


# In whose place a broker waits for one that is away, and since when; newest first.
Stead = tuple[tuple[BrokerId, int], ...]


class LeavingMessage(Message, frozen=True):
    attempt: int


class Prepare(LeavingMessage, frozen=True):
    """From who leaves: these are to be linked to the centre, be ready for that.

    The centre is asked last, and opens the links.

    absent  who is away, but may have moved in an earlier attempt
    """

    centre: BrokerId
    others: tuple[BrokerId, ...]
    absent: tuple[BrokerId, ...] = ()


class Prepared(LeavingMessage, frozen=True):
    """To who leaves: ready; from the centre, all links are up.

    moved  of the absent, this broker's neighbours
    """

    moved: tuple[BrokerId, ...] = ()


class Refuse(LeavingMessage, frozen=True):
    """To who leaves: not now, or not any more."""


class Stop(LeavingMessage, frozen=True):
    """From who leaves: take nothing in but what comes from me; all before this you have."""

    turn: int


class Stopped(LeavingMessage, frozen=True):
    """To who leaves, behind all that was sent to it."""

    turn: int


class Behind(msgspec.Struct, frozen=True, array_like=True):
    """What lies behind one neighbour of who leaves.

    covered   subscriptions from elsewhere that it wants and lacks, as it has others that cover them
    """

    neighbour: BrokerId
    advertisements: tuple[AdvertisementId, ...]
    subscriptions: tuple[Subscription, ...]
    covered: tuple[SubscriptionId, ...] = ()


class Succeed(LeavingMessage, frozen=True):
    """To the centre: take my place among these.

    moves   how often publishers have moved, by advertisement, as `Turn` has it
    """

    others: tuple[Behind, ...]
    moves: tuple[tuple[AdvertisementId, int], ...] = ()


class Flushed(LeavingMessage, frozen=True):
    """To the others: nothing more comes this way, the centre takes my place."""


class Succeeded(LeavingMessage, frozen=True):
    """From the centre to the others, before all else: it has taken the place; and back.

    at_us  since when the link between the two belongs to the tree, at least; and back, exactly
    """

    at_us: int


class Stayed(LeavingMessage, frozen=True):
    """To the centre, before all else over its link that is anew: these have not moved."""

    brokers: tuple[BrokerId, ...]


class Absent(LeavingMessage, frozen=True):
    """To the last neighbour, before the link to it ends: these are away, wait for them as I did."""

    # Each, and in whose place the leaver waits for it (see `Around.stood_in`).
    steads: Mapping[BrokerId, Stead]


class Abandon(LeavingMessage, frozen=True):
    """From who leaves: all stays as it is."""


MESSAGES: Vocabulary = (
    AdvertisementsSaid,
    SubscriptionsSaid,
    Prepare,
    Prepared,
    Refuse,
    Stop,
    Stopped,
    Succeed,
    Flushed,
    Succeeded,
    Stayed,
    Abandon,
    Absent,
)
