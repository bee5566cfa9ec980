"""Who subscribed to what, on top of the topic index.

Of a shared subscription's group one member gets a message (see `groups`).  In a network, `sharing`
sees to that, and they are not looked for here.

Source: MQTT Version 5.0, sections 3.8.4, 4.7 and 4.8.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from shoal.attributes import TOPIC_ATTRIBUTE
from shoal.ledger import Ledger, Measure
from shoal.matching import TopicIndex, read_topic_filter
from shoal.matching.filed.filters import longest_text
from shoal.matching.topics.index import MOST_BEGUN
from shoal.matching.topics.memory import TopicMemory
from shoal.model import Attributes
from shoal.mqtt.content import AttributeReader, work_on
from shoal.mqtt.door.network import Door
from shoal.mqtt.messages import Message
from shoal.mqtt.sessions.session import ClientSubscription, Session
from shoal.mqtt.sessions.subscribed import receivers
from shoal.mqtt.sessions.subscribed.groups import Group, Members
from shoal.mqtt.sessions.subscribed.receivers import Receivers

_NO_ATTRIBUTES: Attributes = {}
# So many filters that match are as much work as one publication (see `TURN` in `serving`), and so
# many that are tested.
_FOUND_PER_WORK, TESTS_PER_WORK = 100, 25
# Of fewer it is not asked which of them it would be: that takes as long as to match.
_FEW = 100
# What is above QoS 0 or retained goes to each receiver by itself, so much longer.
_ALONE = 4
# And a publication to a topic of which not all is known is as much work as so many.
_UNKNOWN = 2_000
# So many places are looked at in one go to find out who gets what is published to a topic.
QUICK = 10_000
# So many topic filters are asked about one message in one go.
MOST_FILTERS = 2_000
# So many characters are looked through in the time of one such filter more, where one must.
SHORT = 256


class Subscriptions:
    """The subscriptions of all sessions of a broker; `door` is told of each that comes or goes."""

    def __init__(self, door: Door | None = None, reader: AttributeReader | None = None) -> None:
        self._door = door
        self._reader = reader or AttributeReader()
        # Of subscriptions that are not shared, and, but for a network, of groups.
        self._index = TopicIndex()
        self._groups: dict[str, Group] = {}
        self.count = 0
        # What they take in memory, about.
        self.bytes = 0
        # What is known of topics until any subscription changes; others only look into it.
        self.known: TopicMemory[Receivers] = TopicMemory()
        self._changes = 0
        # The topic that is looked at, and what is left of that.
        self._search: tuple[str, Iterator[int]] | None = None
        self.quick = QUICK
        # Beyond so many topic filters a publication is asked about content at bit by bit.
        self.most_filters = MOST_FILTERS
        self._not_plain = 0
        # In a network, who sees to the groups: it is told which members come, leave or are gone.
        self.at_change: Callable[[ClientSubscription], None] | None = None
        # Hears of sessions that want something else, and of those whose clients come or leave.
        self.at_wish: Callable[[Session], None] | None = None

    def register(self, ledger: Ledger, most_bytes: Callable[[], int]) -> None:
        ledger.register(
            "subscriptions", lambda: Measure(self.count, self.bytes, most_bytes=most_bytes())
        )
        self.known.register(ledger, "receivers of topics")
        self._index.register(ledger)

    def add(self, subscription: ClientSubscription) -> bool:
        """Take in a subscription; whether it is new, and not one of the same name changed.

        TopicError for a topic filter that MQTT does not allow; nothing is changed then.
        """
        if subscription.shared:
            self._join(subscription)
        else:
            self._index.add(subscription, subscription.topic_filter, subscription.content)
            if self._door is not None:
                self._door.added(subscription.wanted_topics, subscription.content)
        self._changed()
        self._not_plain += not subscription.is_plain
        session = subscription.session
        known = session.subscriptions.get(subscription.text)
        if known is not None:
            self._take_out(known)
        session.subscriptions[subscription.text] = subscription
        self._count(subscription, 1)
        if self.at_wish is not None:
            self.at_wish(session)
        self.count += known is None
        if subscription.shared:
            self._tell(subscription)
        return known is None

    def _join(self, subscription: ClientSubscription) -> None:
        name = subscription.group
        group = self._groups.get(name)
        if group is None:
            read_topic_filter(name)  # whether it is one that is allowed
            group = Group()
            if self.at_change is None:
                self._index.add(group, subscription.wanted_topics, subscription.content)
            self._groups[name] = group
        group.put(subscription)

    def remove(self, session: Session, text: str) -> ClientSubscription | None:
        """Take out the subscription to a topic filter; None if there is none."""
        known = session.subscriptions.pop(text, None)
        if known is not None:
            self._take_out(known)
            self.count -= 1
        return known

    def forget(self, session: Session, most: int) -> bool:
        """Take out subscriptions of a session until it is enough.

        `most` is the work, as `work_on` has it.  Whether none is left.
        """
        known, leaving = session.subscriptions, list[ClientSubscription]()
        for subscription in known.values():
            leaving.append(subscription)
            most -= work_on(subscription.content)
            if most <= 0:
                break
        for subscription in leaving:
            self._take_out(subscription)
            del known[subscription.text]
        self.count -= len(leaving)
        return not known

    def presence_changed(self, member: ClientSubscription) -> None:
        """A member's client came or left: its group chooses among others now."""
        self._groups[member.group].put(member)
        self._tell(member)

    def presence_is_told(self, session: Session) -> None:
        """The session's client came or left: who asks what clients wish looks again."""
        if self.at_wish is not None:
            self.at_wish(session)

    def find(self, topic: str) -> bool:
        """Find out who gets what is published to a topic; whether that is known now.

        A client's filters may match by the 100,000: no more than `quick` places are looked at, and
        the next time it goes on there, unless another topic was asked for.
        """
        if topic in self.known:
            return True
        left = self.quick
        steps = self.search(topic)
        for places in steps:
            left -= places
            if left <= 0:
                self._search = topic, steps
                return False
        return True

    def is_looking_for(self, topic: str) -> bool:
        """Whether it has begun to find that out, and gone on to something else."""
        return self._search is not None and self._search[0] == topic

    def search(self, topic: str) -> Iterator[int]:
        """As `find`, to its end in as many steps as it takes; yields the places of each.

        From the beginning again where a subscription changes meanwhile, as in `TopicIndex.search`.
        """
        if self._search is not None and self.is_looking_for(topic):
            steps, self._search = self._search[1], None
            return steps
        return self._steps(topic)

    def _steps(self, topic: str) -> Iterator[int]:
        begun = 0
        while topic not in self.known:
            changes = self._changes
            begun += 1
            for places in receivers.find(self._index, topic, self.known):
                if begun > MOST_BEGUN:
                    continue
                yield places
                if self._changes != changes:
                    break

    def _of(self, topic: str) -> Receivers:
        """What is known of a topic, whatever it takes."""
        known = self.known.get(topic)
        if known is None:
            deque(self.search(topic), maxlen=0)
            known = self.known[topic]
        return known

    def look(self, topic: str) -> Receivers | None:
        """What is known of a topic; None while it is not (see `find`)."""
        known = self.known.get(topic)
        if known is None and self.find(topic):
            known = self.known[topic]
        return known

    def is_long(self, known: Receivers) -> bool:
        """Whether it may take longer than a turn to find out who gets a message to such a topic.

        That is so where very many topic filters are asked about its content.
        """
        return known.all is None and known.leaves > self.most_filters

    def work_of(self, topic: str) -> tuple[int, int]:
        """How much work a publication to a topic is, as far as this broker's clients go.

        One client can have tens of thousands of subscriptions that all match.  And how many filters
        may be asked about content at most, which is `work_of_content` more.
        """
        known = self.look(topic)
        return (_UNKNOWN, 0) if known is None else known.work

    @property
    def most_candidates(self) -> int:
        """How many a publication may have to be tested against, or match; a group counts once."""
        groups = len(self._groups) if self.at_change is not None else 0
        return self._index.most_candidates + groups

    def work_on(self, attributes: Attributes) -> int:
        """As `work_of`, of a publication with these that comes from the network; all of it."""
        topic = attributes.get(TOPIC_ATTRIBUTE)
        if not isinstance(topic, str):
            return 0
        work, filters = self.work_of(topic)
        return work + self._work_of_content(topic, attributes, filters)

    def work_of_content(self, message: Message, filters: int) -> int:
        """How much more a publication is than its topic says, where so many are asked at most."""
        attributes = self._reader.of(message)
        return self._work_of_content(message.topic, attributes, filters)

    def _work_of_content(self, topic: str, attributes: Attributes, filters: int) -> int:
        if filters < _FEW:
            return filters * (1 + longest_text(attributes) // SHORT) // TESTS_PER_WORK
        tests, found = self._index.weigh(topic, attributes)
        return tests // TESTS_PER_WORK + found // _FOUND_PER_WORK

    def prepare(self, attributes: Attributes, work_us: float) -> bool:
        """Look through a publication's texts for so long; whether that is all."""
        topic = attributes.get(TOPIC_ATTRIBUTE)
        return not isinstance(topic, str) or self._prepare(topic, attributes, work_us)

    def prepare_message(self, message: Message, work_us: float) -> bool:
        """As `prepare`, of one that a client publishes here."""
        return self._prepare(message.topic, self._reader.of(message), work_us)

    def _prepare(self, topic: str, attributes: Attributes, work_us: float) -> bool:
        known = self.look(topic)
        if known is None:
            return False
        return self.is_long(known) or self._index.prepare(topic, attributes, work_us)

    @property
    def are_plain(self) -> bool:
        """Whether all subscriptions are."""
        return not self._not_plain

    def match(self, message: Message) -> list[ClientSubscription]:
        """The subscriptions that get a message, of each group one."""
        return self.match_each([message])[0]

    def match_each(self, messages: Sequence[Message]) -> list[list[ClientSubscription]]:
        """As `match`, for each of several messages to one topic, in their order."""
        topic = messages[0].topic
        asks = self._of(topic).asks
        attributes = [self._reader.of(each) if asks else _NO_ATTRIBUTES for each in messages]
        found = self._index.match_each_checked(topic, attributes)
        if not self._has_groups:
            return found
        return [list(_chosen(each)) for each in found]

    def matching(self, message: Message, found: list[ClientSubscription]) -> Iterator[int]:
        """`match` bit by bit, to the end of what is found; yields how many places it took.

        Subscriptions must not change until it ends.
        """
        attributes = self._reader.of(message)
        some: list[Any] = []
        for places in self._index.matching(message.topic, [attributes], [some]):
            found += _chosen(some) if self._has_groups else some
            some.clear()
            yield places
        found += _chosen(some) if self._has_groups else some

    @property
    def _has_groups(self) -> bool:
        """Whether there are groups in the index."""
        return bool(self._groups) and self.at_change is None

    def members(self, group: str) -> Members:
        """How many members a group has."""
        found = self._groups.get(group)
        return Members(0, 0) if found is None else found.members

    def member(self, group: str, *, is_any: bool = True) -> ClientSubscription | None:
        """The member of a group whose turn it is, of connected ones or of any; None if none is."""
        found = self._groups.get(group)
        return None if found is None else found.choose(is_any=is_any)

    def asked(
        self, topic: str, most: int
    ) -> Iterator[tuple[ClientSubscription | None, list[ClientSubscription], int]]:
        """The topic filters that match a topic, and of each so many that ask for content.

        First one of those that get everything, if it is about them, and how many there are; else
        some that ask for content, and how many do.
        """
        for plain, asking, among in self._index.asked(topic, most):
            if plain is None:
                yield None, [each for each in asking if isinstance(each, ClientSubscription)], among
            elif isinstance(plain, ClientSubscription):
                yield plain, [], among

    def _tell(self, subscription: ClientSubscription) -> None:
        if self.at_change is not None:
            self.at_change(subscription)

    def _changed(self) -> None:
        self.known.clear()
        self._search = None
        self._changes += 1

    def _count(self, subscription: ClientSubscription, sign: int) -> None:
        self.bytes += sign * subscription.size
        subscription.session.count_subscription(sign * subscription.size)

    def _take_out(self, subscription: ClientSubscription) -> None:
        self._changed()
        self._count(subscription, -1)
        if self.at_wish is not None:
            self.at_wish(subscription.session)
        self._not_plain -= not subscription.is_plain
        if not subscription.shared:
            self._index.remove(subscription)
            if self._door is not None:
                self._door.removed(subscription.wanted_topics, subscription.content)
            return
        self._tell(subscription)
        group = self._groups[subscription.group]
        group.remove(subscription)
        if not group:
            del self._groups[subscription.group]
            if group in self._index:
                self._index.remove(group)


def alone(work: int) -> int:
    """How much work a publication is that goes to each by itself, where `work` is as `work_of`."""
    return 1 + _ALONE * (work - 1)


def _chosen(found: Iterable[ClientSubscription | Group]) -> Iterator[ClientSubscription]:
    """Of each group the member whose turn it is."""
    for each in found:
        if isinstance(each, Group):
            member = each.choose()
            if member is not None:
                yield member
        else:
            yield each
