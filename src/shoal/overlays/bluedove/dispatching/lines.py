"""A dispatcher's kept publications: a line for each publisher, and debts to other dispatchers.

A publisher's publications go to different matchers, which are not equally fast. With order per
publisher, results come back to the dispatcher, and are forwarded to the subscribers' dispatchers
from there: a matched publication leaves its publisher's line when all before it have left. Links
keep order, and so do those dispatchers. A publication in a line is known to be in transit, so
nothing waits for one that never comes.

If a link breaks, assured publications that the dispatcher behind it has not confirmed are kept for
it, and sent again after its return. A dispatcher that stays disconnected is declared dead.

A publication that was matched long before it leaves its line may miss later subscribers, and a
session that moved from one dispatcher to another would get it at neither. So it is matched again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

from shoal.broker.messages import RoutedPublication
from shoal.model import BrokerId, ClientId, MessageId
from shoal.overlays.bluedove.messages import MatchResult

# Lifetime of a match: less than the time for which a moved session stays at its source, once its
# subscriptions are known everywhere. It doubles with each repeated match: with slow matchers a
# repeated one is no better.
LINE_US = 1_000_000


class Request:
    """Publications that a client sent together and waits for."""

    __slots__ = ("key", "left")

    def __init__(self, number: int, left: int) -> None:
        self.key = ("publications", str(number))
        self.left = left


class Pending:
    """A publication that is not done, of an assured request or of none."""

    __slots__ = (
        "homes", "matched_by", "matched_us", "matcher", "may_wait_us", "passed_us", "receipts",
        "request", "result", "routed", "since_us", "tried",
    )  # fmt: skip

    def __init__(self, routed: RoutedPublication, request: Request | None) -> None:
        self.routed = routed
        self.request = request
        self.matcher: BrokerId | None = None
        self.since_us = 0
        self.tried: tuple[BrokerId, ...] = ()
        # Those to confirm, once it is matched; and when they were known.
        self.homes: set[BrokerId] | None = None
        self.passed_us = 0
        self.receipts: set[BrokerId] = set()
        # With order: the result, its matcher and time, and the lifetime of the match.
        self.result: MatchResult | None = None
        self.matched_by: BrokerId = ""
        self.matched_us = 0
        self.may_wait_us = LINE_US

    def is_stale(self, now_us: int) -> bool:
        """Whether its match has expired."""
        return self.result is not None and now_us - self.matched_us > self.may_wait_us


class DispatchLines:
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


class OwedMatch:
    """Publications that other dispatchers have not confirmed."""

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
        """Publications that a dispatcher has not confirmed, in the order in which they left."""
        return self._owed.get(home, {})
