"""Changes of rules and limits while a broker runs.

The broker closes a client that has lost a right, and the client may connect again. A client that
has lost none stays connected and has its new rights at once. The broker removes subscriptions that
the new rules do not allow, also of offline sessions, in time slices: one client may have 100,000.
Messages that a session has queued already stay queued.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from shoal.mqtt.access import ALL_PERMISSIONS, ClientCredentials, Permissions
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.content import FILTER_WORK
from shoal.mqtt.limits import MqttLimits
from shoal.mqtt.sessions.session import Session
from shoal.mqtt.sessions.sessions import Sessions
from shoal.mqtt.sessions.subscribed.leaving import MOST_AT_ONCE
from shoal.mqtt.sessions.subscribing import Subscribing
from shoal.mqtt.timers import MqttTimers

RENEWING_TIMER = "renewing"
# The work to check whether a client stays, and to close it: some 10 µs.
CLOSING_WORK = 2


class Renewing:
    """Applies new rules to the sessions of one broker; `problems` lists removed subscriptions."""

    def __init__(
        self,
        sessions: Sessions,
        subscribing: Subscribing,
        permissions: Callable[[str, str], Permissions],
        problems: list[str],
        timers: MqttTimers,
    ) -> None:
        self._sessions = sessions
        self._subscribing = subscribing
        self._permissions = permissions
        self._problems = problems
        self._timers = timers
        self._steps: deque[Iterator[int]] = deque()
        self._now_us = 0

    def begin(
        self,
        limits: MqttLimits,
        permissions: Callable[[ClientCredentials], Permissions | None],
        now_us: int,
    ) -> None:
        """Install limits and rules.

        `permissions` returns the new permissions of a connected client; None closes its connection.
        """
        for session in self._sessions:
            session.limits = limits
        self._steps = deque((self._renew_all(permissions), self._check_all()))
        self.renew_some(now_us)

    def check(self, session: Session, permissions: Permissions, now_us: int) -> None:
        """Check the subscriptions of a client that resumes its session, against its permissions."""
        if permissions is not ALL_PERMISSIONS:
            self._steps.append(self._check_session(session, permissions))
            self._timers.set((RENEWING_TIMER,), now_us)

    def renew_some(self, now_us: int) -> None:
        """Run the next time slice."""
        self._now_us, left = now_us, MOST_AT_ONCE
        while self._steps:
            for work in self._steps[0]:
                left -= work
                if left <= 0:
                    # The next slice comes after a time slice of other inputs.
                    self._timers.set((RENEWING_TIMER,), now_us + 1)
                    return
            self._steps.popleft()

    def _renew_all(
        self, permissions: Callable[[ClientCredentials], Permissions | None]
    ) -> Iterator[int]:
        """Close or update clients, yielding the work of each; later CONNECTs see the new rules."""
        for client_id in self._sessions.client_ids():
            session = self._sessions.get(client_id)
            session_writer = session.session_writer if session is not None else None
            if session_writer is None:
                continue
            granted = permissions(session_writer.connection.credentials)
            if granted is not None:
                session_writer.connection.grant(granted)
            else:
                reason = "the permissions have changed"
                code = ReasonCode.ADMINISTRATIVE_ACTION
                session_writer.connection.disconnect(code, reason, self._now_us)
            yield CLOSING_WORK

    def _check_all(self) -> Iterator[int]:
        """Check all sessions, yielding the work of each step."""
        for client_id in self._sessions.client_ids():
            session = self._sessions.get(client_id)
            yield 1
            if session is not None:
                permissions = self._permissions(session.user, client_id)
                if permissions is not ALL_PERMISSIONS:
                    yield from self._check_session(session, permissions)

    def _check_session(self, session: Session, permissions: Permissions) -> Iterator[int]:
        taken_back = 0
        for subscription in list(session.subscriptions.values()):
            text, work = subscription.text, FILTER_WORK
            is_there = self._sessions.get(session.client_id) is session
            is_there = is_there and session.subscriptions.get(text) is subscription
            if is_there and not permissions.may_subscribe(subscription.wanted_topics):
                work += self._subscribing.take_back(session, text)[1]
                taken_back += 1
            yield work
        if taken_back:
            self._problems.append(
                f"{taken_back} subscriptions of {session.client_id!r}: the rules do not allow them "
                "any more"
            )
