"""Joins the messages that one input causes for a neighbour into one.

A client may subscribe to a thousand filters in one packet, and the end of a covering subscription
announces those that it covered: each change of a table is a message, and so is each of these on
every further link. Consecutive messages go `Together`, in order, if no other effect stands between
them. A message is decoded in one go, so large filters go in several.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from shoal.broker.effects import Effect, Send
from shoal.broker.messages import MOST_TOGETHER, Message, Together
from shoal.model import BrokerId

# The bound of tests of joined filters: decoding takes some 4 us for each test, and a message is
# decoded as a whole.
MOST_TESTS = 2_000


def joined(effects: Iterable[Effect]) -> list[Effect]:
    """The effects, with runs of joining messages to one neighbour as one message each.

    >>> from shoal.broker.messages import Unsubscribe
    >>> joined([Send("B2", Unsubscribe("a")), Send("B3", Unsubscribe("a"))])[1].neighbour
    'B3'
    >>> (both,) = joined([Send("B2", Unsubscribe("a")), Send("B2", Unsubscribe("b"))])
    >>> [message.subscription_id for message in both.message.messages]
    ['a', 'b']
    """
    found: list[Effect] = []
    runs: dict[BrokerId, list[Message]] = {}
    tests: dict[BrokerId, int] = defaultdict(int)
    for effect in effects:
        if not (type(effect) is Send and effect.message.joins):
            _end(runs, found)
            tests.clear()
            found.append(effect)
            continue
        run = runs.setdefault(effect.neighbour, [])
        more = _tests_in(effect.message)
        is_whole = len(run) == MOST_TOGETHER or tests[effect.neighbour] + more > MOST_TESTS
        if run and (is_whole or run[0].introduces is not effect.message.introduces):
            found.append(_send(effect.neighbour, run))
            run.clear()
            tests[effect.neighbour] = 0
        run.append(effect.message)
        tests[effect.neighbour] += more
    _end(runs, found)
    return found


def enough(messages: Sequence[Message], most: int) -> int:
    """How many of these messages, at least one, are within the bounds of joining."""
    left = MOST_TESTS
    for number, message in enumerate(messages[:most]):
        left -= _tests_in(message)
        if left < 0:
            return max(1, number)
    return min(most, len(messages))


def _tests_in(message: Message) -> int:
    return sum(each.length for each in message.brings)


def _end(runs: dict[BrokerId, list[Message]], found: list[Effect]) -> None:
    found += [_send(neighbour, run) for neighbour, run in runs.items()]
    runs.clear()


def _send(neighbour: BrokerId, run: list[Message]) -> Send:
    return Send(neighbour, run[0] if len(run) == 1 else Together(tuple(run)))
