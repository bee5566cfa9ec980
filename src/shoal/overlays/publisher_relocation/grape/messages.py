"""What brokers say to each other to trace a publisher's session (relocation paper, 4.1).

Names are the paper's, spelled out: trace information request and answer (TIR, TIA).
"""

from __future__ import annotations

from shoal.broker.messages import Message
from shoal.model import MessageId
from shoal.overlays.publisher_relocation.grape.planner import BrokerTrace


class TraceInformationRequest(Message, frozen=True):
    """Downstream, to every neighbour that was sent a publication of the session."""

    session: MessageId


class TraceInformationAnswer(Message, frozen=True):
    """Upstream: what the sender and all brokers below it know of the session."""

    session: MessageId
    traces: tuple[BrokerTrace, ...]
