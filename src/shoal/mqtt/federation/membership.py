"""Who is in which group of shared subscriptions: of each, how many members at which broker.

Each broker tells all others of its own, when a member comes, leaves, connects or is gone; and all
of them to who joins, a few at a time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from itertools import accumulate
from typing import NamedTuple

from shoal.matching import TopicError, TopicIndex
from shoal.model import BrokerId
from shoal.mqtt.door.network import EVERY_BROKER, Door
from shoal.mqtt.federation.controls import GroupName, Members, encode_control
from shoal.mqtt.federation.handing import Handing
from shoal.mqtt.memory.journal import Journal
from shoal.mqtt.memory.journal_records import GroupPut
from shoal.mqtt.messages import Message
from shoal.mqtt.sessions.session import ClientSubscription
from shoal.mqtt.sessions.subscribed.rows import Where, content_of, where_of
from shoal.mqtt.sessions.subscribed.subscriptions import Subscriptions


class Count(NamedTuple):
    """Members at one broker, since this time: connected ones, and all."""

    from_us: int
    present: int
    total: int


class _Turns:
    """The brokers of a group in their order, and up to which turn it is each one's."""

    __slots__ = ("brokers", "counts", "present", "total")

    def __init__(self, counts: Mapping[BrokerId, Count]) -> None:
        self.brokers = sorted(counts)
        self.counts = [counts[broker] for broker in self.brokers]
        self.present = list(accumulate(count.present for count in self.counts))
        self.total = list(accumulate(count.total for count in self.counts))


class Membership:
    """What one broker knows of all groups.

    `told` hears under which number members were told, `tell_soon` that `tell_changes` is due.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        door: Door,
        subscriptions: Subscriptions,
        told: Callable[[int], None],
        tell_soon: Callable[[], None],
    ) -> None:
        self.journal: Journal | None = None
        self._broker_id = broker_id
        self._door = door
        self._subscriptions = subscriptions
        self._told = told
        self._tell_soon = tell_soon
        # What each broker has told of each group, and what the group asks for.
        self._counts: dict[GroupName, dict[BrokerId, Count]] = {}
        # Of groups that were chosen of since that changed.
        self._turns: dict[GroupName, _Turns] = {}
        self._groups = TopicIndex()
        self._dirty: dict[GroupName, ClientSubscription] = {}
        subscriptions.at_change = self._changed

    def __len__(self) -> int:
        """How many groups there are."""
        return len(self._counts)

    def of(self, name: GroupName) -> Mapping[BrokerId, Count]:
        """The brokers that have members of a group."""
        return self._counts.get(name, {})

    def choose(
        self,
        name: GroupName,
        number: int,
        tried: Collection[tuple[BrokerId, bool]] = (),
        *,
        is_any: bool,
    ) -> BrokerId | None:
        """The broker whose turn it is with this number, by how many members each has.

        Connected ones count, or with `is_any` all; not of those that were tried.
        """
        turns = self._turns.get(name)
        if turns is None:
            counts = self.of(name)
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

    def wanting(self, message: Message, names: list[GroupName]) -> Iterator[int]:
        """Find the groups that a message is for, bit by bit: they come to these names.

        Yields how many places of topic filters were looked at.
        """
        yield from self._groups.search(message.topic)
        attributes = self._door.reader.of(message)
        yield from self._groups.matching(message.topic, [attributes], [names])

    # --- what happens here --------------------------------------------------------------------

    def _changed(self, subscription: ClientSubscription) -> None:
        """A member came, connected, left or is gone."""
        self._dirty[subscription.group] = subscription
        self._tell_soon()

    def tell_changes(self, now_us: int) -> None:
        """Tell all what has changed."""
        dirty, self._dirty = self._dirty, {}
        for name, subscription in dirty.items():
            count = self._count(name, now_us)
            known = self.of(name).get(self._broker_id)
            if (known[1:] if known else (0, 0)) == count[1:]:
                continue
            members = Members(self._broker_id, name, *count, where_of(subscription.content))
            self.learn(members)
            self._told(self._door.send(EVERY_BROKER, encode_control(members), now_us))

    def tell(self, broker: BrokerId, turns: Handing) -> Iterator[int]:
        """Tell a broker that has joined what is here, a group at each step of these turns.

        What changes meanwhile all are told, it among them.
        """
        for name in tuple(self._counts):
            if name in self._counts:
                count = self._count(name, turns.now_us)
                if count.total:
                    where = where_of(self._groups[name].filter)
                    members = Members(self._broker_id, name, *count, where)
                    self._door.send(broker, encode_control(members), turns.now_us)
                yield 1

    def _count(self, name: GroupName, now_us: int) -> Count:
        return Count(now_us, *self._subscriptions.members(name))

    # --- what is known ------------------------------------------------------------------------

    def learn(self, members: Members) -> None:
        """How many members a group has at a broker."""
        name = members.group
        counts = self._counts.get(name, {})
        known = counts.get(members.broker)
        if known is not None and known.from_us > members.from_us:
            return
        if not members.total:
            self.lose(members.broker, name)
            return
        if name not in self._groups:
            # What another broker says may make no sense.
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
        """A broker has no members of a group."""
        counts = self._counts.get(name, {})
        if counts.pop(broker, None) is not None:
            self._turns.pop(name, None)
            self._remember(name, broker, Count(0, 0, 0), "")
            if not counts:
                del self._counts[name]
                self._groups.remove(name)

    def lose_present(self, broker: BrokerId, name: GroupName) -> None:
        """A broker has none that is connected."""
        count = self.of(name).get(broker)
        if count is not None:
            self._counts[name][broker] = count._replace(present=0)
            self._turns.pop(name, None)

    # --- what is written down -----------------------------------------------------------------

    def _remember(self, name: GroupName, broker: BrokerId, count: Count, where: Where) -> None:
        if self.journal is not None and broker != self._broker_id:
            self.journal.group(GroupPut(name, broker, count.present, count.total, where))

    def restore(self, put: GroupPut) -> None:
        """Who was in a group when the broker stopped."""
        self.learn(Members(put.broker, put.group, 0, put.present, put.total, put.where))

    def puts(self) -> list[GroupPut]:
        """What is known of other brokers' members."""
        return [
            GroupPut(name, broker, count.present, count.total, where_of(self._groups[name].filter))
            for name, counts in self._counts.items()
            for broker, count in counts.items()
            if broker != self._broker_id
        ]
