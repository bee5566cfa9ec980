"""The receiving side of a link's session: messages that came, are handled, and are settled.

A message waits until the broker takes it, which counts as handled. An assured message is a debt
until it is settled here. The number of handled messages, and the settled ones, are acknowledged
whenever they change; after a lost connection all are acknowledged anew, as controls may be lost.
"""

from __future__ import annotations

from collections import deque
from itertools import islice, takewhile
from typing import NamedTuple

from shoal.broker.links.controls import Acknowledge
from shoal.broker.links.outbox import LinkLimits, Span
from shoal.broker.messages import Carrier, Message
from shoal.broker.wire import WireError

# Spans of one acknowledgement, some 150 KB (see `MOST_CONTROL_BYTES` in `controls`).
MOST_SPANS = 8_192


class Debt(NamedTuple):
    """Messages `first` to `last` of a session, to be acknowledged there when settled."""

    first: int
    last: int


def _is_carrier(entry: tuple[Message, int]) -> bool:
    return isinstance(entry[0], Carrier)


class LinkInbox:
    """The received messages of one session."""

    def __init__(self, limits: LinkLimits) -> None:
        self.handled = 0
        self._most_bytes = limits.window_bytes + limits.longest_frame_bytes
        # Unsettled messages; and settled ones that are not acknowledged on this connection.
        self._debts: dict[int, Debt] = {}
        self._is_forgiven = False
        self._settled: list[Span] = []
        self.reconnect()

    def reconnect(self) -> None:
        """Drop messages that were not taken: the other end sends them again on the next
        connection."""
        # Each with its size.
        self._messages: deque[tuple[Message, int]] = deque()
        self._bytes = 0
        self._owes = False

    def put(self, message: Message, size: int) -> None:
        """Add a message; WireError when there are more than the window allows."""
        self._messages.append((message, size))
        self._bytes += size
        if self._bytes > self._most_bytes:
            raise WireError("more messages than the window allows")

    def take(self) -> list[Message]:
        """The received messages, to be handled now."""
        return self._take_messages(len(self._messages))

    def take_run(self, most: int) -> list[Message]:
        """Like `take`, of the next messages: at most `most` carriers, or one of another kind."""
        count = sum(1 for _ in takewhile(_is_carrier, islice(self._messages, most)))
        return self._take_messages(count or min(len(self._messages), 1))

    def _take_messages(self, count: int) -> list[Message]:
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
        """Whether there are messages to take."""
        return bool(self._messages)

    @property
    def is_settled(self) -> bool:
        """Whether all received messages are handled, and settled if the other end waits for it."""
        return not self._messages and (self._is_forgiven or not self._debts)

    def forgive(self) -> None:
        """The other end does not wait for the settling of its messages."""
        self._is_forgiven = True

    def owe(self, first: int, last: int) -> Debt:
        """Owe the settling of these messages, which were taken."""
        debt = self._debts[first] = Debt(first, last)
        return debt

    def settle(self, debt: Debt) -> bool:
        """Note settled messages; False if they came in an earlier session."""
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
        """The acknowledgement to send, once; a part of a long one, then the rest."""
        if not self._owes:
            return None
        said = Acknowledge(self.handled, tuple(self._settled[:MOST_SPANS]))
        del self._settled[:MOST_SPANS]
        self._owes = bool(self._settled)
        return said

    def acknowledge_again(self) -> None:
        """Acknowledge all settled messages again, as acknowledgements may be lost."""
        spans, first = [], 0
        for debt in self._debts.values():
            if first < debt.first:
                spans.append((first, debt.first - 1))
            first = debt.last + 1
        if first < self.handled:
            spans.append((first, self.handled - 1))
        self._settled, self._owes = spans, bool(spans)
