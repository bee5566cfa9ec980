"""Whose a session is, and what it takes of what its user and all clients may take together."""

from __future__ import annotations

from shoal.mqtt.limits import Limits
from shoal.mqtt.messages import Message
from shoal.mqtt.sessions.delivering.backlog import Backlog, Share


class Counted:
    """One session; what is on its way, what it has subscribed to, and its will."""

    __slots__ = (
        "_share",
        "_user",
        "backlog",
        "dropped",
        "limits",
        "subscription_bytes",
        "will_bytes",
    )

    def __init__(self, limits: Limits, backlog: Backlog | None) -> None:
        self.limits = limits
        # What is on its way in all sessions, counted.
        self.backlog = backlog if backlog is not None else Backlog()
        # What could not be kept.
        self.dropped = 0
        self._user = ""
        # What is on its way to this user, in all its sessions, counted.
        self._share: Share | None = None
        # What its subscriptions take in memory.
        self.subscription_bytes = 0
        # And what its will does.
        self.will_bytes = 0

    @property
    def user(self) -> str:
        """Whose it is; nobody else may connect to it.  Empty for who has no name."""
        return self._user

    def _count_for(self, user: str, on_their_way: list[Message]) -> None:
        """It is this user's from now on, and so are the messages on their way in it."""
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
        """It is none of its user's sessions any more."""
        if self._share is not None:
            self._share.sessions -= 1

    def count_subscription(self, size: int) -> None:
        """Its subscriptions take so much more, or less."""
        self.subscription_bytes += size
        if self._share is not None:
            self._share.subscription_bytes += size

    def count_will(self, size: int) -> None:
        """Its will takes so much now."""
        more, self.will_bytes = size - self.will_bytes, size
        self.backlog.will_bytes += more
        if self._share is not None:
            self._share.will_bytes += more

    def count_dropped(self) -> None:
        """A publication could not be kept."""
        self.dropped += 1
        self.backlog.dropped += 1

    @property
    def user_subscription_bytes(self) -> int:
        """What the subscriptions of its user take."""
        return self.subscription_bytes if self._share is None else self._share.subscription_bytes

    def count_in(self, message: Message) -> None:
        """A message is on its way to the client from now on."""
        self.backlog.enter(message)
        if self._share is not None:
            self._share.enter(message)

    def count_out(self, message: Message) -> None:
        """It is not any more."""
        self.backlog.leave(message)
        if self._share is not None:
            self._share.leave(message)

    @property
    def has_its_share(self) -> bool:
        """Whether nothing more may wait for this user."""
        share = self._share
        return share is not None and share.bytes >= self.limits.maximum_user_queued_bytes
