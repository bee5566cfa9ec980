"""A session that is not here yet: what has come of it is filed a bit at a time.

A client may have 100,000 subscriptions, and each costs the broker machine some work, and some to
write it for the disk; and so has each message that waits for it to be read, and written.  Until all
are filed the session is nobody's, and on no disk; its client waits, and where it was they have it
as before.
What is published meanwhile comes from there: what these subscriptions match is dropped here.
"""

from __future__ import annotations

from collections.abc import Iterable

from shoal.mqtt.access import Permissions
from shoal.mqtt.content import FILTER_WORK, work_on
from shoal.mqtt.federation.controls import Item
from shoal.mqtt.federation.said import message_of
from shoal.mqtt.sessions.delivering.outgoing import Outgoing
from shoal.mqtt.sessions.session import ClientSubscription
from shoal.mqtt.sessions.sessions import Sessions
from shoal.mqtt.sessions.subscribed.leaving import MOST_AT_ONCE, Nobody
from shoal.mqtt.sessions.subscribed.rows import SubscriptionState, subscription_of
from shoal.mqtt.sessions.subscribed.subscriptions import Subscriptions

# So many messages are read at once: some 10 ms.
ITEMS_AT_ONCE = 600


class Filling:
    """One session; `problems` gets in words which of its `rows` cannot be filed."""

    def __init__(
        self,
        sessions: Sessions,
        subscriptions: Subscriptions,
        problems: list[str],
        client_id: str,
        user: str,
        rows: Iterable[SubscriptionState],
    ) -> None:
        self.session = sessions.make(client_id)
        self.session.give_to(user)
        self.session.diversion = Nobody()
        self.shared: list[ClientSubscription] = []
        # What is on its way to the client, as it was where that was: it is in the session, with
        # these keys.
        self.came: dict[tuple[str, int], None] = {}
        # But where an earlier copy of the session is here still, with the same messages: they would
        # count twice.
        self.read: list[Outgoing] = []
        self._is_back = client_id in sessions
        self._sessions = sessions
        self._subscriptions = subscriptions
        self._problems = problems
        self._rows = iter(tuple(rows))

    def go_on(self, permissions: Permissions) -> bool:
        """File some, as far as today's rules allow; whether none is left."""
        left = MOST_AT_ONCE
        for row in self._rows:
            left -= self._file(row, permissions)
            if left <= 0:
                return False
        return True

    def take(self, items: Iterable[Item], now_us: int) -> None:
        """Read what waits for the client, and put it into the session."""
        journal = self._sessions.journal
        for item in items:
            message = message_of(item, now_us)
            if message is not None:
                outgoing = Outgoing(message, item.qos, item.retain, item.identifiers)
                outgoing.packet_id, outgoing.released = item.packet_id, item.released
                if journal is not None and item.qos:
                    journal.prepare_item(self.session, outgoing)
                if self._is_back:
                    self.read.append(outgoing)
                    continue
                self.session.restore(outgoing)
                if message.key is not None:
                    self.came[message.key] = None

    def _file(self, row: SubscriptionState, permissions: Permissions) -> int:
        """File a subscription; how much work it was."""
        session = self.session
        try:
            subscription = subscription_of(session, row)
            if not permissions.may_subscribe(subscription.wanted_topics):
                return FILTER_WORK
            self._subscriptions.add(subscription)
        except ValueError as error:  # what another broker says may make no sense
            problem = f"subscription {row.text!r} of {session.client_id!r}: {error}"
            self._problems.append(problem)
            return FILTER_WORK
        if self._sessions.journal is not None:
            self._sessions.journal.prepare(subscription)
        if subscription.shared:
            self.shared.append(subscription)
        return work_on(subscription.content)

    def give_up(self) -> None:
        """The session is not wanted here any more."""
        if self._sessions.journal is not None:
            self._sessions.journal.is_not_coming(self.session)
        self._sessions.give_up(self.session)
