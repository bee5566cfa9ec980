"""Messages between brokers with advertisement trees that have identifiers (TID)."""

from __future__ import annotations

from shoal.broker.messages import Carrier, Message
from shoal.broker.wire import Vocabulary
from shoal.model import (
    Advertisement,
    AdvertisementId,
    BrokerId,
    Filter,
    Subscription,
    SubscriptionId,
)
from shoal.overlays import graph

# A tree is named by its publisher's host and client, and how often it was made.
TreeId = str


class TreeCopy(Carrier, frozen=True):
    """Publications on their way along these trees; `hops` counts the links travelled so far."""

    hops: int
    trees: tuple[TreeId, ...]


class TreeChange(Message, frozen=True):
    """To all brokers: a publisher's advertisements along its tree have changed.

    The neighbour of the first one about a tree is the way to its root; later ones are valid if they
    come from there, and so behind all earlier publications.

    former   the tree that this one replaces: a reply (`TreeKnown`) is required then
    """

    joins = True

    tree: TreeId
    version: int
    added: tuple[Advertisement, ...] = ()
    removed: tuple[AdvertisementId, ...] = ()
    former: TreeId = ""

    @property
    def brings(self) -> tuple[Filter, ...]:
        return tuple(each.filter for each in self.added)


class TreeKnown(Message, frozen=True):
    """Back along a tree: all behind this broker know it, and have bound their subscriptions to
    it.
    """

    tree: TreeId


class TreesSaid(Message, frozen=True):
    """End marker after a link has come up: all trees are sent that the receiver may not know."""


class Bind(Message, frozen=True):
    """Along a tree to its root: publications of that tree go to this subscription."""

    joins = True

    tree: TreeId
    subscription: Subscription

    @property
    def brings(self) -> tuple[Filter, ...]:
        return (self.subscription.filter,)


class Unbind(Message, frozen=True):
    joins = True

    tree: TreeId
    subscription_id: SubscriptionId


class Renew(Message, frozen=True):
    """To all brokers: a broker's links have changed, trees are to be made anew."""

    broker: BrokerId
    at_us: int


MESSAGES: Vocabulary = (
    TreeCopy,
    TreeChange,
    TreeKnown,
    TreesSaid,
    Bind,
    Unbind,
    Renew,
    *graph.MESSAGES,
)
