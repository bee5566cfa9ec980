"""What one end of a link has of the other in a session: what came, is handled, and is settled.

A message waits until it is taken, which counts as handled.  If somebody waits for word of it, there
is a debt, until it is settled here.  How many are handled, and which are settled, is owed to the
other end whenever that has changed; after a lost connection all is said anew, as it may be lost.
"""

from __future__ import annotations

from collections import deque
from itertools import islice, takewhile
from typing import NamedTuple

from shoal.broker.links.controls import Acknowledge
from shoal.broker.links.outbox import LinkLimits, Span
from shoal.broker.messages import Carrier, Message
from shoal.broker.wire import WireError

# Said at once, in some 150 KB (see `MOST_CONTROL_BYTES` in `controls`).
MOST_SPANS = 8_192


class Debt(NamedTuple):
    """Messages `first` to `last` that came in a session, and are to be settled there."""

    first: int
    last: int


def _is_carrier(entry: tuple[Message, int]) -> bool:
    return isinstance(entry[0], Carrier)


class LinkInbox:
    """What came in one session."""

    def __init__(self, limits: LinkLimits) -> None:
        self.handled = 0
        self._most_bytes = limits.window_bytes + limits.longest_frame_bytes
        # What came and is not settled; what is, and has not been said on this connection.
        self._debts: dict[int, Debt] = {}
        self._is_forgiven = False
        self._settled: list[Span] = []
        self.reconnect()

    def reconnect(self) -> None:
        """The connection is gone, and with it what was not taken: it will come again."""
        # Each with its bytes.
        self._messages: deque[tuple[Message, int]] = deque()
        self._bytes = 0
        self._owes = False

    def put(self, message: Message, size: int) -> None:
        """A message came; WireError when there are more than the window allows."""
        self._messages.append((message, size))
        self._bytes += size
        if self._bytes > self._most_bytes:
            raise WireError("more messages than the window allows")

    def take(self) -> list[Message]:
        """The messages that came, to be handled now."""
        return self._take(len(self._messages))

    def take_run(self, most: int) -> list[Message]:
        """As `take`, of the messages that came next: so many carriers, or one of another kind."""
        count = sum(1 for _ in takewhile(_is_carrier, islice(self._messages, most)))
        return self._take(count or min(len(self._messages), 1))

    def _take(self, count: int) -> list[Message]:
        messages = []
        for _ in range(count):
            message, size = self._messages.popleft()
            self._bytes -= size
            messages.append(message)
        if messages:
            self.handled += count
            self._owes = True
        return messages

    @property
    def has_come(self) -> bool:
        """Whether there is something to take."""
        return bool(self._messages)

    @property
    def is_settled(self) -> bool:
        """Whether all that came is handled, and settled if the other end waits for it."""
        return not self._messages and (self._is_forgiven or not self._debts)

    def forgive(self) -> None:
        """The other end does not wait for what it has sent to be settled here."""
        self._is_forgiven = True

    def owe(self, first: int, last: int) -> Debt:
        """Of what was taken, these messages are to be settled."""
        debt = self._debts[first] = Debt(first, last)
        return debt

    def settle(self, debt: Debt) -> bool:
        """These are settled; False if they came in an earlier session."""
        if self._debts.get(debt.first) is not debt:
            return False
        del self._debts[debt.first]
        first = debt.first
        if self._settled and self._settled[-1][1] == first - 1:
            first, _ = self._settled.pop()
        self._settled.append((first, debt.last))
        self._owes = True
        return True

    def acknowledgement(self) -> Acknowledge | None:
        """What is owed to the other end, once; of much that is settled a part, then the rest."""
        if not self._owes:
            return None
        said = Acknowledge(self.handled, tuple(self._settled[:MOST_SPANS]))
        del self._settled[:MOST_SPANS]
        self._owes = bool(self._settled)
        return said

    def say_again(self) -> None:
        """Owe all that is settled, as what was said of it may not have come."""
        spans, first = [], 0
        for debt in self._debts.values():
            if first < debt.first:
                spans.append((first, debt.first - 1))
            first = debt.last + 1
        if first < self.handled:
            spans.append((first, self.handled - 1))
        self._settled, self._owes = spans, bool(spans)
