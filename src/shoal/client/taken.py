"""Acknowledges messages of a kept session when all subscriptions have read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from shoal.client.subscription import Message


class TakenMessages:
    """Counts how often each message was read, and acknowledges it after the last time."""

    def __init__(self, acknowledge: Callable[[Message], None]) -> None:
        self._acknowledge = acknowledge
        # Only of messages for several subscriptions.
        self._counts: Counter[tuple[int, int]] = Counter()

    def take(self, message: Message) -> None:
        """One subscription has read a message."""
        if not message.qos:
            return
        if message.shares > 1:
            key = message.connection, message.packet.packet_id
            self._counts[key] += 1
            if self._counts[key] < message.shares:
                return
            del self._counts[key]
        self._acknowledge(message)

    def forget(self) -> None:
        """The broker has begun a new session: earlier messages cannot be acknowledged any more."""
        self._counts.clear()
