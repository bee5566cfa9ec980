"""Messages between brokers to move a publisher (relocation paper, 3.3).

Names are the paper's, spelled out: migration update and complete (MUM, MCM).
"""

from __future__ import annotations

from shoal.broker.messages import Message
from shoal.broker.wire import Vocabulary
from shoal.model import Advertisement, BrokerId, ClientId, SubscriptionId


class MigrationUpdate(Message, frozen=True):
    """From target to source along the path: the publisher is in the sender's direction from now on.

    `path` leads from source to target. `retracted` are the subscriptions that the sender had
    forwarded to the receiver and that overlap no advertisement in the receiver's direction any
    more; the receiver keeps them until the migration completes, because publications may be in
    transit to them.
    """

    publisher: ClientId
    path: tuple[BrokerId, ...]
    advertisements: tuple[Advertisement, ...]
    retracted: tuple[SubscriptionId, ...]
    moves: int


class MigrationComplete(Message, frozen=True):
    """From source to target along the path, behind the last publication from the source.

    Unless `whole` it comes from where the path was broken, or the move has been overtaken.
    """

    publisher: ClientId
    path: tuple[BrokerId, ...]
    moves: int
    whole: bool


MESSAGES: Vocabulary = (MigrationUpdate, MigrationComplete)
