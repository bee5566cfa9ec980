"""What brokers say to each other where advertisement trees have identifiers (TID)."""

from __future__ import annotations

from shoal.broker.messages import Carrier, Message
from shoal.model import Advertisement, AdvertisementId, BrokerId, Subscription, SubscriptionId

# A tree is named by its publisher's host and client, and how often it was made.
TreeId = str


class TreeCopy(Carrier, frozen=True):
    """Publications on their way along these trees; `hops` counts the links travelled so far."""

    hops: int
    trees: tuple[TreeId, ...]


class TreeBack(Carrier, frozen=True):
    """Copies that could not go on along a tree, on their way back to its root."""

    hops: int
    tree: TreeId


class TreeChange(Message, frozen=True):
    """To everybody: what a publisher advertises along its tree has changed.

    The first that comes of a tree says where the tree leads; one whose version is known is dropped.
    With `is_asked` it is answered (`TreeBound`), as the tree takes the place of another.
    """

    tree: TreeId
    version: int
    added: tuple[Advertisement, ...] = ()
    removed: tuple[AdvertisementId, ...] = ()
    is_asked: bool = False


class TreeBound(Message, frozen=True):
    """To whom a tree first came from: all who are behind this broker are bound to it."""

    tree: TreeId


class Flush(Message, frozen=True):
    """Along a tree, behind all its copies: is what was before it through, or on its way back?"""

    tree: TreeId


class Flushed(Message, frozen=True):
    """To whom the flush came from: it is, behind this broker."""

    tree: TreeId


class Bind(Message, frozen=True):
    """Along a tree to its root: publications of that tree go to this subscription."""

    tree: TreeId
    subscription: Subscription


class Unbind(Message, frozen=True):
    tree: TreeId
    subscription_id: SubscriptionId


class Renew(Message, frozen=True):
    """To everybody: a broker's links have changed, trees are to be made anew."""

    broker: BrokerId
    at_us: int


MESSAGES: tuple[type[Message], ...] = (
    TreeCopy,
    TreeBack,
    TreeChange,
    TreeBound,
    Flush,
    Flushed,
    Bind,
    Unbind,
    Renew,
)
