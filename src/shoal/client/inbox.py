"""The received messages of a client that wait to be read, over all of its subscriptions."""

from __future__ import annotations

from collections.abc import Iterable

from shoal.client.subscription import Message, Subscription

# The bound of unread messages; then the client does not read its connection.
MAX_UNREAD = 1_000


class Inbox:
    """A client's subscriptions, by their numbers, and the count of unread messages."""

    def __init__(self) -> None:
        self.subscriptions: dict[int, Subscription] = {}
        self.unread = 0

    def add(self, subscription: Subscription) -> None:
        """Add a subscription, which then gets its messages."""
        self.subscriptions[subscription.number] = subscription

    def drop(self, subscription: Subscription) -> bool:
        """Remove a subscription, with its unread messages; returns whether it was there."""
        if self.subscriptions.pop(subscription.number, None) is None:
            return False
        self.unread -= len(subscription.messages)
        subscription.messages.clear()
        subscription.is_closed = True
        subscription.changed.set()
        return True

    def put(self, message: Message, numbers: Iterable[int]) -> None:
        """Add a message to the subscriptions of these numbers."""
        for number in numbers:
            subscription = self.subscriptions.get(number)
            if subscription is not None:
                subscription.messages.append(message)
                subscription.changed.set()
                self.unread += 1

    def take(self, subscription: Subscription) -> Message | None:
        """The next message of a subscription, if there is one."""
        if not subscription.messages:
            return None
        self.unread -= 1
        return subscription.messages.popleft()

    @property
    def is_full(self) -> bool:
        """Whether the client should stop reading."""
        return self.unread > MAX_UNREAD

    @property
    def has_room(self) -> bool:
        """Whether the client should resume reading."""
        return self.unread < MAX_UNREAD // 2

    def wake(self) -> None:
        """Wake all callers that wait for a message."""
        for subscription in self.subscriptions.values():
            subscription.changed.set()

    def close(self) -> None:
        """Close all subscriptions."""
        for subscription in self.subscriptions.values():
            subscription.is_closed = True
