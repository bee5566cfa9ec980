"""What brokers say to each other to trace and to move publishers (relocation paper, 3.3, 4.1).

Names are the paper's, spelled out: trace information request and answer (TIR, TIA), migration
update and complete (MUM, MCM).
"""

from __future__ import annotations

from shoal.broker.messages import Message
from shoal.model import Advertisement, BrokerId, ClientId, MessageId, SubscriptionId
from shoal.overlays.publisher_relocation.planner import BrokerTrace


class TraceInformationRequest(Message, frozen=True):
    """Downstream, to every neighbour that was sent a publication of the session."""

    session: MessageId


class TraceInformationAnswer(Message, frozen=True):
    """Upstream: what the sender and all brokers below it know of the session."""

    session: MessageId
    traces: tuple[BrokerTrace, ...]


class MigrationUpdate(Message, frozen=True):
    """From target to source along the path: the publisher now is in the sender's direction.

    `path` leads from source to target.  `retracted` are the subscriptions that the sender had
    forwarded to the receiver and that no advertisement in the receiver's direction asks for any
    more; the receiver keeps them until the migration completes, because publications may still
    be on their way to them.
    """

    publisher: ClientId
    path: tuple[BrokerId, ...]
    advertisements: tuple[Advertisement, ...]
    retracted: tuple[SubscriptionId, ...]


class MigrationComplete(Message, frozen=True):
    """From source to target along the path, behind the last publication from the source."""

    publisher: ClientId
    path: tuple[BrokerId, ...]
