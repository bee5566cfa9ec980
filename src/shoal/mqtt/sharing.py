"""Shared subscriptions over a whole network: of each group one member gets a message, wherever.

Every broker where members are gets the message, and all come to the same choice without a word:
the group's counts at the time when the message was published, and a hash of the publication's key,
name one broker.  Counts are told to all, and hold from a little later than that, so that they are
known everywhere before the first message they count for.  A broker whose last member has left
goes on getting the group's messages for a while, and hands on those that are its own.

Of brokers with members, those whose clients are connected take part, as long as there is one.

| when | broker |
| --- | --- |
| a member comes, leaves, connects or is gone | tells its counts to all (`Members`) |
| a message is another broker's | does not deliver it |
| a message is its own, and nobody is here any more | hands it on (`Shared`) |
| is handed a message | delivers it, or hands it on to one that has not had it |

Source: MQTT Version 5.0, section 4.8.2.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from shoal.matching import matches, topic_matches
from shoal.model import EVERYTHING, BrokerId
from shoal.mqtt.content import attributes_of
from shoal.mqtt.controls import (
    GroupName,
    Members,
    Shared,
    encode_control,
    message_of,
    shared_of,
)
from shoal.mqtt.limits import MICROSECONDS
from shoal.mqtt.messages import Message
from shoal.mqtt.network import EVERY_BROKER, Door
from shoal.mqtt.timers import Timers

if TYPE_CHECKING:
    from shoal.mqtt.session import ClientSubscription
    from shoal.mqtt.subscriptions import Subscriptions

# Counts hold this much later than they are told: above the time a word takes to every broker.
NOTICE_US = MICROSECONDS // 2
# A message published before a count holds may be under way so long.
HOLD_US = 2 * MICROSECONDS

SHARING_TIMER = "sharing"


class Count(NamedTuple):
    """Members at one broker, from this time on: connected ones, and all."""

    from_us: int
    present: int
    total: int


class Sharing:
    """One broker's part.  `deliver` gives a message to a member here."""

    def __init__(
        self,
        broker_id: BrokerId,
        door: Door,
        timers: Timers,
        subscriptions: Subscriptions,
        deliver: Callable[[Message, ClientSubscription, int], None],
    ) -> None:
        self._broker_id = broker_id
        self._door = door
        self._timers = timers
        self._subscriptions = subscriptions
        self._deliver = deliver
        # What each broker has told of each group, oldest first.
        self._counts: dict[GroupName, dict[BrokerId, list[Count]]] = {}
        self._dirty: dict[GroupName, None] = {}
        # What members asked for who have left: not dated yet, and until when it is still asked for.
        self._parting: list[ClientSubscription] = []
        self._held: deque[tuple[int, ClientSubscription]] = deque()
        subscriptions.sharing = self

    # --- what happens here --------------------------------------------------------------------

    def changed(self, subscription: ClientSubscription) -> None:
        """A member came, connected or is gone."""
        self._dirty[subscription.group] = None
        self._timers.set((SHARING_TIMER, 0), 0)

    def parted(self, subscription: ClientSubscription) -> None:
        """A member has left for good; what its door asked for is asked for a while longer."""
        self._parting.append(subscription)
        self.changed(subscription)

    def due(self, now_us: int) -> None:
        """One of this module's timers."""
        dirty, self._dirty = self._dirty, {}
        for name in dirty:
            self._tell_all(name, now_us)
        parting, self._parting = self._parting, []
        self._held += ((now_us + NOTICE_US + HOLD_US, each) for each in parting)
        while self._held and self._held[0][0] <= now_us:
            self._door.removed(self._held.popleft()[1])
        if self._held:
            self._timers.set((SHARING_TIMER, 1), self._held[0][0])
        else:
            self._sweep(now_us)

    def _sweep(self, now_us: int) -> None:
        """Forget groups that nobody has been in for a while."""
        for name, counts in list(self._counts.items()):
            last = [each[-1] for each in counts.values() if each]
            if all(not each.total and each.from_us + HOLD_US <= now_us for each in last):
                del self._counts[name]

    def _tell_all(self, name: GroupName, now_us: int) -> None:
        members = self._subscriptions.group(name)
        present, total = sum(each.session.outlet is not None for each in members), len(members)
        told = self._counts.setdefault(name, {}).setdefault(self._broker_id, [])
        if (told[-1].present, told[-1].total) != (present, total) if told else total:
            told.append(Count(now_us + NOTICE_US, present, total))
            _prune(told, now_us)
            self._say(EVERY_BROKER, Members(self._broker_id, name, *told[-1]), now_us)

    def _say(self, to: str, control: Members | Shared, now_us: int) -> None:
        self._door.send(to, encode_control(control), now_us)

    # --- messages -----------------------------------------------------------------------------

    def is_mine(self, subscription: ClientSubscription, message: Message) -> bool:
        """Whether this broker's member gets a message."""
        if message.key is None:
            return True
        counts = self._counts.get(subscription.group)
        if counts is None or len(counts) < 2:
            return True
        return _choose(counts, message, ()) == self._broker_id

    @property
    def has_left(self) -> bool:
        """Whether messages may come for groups that nobody is in here any more."""
        return bool(self._held or self._parting)

    def hand_on(self, message: Message, now_us: int) -> None:
        """A message came: if it is for a group here that has no members any more, others get it."""
        left = (*(each for _, each in self._held), *self._parting)
        groups = {each.group: each for each in left}
        for name, subscription in groups.items():
            content = subscription.content
            if (
                message.key is not None
                and topic_matches(subscription.wanted_topics, message.topic)
                and not self._subscriptions.group(name)
                and _choose(self._counts.get(name, {}), message, ()) == self._broker_id
                and (content == EVERYTHING or matches(content, attributes_of(message)))
            ):
                self._pass(name, message, (self._broker_id,), now_us)

    def _pass(
        self, name: GroupName, message: Message, tried: tuple[BrokerId, ...], now_us: int
    ) -> None:
        latest = {broker: counts[-1:] for broker, counts in self._counts.get(name, {}).items()}
        chosen = _choose(latest, message, tried)
        if chosen is not None:
            self._say(chosen, shared_of(name, message, tried, now_us), now_us)

    # --- what other brokers say ---------------------------------------------------------------

    def hear(self, control: Members | Shared, now_us: int) -> None:
        match control:
            case Members(broker, name, from_us, present, total) if broker != self._broker_id:
                counts = self._counts.setdefault(name, {}).setdefault(broker, [])
                if not counts or counts[-1].from_us < from_us:
                    counts.append(Count(from_us, present, total))
                    _prune(counts, now_us)
                if not total:
                    self._timers.set((SHARING_TIMER, 2), from_us + 2 * HOLD_US)
            case Shared(name, tried=tried):
                message = message_of(control, now_us)
                if message is not None:
                    self._take(name, message, (*tried, self._broker_id), now_us)

    def _take(
        self, name: GroupName, message: Message, tried: tuple[BrokerId, ...], now_us: int
    ) -> None:
        members = self._subscriptions.group(name)
        present = [each for each in members if each.session.outlet is not None] or members
        if present:
            turn = crc32(repr(message.key).encode()) % len(present)
            self._deliver(message, present[turn], now_us)
        else:
            self._pass(name, message, tried, now_us)

    def tell(self, broker: BrokerId, now_us: int) -> None:
        """Tell a broker that has joined what is here."""
        for name, counts in self._counts.items():
            mine = counts.get(self._broker_id)
            if mine and mine[-1].total:
                self._say(broker, Members(self._broker_id, name, *mine[-1]), now_us)

    def forget(self, broker: BrokerId) -> None:
        """A broker begins anew: what it told holds no more, until it tells again."""
        for name, counts in list(self._counts.items()):
            counts.pop(broker, None)
            if not counts:
                del self._counts[name]


def _choose(
    counts: dict[BrokerId, list[Count]], message: Message, but: Iterable[BrokerId]
) -> BrokerId | None:
    """The broker whose turn it is; None if there is nobody."""
    at_us, excluded = message.published_us, set(but)
    now = [
        (broker, held[-1])
        for broker in sorted(counts)
        if broker not in excluded
        and (held := [each for each in counts[broker] if each.from_us <= at_us])
    ]
    if not any(count.total for _, count in now):
        # A group that is new: whoever is known to be in it.
        now = [
            (broker, counts[broker][-1])
            for broker in sorted(counts)
            if broker not in excluded and counts[broker]
        ]
    weights = [(broker, count.present) for broker, count in now if count.present]
    weights = weights or [(broker, count.total) for broker, count in now if count.total]
    if not weights:
        return None
    turn = crc32(repr(message.key).encode()) % sum(weight for _, weight in weights)
    for broker, weight in weights:
        turn -= weight
        if turn < 0:
            return broker
    return None


def _prune(counts: list[Count], now_us: int) -> None:
    """Forget what held before anything that may still be under way."""
    while len(counts) > 1 and counts[1].from_us < now_us - 30 * MICROSECONDS:
        del counts[0]
