"""The interface of a tracer of messages, which keeps their spans (see `runtime.tracing`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from shoal.model import Publication
from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.sessions.session import ClientSubscription


class FanOutTracer(Protocol):
    """Gets traced messages after they were handed out."""

    def routed(self, message: PublishedMessage, now_us: int) -> None:
        """The message was handed to its subscribers."""

    def handed(
        self, message: PublishedMessage, subscription: ClientSubscription, now_us: int
    ) -> None:
        """The message was handed to the chosen member of a shared subscription."""


class MessageTracer(FanOutTracer, Protocol):
    """Decides which messages are traced; `sample` is an operator's sample, or None."""

    sample: Any

    def consider(self, message: PublishedMessage) -> None:
        """Set `message.traced` if it is to be traced."""

    def entered(self, message: PublishedMessage) -> None:
        """A traced message has been accepted from its publisher, and has its key."""

    def settled(self, publications: Iterable[Publication]) -> None:
        """Publications are settled."""

    def acknowledged(self, client: str, message: PublishedMessage) -> None:
        """A client is done with a traced message."""
