"""Clients that wait here for their session, which another broker has.

That broker is asked, and again, as the question may be lost (see `questions`).  What is large, or
comes over a slow link, is waited for as long as more of it comes.  A client is never told that its
session is gone while a broker may have it: it is refused (0x88), and may try again, or start clean.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable

from shoal.model import BrokerId
from shoal.mqtt.access import Admission
from shoal.mqtt.codec.packets import Connect
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.federation.controls import (
    Control,
    Entered,
    Item,
    Journey,
    SessionPart,
    SessionState,
)
from shoal.mqtt.federation.roaming.filling import Filling
from shoal.mqtt.federation.roaming.moves import Waiting
from shoal.mqtt.federation.roaming.questions import ASK_AGAIN_US, Questions
from shoal.mqtt.federation.roaming.whereabouts.homes import Home
from shoal.mqtt.limits import MICROSECONDS, Limits
from shoal.mqtt.memory.journal import Journal
from shoal.mqtt.sessions.delivering.outgoing import ClientConnection
from shoal.mqtt.sessions.sessions import ELSEWHERE, Sessions
from shoal.mqtt.sessions.subscribed.rows import SubscriptionState
from shoal.mqtt.timers import SILENCE_TIMER, Timers

# A client does not wait longer for its session than it would for a slow broker.
WAIT_US = 2 * MICROSECONDS
# Unless brokers remember: then one that is not there may be about to start again, with it.
REMEMBERED_WAIT_US = 10 * MICROSECONDS
WAITING_TIMER = "waiting"


class Fetching:
    """The clients that wait, and which brokers do not answer.

    `say` sends a word to a broker, or to all.  `come` lets a client in with the session that has
    come, or without: with None its broker counts as gone.  `fill` files what has come of a client's
    session, which is this user's.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        sessions: Sessions,
        timers: Timers,
        say: Callable[[str, Control, int], None],
        come: Callable[[Journey, Waiting, SessionState | None, int], None],
        fill: Callable[[str, str, Iterable[SubscriptionState]], Filling],
    ) -> None:
        self._broker_id = broker_id
        self._sessions = sessions
        self._timers = timers
        self._say = say
        self._come = come
        self._fill = fill
        self.journal: Journal | None = None
        self.waiting: dict[str, tuple[Journey, Waiting]] = {}
        self.questions = Questions(timers, self._ask)
        # Those whose session has come; the first is being filled.
        self._filling: OrderedDict[Journey, None] = OrderedDict()
        # Brokers that were asked for a session in vain, since when; those heard of are not here.
        self._silent: dict[BrokerId, int] = {}

    def journey(self, client_id: str) -> Journey | None:
        """The journey for whose end a client waits."""
        journey, _ = self.waiting.get(client_id, (None, None))
        return journey

    def begin(
        self,
        journey: Journey,
        home: Home,
        connection: ClientConnection,
        admission: Admission,
        now_us: int,
    ) -> None:
        """A client's session is on another broker, which has just been asked."""
        until_us = now_us + WAIT_US
        if self.journal is not None:
            latest_us = latest_word_us(self._sessions.limits, now_us)
            until_us = min(now_us + REMEMBERED_WAIT_US, latest_us)
        waiting = Waiting(connection, admission, home.broker, now_us, until_us)
        self.waiting[journey[0]] = (journey, waiting)
        self.questions.begin(journey[0], home.broker, now_us)
        self._timers.set((WAITING_TIMER, journey), now_us + ASK_AGAIN_US)

    def connects_again(
        self, connection: ClientConnection, connect: Connect, admission: Admission, now_us: int
    ) -> bool:
        """Whether a client that has waited does so from now on with this connection."""
        client_id = connect.client_id
        current = self.waiting.get(client_id)
        if current is None:
            return False
        _, waiting = current
        if connect.clean_start or waiting.admission.user != admission.user:
            self.turn_away(client_id, now_us)
            return False
        close_for_another(waiting.connection, now_us)
        waiting.connection, waiting.admission = connection, admission
        return True

    def turn_away(self, client_id: str, now_us: int) -> None:
        """A client that may wait here does so no more: it has connected again."""
        current = self.waiting.get(client_id)
        if current is not None:
            close_for_another(current[1].connection, now_us)
            self._forget(client_id)

    def disconnect(self, journey: Journey, code: ReasonCode, reason: str, now_us: int) -> None:
        """A client that waits does not get its session here."""
        waiting = self._forget(journey[0])
        waiting.connection.disconnect(code, reason, now_us)

    def heard_of(self, broker: BrokerId, now_us: int) -> None:
        """A broker is there."""
        self._silent.pop(broker, None)
        self.questions.heard_of(broker, now_us)

    def hear(self, control: Item | SessionPart | SessionState, now_us: int) -> None:
        """Some of a session has come, for a client that may wait for it no more."""
        journey = control.journey
        current, waiting = self.waiting.get(journey[0], (None, None))
        if waiting is None or current != journey:
            return
        self._silent.pop(waiting.home, None)
        waiting.heard_us = now_us
        state = waiting.take(control)
        if state is None or waiting.filling is not None:
            return
        self.questions.end(journey[0], waiting.home)
        self.questions.answered(waiting.home, now_us)
        if not state.exists:
            self._let_in(journey, waiting, now_us)
            return
        waiting.filling = self._fill(journey[0], state.user, waiting.subscriptions.values())
        # The other broker is there: it is not asked again.
        self._timers.cancel((WAITING_TIMER, journey))
        self._filling[journey] = None
        if len(self._filling) == 1:
            self._go_on(now_us)

    def _go_on(self, now_us: int) -> None:
        """Fill some more of a session that has come; one at a time, so that others have turns."""
        journey = next(iter(self._filling))
        _, waiting = self.waiting[journey[0]]
        self._is_coming(waiting, now_us)
        if waiting.go_on(now_us):
            del self._filling[journey]
            self._let_in(journey, waiting, now_us)
        if self._filling:
            self._timers.set((WAITING_TIMER, next(iter(self._filling))), now_us + 1)

    def _is_coming(self, waiting: Waiting, now_us: int) -> None:
        """The session takes its time: its client is not let go as long as more of it comes."""
        waiting.until_us = max(waiting.until_us, now_us + WAIT_US)
        if not waiting.connection.is_closed:
            silent_us = now_us + self._sessions.limits.connect_timeout_s * MICROSECONDS
            self._timers.set((SILENCE_TIMER, waiting.connection), silent_us)

    def _let_in(self, journey: Journey, waiting: Waiting, now_us: int) -> None:
        """All of a session is here, or it is known that there is none."""
        journal = self.journal
        if waiting.connection.is_closed or (journal is not None and journal.is_failing):
            # Whoever has it keeps it.
            self._refuse(journey, "the broker cannot take the session now", now_us)
            return
        self._take_out(journey[0])
        self._come(journey, waiting, waiting.state, now_us)

    def due(self, journey: Journey, now_us: int) -> None:
        """The session has not come, or not all of it is filled."""
        client_id, _ = journey
        _, waiting = self.waiting[client_id]
        if waiting.filling is not None:
            self._go_on(now_us)
            return
        if now_us - waiting.since_us >= WAIT_US:
            self._silent.setdefault(waiting.home, now_us)
        is_coming = waiting.heard_us is not None and now_us - waiting.heard_us < WAIT_US
        if is_coming:
            self._is_coming(waiting, now_us)
        if waiting.connection.is_closed:
            self._forget(client_id)
        elif now_us >= waiting.until_us or self._is_gone(waiting.home, now_us):
            self._wait_no_more(journey, waiting, now_us)
        else:
            again_us = now_us + (ASK_AGAIN_US if is_coming else WAIT_US)
            self._timers.set((WAITING_TIMER, journey), min(again_us, waiting.until_us))

    def _ask(self, to: str, client_id: str, now_us: int) -> None:
        """Ask a broker, or all, for the session of a client once more."""
        (_, at_us), waiting = self.waiting[client_id]
        if not waiting.connection.is_closed:
            user = waiting.admission.user
            question = Entered(client_id, self._broker_id, at_us, True, waiting.home, user)
            self._say(to, question, now_us)

    def _wait_no_more(self, journey: Journey, waiting: Waiting, now_us: int) -> None:
        """The broker that has the session does not answer."""
        if self.journal is not None and not self._is_gone(waiting.home, now_us):
            reason = f"the session is at broker {waiting.home}, which does not answer; it begins "
            gone_s = self._sessions.limits.silent_broker_s
            self._refuse(journey, f"{reason}anew if that lasts for {gone_s} s", now_us)
            return
        # It has died, and all its sessions with it.
        self._forget(journey[0])
        self._come(journey, waiting, None, now_us)

    def _is_gone(self, broker: BrokerId, now_us: int) -> bool:
        """Whether a broker has been asked in vain for so long that it counts as gone."""
        gone_us = self._sessions.limits.silent_broker_s * MICROSECONDS
        return now_us - self._silent.get(broker, now_us) > gone_us

    def _refuse(self, journey: Journey, reason: str, now_us: int) -> None:
        """A client does not get its session here, for now."""
        self.disconnect(journey, ReasonCode.SERVER_UNAVAILABLE, reason, now_us)

    def _forget(self, client_id: str) -> Waiting:
        """Nobody waits for a session any more."""
        waiting = self._take_out(client_id)
        if waiting.filling is not None:
            waiting.filling.give_up()
        return waiting

    def _take_out(self, client_id: str) -> Waiting:
        journey, waiting = self.waiting.pop(client_id)
        self._timers.cancel((WAITING_TIMER, journey))
        self.questions.end(client_id, waiting.home)
        if journey in self._filling:
            del self._filling[journey]
            if self._filling:  # perhaps it was that one's turn
                self._timers.set((WAITING_TIMER, next(iter(self._filling))), 0)
        return waiting


def latest_word_us(limits: Limits, now_us: int) -> int:
    """When a client that waits must hear why, before it is let go for taking too long."""
    return now_us + limits.connect_timeout_s * MICROSECONDS - ASK_AGAIN_US


def close_for_another(connection: ClientConnection, now_us: int) -> None:
    """A connection that waits is closed: its client has connected again."""
    connection.disconnect(ReasonCode.SERVER_BUSY, ELSEWHERE, now_us)
