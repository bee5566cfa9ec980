"""Grants subscriptions when every broker knows them: the client gets all later publications.

The same holds for a client's advertisements: its publications are accepted when every broker knows
them, with a longer timeout, as otherwise an acknowledged publication could be lost.

A mark follows the front end's requests to every other front end. If subscriptions spread over
links the mark is behind them on each link, so when it is settled every broker with clients knows
them; where they are stored elsewhere, or other state depends on them (OctopiA's bits), the machine
reports when it is done. After both the SUBACK is sent. One mark is under way at a time:
subscriptions made meanwhile share the next. A timeout bounds the wait for disconnected or slow
brokers. Requests that every broker knows already need no mark, nor do subscriptions that they cover
(see `front_end.asking`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from shoal.model import SubscriptionId
from shoal.mqtt.federation.controls import Mark, encode_control
from shoal.mqtt.front_end.network import EVERY_BROKER, FrontEnd
from shoal.mqtt.limits import MICROSECONDS
from shoal.mqtt.timers import MqttTimers

# The timeout of a SUBACK for brokers that do not answer.
PATIENCE_US = 2 * MICROSECONDS
# The timeout of a client's publications for brokers that do not know its advertisements.
ADVERTISING_PATIENCE_US = 10 * MICROSECONDS
# The number of answers per time slice, some 5 ms.
MOST_AT_ONCE = 1_000

GRANTING_TIMER = "granting"

Answer = Callable[[int], None]


class FederationGranting:
    """The SUBACKs, and similar answers, that one broker owes; each gets the time of its sending.

    Without `timers` it has no timeout, and answers all at once; otherwise the timeout is
    `patience_us`, which is in its timer's key. `before` sends controls that must precede a mark.
    """

    def __init__(
        self,
        broker_id: str,
        front_end: FrontEnd,
        timers: MqttTimers | None,
        before: Callable[[int], None] = lambda now_us: None,
        patience_us: int = PATIENCE_US,
    ) -> None:
        self.patience_us = patience_us
        self._before = before
        self._mark = encode_control(Mark(broker_id))
        self._front_end = front_end
        self._timers = timers
        self._under_way: list[Answer] = []
        self._next: list[Answer] = []
        # Answers that wait only for a time slice; no mark is under way meanwhile.
        self._ready: deque[Answer] = deque()
        # The conditions of the answers: the mark of this number, and these subscriptions.
        self._number: int | None = None
        self._unsettled: set[SubscriptionId] = set()
        self._said: set[int] = set()
        self._now_us = 0
        # The front end's request count of the mark under way, and of the last mark that is known
        # everywhere.
        self._marked = self._known = 0

    def owe(self, answer: Answer, now_us: int) -> None:
        """Call `answer` when every broker knows the front end's requests.

        The mark under way covers the requests made before it; later ones need the next mark.
        """
        self._now_us = now_us
        if self._under_way:
            is_marked = self._marked == self._front_end.asked
            (self._under_way if is_marked else self._next).append(answer)
        elif self._known == self._front_end.asked and not self._said:
            answer(now_us)
        else:
            self._next.append(answer)
            if not self._ready:
                self._send_mark(now_us)

    def wait_for(self, number: int) -> None:
        """Send no answer before this control, which the front end numbered, is settled."""
        self._said.add(number)
        self._front_end.notice(number, self.settled)

    def settled(self, number: int) -> None:
        """Handle a settled mark or control."""
        self._said.discard(number)
        if number == self._number:
            self._number = None
        self._answer_if_known()

    def stored(self, subscription_id: SubscriptionId) -> None:
        """Handle a subscription that the machine has installed."""
        self._unsettled.discard(subscription_id)
        self._answer_if_known()

    def _answer_if_known(self) -> None:
        if self._under_way and self._number is None and not (self._unsettled or self._said):
            if self._timers is not None:
                self._timers.cancel((GRANTING_TIMER, self.patience_us))
            self._known = self._marked
            self._front_end.is_known(self._marked)
            self._answer_all(self._now_us)

    def on_granting_timer(self, now_us: int) -> None:
        """Handle the timeout, or the next time slice of answers."""
        if self._ready:
            self._answer_slice(now_us)
        else:
            self._answer_all(now_us)

    def _answer_all(self, now_us: int) -> None:
        self._ready.extend(self._under_way)
        self._under_way = []
        self._number = None
        self._answer_slice(now_us)

    def _answer_slice(self, now_us: int) -> None:
        most = len(self._ready) if self._timers is None else MOST_AT_ONCE
        while self._ready and most:
            most -= 1
            self._ready.popleft()(now_us)
        if self._ready and self._timers is not None:
            self._timers.set((GRANTING_TIMER, self.patience_us), now_us + 1)
        elif self._next and not self._under_way:
            self._send_mark(now_us)

    def _send_mark(self, now_us: int) -> None:
        self._under_way, self._next = self._next, []
        self._unsettled = set(self._front_end.unsettled)
        self._marked = self._front_end.asked
        self._before(now_us)
        self._number = self._front_end.send(EVERY_BROKER, self._mark, now_us)
        self._front_end.notice(self._number, self.settled)
        if self._timers is not None:
            self._timers.set((GRANTING_TIMER, self.patience_us), now_us + self.patience_us)
