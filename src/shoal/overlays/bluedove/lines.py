"""Publications that a dispatcher keeps: each publisher's in a line, and what homes are owed.

A publisher's publications go to different matchers, which are not equally fast.  Where its order is
kept, what they found comes back to the dispatcher, and goes on to the homes from there: what is
matched leaves its publisher's line when all before it have left.  Links keep order, and so do
homes.  Who stands in a line is known to be on its way, so nobody waits for what never comes.

What a home has not confirmed when its link breaks is kept for it, if the publisher waits for word,
and sent again when the home is back.  A home that stays away is given up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping

from shoal.broker.messages import RoutedPublication
from shoal.model import BrokerId, ClientId, MessageId
from shoal.overlays.bluedove.messages import Result


class Request:
    """Publications that a client sent together and waits for."""

    __slots__ = ("key", "left")

    def __init__(self, number: int, left: int) -> None:
        self.key = ("publications", str(number))
        self.left = left


class Pending:
    """A publication that is not done, of a request that somebody waits for or of none."""

    __slots__ = (
        "homes", "matched_by", "matcher", "receipts", "request", "result", "routed", "since_us",
        "tried",
    )  # fmt: skip

    def __init__(self, routed: RoutedPublication, request: Request | None) -> None:
        self.routed = routed
        self.request = request
        self.matcher: BrokerId | None = None
        self.since_us = 0
        self.tried: tuple[BrokerId, ...] = ()
        self.homes: set[BrokerId] | None = None  # those to confirm, once it is matched
        self.receipts: set[BrokerId] = set()
        # Where order is kept: what was found, and by whom.
        self.result: Result | None = None
        self.matched_by: BrokerId = ""


class Lines:
    """A line for each publisher."""

    def __init__(self) -> None:
        self._lines: dict[ClientId, deque[Pending]] = {}

    def join(self, pending: Pending) -> None:
        """Stand last in its publisher's line."""
        publisher = pending.routed.message_id.publisher
        self._lines.setdefault(publisher, deque()).append(pending)

    def leave(self, publisher: ClientId) -> Iterator[Pending]:
        """Those at the head of a line that are matched, as they leave it."""
        line = self._lines.get(publisher)
        while line and line[0].result is not None:
            yield line.popleft()
        if line is not None and not line:
            del self._lines[publisher]


class Owed:
    """What homes have not confirmed, and which of them are away, since when."""

    def __init__(self) -> None:
        self._owed: dict[BrokerId, dict[MessageId, Pending]] = {}
        self._away_us: dict[BrokerId, int] = {}
        self._given_up: set[BrokerId] = set()

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

    def went(self, home: BrokerId, now_us: int) -> None:
        """The home's link went down, or did not come up."""
        if home not in self._given_up:
            self._away_us.setdefault(home, now_us)

    def came(self, home: BrokerId) -> None:
        self._away_us.pop(home, None)
        self._given_up.discard(home)

    def is_given_up(self, home: BrokerId) -> bool:
        return home in self._given_up

    def give_up(self, before_us: int) -> Iterable[BrokerId]:
        """The homes that have been away since before then, which nobody waits for any more."""
        late = [home for home, since_us in self._away_us.items() if since_us < before_us]
        for home in late:
            del self._away_us[home]
            self._given_up.add(home)
        return late

    def awaited(self) -> Iterable[BrokerId]:
        """The homes that are away and may come back."""
        return list(self._away_us)
