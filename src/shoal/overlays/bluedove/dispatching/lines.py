"""Publications that a dispatcher keeps: each publisher's in a line, and what homes are owed.

A publisher's publications go to different matchers, which are not equally fast.  Where its order is
kept, what they found comes back to the dispatcher, and goes on to the homes from there: what is
matched leaves its publisher's line when all before it have left.  Links keep order, and so do
homes.  Who stands in a line is known to be on its way, so nobody waits for what never comes.

What a home has not confirmed when its link breaks is kept for it, if the publisher waits for word,
and sent again when the home is back.  A home that stays away is given up.

What was matched long before it leaves its line may miss who has subscribed since, and a session
that moved from one home to another would get it at neither.  So it is matched again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

from shoal.broker.messages import RoutedPublication
from shoal.model import BrokerId, ClientId, MessageId
from shoal.overlays.bluedove.messages import Result

# What was matched is good for so long: less than a session that moves is kept where it was, once
# its subscriptions are known everywhere.  Twice as long when it was matched again, and so on: where
# matchers are so slow, what is matched again is no better.
LINE_US = 1_000_000


class Request:
    """Publications that a client sent together and waits for."""

    __slots__ = ("key", "left")

    def __init__(self, number: int, left: int) -> None:
        self.key = ("publications", str(number))
        self.left = left


class Pending:
    """A publication that is not done, of a request that somebody waits for or of none."""

    __slots__ = (
        "homes", "matched_by", "matched_us", "matcher", "may_wait_us", "receipts", "request",
        "result", "routed", "since_us", "tried",
    )  # fmt: skip

    def __init__(self, routed: RoutedPublication, request: Request | None) -> None:
        self.routed = routed
        self.request = request
        self.matcher: BrokerId | None = None
        self.since_us = 0
        self.tried: tuple[BrokerId, ...] = ()
        self.homes: set[BrokerId] | None = None  # those to confirm, once it is matched
        self.receipts: set[BrokerId] = set()
        # Where order is kept: what was found, by whom and when, and how long that is good for.
        self.result: Result | None = None
        self.matched_by: BrokerId = ""
        self.matched_us = 0
        self.may_wait_us = LINE_US

    def is_stale(self, now_us: int) -> bool:
        """Whether it was matched too long ago."""
        return self.result is not None and now_us - self.matched_us > self.may_wait_us


class Lines:
    """A line for each publisher."""

    def __init__(self) -> None:
        self._lines: dict[ClientId, deque[Pending]] = {}

    def join(self, pending: Pending) -> None:
        """Stand last in its publisher's line."""
        publisher = pending.routed.message_id.publisher
        self._lines.setdefault(publisher, deque()).append(pending)

    def leave(self, publisher: ClientId, now_us: int) -> Iterator[Pending]:
        """Those at the head of a line that are matched, as they leave it."""
        line = self._lines.get(publisher)
        while line and line[0].result is not None and not line[0].is_stale(now_us):
            yield line.popleft()
        if line is not None and not line:
            del self._lines[publisher]

    def stale(self, publisher: ClientId, now_us: int) -> list[Pending]:
        """All of a line that were matched too long ago, when the one at its head was."""
        line = self._lines.get(publisher)
        if not line or not line[0].is_stale(now_us):
            return []
        return [each for each in line if each.is_stale(now_us)]


class Owed:
    """What homes have not confirmed."""

    def __init__(self) -> None:
        self._owed: dict[BrokerId, dict[MessageId, Pending]] = {}

    def put(self, home: BrokerId, pending: Pending) -> None:
        self._owed.setdefault(home, {})[pending.routed.message_id] = pending

    def confirm(self, home: BrokerId, message_id: MessageId) -> None:
        owed = self._owed.get(home)
        if owed is not None:
            owed.pop(message_id, None)
            if not owed:
                del self._owed[home]

    def to(self, home: BrokerId) -> Mapping[MessageId, Pending]:
        """What a home has not confirmed, in the order in which it left."""
        return self._owed.get(home, {})
