"""Answers to clients' publications that wait until these are settled (see `incoming`)."""

from __future__ import annotations

from typing import Protocol

from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.messages import Message


class Answering(Protocol):
    """Whose client waits for an answer."""

    def settled(self, owed: Owed) -> None:
        """The publication is settled."""

    def note(self, owed: Owed) -> None:
        """What is known of the publication has changed: it is written again."""


class Owed:
    """A PUBACK or PUBREC that is still to be sent, on the connection that `incoming` is of.

    `message` is what was published, where the journal has it until then.
    """

    __slots__ = ("code", "incoming", "is_settled", "message", "packet_id", "qos", "topic")

    def __init__(
        self, incoming: Answering, qos: int, packet_id: int, code: ReasonCode, topic: str
    ) -> None:
        self.incoming = incoming
        self.qos = qos
        self.packet_id = packet_id
        self.code = code
        self.topic = topic
        self.is_settled = False
        self.message: Message | None = None
