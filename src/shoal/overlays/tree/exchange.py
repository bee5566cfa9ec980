"""Synchronisation of the tables of two brokers over a link that has come up.

Each end sends its advertisements from elsewhere, and an end marker. Subscriptions follow the
advertisements of the other end, and then an end marker. Publications may come after that: a
restarted broker with empty tables would forward them to no one.

A broker that has just started waits for its neighbours: it sends its end marker for advertisements
to one when all others have sent theirs, and likewise for subscriptions. Markers go round a tree and
come back from its leaves, so the wait has no cycle. A neighbour that does not connect is skipped
after `WAIT_US`; if it was a neighbour before the start, it is skipped after the time in which a
lost neighbour is declared dead. A neighbour that has connected is waited for while its link lasts:
it may be waiting itself.

Rows that a neighbour sent before its restart are *stale*: each stays until the neighbour's end
marker, and is removed then, unless the neighbour has sent it again.

| input | action |
| --- | --- |
| link up | send advertisements; owe the end marker |
| the neighbour's marker for advertisements | remove stale ones; owe the marker for subscriptions |
| its marker for subscriptions | remove stale ones; publications may go to it |
| all awaited markers are here, or the timeout has passed | send owed markers; ready |

Stale routes and an end marker are those of BGP's graceful restart. Source: RFC 4724.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from shoal.broker.effects import CancelTimer, Effect, LinkReady, Send, SetTimer, Started, TimerKey
from shoal.model import AdvertisementId, BrokerId, SubscriptionId
from shoal.overlays.tree.messages import AdvertisementsSaid, SubscriptionsSaid

# For neighbours not seen yet: all brokers of a network start within a few seconds.
WAIT_US = 10_000_000
TIMER: TimerKey = ("exchange",)


class TableExchange:
    """Synchronisation state of one broker; it waits for the `expected` neighbours."""

    def __init__(self, expected: Iterable[BrokerId]) -> None:
        self._awaited_advertisements = dict.fromkeys(expected)
        self._awaited_subscriptions = dict.fromkeys(self._awaited_advertisements)
        # Neighbours that have connected since the start, until they are dead.
        self._linked: set[BrokerId] = set()
        # Neighbours that have connected, but may not stay neighbours.
        self._unmet: set[BrokerId] = set()
        self._former: tuple[BrokerId, ...] = ()
        self._give_up_at_us = 0
        self._owes_advertisements: dict[BrokerId, None] = {}
        self._owes_subscriptions: dict[BrokerId, None] = {}
        self._stale_advertisements: dict[BrokerId, dict[AdvertisementId, None]] = {}
        self._stale_subscriptions: dict[BrokerId, dict[SubscriptionId, None]] = {}

    @property
    def is_ready(self) -> bool:
        """Whether all awaited neighbours have sent their tables."""
        return not self._awaited_subscriptions

    @property
    def awaited(self) -> Collection[BrokerId]:
        """The awaited neighbours that have not sent their tables."""
        return list(self._awaited_subscriptions)

    def is_settled(self, neighbour: BrokerId) -> bool:
        """Whether this broker and the neighbour have sent each other their tables."""
        return not any(
            neighbour in unsaid
            for unsaid in (
                self._awaited_subscriptions,
                self._owes_advertisements,
                self._owes_subscriptions,
                self._stale_advertisements,
                self._stale_subscriptions,
            )
        )

    def start(self, started: Started, now_us: int, out: list[Effect]) -> None:
        """The broker starts."""
        self._former = started.former
        self._give_up_at_us = now_us + started.give_up_us
        if not self.is_ready:
            out.append(SetTimer(TIMER, now_us + min(WAIT_US, started.give_up_us)))

    def waited(self, now_us: int, out: list[Effect]) -> None:
        """Timeout: skip neighbours that have not connected, unless they were there before the
        start.
        """
        is_over = now_us >= self._give_up_at_us
        for neighbour in self._awaited_subscriptions.keys() - self._linked:
            if is_over or neighbour not in self._former:
                self._pass_over(neighbour)
        if not is_over and not self._awaited_subscriptions.keys() <= self._linked:
            out.append(SetTimer(TIMER, self._give_up_at_us))
        self.send_markers(out)

    def expect(self, neighbour: BrokerId, now_us: int, out: list[Effect]) -> None:
        """Wait for this neighbour as for one that was there before the start."""
        if neighbour in self._linked:
            return
        self._awaited_advertisements[neighbour] = None
        self._awaited_subscriptions[neighbour] = None
        self._former = (*self._former, neighbour)
        out.append(SetTimer(TIMER, min(now_us + WAIT_US, self._give_up_at_us)))

    def _pass_over(self, neighbour: BrokerId) -> None:
        self._awaited_advertisements.pop(neighbour, None)
        self._awaited_subscriptions.pop(neighbour, None)

    def restarted(self, neighbour: BrokerId) -> None:
        """The neighbour has restarted: nothing is owed to it before it is linked again."""
        self._unmet.add(neighbour)
        self._owes_advertisements.pop(neighbour, None)
        self._owes_subscriptions.pop(neighbour, None)

    def confirm(self, neighbour: BrokerId) -> bool:
        """The neighbour is confirmed.

        True if announcements since its link came up were provisional.
        """
        is_unmet = neighbour in self._unmet
        self._unmet.discard(neighbour)
        return is_unmet

    def dismiss(self, neighbour: BrokerId, out: list[Effect]) -> None:
        """An expected broker is not a neighbour any more."""
        self._pass_over(neighbour)
        self.send_markers(out)

    def linked(
        self,
        neighbour: BrokerId,
        advertisements: Iterable[AdvertisementId],
        subscriptions: Iterable[SubscriptionId],
        out: list[Effect],
    ) -> None:
        """The advertisements were sent to the neighbour; these of its rows are stale."""
        self._linked.add(neighbour)
        self._stale_advertisements[neighbour] = dict.fromkeys(advertisements)
        self._stale_subscriptions[neighbour] = dict.fromkeys(subscriptions)
        self._owes_advertisements[neighbour] = None
        self._owes_subscriptions.pop(neighbour, None)
        self.send_markers(out)

    def unlinked(self, neighbour: BrokerId) -> None:
        """The neighbour is dead, or new, and none of its rows are left."""
        self._unmet.discard(neighbour)
        if neighbour in self._linked:
            self._linked.discard(neighbour)
            self._pass_over(neighbour)
        self._stale_advertisements.pop(neighbour, None)
        self._stale_subscriptions.pop(neighbour, None)
        self._owes_advertisements.pop(neighbour, None)
        self._owes_subscriptions.pop(neighbour, None)

    def replaced(self, old: BrokerId | None, new: Iterable[BrokerId]) -> None:
        """These neighbours, with complete tables, have taken the place of `old`, if any."""
        if old is not None:
            self.unlinked(old)
        for each in new:
            self._linked.add(each)
            self._unmet.discard(each)

    def lacks_advertisements(self, neighbour: BrokerId) -> bool:
        """Whether the neighbour's marker for advertisements is missing."""
        return neighbour in self._stale_advertisements

    def lacks_subscriptions(self, neighbour: BrokerId) -> bool:
        """Whether the neighbour's marker for subscriptions is missing."""
        return neighbour in self._stale_subscriptions

    def received_advertisement(self, neighbour: BrokerId, id: AdvertisementId) -> bool:
        """The neighbour sent this one; returns whether it was stale."""
        stale = self._stale_advertisements.get(neighbour, {})
        if id not in stale:
            return False
        del stale[id]
        return True

    def received_subscription(self, neighbour: BrokerId, id: SubscriptionId) -> None:
        """The neighbour sent this one."""
        self._stale_subscriptions.get(neighbour, {}).pop(id, None)

    def all_advertised(self, neighbour: BrokerId) -> Iterable[AdvertisementId]:
        """The neighbour has sent its marker; returns the advertisements that are still stale."""
        self._awaited_advertisements.pop(neighbour, None)
        self._owes_subscriptions[neighbour] = None
        return self._stale_advertisements.pop(neighbour, ())

    def all_subscribed(self, neighbour: BrokerId, out: list[Effect]) -> Iterable[SubscriptionId]:
        """The neighbour has sent its marker; returns the subscriptions that are still stale."""
        out.append(LinkReady(neighbour))
        if neighbour in self._awaited_subscriptions:
            del self._awaited_subscriptions[neighbour]
            if self.is_ready:
                out.append(CancelTimer(TIMER))
        return self._stale_subscriptions.pop(neighbour, ())

    def send_markers(self, out: list[Effect]) -> None:
        """Send the owed markers for which nothing is missing."""
        for neighbour in list(self._owes_advertisements):
            if self._awaited_advertisements.keys() <= {neighbour}:
                del self._owes_advertisements[neighbour]
                out.append(Send(neighbour, AdvertisementsSaid()))
        for neighbour in list(self._owes_subscriptions):
            if self._awaited_subscriptions.keys() <= {neighbour}:
                del self._owes_subscriptions[neighbour]
                out.append(Send(neighbour, SubscriptionsSaid()))
