"""Clients that wait here for their session, which another broker owns.

The target asks the owner, repeatedly, as a question may be lost (see `questions`). It waits for a
large session, or a slow link, as long as more of it comes. A client is never told that its session
is gone while a broker may have it: it is refused (0x88), and may retry, or start clean. A session
whose owner was declared dead begins anew if no broker sends it in time. An owner that has left has
exported the session: the broker that has it may be down, and its announcement may not have come.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable

from shoal.model import BrokerId
from shoal.mqtt.access import ClientAdmission
from shoal.mqtt.codec.packets import Connect
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.federation.controls import (
    Control,
    Entered,
    Item,
    SessionPart,
    SessionState,
    Transfer,
)
from shoal.mqtt.federation.session_transfer.directory.session_directory import SessionOwner
from shoal.mqtt.federation.session_transfer.installing import SessionInstallation
from shoal.mqtt.federation.session_transfer.moves import WaitingClient
from shoal.mqtt.federation.session_transfer.questions import ASK_AGAIN_US, TransferQuestions
from shoal.mqtt.limits import MICROSECONDS, MqttLimits
from shoal.mqtt.memory.journal import SessionJournal
from shoal.mqtt.sessions.delivering.outgoing import ClientConnection
from shoal.mqtt.sessions.sessions import ELSEWHERE, Sessions
from shoal.mqtt.sessions.subscribed.rows import SubscriptionState
from shoal.mqtt.timers import SILENCE_TIMER, MqttTimers

# The timeout of a session: as long as a client waits for a slow broker.
WAIT_US = 2 * MICROSECONDS
# With journals: a broker that is down may be about to start again, with the session.
REMEMBERED_WAIT_US = 10 * MICROSECONDS
WAITING_TIMER = "waiting"


class Fetching:
    """The waiting clients, and the brokers that do not answer.

    `send` sends a control to a broker, or to all. `come` admits a client with the session that has
    come, or without one: None if its owner counts as dead. `fill` installs the state of a client's
    session for this user. `dead` are the brokers that were declared dead.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        sessions: Sessions,
        timers: MqttTimers,
        send: Callable[[str, Control, int], None],
        come: Callable[[Transfer, WaitingClient, SessionState | None, int], None],
        fill: Callable[[str, str, Iterable[SubscriptionState]], SessionInstallation],
        dead: Collection[BrokerId] = (),
    ) -> None:
        self._broker_id = broker_id
        self._sessions = sessions
        self._timers = timers
        self._send = send
        self._come = come
        self._fill = fill
        self._dead = dead
        self.journal: SessionJournal | None = None
        self.waiting: dict[str, tuple[Transfer, WaitingClient]] = {}
        self.questions = TransferQuestions(timers, self._ask_for_session)
        # Transfers whose session has come; the first is being filled.
        self._filling: OrderedDict[Transfer, None] = OrderedDict()
        # Brokers that were asked without an answer, with the time since then.
        self._silent: dict[BrokerId, int] = {}

    def transfer(self, client_id: str) -> Transfer | None:
        """The transfer for which a client waits."""
        transfer, _ = self.waiting.get(client_id, (None, None))
        return transfer

    def begin(
        self,
        transfer: Transfer,
        home: SessionOwner,
        connection: ClientConnection,
        admission: ClientAdmission,
        now_us: int,
    ) -> None:
        """Begin to wait for a session; its owner was just asked."""
        until_us = now_us + WAIT_US
        if self.journal is not None:
            latest_us = latest_word_us(self._sessions.limits, now_us)
            until_us = min(now_us + REMEMBERED_WAIT_US, latest_us)
        waiting = WaitingClient(connection, admission, home.broker, now_us, until_us)
        self.waiting[transfer[0]] = (transfer, waiting)
        self.questions.begin(transfer[0], home.broker, now_us)
        self._timers.set((WAITING_TIMER, transfer), now_us + ASK_AGAIN_US)

    def connects_again(
        self,
        connection: ClientConnection,
        connect: Connect,
        admission: ClientAdmission,
        now_us: int,
    ) -> bool:
        """Whether a waiting client has reconnected, and waits with this connection."""
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
        """Stop waiting: the client has connected again."""
        current = self.waiting.get(client_id)
        if current is not None:
            close_for_another(current[1].connection, now_us)
            self._stop_waiting_for(client_id)

    def disconnect(self, transfer: Transfer, code: ReasonCode, reason: str, now_us: int) -> None:
        """Disconnect a waiting client, which does not get its session here."""
        waiting = self._stop_waiting_for(transfer[0])
        waiting.connection.disconnect(code, reason, now_us)

    def on_alive(self, broker: BrokerId, now_us: int) -> None:
        """Handle a sign of life of a broker."""
        self._silent.pop(broker, None)
        self.questions.on_alive(broker, now_us)

    def on_control(self, control: Item | SessionPart | SessionState, now_us: int) -> None:
        """Handle a part of a session, for a client that may not wait any more."""
        transfer = control.transfer
        current, waiting = self.waiting.get(transfer[0], (None, None))
        if waiting is None or current != transfer:
            return
        self._silent.pop(waiting.home, None)
        waiting.heard_us = now_us
        state = waiting.take(control)
        if state is None or waiting.filling is not None:
            return
        self.questions.end(transfer[0], waiting.home)
        self.questions.answered(waiting.home, now_us)
        if not state.exists:
            self._let_in(transfer, waiting, now_us)
            return
        waiting.filling = self._fill(transfer[0], state.user, waiting.subscriptions.values())
        # The source is alive: it is not asked again.
        self._timers.cancel((WAITING_TIMER, transfer))
        self._filling[transfer] = None
        if len(self._filling) == 1:
            self._fill_slice(now_us)

    def _fill_slice(self, now_us: int) -> None:
        """Fill the first incoming session a bit more; one at a time, in time slices."""
        transfer = next(iter(self._filling))
        _, waiting = self.waiting[transfer[0]]
        self._is_coming(waiting, now_us)
        if waiting.run_slice(now_us):
            del self._filling[transfer]
            self._let_in(transfer, waiting, now_us)
        if self._filling:
            self._timers.set((WAITING_TIMER, next(iter(self._filling))), now_us + 1)

    def _is_coming(self, waiting: WaitingClient, now_us: int) -> None:
        """Extend the client's timeouts as long as more of its session comes."""
        waiting.until_us = max(waiting.until_us, now_us + WAIT_US)
        if not waiting.connection.is_closed:
            silent_us = now_us + self._sessions.limits.connect_timeout_s * MICROSECONDS
            self._timers.set((SILENCE_TIMER, waiting.connection), silent_us)

    def _let_in(self, transfer: Transfer, waiting: WaitingClient, now_us: int) -> None:
        """Admit the client: all of its session is here, or there is none."""
        journal = self.journal
        if waiting.connection.is_closed or (journal is not None and journal.is_failing):
            # The source keeps it.
            self._refuse_session(transfer, "the broker cannot take the session now", now_us)
            return
        self._take_out(transfer[0])
        self._come(transfer, waiting, waiting.state, now_us)

    def on_fetching_timer(self, transfer: Transfer, now_us: int) -> None:
        """Handle a timeout of a session, or the next time slice of filling."""
        client_id, _ = transfer
        _, waiting = self.waiting[client_id]
        if waiting.filling is not None:
            self._fill_slice(now_us)
            return
        if now_us - waiting.since_us >= WAIT_US:
            self._silent.setdefault(waiting.home, now_us)
        is_coming = waiting.heard_us is not None and now_us - waiting.heard_us < WAIT_US
        if is_coming:
            self._is_coming(waiting, now_us)
        if waiting.connection.is_closed:
            self._stop_waiting_for(client_id)
        elif now_us >= waiting.until_us or self._is_gone(waiting.home, now_us):
            self._wait_no_more(transfer, waiting, now_us)
        else:
            again_us = now_us + (ASK_AGAIN_US if is_coming else WAIT_US)
            self._timers.set((WAITING_TIMER, transfer), min(again_us, waiting.until_us))

    def _ask_for_session(self, to: str, client_id: str, now_us: int) -> None:
        """Ask a broker, or all, for the session of a client again."""
        (_, at_us), waiting = self.waiting[client_id]
        if not waiting.connection.is_closed:
            user = waiting.admission.user
            question = Entered(client_id, self._broker_id, at_us, True, waiting.home, user)
            self._send(to, question, now_us)

    def _wait_no_more(self, transfer: Transfer, waiting: WaitingClient, now_us: int) -> None:
        """Handle the final timeout: the session's owner does not answer."""
        is_dead = waiting.home in self._dead or self._is_gone(waiting.home, now_us)
        if self.journal is not None and not is_dead:
            reason = f"the session is at broker {waiting.home}, which does not answer; it begins "
            gone_s = self._sessions.limits.silent_broker_s
            self._refuse_session(transfer, f"{reason}anew if that lasts for {gone_s} s", now_us)
            return
        # The owner counts as dead, with all its sessions.
        self._stop_waiting_for(transfer[0])
        self._come(transfer, waiting, None, now_us)

    def _is_gone(self, broker: BrokerId, now_us: int) -> bool:
        """Whether a broker has been asked in vain for so long that it counts as dead."""
        gone_us = self._sessions.limits.silent_broker_s * MICROSECONDS
        return now_us - self._silent.get(broker, now_us) > gone_us

    def _refuse_session(self, transfer: Transfer, reason: str, now_us: int) -> None:
        """Refuse a client its session, for now."""
        self.disconnect(transfer, ReasonCode.SERVER_UNAVAILABLE, reason, now_us)

    def _stop_waiting_for(self, client_id: str) -> WaitingClient:
        """Stop waiting for a session, and drop its filled parts."""
        waiting = self._take_out(client_id)
        if waiting.filling is not None:
            waiting.filling.give_up()
        return waiting

    def _take_out(self, client_id: str) -> WaitingClient:
        transfer, waiting = self.waiting.pop(client_id)
        self._timers.cancel((WAITING_TIMER, transfer))
        self.questions.end(client_id, waiting.home)
        if transfer in self._filling:
            del self._filling[transfer]
            if self._filling:  # the removed one may have been the first
                self._timers.set((WAITING_TIMER, next(iter(self._filling))), 0)
        return waiting


def latest_word_us(limits: MqttLimits, now_us: int) -> int:
    """The last time to answer a waiting client, before its connect timeout."""
    return now_us + limits.connect_timeout_s * MICROSECONDS - ASK_AGAIN_US


def close_for_another(connection: ClientConnection, now_us: int) -> None:
    """Close a waiting connection whose client has connected again."""
    connection.disconnect(ReasonCode.SERVER_BUSY, ELSEWHERE, now_us)
