"""Counts a session's messages, subscriptions and will for its user and for the broker."""

from __future__ import annotations

from shoal.mqtt.limits import MqttLimits
from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.sessions.delivering.backlog import Backlog, BacklogShare


class CountedDeliveries:
    """The counts of one session."""

    __slots__ = (
        "_share",
        "_user",
        "backlog",
        "client_id",
        "dropped",
        "limits",
        "subscription_bytes",
        "will_bytes",
    )

    def __init__(self, client_id: str, limits: MqttLimits, backlog: Backlog | None) -> None:
        self.client_id = client_id
        self.limits = limits
        # The queues of all sessions.
        self.backlog = backlog if backlog is not None else Backlog()
        # The number of dropped publications.
        self.dropped = 0
        self._user = ""
        # The share of its user.
        self._share: BacklogShare | None = None
        # The memory of its subscriptions.
        self.subscription_bytes = 0
        # The memory of its will.
        self.will_bytes = 0

    @property
    def user(self) -> str:
        """The owner, the only user that may connect to it; empty for an anonymous one."""
        return self._user

    def _count_for(self, user: str, on_their_way: list[PublishedMessage]) -> None:
        """Give it, with its queued messages, to a user."""
        for message in on_their_way:
            self.count_out(message)
        self._count_for_user(-1)
        self._user, self._share = user, self.backlog.share(user)
        self._count_for_user(1)
        for message in on_their_way:
            self.count_in(message)

    def _count_for_user(self, sign: int) -> None:
        if self._share is not None:
            self._share.sessions += sign
            self._share.subscription_bytes += sign * self.subscription_bytes
            self._share.will_bytes += sign * self.will_bytes

    def is_over(self) -> None:
        """Remove it from its user's sessions."""
        if self._share is not None:
            self._share.sessions -= 1

    def count_subscription(self, size: int) -> None:
        """Add to the memory of its subscriptions."""
        self.subscription_bytes += size
        if self._share is not None:
            self._share.subscription_bytes += size

    def count_will(self, size: int) -> None:
        """Set the memory of its will."""
        more, self.will_bytes = size - self.will_bytes, size
        self.backlog.will_bytes += more
        if self._share is not None:
            self._share.will_bytes += more

    def count_dropped(self, message: PublishedMessage, why: str) -> None:
        """Count a publication that the queue had no room for, and report it."""
        self.dropped += 1
        self.backlog.dropped += 1
        self.report_drop(message, why)

    def report_drop(self, message: PublishedMessage, why: str) -> None:
        """Report a publication that the client will not get, with the reason."""
        if self.backlog.at_drop is not None:
            self.backlog.at_drop(self.client_id, message, why)

    @property
    def user_subscription_bytes(self) -> int:
        """The memory of its user's subscriptions."""
        return self.subscription_bytes if self._share is None else self._share.subscription_bytes

    def count_in(self, message: PublishedMessage) -> None:
        """Count a message that is queued or in flight."""
        self.backlog.enter(message)
        if self._share is not None:
            self._share.enter(message)

    def count_out(self, message: PublishedMessage) -> None:
        """Count a message that is delivered or dropped."""
        self.backlog.leave(message)
        if self._share is not None:
            self._share.leave(message)

    @property
    def is_share_full(self) -> bool:
        """Whether the user's share is full."""
        share = self._share
        return share is not None and share.bytes >= self.limits.maximum_user_queued_bytes
