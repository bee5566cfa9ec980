"""A client that connects elsewhere: its old connection ends, with its will, before it publishes.

A client that is let in may still be connected at another broker.  What the new broker takes from
it would overtake the will of that connection.  So the new broker takes nothing until the old one
has closed the connection and its will is settled: in the sessions of all its subscribers, and
retained everywhere.

The new broker asks the broker where the client was, if it knows that, or a registrar of the client
(`whereabouts/registering.py`), which passes the question on, or answers that it was nowhere.

| broker | hears or sees | does |
| --- | --- | --- |
| new | a client's session begins, knows the old one | TakeOver, to that one → waiting |
| new | a client's session begins | Entered, which asks a registrar → waiting |
| new, is a registrar, knows of no other broker | the same | nothing |
| registrar | asked, knows where the client was | TakeOver, to that broker; AskedThere |
| registrar | asked, knows of no other broker | TakenOver |
| old | TakeOver | closes the connection, ends the session, publishes its will |
| old | the will is settled, or there is none | TakenOver |
| new | TakenOver | takes what the client publishes |
| new | AskedThere | waits for that broker |
| new | ASK_AGAIN_US over without a word, waiting | TakeOver, to the next |
| new | WAIT_US over, waiting | takes what the client publishes |

A broker that did not answer is not waited for again before it is heard of: else each client of a
broker that was killed would wait.

A question that comes later than LATE_US after the client connected finds a new broker that does
not wait any longer, as the old one was cut off.  Then the client has published already, and the
will is dropped: nobody may hear of an old loss after a new birth.

A session that comes from the old broker needs no question: that broker says itself when all that
its client published there is settled (`giving.py`), its will among it.

Source: MQTT Version 5.0, section 3.1.4.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from shoal.model import BrokerId
from shoal.mqtt.door.network import Door
from shoal.mqtt.federation.controls import (
    AskedThere,
    Control,
    Journey,
    TakenOver,
    TakeOver,
)
from shoal.mqtt.federation.roaming.giving import Giving
from shoal.mqtt.limits import MICROSECONDS
from shoal.mqtt.messages import Message
from shoal.mqtt.sessions.session import Session
from shoal.mqtt.sessions.sessions import Sessions
from shoal.mqtt.timers import Timers

# When the next registrar is asked, and how long a client waits in all.
ASK_AGAIN_US = MICROSECONDS
WAIT_US = 3 * MICROSECONDS
# A broker that hears of a takeover so late publishes no will for it.
LATE_US = WAIT_US - MICROSECONDS // 2
# How often a question is passed on: to where a registrar thinks that the client was, and once more.
MOST_PASSED = 2

TAKEOVER_TIMER = "takeover"


class _Waiting:
    """A client that is let in, and takes over: which broker is `asked`, and which are `left`."""

    __slots__ = ("asked", "left", "question", "session", "until_us")

    def __init__(
        self,
        question: TakeOver,
        session: Session,
        left: Sequence[BrokerId],
        until_us: int,
    ) -> None:
        self.question = question
        self.session = session
        self.asked: BrokerId = ""
        self.left = list(left)
        self.until_us = until_us


class Takeovers:
    """One broker's part.

    `say` sends a control to a broker; `place` is where this broker, as a registrar, knows a client
    to be, other than at the broker that asks.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        sessions: Sessions,
        giving: Giving,
        door: Door,
        timers: Timers,
        say: Callable[[BrokerId, Control, int], None],
        place: Callable[[str, BrokerId], BrokerId | None],
    ) -> None:
        self._broker_id = broker_id
        self._sessions = sessions
        self._giving = giving
        self._door = door
        self._timers = timers
        self._say = say
        self._place = place
        # Brokers that have not answered, and that nothing was heard of since.
        self._silent: set[BrokerId] = set()
        # By client identifier.
        self._waiting: dict[str, _Waiting] = {}
        # Of clients whose wills are under way: how many are, and whom to answer then.
        self._wills: dict[str, int] = defaultdict(int)
        self._unanswered: dict[str, list[TakeOver]] = defaultdict(list)
        sessions.at_will = self._will_is_under_way

    # --- at the new broker --------------------------------------------------------------------

    def begin(
        self,
        session: Session,
        brokers: Sequence[BrokerId],
        now_us: int,
        *,
        is_asked: bool,
    ) -> None:
        """A client was let in to a session that begins here: hold back what it publishes, until one
        of these brokers, the best first, has answered.  Whether the first `is_asked` already.
        """
        question = TakeOver(session.client_id, session.entered_us, self._broker_id, session.user)
        waiting = _Waiting(question, session, brokers, now_us + WAIT_US)
        self._waiting[session.client_id] = waiting
        session.is_taking_over = True
        self._ask(waiting, now_us, is_asked=is_asked)

    def _ask(self, waiting: _Waiting, now_us: int, *, is_asked: bool = False) -> None:
        """Ask the next that may answer; the others are told, and not waited for."""
        question = waiting.question
        while waiting.left:
            waiting.asked = waiting.left.pop(0)
            if not is_asked:
                self._say(waiting.asked, question, now_us)
            is_asked = False
            if waiting.asked not in self._silent:
                at_us = now_us + ASK_AGAIN_US if waiting.left else waiting.until_us
                self._timers.set((TAKEOVER_TIMER, (question.client_id, question.at_us)), at_us)
                return
        self._go_on(waiting)

    def due(self, journey: Journey, now_us: int) -> None:
        """The broker that was asked has not answered."""
        waiting = self._get(journey)
        if waiting is not None:
            self.has_not_answered(waiting.asked)
            self._ask(waiting, now_us)

    def asked_there(self, journey: Journey, broker: BrokerId) -> None:
        """The broker where the client was has been asked."""
        waiting = self._get(journey)
        if waiting is None:
            return
        waiting.asked, waiting.left = broker, []
        if broker in self._silent:
            self._go_on(waiting)
        else:
            self._timers.set((TAKEOVER_TIMER, journey), waiting.until_us)

    def taken_over(self, journey: Journey) -> None:
        """The client has no other connection, and no will of one is under way."""
        waiting = self._get(journey)
        if waiting is not None:
            self._silent.discard(waiting.asked)
            self._go_on(waiting)

    def has_not_answered(self, broker: BrokerId) -> None:
        """Wait for a broker no more before it is heard of."""
        self._silent.add(broker)

    def heard_of(self, broker: BrokerId) -> None:
        """A broker is there."""
        self._silent.discard(broker)

    def _get(self, journey: Journey) -> _Waiting | None:
        waiting = self._waiting.get(journey[0])
        return waiting if waiting is not None and waiting.question.at_us == journey[1] else None

    def _go_on(self, waiting: _Waiting) -> None:
        question = waiting.question
        del self._waiting[question.client_id]
        self._timers.cancel((TAKEOVER_TIMER, (question.client_id, question.at_us)))
        waiting.session.is_taking_over = False

    # --- at a registrar, and at the old broker ------------------------------------------------

    def asked(self, question: TakeOver, now_us: int) -> None:
        """Another broker has let a client in."""
        client_id = question.client_id
        session = self._sessions.get(client_id)
        if session is None and question.passed < MOST_PASSED:
            place = self._place(client_id, question.broker)
            if place not in (None, self._broker_id):
                assert place is not None
                on = msgspec.structs.replace(question, passed=question.passed + 1)
                self._say(place, on, now_us)
                there = AskedThere((client_id, question.at_us), place)
                self._say(question.broker, there, now_us)
                return
        if session is not None:
            self._end(session, question, now_us)
        if client_id in self._wills:
            self._unanswered[client_id].append(question)
        else:
            self._answer(question, now_us)

    def _end(self, session: Session, question: TakeOver, now_us: int) -> None:
        own, others = (session.entered_us, self._broker_id), (question.at_us, question.broker)
        is_older = own < others and session.user == question.user
        if not is_older or self._giving.get(session.client_id) is not None:
            return
        drop_if_late(session, question.at_us, now_us)
        left = self._sessions.let_go(session.client_id, now_us)
        if left is not None:
            self._sessions.replace(left, now_us)

    def _answer(self, question: TakeOver, now_us: int) -> None:
        self._say(question.broker, TakenOver((question.client_id, question.at_us)), now_us)

    def _will_is_under_way(self, session: Session, message: Message) -> None:
        """A will was published; the session, if it goes elsewhere, is not settled before it is."""
        assert message.key is not None
        self._wills[session.client_id] += 1
        session.owe_will()
        self._door.notice(message.key[1], partial(self._will_is_settled, session))

    def _will_is_settled(self, session: Session, _: int) -> None:
        client_id = session.client_id
        session.will_is_settled()
        self._wills[client_id] -= 1
        if not self._wills[client_id]:
            del self._wills[client_id]
            for question in self._unanswered.pop(client_id, ()):
                self._answer(question, question.at_us)


def drop_if_late(session: Session, entered_us: int, now_us: int) -> None:
    """Forget the will of a session whose client entered elsewhere so long ago that it published."""
    if now_us - entered_us > LATE_US:
        session.will = None
