"""Fills an incoming session with its state, in time slices.

A client may have 100,000 subscriptions, and each costs the broker machine and the journal some
work; so does each queued message. Until all are installed the session is in no directory and on no
disk; its client waits, and the source keeps its copy. Publications made meanwhile arrive by way of
the source: direct matches of these subscriptions are dropped here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from shoal.conflation import KeyName
from shoal.mqtt.access import Permissions
from shoal.mqtt.content import FILTER_WORK, work_on
from shoal.mqtt.federation.controls import ConflatedKeyState, Item
from shoal.mqtt.federation.conversions import held_of, message_of
from shoal.mqtt.sessions.delivering.outgoing import Outgoing
from shoal.mqtt.sessions.session import ClientSubscription, HeldMessage
from shoal.mqtt.sessions.sessions import Sessions
from shoal.mqtt.sessions.subscribed.leaving import MOST_AT_ONCE, DroppedMessages
from shoal.mqtt.sessions.subscribed.rows import SubscriptionState, subscription_of
from shoal.mqtt.sessions.subscribed.subscriptions import SessionSubscriptions

# The number of messages read in one time slice: some 10 ms.
ITEMS_AT_ONCE = 600


class SessionInstallation:
    """One incoming session; `problems` gets a description of each invalid row of `rows`."""

    def __init__(
        self,
        sessions: Sessions,
        subscriptions: SessionSubscriptions,
        problems: list[str],
        client_id: str,
        user: str,
        rows: Iterable[SubscriptionState],
    ) -> None:
        self.session = sessions.make(client_id)
        self.session.give_to(user)
        self.session.diversion = DroppedMessages()
        self.shared: list[ClientSubscription] = []
        # The keys of the queued messages that are in the session.
        self.came: dict[tuple[str, int], None] = {}
        # If an earlier copy of the session is still here, the messages, which would count twice in
        # the session.
        self.read: list[Outgoing] = []
        self._is_back = client_id in sessions
        self._sessions = sessions
        self._subscriptions = subscriptions
        self._problems = problems
        self._rows = iter(tuple(rows))

    def run_slice(self, permissions: Permissions) -> bool:
        """Install some subscriptions, as far as the present rules allow; returns whether none is
        left."""
        left = MOST_AT_ONCE
        for row in self._rows:
            left -= self._file(row, permissions)
            if left <= 0:
                return False
        return True

    def take(self, items: Iterable[Item], now_us: int) -> None:
        """Read queued messages, and put them into the session."""
        journal = self._sessions.journal
        for item in items:
            message = message_of(item, now_us)
            if message is not None:
                outgoing = Outgoing(message, item.qos, item.retain, item.identifiers, via=item.via)
                outgoing.packet_id, outgoing.released = item.packet_id, item.released
                if journal is not None and item.qos and not item.via:
                    journal.prepare_item(self.session, outgoing)
                if self._is_back:
                    self.read.append(outgoing)
                    continue
                self.session.restore(outgoing)
                if message.key is not None:
                    self.came[message.key] = None

    def take_keys(
        self, states: Mapping[tuple[str, KeyName], ConflatedKeyState], now_us: int
    ) -> None:
        """Restore the keys of conflated subscriptions, each held message once."""
        session, conflation = self.session, self._subscriptions.conflation
        held: dict[tuple[str, int], HeldMessage] = {}
        for (text, key), state in states.items():
            subscription = session.subscriptions.get(text)
            if conflation is None or subscription is None or subscription.conflator is None:
                continue
            message = held_of(state, now_us)
            found = None
            if message is not None:
                found = held.get(message.key) if message.key is not None else None
                found = found or HeldMessage(message, is_retained=state.is_retained)
            if message is not None and message.key is not None and found is not None:
                held[message.key] = found
                self.came[message.key] = None
            ends_us = None if state.left_us is None else now_us + state.left_us
            conflation.restore(
                subscription.conflator,
                key,
                ends_us,
                state.last,
                found,
                state.values,
                now_us,
                state.newest,
            )

    def _file(self, row: SubscriptionState, permissions: Permissions) -> int:
        """Install a subscription; returns the work."""
        session = self.session
        try:
            subscription = subscription_of(session, row)
            if not permissions.may_subscribe(subscription.wanted_topics):
                return FILTER_WORK
            self._subscriptions.add(subscription)
        except ValueError as error:  # another broker's row may be invalid
            problem = f"subscription {row.text!r} of {session.client_id!r}: {error}"
            self._problems.append(problem)
            return FILTER_WORK
        if self._sessions.journal is not None:
            self._sessions.journal.prepare(subscription)
        if subscription.shared:
            self.shared.append(subscription)
        return work_on(subscription.content)

    def give_up(self) -> None:
        """Drop the session: it is not wanted here any more."""
        if self._sessions.journal is not None:
            self._sessions.journal.is_not_coming(self.session)
        self._sessions.give_up(self.session)
