"""Messages along the path of a move, from source to target (`reserved_paths`)."""

from __future__ import annotations

from shoal.broker.messages import Message
from shoal.broker.wire import Vocabulary
from shoal.model import ClientId
from shoal.overlays.publisher_relocation.paths import Path


class PathMessage(Message, frozen=True):
    """Base of messages along the path of a move, from source to target."""

    publisher: ClientId
    path: Path


class Reserve(PathMessage, frozen=True):
    """Towards the target: the publisher is to move over this path."""


class Reserved(PathMessage, frozen=True):
    """Back from the target: it may."""


class Unreserve(PathMessage, frozen=True):
    """Either way: it will not."""


MESSAGES: Vocabulary = (Reserve, Reserved, Unreserve)
