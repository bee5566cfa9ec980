"""What has come for a client and waits to be read, over all of its subscriptions."""

from __future__ import annotations

from collections.abc import Iterable

from shoal.client.subscription import Message, Subscription

# Messages that wait to be read; then the client reads nothing more of its connection.
MAX_UNREAD = 1_000


class Inbox:
    """A client's subscriptions, by their numbers, and how much waits in them together."""

    def __init__(self) -> None:
        self.subscriptions: dict[int, Subscription] = {}
        self.unread = 0

    def add(self, subscription: Subscription) -> None:
        """From now on what comes for it waits in it."""
        self.subscriptions[subscription.number] = subscription

    def drop(self, subscription: Subscription) -> bool:
        """It is taken back, and what waits in it is dropped; whether it was still there."""
        if self.subscriptions.pop(subscription.number, None) is None:
            return False
        self.unread -= len(subscription.messages)
        subscription.messages.clear()
        subscription.is_closed = True
        subscription.changed.set()
        return True

    def put(self, message: Message, numbers: Iterable[int]) -> None:
        """A message has come to the subscriptions of these numbers."""
        for number in numbers:
            subscription = self.subscriptions.get(number)
            if subscription is not None:
                subscription.messages.append(message)
                subscription.changed.set()
                self.unread += 1

    def take(self, subscription: Subscription) -> Message | None:
        """The next message of a subscription, if one waits."""
        if not subscription.messages:
            return None
        self.unread -= 1
        return subscription.messages.popleft()

    @property
    def is_full(self) -> bool:
        """Whether nothing more should be read."""
        return self.unread > MAX_UNREAD

    @property
    def has_room(self) -> bool:
        """Whether one that was full should be read for again."""
        return self.unread < MAX_UNREAD // 2

    def wake(self) -> None:
        """Whoever waits for a message looks again."""
        for subscription in self.subscriptions.values():
            subscription.changed.set()

    def close(self) -> None:
        """Nothing more comes."""
        for subscription in self.subscriptions.values():
            subscription.is_closed = True
