"""Requests of a front end to its broker's machine: in order, in time slices.

A client may subscribe to twenty large filters in one packet, and the machine may take long for
each.  Requests beyond a slice wait, with all later requests behind them; clients are held until
they are done.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

from shoal.broker.effects import Requested
from shoal.broker.messages import Message, Publish, Subscribe, Together, Unsubscribe
from shoal.model import SubscriptionId
from shoal.runtime.driving.timing.clock import Clock

# Length of a time slice, after which other tasks run.
TURN_US = 10_000


def together(requests: Iterable[Requested]) -> Iterator[Requested]:
    """Yield the requests, with a client's consecutive subscribes and unsubscribes merged."""
    for (client, joins), run in groupby(requests, _kind):
        if not joins:
            yield from run
            continue
        words: list[Message] = [each.request for each in run]
        yield Requested(client, words[0] if len(words) == 1 else Together(tuple(words)))


def subscribed(request: Message) -> tuple[SubscriptionId, ...]:
    """Return the subscriptions that a request makes."""
    parts = request.messages if isinstance(request, Together) else (request,)
    return tuple(each.subscription.id for each in parts if isinstance(each, Subscribe))


def _kind(requested: Requested) -> tuple[str, bool]:
    return requested.client, isinstance(requested.request, Subscribe | Unsubscribe)


class SubscriptionAsking:
    """`ask` has a request handled; `at_wait` hears that some wait, and that none do any more."""

    def __init__(
        self,
        clock: Clock,
        ask: Callable[[Requested], None],
        at_wait: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._ask = ask
        self._at_wait = at_wait
        self._waiting: deque[Requested] = deque()
        # Time that this slice has taken; a slice ends once other tasks have run.
        self._took_us = 0
        self._has_begun = False

    @property
    def is_behind(self) -> bool:
        """Return whether something waits."""
        return bool(self._waiting)

    def put_all(self, gathered: list[Requested]) -> None:
        """Hand over all gathered requests, merged if possible; the list is empty afterwards."""
        for requested in together(gathered):
            self.put(requested)
        gathered.clear()

    def put(self, requested: Requested) -> None:
        """Have this handled, behind all before it."""
        if self._waiting or self._took_us >= TURN_US:
            self._waiting.append(requested)
            if len(self._waiting) == 1:
                self._at_wait()
        elif type(requested.request) is Publish:  # of which a read brings no more than a turn's
            self._ask(requested)
        else:
            self._carry_timed(requested)
            if not self._has_begun:
                self._has_begun = True
                asyncio.get_running_loop().call_soon(self._next_turn)

    def finish(self) -> None:
        """Have all that waits handled now."""
        while self._waiting:
            self._ask(self._waiting.popleft())

    def _carry_timed(self, requested: Requested) -> None:
        began_us = self._clock.now_us()
        self._ask(requested)
        self._took_us += self._clock.now_us() - began_us

    def _next_turn(self) -> None:
        self._took_us = 0
        self._has_begun = False
        if not self._waiting:
            return
        while self._waiting and self._took_us < TURN_US:
            self._carry_timed(self._waiting.popleft())
        self._has_begun = True
        asyncio.get_running_loop().call_soon(self._next_turn)
        if not self._waiting:
            self._at_wait()
