"""Fills an incoming session with its state, in time slices.

A client may have 100,000 subscriptions, and each costs the broker machine and the journal some
work; so does each queued message. Until all are installed the session is in no directory and on no
disk; its client waits, and the source keeps its copy. Publications made meanwhile arrive by way of
the source: direct matches of these subscriptions are dropped here.
"""

from __future__ import annotations

from collections.abc import Iterable

from shoal.conflation import KeyName, KeyState
from shoal.mqtt.access import Permissions
from shoal.mqtt.content import FILTER_WORK, work_on
from shoal.mqtt.federation.controls import ConflatedKeyState, Item
from shoal.mqtt.federation.conversions import held_of, message_of
from shoal.mqtt.sessions.delivering.outgoing import Outgoing
from shoal.mqtt.sessions.session import ClientSubscription, HeldMessage, SubscriptionConflator
from shoal.mqtt.sessions.sessions import Sessions
from shoal.mqtt.sessions.subscribed.leaving import MOST_AT_ONCE, DroppedMessages
from shoal.mqtt.sessions.subscribed.rows import SubscriptionState, subscription_of
from shoal.mqtt.sessions.subscribed.subscriptions import SessionSubscriptions

# The number of messages, and of keys of conflated subscriptions, read in one time slice: some
# 10 ms.
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
        # Keys of conflated subscriptions that are not in the session yet; the held messages.
        self._keys: list[tuple[SubscriptionConflator, KeyName, KeyState[HeldMessage]]] = []
        self._held: dict[tuple[str, int], HeldMessage] = {}
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
        self, states: Iterable[tuple[tuple[str, KeyName], ConflatedKeyState]], now_us: int
    ) -> None:
        """Read the keys of conflated subscriptions, each held message once."""
        subscriptions = self.session.subscriptions
        for (text, key), state in states:
            subscription = subscriptions.get(text)
            if subscription is None or subscription.conflator is None:
                continue
            message = held_of(state, now_us)
            found = None
            if message is not None:
                found = self._held.get(message.key) if message.key is not None else None
                found = found or HeldMessage(message, is_retained=state.is_retained)
            if message is not None and message.key is not None and found is not None:
                self._held[message.key] = found
                self.came[message.key] = None
            ends_us = None if state.left_us is None else now_us + state.left_us
            known = KeyState(ends_us, state.last, found, state.values, state.newest)
            self._keys.append((subscription.conflator, key, known))
        if not self._is_back:
            self.restore_keys(now_us)

    def restore_keys(self, now_us: int) -> None:
        """Restore the keys that were read; with an earlier copy of the session here, at the end."""
        conflation = self._subscriptions.conflation
        if conflation is not None:
            for conflator, key, known in self._keys:
                conflation.restore(conflator, key, known, now_us)
        self._keys.clear()

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
