"""Acknowledgements that wait until publications are settled (see `incoming`)."""

from __future__ import annotations

from typing import Protocol

from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.messages import PublishedMessage


class PendingAnswers(Protocol):
    """Sends the acknowledgements of one client."""

    def settled(self, owed: OwedAck) -> None:
        """Handle the settling of the publication."""

    def note(self, owed: OwedAck) -> None:
        """Record the chosen brokers of the publication again."""


class OwedAck:
    """A PUBACK or PUBREC that waits, on the connection of `incoming`.

    `message` is the publication, if the journal has it.
    """

    __slots__ = ("code", "incoming", "is_settled", "message", "packet_id", "qos", "topic")

    def __init__(
        self, incoming: PendingAnswers, qos: int, packet_id: int, code: ReasonCode, topic: str
    ) -> None:
        self.incoming = incoming
        self.qos = qos
        self.packet_id = packet_id
        self.code = code
        self.topic = topic
        self.is_settled = False
        self.message: PublishedMessage | None = None
