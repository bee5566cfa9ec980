"""Takeover of a client: its old connection ends, with its will, before its new one publishes.

A client that connects may still be connected at another broker. Publications of its new connection
would overtake the will of the old one. The new broker therefore holds the client's publications
until the old broker has closed the connection and its will is settled: in the sessions of all its
subscribers, and retained everywhere.

The new broker asks the client's former broker, if it knows that one, or a registrar of the client
(`directory/registering.py`), which passes the question on, or answers that there is none.

| broker | hears or sees | does |
| --- | --- | --- |
| new | a client's session begins, knows the old one | SessionTakeOver, to that one → waiting |
| new | a client's session begins | Entered, which asks a registrar → waiting |
| new, is a registrar, knows of no other broker | the same | nothing |
| registrar | asked, knows the client's broker | SessionTakeOver, to that broker; AskedThere |
| registrar | asked, knows of no other broker | TakenOver |
| old | SessionTakeOver | closes the connection, ends the session, publishes its will |
| old, the client has reconnected since | SessionTakeOver | TakenOver; it keeps the client |
| old | the will is settled, or there is none | TakenOver |
| new | TakenOver | accepts the client's publications |
| new | AskedThere | waits for that broker |
| new | ASK_AGAIN_US over without an answer, waiting | SessionTakeOver, to the next |
| new | WAIT_US over, waiting | accepts the client's publications |

A broker that did not answer is not waited for again before it is heard of: otherwise each client of
a killed broker would wait.

The new broker does not wait any longer for a question that comes later than LATE_US after the
client connected, as the old one was cut off. The client has published already then, and the old
broker drops the will: subscribers must not get an old loss after a new birth.

A session that comes from the old broker needs no question: the source reports when its client's
publications there are settled (`exporting.py`), its will among them.

Source: MQTT Version 5.0, section 3.1.4.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from shoal.model import BrokerId
from shoal.mqtt.federation.controls import (
    AskedThere,
    Control,
    SessionTakeOver,
    TakenOver,
    Transfer,
)
from shoal.mqtt.federation.session_transfer.exporting import SessionExport
from shoal.mqtt.front_end.network import FrontEnd
from shoal.mqtt.limits import MICROSECONDS
from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.sessions.session import Session
from shoal.mqtt.sessions.sessions import Sessions
from shoal.mqtt.timers import MqttTimers

# The timeout of each broker asked, and of the whole takeover.
ASK_AGAIN_US = MICROSECONDS
WAIT_US = 3 * MICROSECONDS
# A broker that is asked later than this publishes no will.
LATE_US = WAIT_US - MICROSECONDS // 2
# The bound of passing a question on: to the broker that a registrar knows, and once more.
MOST_PASSED = 2

TAKEOVER_TIMER = "takeover"


class _Waiting:
    """A client that takes over: the broker that was `asked`, and the ones `left` to ask."""

    __slots__ = ("asked", "left", "question", "session", "until_us")

    def __init__(
        self,
        question: SessionTakeOver,
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
    """The takeovers of one broker.

    `send` sends a control to a broker; `place` returns the client's broker that this broker, as a
    registrar, knows, other than the asking one. `is_back` returns whether a session's client
    reconnected here after a time.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        sessions: Sessions,
        exports: SessionExport,
        front_end: FrontEnd,
        timers: MqttTimers,
        send: Callable[[BrokerId, Control, int], None],
        place: Callable[[str, BrokerId], BrokerId | None],
        is_back: Callable[[Session, int], bool],
    ) -> None:
        self._broker_id = broker_id
        self._sessions = sessions
        self._exports = exports
        self._front_end = front_end
        self._timers = timers
        self._send = send
        self._place = place
        self._is_back = is_back
        # Brokers that have not answered, and were not heard of since.
        self._silent: set[BrokerId] = set()
        # By client identifier.
        self._waiting: dict[str, _Waiting] = {}
        # Wills that are not settled, counted by client; and the questions that wait for them.
        self._wills: dict[str, int] = defaultdict(int)
        self._unanswered: dict[str, list[SessionTakeOver]] = defaultdict(list)
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
        """Hold the publications of a client with a new session until one of these brokers, the
        best first, has answered; `is_asked` if the first was asked already.
        """
        question = SessionTakeOver(
            session.client_id,
            session.entered_us,
            self._broker_id,
            session.user,
            began_us=session.began_us,
        )
        waiting = _Waiting(question, session, brokers, now_us + WAIT_US)
        self._waiting[session.client_id] = waiting
        session.is_taking_over = True
        self._ask_next_broker(waiting, now_us, is_asked=is_asked)

    def _ask_next_broker(self, waiting: _Waiting, now_us: int, *, is_asked: bool = False) -> None:
        """Ask the next broker that may answer; silent ones are asked, and not waited for."""
        question = waiting.question
        while waiting.left:
            waiting.asked = waiting.left.pop(0)
            if not is_asked:
                self._send(waiting.asked, question, now_us)
            is_asked = False
            if waiting.asked not in self._silent:
                at_us = now_us + ASK_AGAIN_US if waiting.left else waiting.until_us
                self._timers.set((TAKEOVER_TIMER, (question.client_id, question.at_us)), at_us)
                return
        self._accept_publications(waiting)

    def on_takeover_timer(self, transfer: Transfer, now_us: int) -> None:
        """Handle the timeout of the broker that was asked."""
        waiting = self._get(transfer)
        if waiting is not None:
            self.on_timeout(waiting.asked)
            self._ask_next_broker(waiting, now_us)

    def asked_there(self, transfer: Transfer, broker: BrokerId) -> None:
        """The client's former broker has been asked."""
        waiting = self._get(transfer)
        if waiting is None:
            return
        waiting.asked, waiting.left = broker, []
        if broker in self._silent:
            self._accept_publications(waiting)
        else:
            self._timers.set((TAKEOVER_TIMER, transfer), waiting.until_us)

    def taken_over(self, transfer: Transfer) -> None:
        """The client has no other connection, and no unsettled will of one."""
        waiting = self._get(transfer)
        if waiting is not None:
            self._silent.discard(waiting.asked)
            self._accept_publications(waiting)

    def on_timeout(self, broker: BrokerId) -> None:
        """Do not wait for a broker again before it is heard of."""
        self._silent.add(broker)

    def on_alive(self, broker: BrokerId) -> None:
        """Handle a sign of life of a broker."""
        self._silent.discard(broker)

    def _get(self, transfer: Transfer) -> _Waiting | None:
        waiting = self._waiting.get(transfer[0])
        return waiting if waiting is not None and waiting.question.at_us == transfer[1] else None

    def _accept_publications(self, waiting: _Waiting) -> None:
        question = waiting.question
        del self._waiting[question.client_id]
        self._timers.cancel((TAKEOVER_TIMER, (question.client_id, question.at_us)))
        waiting.session.is_taking_over = False

    # --- at a registrar, and at the old broker ------------------------------------------------

    def asked(self, question: SessionTakeOver, now_us: int) -> None:
        """Handle another broker's takeover of a client."""
        client_id = question.client_id
        session = self._sessions.get(client_id)
        if session is None and question.passed < MOST_PASSED:
            place = self._place(client_id, question.broker)
            if place not in (None, self._broker_id):
                assert place is not None
                on = msgspec.structs.replace(question, passed=question.passed + 1)
                self._send(place, on, now_us)
                there = AskedThere((client_id, question.at_us), place)
                self._send(question.broker, there, now_us)
                return
        if session is not None:
            self._end_old_session(session, question, now_us)
        if client_id in self._wills:
            self._unanswered[client_id].append(question)
        else:
            self._send_taken_over(question, now_us)

    def _end_old_session(self, session: Session, question: SessionTakeOver, now_us: int) -> None:
        own, others = (session.entered_us, self._broker_id), (question.at_us, question.broker)
        is_older = own < others and not self._is_back(session, question.at_us)
        if not is_older or session.user != question.user:
            return
        if self._exports.get(session.client_id) is not None:
            return
        drop_if_late(session, max(question.at_us, question.began_us), now_us)
        left = self._sessions.close_connection(session.client_id, now_us)
        if left is not None:
            self._sessions.replace(left, now_us)

    def _send_taken_over(self, question: SessionTakeOver, now_us: int) -> None:
        self._send(question.broker, TakenOver((question.client_id, question.at_us)), now_us)

    def _will_is_under_way(self, session: Session, message: PublishedMessage) -> None:
        """Count a published will; a session that is exported is not settled before it."""
        assert message.key is not None
        self._wills[session.client_id] += 1
        session.owe_will()
        self._front_end.notice(message.key[1], partial(self._will_is_settled, session))

    def _will_is_settled(self, session: Session, _: int) -> None:
        client_id = session.client_id
        session.will_is_settled()
        self._wills[client_id] -= 1
        if not self._wills[client_id]:
            del self._wills[client_id]
            for question in self._unanswered.pop(client_id, ()):
                self._send_taken_over(question, question.at_us)


def drop_if_late(session: Session, admitted_us: int, now_us: int) -> None:
    """Drop the will of a session if its client, admitted elsewhere then, may have published there.

    A client may have waited for its admission: its fencing token is the time of its CONNECT, and
    its session there began when it was admitted.
    """
    if now_us - admitted_us > LATE_US:
        session.will = None
