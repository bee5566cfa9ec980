"""A session on its way to another broker, word for word, in turns.

Ten thousand messages, or as many subscriptions, are no turn of a broker's loop.  What comes for the
session meanwhile goes behind.

>>> sending = Sending((MOST_AT_ONCE // 2, b"%d" % number) for number in range(3))
>>> sending.put(b"late")
>>> [list(sending.turn()), list(sending.turn()), sending.is_over]
[[b'0', b'1'], [b'2', b'late'], True]
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

import msgspec

from shoal.mqtt.federation.controls import Journey, SessionState, encode_control
from shoal.mqtt.federation.said import item_of, parts_of
from shoal.mqtt.sessions.delivering.outgoing import Outgoing
from shoal.mqtt.sessions.session import ClientSubscription

# What one turn costs, where a short message is 1: some 10 ms.
MOST_AT_ONCE = 1_000
# What costs as much as a short message: bytes of a long one, and of subscriptions.
COPIED_BYTES, ENCODED_BYTES = 1_000, 100

# What a word costs, and the word.
Word = tuple[int, bytes]


class Sending:
    """Words that are still to be said to one broker, in their order."""

    def __init__(self, words: Iterable[Word]) -> None:
        self._words = iter(words)
        self._behind: deque[bytes] = deque()
        self.is_over = False

    def put(self, body: bytes) -> None:
        """This came meanwhile."""
        self._behind.append(body)

    def turn(self) -> Iterator[bytes]:
        """What is said now; nothing is left once it `is_over`."""
        spent = 0
        for cost, body in self._words:
            yield body
            spent += cost
            if spent >= MOST_AT_ONCE:
                return
        while self._behind:
            yield self._behind.popleft()
        self.is_over = True


def words_of(
    items: Iterable[Outgoing],
    subscriptions: Iterable[ClientSubscription],
    came: Iterable[tuple[str, int]],
    state: SessionState,
    now_us: int,
) -> Iterator[Word]:
    """A session as it was when it was given: messages, parts, then the state, which counts them."""
    yield from items_of(items, state.journey, now_us)
    parts = 0
    for part in parts_of(subscriptions, state.journey, came):
        parts += 1
        body = encode_control(part)
        yield len(body) // ENCODED_BYTES, body
    yield 0, encode_control(msgspec.structs.replace(state, parts=parts))


def items_of(items: Iterable[Outgoing], journey: Journey, now_us: int) -> Iterator[Word]:
    """Its messages alone."""
    for outgoing in items:
        body = encode_control(item_of(outgoing, journey, now_us))
        yield 1 + len(body) // COPIED_BYTES, body
