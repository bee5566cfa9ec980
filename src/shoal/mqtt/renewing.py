"""Rules and limits that change while a broker runs.

A client that lost a right is closed and comes back; a client that lost none stays connected, and
has its new rights at once.  The sessions of both are here, as those of clients that are away.
Subscriptions that the rules do not allow any more are taken back: a few at a time, as one client
may have 100,000.  What waits in a session already stays there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from shoal.mqtt.access import ALL_PERMISSIONS, Credentials, Permissions
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.content import FILTER_WORK
from shoal.mqtt.limits import Limits
from shoal.mqtt.sessions.session import Session
from shoal.mqtt.sessions.sessions import Sessions
from shoal.mqtt.sessions.subscribed.leaving import MOST_AT_ONCE
from shoal.mqtt.sessions.subscribing import Subscribing
from shoal.mqtt.timers import Timers

RENEWING_TIMER = "renewing"
# What it is to ask whether a client stays, and to close it: some 10 µs.
CLOSING_WORK = 2


class Renewing:
    """The sessions of one broker; `problems` gets in words whose subscriptions were taken back."""

    def __init__(
        self,
        sessions: Sessions,
        subscribing: Subscribing,
        permissions: Callable[[str, str], Permissions],
        problems: list[str],
        timers: Timers,
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
        limits: Limits,
        permissions: Callable[[Credentials], Permissions | None],
        now_us: int,
    ) -> None:
        """From now on these limits hold, and other rules.

        `permissions` says what a connected client may do now; None closes its connection.
        """
        for session in self._sessions:
            session.limits = limits
        self._steps = deque((self._renew_all(permissions), self._check_all()))
        self.due(now_us)

    def check(self, session: Session, permissions: Permissions, now_us: int) -> None:
        """A client has come again to its session, with other permissions perhaps."""
        if permissions is not ALL_PERMISSIONS:
            self._steps.append(self._check(session, permissions))
            self._timers.set((RENEWING_TIMER,), now_us)

    def due(self, now_us: int) -> None:
        """Go on."""
        self._now_us, left = now_us, MOST_AT_ONCE
        while self._steps:
            for work in self._steps[0]:
                left -= work
                if left <= 0:
                    self._timers.set((RENEWING_TIMER,), now_us + 1)  # others have their turn before
                    return
            self._steps.popleft()

    def _renew_all(self, permissions: Callable[[Credentials], Permissions | None]) -> Iterator[int]:
        """Each step is so much work; clients that connect from now on are judged by new rules."""
        for client_id in self._sessions.client_ids():
            session = self._sessions.get(client_id)
            outlet = session.outlet if session is not None else None
            if outlet is None:
                continue
            granted = permissions(outlet.connection.credentials)
            if granted is not None:
                outlet.connection.grant(granted)
            else:
                reason = "what you may do has changed"
                code = ReasonCode.ADMINISTRATIVE_ACTION
                outlet.connection.disconnect(code, reason, self._now_us)
            yield CLOSING_WORK

    def _check_all(self) -> Iterator[int]:
        """Each step is so much work."""
        for client_id in self._sessions.client_ids():
            session = self._sessions.get(client_id)
            yield 1
            if session is not None:
                permissions = self._permissions(session.user, client_id)
                if permissions is not ALL_PERMISSIONS:
                    yield from self._check(session, permissions)

    def _check(self, session: Session, permissions: Permissions) -> Iterator[int]:
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
