"""The backlog: the queued messages of all sessions of a broker, with one bound in bytes.

A message in several sessions counts once, since it is in memory once; each session that has it
costs an entry. At the bound queued messages of QoS 0 are dropped first, the newest of the longest
queues. If that is not enough the queues are full: no session queues QoS 0, and publications above
QoS 0 are refused (see `AdmissionPolicy.reason_to_refuse`), until a sixteenth is free again.
Messages accepted before are kept, also beyond the bound.

So that a single user cannot fill the queues, its sessions have a common `BacklogShare`: beyond it
new messages for them are dropped, as beyond the bound of a session.

>>> backlog = Backlog(maximum_bytes=3_000)
>>> message = PublishedMessage("a", bytes(1_000), publisher="p", published_us=0, qos=1)
>>> backlog.enter(message), backlog.enter(message), backlog.bytes
(None, None, 2401)
>>> backlog.enter(PublishedMessage("a", b"", publisher="p", published_us=0, qos=1)), backlog.is_full
(None, True)
>>> backlog.leave(message), backlog.leave(message), backlog.bytes, backlog.is_full
(None, None, 1201, False)
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import nlargest
from itertools import islice
from typing import Protocol
from weakref import WeakValueDictionary

from shoal.ledger import Ledger, LedgerMeasure
from shoal.mqtt.messages import PublishedMessage

# The memory of a message beside its topic and payload, and of each session that queues it.
MESSAGE_BYTES = 1_000
ENTRY_BYTES = 200
_FIRST_BYTES = MESSAGE_BYTES + ENTRY_BYTES


class Queue(Protocol):
    """A session of a slow client."""

    client_id: str
    # Publications that were dropped for it.
    dropped: int
    # When its client last took a queued message.
    took_us: int

    @property
    def inflight(self) -> int: ...

    @property
    def queued(self) -> int: ...

    @property
    def waiting_bytes(self) -> int:
        """The bytes queued for the client, at any QoS."""

    def drop_at_0(self, level: int) -> bool:
        """Drop queued messages of QoS 0, the newest first, down to this many bytes.

        Returns whether any of QoS 0 is left.
        """


class BacklogShare:
    """The share of one user: its queued messages, each counted once, its sessions, and the
    memory of its subscriptions and wills.
    """

    __slots__ = ("__weakref__", "_kept", "bytes", "sessions", "subscription_bytes", "will_bytes")

    def __init__(self) -> None:
        self.bytes = self.sessions = self.subscription_bytes = self.will_bytes = 0
        # The number of its sessions that queue each message.
        self._kept: dict[PublishedMessage, int] = {}

    @property
    def total_bytes(self) -> int:
        return self.bytes + self.subscription_bytes + self.will_bytes

    def enter(self, message: PublishedMessage) -> None:
        """Count a message that one more session queues."""
        count = self._kept.get(message, 0)
        self._kept[message] = count + 1
        self.bytes += ENTRY_BYTES if count else _FIRST_BYTES + message.size

    def leave(self, message: PublishedMessage) -> None:
        """Count a message that one session less queues."""
        count = self._kept[message] - 1
        if count:
            self._kept[message] = count
            self.bytes -= ENTRY_BYTES
        else:
            del self._kept[message]
            self.bytes -= _FIRST_BYTES + message.size


class Backlog:
    """Counts the queues; `at_change` is called when they become full, and when they have room."""

    def __init__(self, maximum_bytes: int = 2**62) -> None:
        self.bytes = 0
        # Publications dropped for any session since the broker started.
        self.dropped = 0
        # The memory of unpublished wills, of all sessions.
        self.will_bytes = 0
        self.is_full = False
        self.at_change: Callable[[], None] | None = None
        self._maximum_bytes = maximum_bytes
        # Shares of users with sessions here.
        self._shares: WeakValueDictionary[str, BacklogShare] = WeakValueDictionary()
        # Called with the client, the message and the reason when a message is dropped for it.
        self.at_drop: Callable[[str, PublishedMessage, str], None] | None = None
        # Called with the client when it is done with a traced message.
        self.at_done: Callable[[str, PublishedMessage], None] | None = None
        # Sessions that have begun to queue; `queues_from` takes out those that queue nothing.
        self._queues: dict[Queue, None] = {}
        # Sessions that queue messages of QoS 0.
        self._at_0: dict[Queue, None] = {}

    @property
    def maximum_bytes(self) -> int:
        return self._maximum_bytes

    @maximum_bytes.setter
    def maximum_bytes(self, maximum_bytes: int) -> None:
        self._maximum_bytes = maximum_bytes
        if self.bytes > maximum_bytes:
            self._make_room()
        else:
            self._update_fullness()

    @property
    def _low_bytes(self) -> int:
        return self._maximum_bytes - self._maximum_bytes // 16

    def register(self, ledger: Ledger) -> None:
        """Register the tables; messages in several sessions count once."""
        ledger.register(
            "queued messages",
            lambda: LedgerMeasure(
                self.bytes // _FIRST_BYTES, self.bytes, most_bytes=self._maximum_bytes
            ),
        )
        ledger.register(
            "wills",
            lambda: LedgerMeasure(0, self.will_bytes, most_bytes=self._maximum_bytes),
        )

    def heaviest(self, most: int) -> list[tuple[str, BacklogShare]]:
        """The users with the most memory, and their shares."""
        shares = [(user, share) for user, share in self._shares.items() if share.total_bytes]
        return nlargest(most, shares, key=lambda row: (row[1].total_bytes, row[0]))

    def share(self, user: str) -> BacklogShare | None:
        """A user's share, common to all its sessions; None for an anonymous user."""
        if not user:
            return None
        share = self._shares.get(user)
        if share is None:
            share = self._shares[user] = BacklogShare()
        return share

    def sessions_of(self, user: str) -> int:
        """The number of a user's sessions; 0 for an anonymous user."""
        share = self._shares.get(user)
        return 0 if share is None else share.sessions

    def wills_of(self, user: str) -> int:
        """The bytes of a user's wills; 0 for an anonymous user."""
        share = self._shares.get(user)
        return 0 if share is None else share.will_bytes

    def enter(self, message: PublishedMessage) -> None:
        """Count a message that one more session queues."""
        if message.keepers:
            self.bytes += ENTRY_BYTES
        else:
            message.kept_bytes = size = message.size
            self.bytes += _FIRST_BYTES + size
            # The attributes may take ten times the message's bytes, and filters do not need them
            # any more.
            message.attributes = None
        message.keepers += 1
        if self.bytes > self._maximum_bytes and not self.is_full:
            self._make_room()

    def leave(self, message: PublishedMessage) -> None:
        """Count a message that one session less queues."""
        message.keepers -= 1
        if message.keepers:
            self.bytes -= ENTRY_BYTES
        else:
            self.bytes -= _FIRST_BYTES + message.kept_bytes
        if self.is_full:
            self._update_fullness()

    def begin_queue(self, queue: Queue) -> None:
        """Note a session whose queue was empty."""
        self._queues[queue] = None

    def queues_from(self, first: int, most: int) -> tuple[list[Queue], int]:
        """The sessions that queue messages: up to `most`, from the place `first` on.

        Returns them with the place of the next one, 0 behind the last.
        """
        found = list(islice(self._queues, first, first + most))
        queued = [queue for queue in found if queue.queued]
        for queue in found:
            if not queue.queued:
                del self._queues[queue]
        return queued, first + len(queued) if len(found) == most else 0

    def waits_at_0(self, queue: Queue) -> None:
        """Note a session that queues messages of QoS 0."""
        self._at_0[queue] = None

    def forget_at_0(self, queue: Queue) -> None:
        """Forget a session without queued messages of QoS 0."""
        self._at_0.pop(queue, None)

    def forget(self, queue: Queue) -> None:
        """Forget a session without queued messages."""
        self._queues.pop(queue, None)
        self._at_0.pop(queue, None)

    def _make_room(self) -> None:
        """Lower a level for all queues until there is room: short queues keep most."""
        level = max((each.waiting_bytes for each in self._at_0), default=0)
        while self._at_0 and self.bytes > self._low_bytes:
            level //= 2
            for queue in [each for each in self._at_0 if each.waiting_bytes > level]:
                if not queue.drop_at_0(level):
                    self._at_0.pop(queue, None)
            if not level:
                self._at_0.clear()
        self._update_fullness()

    def _update_fullness(self) -> None:
        is_full = self.bytes > self._low_bytes and (
            self.is_full or self.bytes > self._maximum_bytes
        )
        if is_full != self.is_full:
            self.is_full = is_full
            if self.at_change is not None:
                self.at_change()
