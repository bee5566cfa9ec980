"""All sessions of a broker: when they begin, are resumed, and end, and when wills are published.

| event | session | will |
| --- | --- | --- |
| connect, no session | created | |
| connect, session present | resumed | a pending one is discarded |
| connect, clean start | ended, a new one created | a pending one is published |
| connect, client still connected | old connection closed (0x8E), then as above | as on a loss |
| DISCONNECT | kept for its expiry interval | discarded, unless the client wants it published |
| connection lost | kept for its expiry interval | published after its delay |
| redirected elsewhere | kept for a minimum time | as on a loss, if the client does not come there |
| expiry interval over | ended | a pending one is published |
| broker restarted | kept, its client is disconnected | published after its delay, and a pause |

Source: MQTT Version 5.0, sections 3.1.2.4, 3.1.2.5, 3.1.3.2.2, 3.1.4 and 4.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from shoal.ledger import Ledger, LedgerMeasure
from shoal.mqtt.codec.packets import Connect, WillFields
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.limits import MICROSECONDS, NEVER_S, MqttLimits
from shoal.mqtt.messages import PublishedMessage, message_of_will
from shoal.mqtt.sessions.deduplication_window import Lacking
from shoal.mqtt.sessions.delivering.backlog import Backlog
from shoal.mqtt.sessions.delivering.slow_consumers import SlowConsumerPolicy
from shoal.mqtt.sessions.session import Session, SessionMemory
from shoal.mqtt.sessions.subscribed.leaving import GroupLeaving
from shoal.mqtt.timers import MqttTimers

SESSION_TIMER = "session"
WILL_TIMER = "will"
# The pause in which a starting broker gets its links and its neighbours' subscriptions back, and in
# which clients that only lost their connection reconnect.
PAUSE_US = 5 * MICROSECONDS
# The time for a redirected client to connect elsewhere: its session is kept, and its will is not
# published.
MOVING_US = 15 * MICROSECONDS
# The approximate memory of a session (docs/operations.md, Sizing).
SESSION_BYTES = 4_000
# The reasons to refuse a client without a session.
TOO_MANY_SESSIONS = "too many sessions"
TOO_MANY_OF_USER = "too many sessions of one user"
# The reasons to refuse a client with a will.
TOO_LARGE_WILLS = "wills take too much memory"
TOO_LARGE_OF_USER = "wills of one user take too much memory"
# The reason to close a connection whose client has another.
ELSEWHERE = "the client connected again elsewhere"


class Sessions:
    """Sessions by client identifier.

    `publish` publishes a will that is due; `leaving` removes the subscriptions of ended sessions.
    Timers carry (SESSION_TIMER or WILL_TIMER, client identifier).
    """

    def __init__(
        self,
        limits: MqttLimits,
        backlog: Backlog,
        timers: MqttTimers,
        publish: Callable[[PublishedMessage, int], object],
        leaving: GroupLeaving,
    ) -> None:
        self.limits = limits
        self.backlog = backlog
        self._timers = timers
        self.patience = SlowConsumerPolicy(timers, self.get)
        self._publish = publish
        self._leaving = leaving
        # Whether the present rules allow a will.
        self.may_leave: Callable[[Session, WillFields], bool] = lambda session, will: True
        # Called when a session ends, in a network.
        self.at_end: Callable[[Session, int], None] | None = None
        # Called for each published will, in a network.
        self.at_will: Callable[[Session, PublishedMessage], None] | None = None
        self._sessions: dict[str, Session] = {}
        self.lacking = Lacking()
        # Records sessions that outlive their connection, if there is one.
        self.journal: SessionMemory | None = None

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter(self._sessions.values())

    def register(self, ledger: Ledger) -> None:
        """Register the table; subscriptions and messages have rows of their own."""
        ledger.register(
            "sessions",
            lambda: LedgerMeasure(
                len(self._sessions),
                len(self._sessions) * SESSION_BYTES,
                self.limits.maximum_sessions,
            ),
        )

    def client_ids(self) -> list[str]:
        """The client identifiers of all sessions, connected or not."""
        return list(self._sessions)

    def __contains__(self, client_id: str) -> bool:
        return client_id in self._sessions

    def __getitem__(self, client_id: str) -> Session:
        return self._sessions[client_id]

    def get(self, client_id: str) -> Session | None:
        return self._sessions.get(client_id)

    def is_kept(self, client_id: str) -> bool:
        """Whether a client has a session here that outlives its connection."""
        session = self._sessions.get(client_id)
        return session is not None and session.expiry_interval_s > 0

    def belongs_to_another_user(self, client_id: str, user: str) -> bool:
        """Whether the session with that identifier belongs to another user."""
        session = self._sessions.get(client_id)
        return session is not None and not session.is_only_a_will and session.user != user

    @property
    def dropped(self) -> int:
        """The number of dropped publications."""
        return self.backlog.dropped

    def full(self, user: str) -> str:
        """The reason why there can be no more sessions, of this user or at all; empty if there
        can."""
        if len(self._sessions) >= self.limits.maximum_sessions:
            return TOO_MANY_SESSIONS
        if self.backlog.sessions_of(user) >= self.limits.maximum_user_sessions:
            return TOO_MANY_OF_USER
        return ""

    def full_of_wills(self, client_id: str, user: str, will: WillFields) -> str:
        """The reason why there is no room for the will of a client; empty if there is."""
        session = self._sessions.get(client_id)
        more = will.size - (session.will_bytes if session is not None else 0)
        if self.backlog.will_bytes + more > self.limits.maximum_all_queued_bytes:
            return TOO_LARGE_WILLS
        if self.backlog.wills_of(user) + more > self.limits.maximum_user_queued_bytes:
            return TOO_LARGE_OF_USER
        return ""

    def add(self, client_id: str) -> Session:
        """Create a session."""
        session = self.make(client_id)
        self.put(session)
        return session

    def make(self, client_id: str) -> Session:
        """Create a session without installing it."""
        return Session(client_id, self.limits, self.backlog, self.patience)

    def put(self, session: Session) -> None:
        """Install a session."""
        session.limits = self.limits
        self._sessions[session.client_id] = session

    def give_up(self, session: Session) -> None:
        """Drop a session that was not installed."""
        session.will = None
        self._forget_session(session)
        self._leaving.add(session)

    def suspend(self, session: Session) -> None:
        """Cancel the timers of a session: its client is at another broker."""
        self._timers.cancel((SESSION_TIMER, session.client_id))
        self._timers.cancel((WILL_TIMER, session.client_id))

    def drop(self, session: Session) -> None:
        """Remove a session without ending it: another broker has it."""
        self._forget_session(session)
        self._leaving.add(session)
        self.suspend(session)
        if self._sessions.get(session.client_id) is session:
            del self._sessions[session.client_id]
        session.will = None
        if self.journal is not None:
            self.journal.ended(session)

    def _forget_session(self, session: Session) -> None:
        session.forget_all()
        session.is_over()

    def close_connection(
        self,
        client_id: str,
        now_us: int,
        code: ReasonCode = ReasonCode.SESSION_TAKEN_OVER,
        reason: str = ELSEWHERE,
    ) -> Session | None:
        """Close a client's connection, if any; returns its session, if that outlives it."""
        session = self._sessions.get(client_id)
        if session is not None and session.session_writer is not None:
            session.session_writer.connection.disconnect(code, reason, now_us)
            session = self._sessions.get(client_id)
        return session

    def enter(
        self, connect: Connect, client_id: str, expiry_interval_s: int, now_us: int
    ) -> tuple[Session, bool]:
        """The session of a client that connects, and whether it was present."""
        session = self.close_connection(client_id, now_us)
        if session is not None and (connect.clean_start or session.is_only_a_will):
            self.replace(session, now_us)
            session = None
        present = session is not None
        if session is None:
            session = self.add(client_id)
        self._timers.cancel((SESSION_TIMER, client_id))
        self._timers.cancel((WILL_TIMER, client_id))
        session.left_us = None
        session.is_moving = False
        session.expiry_interval_s = expiry_interval_s
        session.will = connect.will
        return session, present

    def left(
        self, session: Session, now_us: int, *, with_will: bool, is_moving: bool = False
    ) -> None:
        """Handle the end of a session's connection, perhaps by a redirect."""
        session.is_moving = is_moving
        session.detach(now_us)
        session.left_us = now_us
        if not with_will:
            session.will = None
        expiry_s = session.expiry_interval_s
        if not (expiry_s or is_moving):
            self.end(session, now_us)
            return
        least_us = MOVING_US if is_moving else 0
        if expiry_s != NEVER_S:
            key = (SESSION_TIMER, session.client_id)
            self._timers.set(key, now_us + max(expiry_s * MICROSECONDS, least_us))
        delay_s = session.will.properties.will_delay_interval_s or 0 if session.will else 0
        if delay_s or is_moving:
            key = (WILL_TIMER, session.client_id)
            self._timers.set(key, now_us + max(delay_s * MICROSECONDS, least_us))
        else:
            self.publish_will(session, now_us)
        if self.journal is not None and expiry_s:
            self.journal.left(session, now_us)

    def restored(self, session: Session, now_us: int) -> None:
        """Schedule the expiry and the will of a session after a restart; its client has left now.

        Also of a session whose transfer to another broker was cancelled.
        """
        left_us = now_us if session.left_us is None else session.left_us
        end_us = left_us + session.expiry_interval_s * MICROSECONDS
        will = session.will
        if will is not None or session.is_moving:
            delay_s = (will.properties.will_delay_interval_s or 0) if will is not None else 0
            will_us = left_us + delay_s * MICROSECONDS
            pause_us = MOVING_US if session.is_moving else PAUSE_US
            self._timers.set((WILL_TIMER, session.client_id), max(will_us, now_us + pause_us))
            end_us = max(end_us, now_us + pause_us)
        if session.expiry_interval_s != NEVER_S:
            self._timers.set((SESSION_TIMER, session.client_id), end_us)
        if self.journal is not None and session.expiry_interval_s:
            self.journal.left(session, left_us)

    def end(self, session: Session, now_us: int) -> None:
        """End a session; a pending will is published."""
        client_id = session.client_id
        self._timers.cancel((SESSION_TIMER, client_id))
        self._timers.cancel((WILL_TIMER, client_id))
        del self._sessions[client_id]
        self._forget_session(session)
        if self.at_end is not None:
            self.at_end(session, now_us)
        self._leaving.add(session)
        if self.journal is not None:
            self.journal.ended(session)
        self.publish_will(session, now_us)

    def replace(self, session: Session, now_us: int) -> None:
        """End a session whose client begins another; the will of a redirected client is
        discarded."""
        if session.is_moving:
            session.will = None
        self.end(session, now_us)

    def will_is_due(self, session: Session, now_us: int) -> None:
        """Publish a will after its delay, also if the client did not follow its redirect."""
        if session.is_moving:
            session.is_moving = False
            session.forget_at_0()
        self.publish_will(session, now_us)

    def publish_will(self, session: Session, now_us: int) -> None:
        """Publish the will, if there is one, once [MQTT-3.1.2-8, MQTT-3.1.2-10]."""
        will, session.will = session.will, None
        if will is None:
            return
        if self.journal is not None:
            self.journal.will_is_gone(session)
        if self.may_leave(session, will):
            message = message_of_will(will, session.client_id, now_us)
            self._publish(message, now_us)
            if self.at_will is not None:
                self.at_will(session, message)
