"""When a message of a session that is kept was taken by all subscriptions that it came to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from shoal.client.subscription import Message


class Taken:
    """Counts how often each message was taken, and acknowledges it the last time."""

    def __init__(self, acknowledge: Callable[[Message], None]) -> None:
        self._acknowledge = acknowledge
        # Of messages that came to several subscriptions.
        self._counts: Counter[tuple[int, int]] = Counter()

    def take(self, message: Message) -> None:
        """One subscription is done with a message."""
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
        """The broker knows nothing of the session: nothing can be acknowledged any more."""
        self._counts.clear()
