"""A subscription is granted when no broker can miss it: what is published next, comes.

So it is with what a client advertises: what it publishes is taken when no broker can miss that, and
it waits for slow brokers longer, as else something could be acknowledged and lost.

A mark follows what the door has asked for, to every other door.  Where subscriptions spread over
links it is behind them on each, so when it is settled they are known wherever there is somebody;
where they are stored elsewhere, or others must hear of them beside (OctopiA's bits), the machine
itself is not done with them until they are.  With both
the SUBACK is sent.  One mark is under way at a time: subscriptions made meanwhile share the next.
Where brokers are away or slow a client does not wait for ever.  What the door had asked for before
is known everywhere, and costs no mark; so is what that covers (see `door.asking`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from shoal.model import SubscriptionId
from shoal.mqtt.door.network import EVERY_BROKER, Door
from shoal.mqtt.federation.controls import Mark, encode_control
from shoal.mqtt.limits import MICROSECONDS
from shoal.mqtt.timers import Timers

# A client that asks waits no longer than this for brokers that do not answer.
PATIENCE_US = 2 * MICROSECONDS
# And what it publishes for brokers that should know what it advertises.
ADVERTISING_PATIENCE_US = 10 * MICROSECONDS
# So many are answered before others have their turn, some 5 ms.
MOST_AT_ONCE = 1_000

GRANTING_TIMER = "granting"

Answer = Callable[[int], None]


class Granting:
    """The SUBACKs that one broker owes, and the like; each is given the time when it is sent.

    Without `timers` it waits as long as it takes, and answers all at once; else `patience_us`,
    which is in its timer's key.  `before` says what must be said before a mark.
    """

    def __init__(
        self,
        broker_id: str,
        door: Door,
        timers: Timers | None,
        before: Callable[[int], None] = lambda now_us: None,
        patience_us: int = PATIENCE_US,
    ) -> None:
        self.patience_us = patience_us
        self._before = before
        self._mark = encode_control(Mark(broker_id))
        self._door = door
        self._timers = timers
        self._under_way: list[Answer] = []
        self._next: list[Answer] = []
        # Who waits for nothing more but a turn; no mark is under way meanwhile.
        self._ready: deque[Answer] = deque()
        # What they wait for: the mark of this number, and these subscriptions.
        self._number: int | None = None
        self._unsettled: set[SubscriptionId] = set()
        self._said: set[int] = set()
        self._now_us = 0
        # How often the door had asked when the mark under way was sent, and when the last one
        # was that has come everywhere.
        self._marked = self._known = 0

    def owe(self, answer: Answer, now_us: int) -> None:
        """Answer when what the door has asked for is known everywhere."""
        self._now_us = now_us
        if self._under_way:
            is_marked = self._marked == self._door.asked
            (self._under_way if is_marked else self._next).append(answer)
        elif self._known == self._door.asked and not self._said:
            answer(now_us)
        else:
            self._next.append(answer)
            if not self._ready:
                self._send(now_us)

    def wait_for(self, number: int) -> None:
        """Answer nobody before what was said under this number has come everywhere."""
        self._said.add(number)
        self._door.notice(number, self.settled)

    def settled(self, number: int) -> None:
        """A mark has come everywhere, or what else was said."""
        self._said.discard(number)
        if number == self._number:
            self._number = None
        self._check()

    def stored(self, subscription_id: SubscriptionId) -> None:
        """The machine is done with a subscription."""
        self._unsettled.discard(subscription_id)
        self._check()

    def _check(self) -> None:
        if self._under_way and self._number is None and not (self._unsettled or self._said):
            if self._timers is not None:
                self._timers.cancel((GRANTING_TIMER, self.patience_us))
            self._known = self._marked
            self._door.is_known(self._marked)
            self._answer(self._now_us)

    def due(self, now_us: int) -> None:
        """Nobody is waited for any longer, or it is the turn of more that are ready."""
        if self._ready:
            self._go_on(now_us)
        else:
            self._answer(now_us)

    def _answer(self, now_us: int) -> None:
        self._ready.extend(self._under_way)
        self._under_way = []
        self._number = None
        self._go_on(now_us)

    def _go_on(self, now_us: int) -> None:
        most = len(self._ready) if self._timers is None else MOST_AT_ONCE
        while self._ready and most:
            most -= 1
            self._ready.popleft()(now_us)
        if self._ready and self._timers is not None:
            self._timers.set((GRANTING_TIMER, self.patience_us), now_us + 1)
        elif self._next and not self._under_way:
            self._send(now_us)

    def _send(self, now_us: int) -> None:
        self._under_way, self._next = self._next, []
        self._unsettled = set(self._door.unsettled)
        self._marked = self._door.asked
        self._before(now_us)
        self._number = self._door.send(EVERY_BROKER, self._mark, now_us)
        self._door.notice(self._number, self.settled)
        if self._timers is not None:
            self._timers.set((GRANTING_TIMER, self.patience_us), now_us + self.patience_us)
