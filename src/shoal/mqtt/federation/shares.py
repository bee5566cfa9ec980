"""Open shares: messages published here for groups, until members have them (`sharing`).

There may be hundreds of thousands while brokers do not answer: ordered by time, so that the due
ones are found without a search through all.
>>> shares = GroupShares()
>>> message = PublishedMessage("a", b"", publisher="p", published_us=0, qos=1)
>>> message.key = ("p", 7)
>>> share = shares.begin(message, "$share/g/a")
>>> shares.handed(share, "B2", is_any=True, now_us=1)
>>> list(shares.patient(PATIENCE_US)), list(shares.patient(1 + PATIENCE_US)) == [share]
([], True)
>>> shares.settled(share, 3), list(shares.unanswered(3)), list(shares.unanswered(4)) == [share]
(None, [], True)
>>> shares.done(share), len(shares)
(None, 0)
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from shoal.model import BrokerId
from shoal.mqtt.federation.controls import GroupName
from shoal.mqtt.federation.taking import Key
from shoal.mqtt.limits import MICROSECONDS
from shoal.mqtt.messages import PublishedMessage

# The timeout of an answer, for messages that may be delivered twice.
PATIENCE_US = 5 * MICROSECONDS


class GroupShare:
    """A message for a group, until a member has it."""

    __slots__ = (
        "group",
        "handed_us",
        "is_any",
        "look_us",
        "message",
        "settled_us",
        "target",
        "tried",
    )

    def __init__(self, message: PublishedMessage, group: GroupName) -> None:
        self.message = message
        self.group = group
        self.target: BrokerId | None = None
        self.is_any = True
        # Brokers that were asked for a connected member, and for any.
        self.tried: set[tuple[BrokerId, bool]] = set()
        # When the chosen broker was sent the message, and when that was settled.
        self.handed_us = 0
        self.settled_us: int | None = None
        # The next time to consider another broker.
        self.look_us = 0


class GroupShares:
    """The open shares, in the order of their numbers."""

    def __init__(self) -> None:
        self._open: OrderedDict[tuple[Key, GroupName], GroupShare] = OrderedDict()
        # Shares whose message has reached the chosen broker, and those at QoS 1, by their times.
        self._settled: OrderedDict[GroupShare, None] = OrderedDict()
        self._patient: OrderedDict[GroupShare, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    @property
    def first(self) -> int:
        """The lowest open number; there must be one."""
        (_, number), _ = next(iter(self._open))
        return number

    def get(self, key: Key, group: GroupName) -> GroupShare | None:
        """The open share of that message for that group."""
        return self._open.get((key, group))

    def begin(self, message: PublishedMessage, group: GroupName) -> GroupShare:
        """Open a share."""
        share = self._open[key_of(message), group] = GroupShare(message, group)
        return share

    def handed(self, share: GroupShare, broker: BrokerId, *, is_any: bool, now_us: int) -> None:
        """Note the broker that the message was sent to."""
        share.target, share.is_any = broker, is_any
        share.handed_us, share.look_us = now_us, now_us + PATIENCE_US
        self.under_way(share)
        if share.message.qos == 1:
            self._patient[share] = None
            self._patient.move_to_end(share)

    def under_way(self, share: GroupShare) -> None:
        """Note that the message has not reached the chosen broker."""
        share.settled_us = None
        self._settled.pop(share, None)

    def settled(self, share: GroupShare, now_us: int) -> None:
        """Note that the message has reached the chosen broker."""
        if self.get(key_of(share.message), share.group) is share:
            share.settled_us = now_us
            self._settled[share] = None
            self._settled.move_to_end(share)

    def done(self, share: GroupShare) -> None:
        """Close a share: a member has it, or there is no member."""
        del self._open[key_of(share.message), share.group]
        self._settled.pop(share, None)
        self._patient.pop(share, None)

    def unanswered(self, since_us: int) -> Iterator[GroupShare]:
        """Shares that reached the chosen broker before this time, once each."""
        for _ in range(len(self._settled)):
            share = next(iter(self._settled), None)
            if share is None or share.settled_us is None or share.settled_us >= since_us:
                return
            self._settled.move_to_end(share)
            yield share

    def patient(self, since_us: int) -> Iterator[GroupShare]:
        """Shares at QoS 1 with an expired timeout; their next timeout begins."""
        while (share := next(iter(self._patient), None)) is not None and share.look_us <= since_us:
            share.look_us = since_us + PATIENCE_US
            self._patient.move_to_end(share)
            yield share


def key_of(message: PublishedMessage) -> Key:
    """The key of a published message."""
    assert message.key is not None
    return message.key
