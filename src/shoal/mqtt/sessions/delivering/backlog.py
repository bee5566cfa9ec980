"""What all sessions of a broker have on its way to their clients, together: one bound in bytes.

A message that is on its way in many sessions is counted once, since it is kept once; each session
that has it costs an entry.  At the bound what waits at QoS 0 goes first, the newest of those who
have most.  Where that is not enough the queues are full: nothing more of QoS 0 waits for anybody,
and publications above QoS 0 are refused (see `Reception.reason_to_refuse`), until a sixteenth
is free again.  What was taken in until then is kept, also beyond the bound.

So that no one user brings that about, its sessions have a `Share` together: beyond it what is new
for them is dropped, as beyond the bound of a session.

>>> backlog = Backlog(maximum_bytes=3_000)
>>> message = Message("a", bytes(1_000), publisher="p", published_us=0, qos=1)
>>> backlog.enter(message), backlog.enter(message), backlog.bytes
(None, None, 2401)
>>> backlog.enter(Message("a", b"", publisher="p", published_us=0, qos=1)), backlog.is_full
(None, True)
>>> backlog.leave(message), backlog.leave(message), backlog.bytes, backlog.is_full
(None, None, 1201, False)
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import nlargest
from typing import Protocol
from weakref import WeakValueDictionary

from shoal.ledger import Ledger, Measure
from shoal.mqtt.messages import Message

# What a message takes beside its topic and payload, and each session that it is on its way in.
MESSAGE_BYTES = 1_000
ENTRY_BYTES = 200
_FIRST_BYTES = MESSAGE_BYTES + ENTRY_BYTES


class Queue(Protocol):
    """A session whose client is slow."""

    @property
    def waiting_bytes(self) -> int:
        """What waits for the client, whatever its QoS."""

    def drop_at_0(self, level: int) -> bool:
        """Drop what waits at QoS 0, the newest first, until no more waits than this.

        Whether any of QoS 0 is left.
        """


class Share:
    """What one user has together: messages on their way, each counted once; sessions, and what
    their subscriptions and wills take in memory.
    """

    __slots__ = ("__weakref__", "_kept", "bytes", "sessions", "subscription_bytes", "will_bytes")

    def __init__(self) -> None:
        self.bytes = self.sessions = self.subscription_bytes = self.will_bytes = 0
        # In how many of its sessions each message is.
        self._kept: dict[Message, int] = {}

    @property
    def total_bytes(self) -> int:
        return self.bytes + self.subscription_bytes + self.will_bytes

    def enter(self, message: Message) -> None:
        """One more session has this on its way."""
        count = self._kept.get(message, 0)
        self._kept[message] = count + 1
        self.bytes += ENTRY_BYTES if count else _FIRST_BYTES + message.size

    def leave(self, message: Message) -> None:
        """One session less has it."""
        count = self._kept[message] - 1
        if count:
            self._kept[message] = count
            self.bytes -= ENTRY_BYTES
        else:
            del self._kept[message]
            self.bytes -= _FIRST_BYTES + message.size


class Backlog:
    """Counts; `at_change` is called when the queues become full, and when they are no more."""

    def __init__(self, maximum_bytes: int = 2**62) -> None:
        self.bytes = 0
        # Publications that could not be kept, for any session since the broker started.
        self.dropped = 0
        # What wills take that may still be published, of all sessions.
        self.will_bytes = 0
        self.is_full = False
        self.at_change: Callable[[], None] | None = None
        self._maximum_bytes = maximum_bytes
        # Of users whose sessions are here.
        self._shares: WeakValueDictionary[str, Share] = WeakValueDictionary()
        # Sessions that have something waiting at QoS 0.
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
            self._look()

    @property
    def _low_bytes(self) -> int:
        return self._maximum_bytes - self._maximum_bytes // 16

    def register(self, ledger: Ledger) -> None:
        """Messages that are in several sessions count once."""
        ledger.register(
            "queued messages",
            lambda: Measure(self.bytes // _FIRST_BYTES, self.bytes, most_bytes=self._maximum_bytes),
        )
        ledger.register(
            "wills",
            lambda: Measure(0, self.will_bytes, most_bytes=self._maximum_bytes),
        )

    def heaviest(self, most: int) -> list[tuple[str, Share]]:
        """The users who take the most memory, and what they have together."""
        shares = [(user, share) for user, share in self._shares.items() if share.total_bytes]
        return nlargest(most, shares, key=lambda row: (row[1].total_bytes, row[0]))

    def share(self, user: str) -> Share | None:
        """A user's, one for all its sessions; who has no name has none."""
        if not user:
            return None
        share = self._shares.get(user)
        if share is None:
            share = self._shares[user] = Share()
        return share

    def sessions_of(self, user: str) -> int:
        """How many sessions a user has; who has no name has none that count."""
        share = self._shares.get(user)
        return 0 if share is None else share.sessions

    def wills_of(self, user: str) -> int:
        """What a user's wills take; those of who has no name do not count together."""
        share = self._shares.get(user)
        return 0 if share is None else share.will_bytes

    def enter(self, message: Message) -> None:
        """One more session has this on its way."""
        if message.keepers:
            self.bytes += ENTRY_BYTES
        else:
            message.kept_bytes = size = message.size
            self.bytes += _FIRST_BYTES + size
            # Filters have seen them, and they may take ten times as much.
            message.attributes = None
        message.keepers += 1
        if self.bytes > self._maximum_bytes and not self.is_full:
            self._make_room()

    def leave(self, message: Message) -> None:
        """One session less has it."""
        message.keepers -= 1
        if message.keepers:
            self.bytes -= ENTRY_BYTES
        else:
            self.bytes -= _FIRST_BYTES + message.kept_bytes
        if self.is_full:
            self._look()

    def waits_at_0(self, queue: Queue) -> None:
        """Something of QoS 0 waits in this one."""
        self._at_0[queue] = None

    def forget(self, queue: Queue) -> None:
        """Nothing of QoS 0 waits in it any more."""
        self._at_0.pop(queue, None)

    def _make_room(self) -> None:
        """All down to a level, and that down until there is room: who has least keeps most."""
        level = max((each.waiting_bytes for each in self._at_0), default=0)
        while self._at_0 and self.bytes > self._low_bytes:
            level //= 2
            for queue in [each for each in self._at_0 if each.waiting_bytes > level]:
                if not queue.drop_at_0(level):
                    self._at_0.pop(queue, None)
            if not level:
                self._at_0.clear()
        self._look()

    def _look(self) -> None:
        is_full = self.bytes > self._low_bytes and (
            self.is_full or self.bytes > self._maximum_bytes
        )
        if is_full != self.is_full:
            self.is_full = is_full
            if self.at_change is not None:
                self.at_change()
