"""Members of groups of shared subscriptions: how many each broker has of each group.

Each broker announces its own counts to all when a member comes, leaves, connects or disconnects;
and all its counts to a joining broker, in time slices.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from itertools import accumulate
from typing import NamedTuple

from shoal.matching import TopicError, TopicIndex
from shoal.model import BrokerId
from shoal.mqtt.federation.controls import FederationMembers, GroupName, encode_control
from shoal.mqtt.federation.time_slices import TimeSlices
from shoal.mqtt.front_end.network import EVERY_BROKER, FrontEnd
from shoal.mqtt.memory.journal import SessionJournal
from shoal.mqtt.memory.journal_records import GroupPut
from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.sessions.session import ClientSubscription
from shoal.mqtt.sessions.subscribed.rows import Where, content_of, where_of
from shoal.mqtt.sessions.subscribed.subscriptions import SessionSubscriptions


class Count(NamedTuple):
    """Members at one broker, since this time: connected ones, and all."""

    from_us: int
    present: int
    total: int


class _Turns:
    """The brokers of a group in their order, with the running sums of their members."""

    __slots__ = ("brokers", "counts", "present", "total")

    def __init__(self, counts: Mapping[BrokerId, Count]) -> None:
        self.brokers = sorted(counts)
        self.counts = [counts[broker] for broker in self.brokers]
        self.present = list(accumulate(count.present for count in self.counts))
        self.total = list(accumulate(count.total for count in self.counts))


class FederationMembership:
    """All that one broker knows of groups.

    `told` gets the number of each announcement, `announce_soon` schedules `announce_changes`.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        front_end: FrontEnd,
        subscriptions: SessionSubscriptions,
        told: Callable[[int], None],
        announce_soon: Callable[[], None],
    ) -> None:
        self.journal: SessionJournal | None = None
        self._broker_id = broker_id
        self._front_end = front_end
        self._subscriptions = subscriptions
        self._told = told
        self._announce_soon = announce_soon
        # The announced counts of each group by broker, and the filters of the groups.
        self._counts: dict[GroupName, dict[BrokerId, Count]] = {}
        # Running sums of groups, cached until a count changes.
        self._turns: dict[GroupName, _Turns] = {}
        self._groups = TopicIndex()
        self._dirty: dict[GroupName, ClientSubscription] = {}
        subscriptions.at_change = self._changed

    def __len__(self) -> int:
        """The number of groups."""
        return len(self._counts)

    def members_of(self, name: GroupName) -> Mapping[BrokerId, Count]:
        """The brokers with members of a group."""
        return self._counts.get(name, {})

    def choose(
        self,
        name: GroupName,
        number: int,
        tried: Collection[tuple[BrokerId, bool]] = (),
        *,
        is_any: bool,
    ) -> BrokerId | None:
        """Choose a broker for this number, weighted by the brokers' members.

        Connected members count, or with `is_any` all; brokers in `tried` are left out.
        """
        turns = self._turns.get(name)
        if turns is None:
            counts = self.members_of(name)
            if not counts:
                return None
            turns = self._turns[name] = _Turns(counts)
        up_to = turns.total if is_any else turns.present
        if tried:
            up_to = list(
                accumulate(
                    0 if (broker, is_any) in tried else count.total if is_any else count.present
                    for broker, count in zip(turns.brokers, turns.counts, strict=True)
                )
            )
        if not up_to[-1]:
            return None
        return turns.brokers[bisect_right(up_to, number % up_to[-1])]

    def wanting(self, message: PublishedMessage, names: list[GroupName]) -> Iterator[int]:
        """Find the groups that match a message, a part at each step, and append them to `names`.

        Yields the number of topic filter nodes visited.
        """
        yield from self._groups.search(message.topic)
        attributes = self._front_end.reader.attributes_of(message)
        yield from self._groups.matching(message.topic, [attributes], [names])

    # --- local members ------------------------------------------------------------------------

    def _changed(self, subscription: ClientSubscription) -> None:
        """Note that a member came, connected, left or disconnected."""
        self._dirty[subscription.group] = subscription
        self._announce_soon()

    def announce_changes(self, now_us: int) -> None:
        """Announce the changed counts to all brokers."""
        dirty, self._dirty = self._dirty, {}
        for name, subscription in dirty.items():
            count = self._count(name, now_us)
            known = self.members_of(name).get(self._broker_id)
            if (known[1:] if known else (0, 0)) == count[1:]:
                continue
            members = FederationMembers(
                self._broker_id, name, *count, where_of(subscription.content)
            )
            self.learn(members)
            self._told(self._front_end.send(EVERY_BROKER, encode_control(members), now_us))

    def tell(self, broker: BrokerId, turns: TimeSlices) -> Iterator[int]:
        """Send the local counts to a joining broker, a group at each step.

        Changes made meanwhile are announced to all brokers.
        """
        for name in tuple(self._counts):
            if name in self._counts:
                count = self._count(name, turns.now_us)
                if count.total:
                    where = where_of(self._groups[name].filter)
                    members = FederationMembers(self._broker_id, name, *count, where)
                    self._front_end.send(broker, encode_control(members), turns.now_us)
                yield 1

    def _count(self, name: GroupName, now_us: int) -> Count:
        return Count(now_us, *self._subscriptions.members(name))

    # --- members at other brokers -------------------------------------------------------------

    def learn(self, members: FederationMembers) -> None:
        """Record the members of a group at a broker."""
        name = members.group
        counts = self._counts.get(name, {})
        known = counts.get(members.broker)
        if known is not None and known.from_us > members.from_us:
            return
        if not members.total:
            self.lose(members.broker, name)
            return
        if name not in self._groups:
            # Another broker's filter may be invalid.
            with suppress(ValueError, TopicError):
                topics = name.split("/", 2)[-1]
                self._groups.add(name, topics, content_of(members.where))
        if name in self._groups:
            count = Count(members.from_us, members.present, members.total)
            self._counts.setdefault(name, {})[members.broker] = count
            self._turns.pop(name, None)
            if known is None or known[1:] != count[1:]:
                self._remember(name, members.broker, count, members.where)

    def lose(self, broker: BrokerId, name: GroupName) -> None:
        """Record that a broker has no members of a group."""
        counts = self._counts.get(name, {})
        if counts.pop(broker, None) is not None:
            self._turns.pop(name, None)
            self._remember(name, broker, Count(0, 0, 0), "")
            if not counts:
                del self._counts[name]
                self._groups.remove(name)

    def groups_of(self, broker: BrokerId) -> list[GroupName]:
        """The groups with members at a broker."""
        return [name for name, counts in self._counts.items() if broker in counts]

    def lose_present(self, broker: BrokerId, name: GroupName) -> None:
        """Record that a broker has no connected members of a group."""
        count = self.members_of(name).get(broker)
        if count is not None:
            self._counts[name][broker] = count._replace(present=0)
            self._turns.pop(name, None)

    # --- journal ------------------------------------------------------------------------------

    def _remember(self, name: GroupName, broker: BrokerId, count: Count, where: Where) -> None:
        if self.journal is not None and broker != self._broker_id:
            self.journal.group(GroupPut(name, broker, count.present, count.total, where))

    def restore(self, put: GroupPut) -> None:
        """Restore a count after a restart."""
        self.learn(FederationMembers(put.broker, put.group, 0, put.present, put.total, put.where))

    def puts(self) -> list[GroupPut]:
        """The counts of other brokers, for the journal."""
        return [
            GroupPut(name, broker, count.present, count.total, where_of(self._groups[name].filter))
            for name, counts in self._counts.items()
            for broker, count in counts.items()
            if broker != self._broker_id
        ]
