"""What was published here for groups of shared subscriptions, until members have it (`sharing`).

There may be hundreds of thousands, while brokers do not answer: which of them are to be looked at
is found without looking at all, as each is in the order of its time.

>>> shares, message = Shares(), Message("a", b"", publisher="p", published_us=0, qos=1)
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
from shoal.mqtt.messages import Message

# Who has not answered by then, about what may come twice, is waited for no more.
PATIENCE_US = 5 * MICROSECONDS


class Share:
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

    def __init__(self, message: Message, group: GroupName) -> None:
        self.message = message
        self.group = group
        self.target: BrokerId | None = None
        self.is_any = True
        # Asked for a connected member, and for any.
        self.tried: set[tuple[BrokerId, bool]] = set()
        # When it was handed to the chosen one, and when that one must have it.
        self.handed_us = 0
        self.settled_us: int | None = None
        # When to look whether somebody else is to have it.
        self.look_us = 0


class Shares:
    """Those that are open, in the order of their numbers."""

    def __init__(self) -> None:
        self._open: OrderedDict[tuple[Key, GroupName], Share] = OrderedDict()
        # Those that the chosen ones must have, and those that may come twice, by their times.
        self._settled: OrderedDict[Share, None] = OrderedDict()
        self._patient: OrderedDict[Share, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    @property
    def first(self) -> int:
        """The lowest number; there is one."""
        (_, number), _ = next(iter(self._open))
        return number

    def get(self, key: Key, group: GroupName) -> Share | None:
        """The one of that message for that group, while it is open."""
        return self._open.get((key, group))

    def begin(self, message: Message, group: GroupName) -> Share:
        """A message is for that group."""
        share = self._open[key_of(message), group] = Share(message, group)
        return share

    def handed(self, share: Share, broker: BrokerId, *, is_any: bool, now_us: int) -> None:
        """It is under way to that broker."""
        share.target, share.is_any = broker, is_any
        share.handed_us, share.look_us = now_us, now_us + PATIENCE_US
        self.under_way(share)
        if share.message.qos == 1:
            self._patient[share] = None
            self._patient.move_to_end(share)

    def under_way(self, share: Share) -> None:
        """The chosen one need not have it yet."""
        share.settled_us = None
        self._settled.pop(share, None)

    def settled(self, share: Share, now_us: int) -> None:
        """The chosen one must have it."""
        if self.get(key_of(share.message), share.group) is share:
            share.settled_us = now_us
            self._settled[share] = None
            self._settled.move_to_end(share)

    def done(self, share: Share) -> None:
        """A member has it, or nobody will."""
        del self._open[key_of(share.message), share.group]
        self._settled.pop(share, None)
        self._patient.pop(share, None)

    def unanswered(self, since_us: int) -> Iterator[Share]:
        """Those that the chosen ones had to have before that, once each."""
        for _ in range(len(self._settled)):
            share = next(iter(self._settled), None)
            if share is None or share.settled_us is None or share.settled_us >= since_us:
                return
            self._settled.move_to_end(share)
            yield share

    def patient(self, since_us: int) -> Iterator[Share]:
        """Those that may come twice, and were waited for until then: for as long once more."""
        while (share := next(iter(self._patient), None)) is not None and share.look_us <= since_us:
            share.look_us = since_us + PATIENCE_US
            self._patient.move_to_end(share)
            yield share


def key_of(message: Message) -> Key:
    """A message that was published has one."""
    assert message.key is not None
    return message.key
