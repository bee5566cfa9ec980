"""The subscriptions of a broker's sessions, on top of the topic index.

One member of a shared subscription's group gets a message (see `groups`). In a network `sharing`
selects it, and groups are not searched here.

Source: MQTT Version 5.0, sections 3.8.4, 4.7 and 4.8.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from shoal.attributes import TOPIC_ATTRIBUTE
from shoal.conflation import KeyName, KeyState
from shoal.ledger import Ledger, LedgerMeasure
from shoal.matching import TopicIndex, read_topic_filter
from shoal.matching.filed.search_costs import longest_text
from shoal.matching.topics.index import MOST_BEGUN
from shoal.matching.topics.memory import TopicMemory
from shoal.model import Attributes
from shoal.mqtt.content import AttributeReader, work_on
from shoal.mqtt.front_end.network import FrontEnd
from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.sessions.session import (
    ClientSubscription,
    HeldMessage,
    Session,
    SubscriptionConflator,
)
from shoal.mqtt.sessions.subscribed import receivers
from shoal.mqtt.sessions.subscribed.groups import GroupMembers, SharedGroup
from shoal.mqtt.sessions.subscribed.receivers import Receivers

_NO_ATTRIBUTES: Attributes = {}
# Matching filters that are as much work as one publication (see `TURN` in `serving`), and tested
# filters that are.
_FOUND_PER_WORK, TESTS_PER_WORK = 100, 25
# Below this number, weighing the filters takes as long as matching them.
_FEW = 100
# The factor for messages above QoS 0 or retained ones, which go to each receiver separately.
_ALONE = 4
# The work of a publication to a topic whose receivers are not cached.
_UNKNOWN = 2_000
# Nodes that one search for the receivers of a topic visits.
QUICK = 10_000
# The number of filters that are tested on one message in one go.
MOST_FILTERS = 2_000
# Characters that are searched in the time of one more filter.
SHORT = 256


class ConflatedSubscriptions(Protocol):
    """Gets the conflated subscriptions that come and go (see `conflating`)."""

    def begin(self, subscription: ClientSubscription) -> None: ...

    def end(self, subscription: ClientSubscription) -> None: ...

    def restore(
        self,
        conflator: SubscriptionConflator,
        key: KeyName,
        state: KeyState[HeldMessage],
        now_us: int,
    ) -> None: ...


class SessionSubscriptions:
    """The subscriptions of all sessions of a broker; `front_end` gets each that comes or goes."""

    def __init__(
        self, front_end: FrontEnd | None = None, reader: AttributeReader | None = None
    ) -> None:
        self._front_end = front_end
        self._reader = reader or AttributeReader()
        # Of subscriptions that are not shared, and, without a network, of groups.
        self._index = TopicIndex()
        self._groups: dict[str, SharedGroup] = {}
        self.count = 0
        # Their approximate memory.
        self.bytes = 0
        # Receivers of topics, cached until any subscription changes; other classes only read it.
        self.known: TopicMemory[Receivers] = TopicMemory()
        self._changes = 0
        # The topic of an interrupted search, and its remaining steps.
        self._search: tuple[str, Iterator[int]] | None = None
        self.quick = QUICK
        # Above this number of topic filters, a publication is tested in time slices.
        self.most_filters = MOST_FILTERS
        self._not_plain = 0
        # In a network, called for members that come, leave, connect or disconnect.
        self.at_change: Callable[[ClientSubscription], None] | None = None
        # Called for sessions whose subscriptions change, or whose clients connect or disconnect.
        self.at_wish: Callable[[Session], None] | None = None
        # Called for subscriptions with a past that are added.
        self.at_gate: Callable[[ClientSubscription], None] | None = None
        self.conflation: ConflatedSubscriptions | None = None

    def register(self, ledger: Ledger, most_bytes: Callable[[], int]) -> None:
        ledger.register(
            "subscriptions", lambda: LedgerMeasure(self.count, self.bytes, most_bytes=most_bytes())
        )
        self.known.register(ledger, "receivers of topics")
        self._index.register(ledger)

    def add(self, subscription: ClientSubscription) -> bool:
        """Add a subscription; returns whether it is new, False if it replaces one of the same name.

        TopicError for a topic filter that MQTT does not allow; nothing is changed then.
        """
        if subscription.shared:
            self._join(subscription)
        else:
            self._index.add(subscription, subscription.topic_filter, subscription.content)
            if self._front_end is not None:
                self._front_end.added(
                    subscription.wanted_topics, subscription.content, subscription.pace
                )
        self._changed()
        self._not_plain += not subscription.is_plain
        session = subscription.session
        known = session.subscriptions.get(subscription.text)
        if known is not None:
            self._take_out(known)
        session.subscriptions[subscription.text] = subscription
        if subscription.gate is not None and self.at_gate is not None:
            self.at_gate(subscription)
        if subscription.conflator is not None and self.conflation is not None:
            self.conflation.begin(subscription)
        self._count(subscription, 1)
        if self.at_wish is not None:
            self.at_wish(session)
        self.count += known is None
        if subscription.shared:
            self._report_change(subscription)
        return known is None

    def _join(self, subscription: ClientSubscription) -> None:
        name = subscription.group
        group = self._groups.get(name)
        if group is None:
            read_topic_filter(name)  # raises TopicError
            group = SharedGroup()
            if self.at_change is None:
                self._index.add(group, subscription.wanted_topics, subscription.content)
            self._groups[name] = group
        group.put(subscription)

    def remove(self, session: Session, text: str) -> ClientSubscription | None:
        """Remove the subscription to a topic filter; None if there is none."""
        known = session.subscriptions.pop(text, None)
        if known is not None:
            self._take_out(known)
            self.count -= 1
        return known

    def forget(self, session: Session, most: int) -> bool:
        """Remove subscriptions of a session, up to `most` work (see `work_on`).

        Returns whether none is left.
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
        """Update a member's group after a connect or disconnect of its client."""
        self._groups[member.group].put(member)
        self._report_change(member)

    def presence_is_told(self, session: Session) -> None:
        """Note a connect or disconnect of the session's client."""
        if self.at_wish is not None:
            self.at_wish(session)

    def find(self, topic: str) -> bool:
        """Find the receivers of a topic; returns whether they are known.

        Filters of a client may match by the 100,000: at most `quick` nodes are visited, and the
        next call continues there, unless another topic was searched.
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
        """Whether a search for this topic was interrupted."""
        return self._search is not None and self._search[0] == topic

    def search(self, topic: str) -> Iterator[int]:
        """Find the receivers in as many steps as it takes; yields the nodes of each step.

        The search restarts when a subscription changes meanwhile, as in `TopicIndex.search`.
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
        """The receivers of a topic, found at any cost."""
        known = self.known.get(topic)
        if known is None:
            deque(self.search(topic), maxlen=0)
            known = self.known[topic]
        return known

    def look(self, topic: str) -> Receivers | None:
        """The receivers of a topic; None if they are not known yet (see `find`)."""
        known = self.known.get(topic)
        if known is None and self.find(topic):
            known = self.known[topic]
        return known

    def is_long(self, known: Receivers) -> bool:
        """Whether matching a message may take more than a time slice.

        That is so if very many topic filters have content filters to test.
        """
        return known.all is None and known.leaves > self.most_filters

    def work_of(self, topic: str) -> tuple[int, int]:
        """The work of a publication to a topic, and the most content filters to test.

        One client can have tens of thousands of matching subscriptions. `work_of_content` is the
        additional work of the content filters.
        """
        known = self.look(topic)
        return (_UNKNOWN, 0) if known is None else known.work

    @property
    def most_candidates(self) -> int:
        """The most subscriptions that a publication may match or be tested on; a group counts
        once."""
        groups = len(self._groups) if self.at_change is not None else 0
        return self._index.most_candidates + groups

    def work_on(self, attributes: Attributes) -> int:
        """The whole work of a publication with these attributes, which comes from the network."""
        topic = attributes.get(TOPIC_ATTRIBUTE)
        if not isinstance(topic, str):
            return 0
        work, filters = self.work_of(topic)
        return work + self._work_of_content(topic, attributes, filters)

    def work_of_content(self, message: PublishedMessage, filters: int) -> int:
        """The additional work of a publication's content filters, at most so many."""
        attributes = self._reader.attributes_of(message)
        return self._work_of_content(message.topic, attributes, filters)

    def _work_of_content(self, topic: str, attributes: Attributes, filters: int) -> int:
        if filters < _FEW:
            return filters * (1 + longest_text(attributes) // SHORT) // TESTS_PER_WORK
        tests, found = self._index.weigh(topic, attributes)
        return tests // TESTS_PER_WORK + found // _FOUND_PER_WORK

    def prepare(self, attributes: Attributes, work_us: float) -> bool:
        """Search a publication's texts in advance for this time; returns whether it is complete."""
        topic = attributes.get(TOPIC_ATTRIBUTE)
        return not isinstance(topic, str) or self._prepare(topic, attributes, work_us)

    def are_costly(self, topic: str) -> bool:
        """Whether filters of a topic have expressions that may take more than a time slice."""
        return not self._index.prepare(topic, {}, 0)

    def prepare_message(self, message: PublishedMessage, work_us: float) -> bool:
        """Like `prepare`, of a publication of a local client."""
        return self._prepare(message.topic, self._reader.attributes_of(message), work_us)

    def _prepare(self, topic: str, attributes: Attributes, work_us: float) -> bool:
        known = self.look(topic)
        if known is None:
            return False
        return self.is_long(known) or self._index.prepare(topic, attributes, work_us)

    @property
    def are_plain(self) -> bool:
        """Whether all subscriptions are plain."""
        return not self._not_plain

    def match(self, message: PublishedMessage) -> list[ClientSubscription]:
        """The subscriptions that get a message; of each group one member."""
        return self.match_each([message])[0]

    def match_each(self, messages: Sequence[PublishedMessage]) -> list[list[ClientSubscription]]:
        """Like `match`, for each of several messages to one topic, in order."""
        topic = messages[0].topic
        asks = self._of(topic).asks
        attributes = [
            self._reader.attributes_of(each) if asks else _NO_ATTRIBUTES for each in messages
        ]
        found = self._index.match_each_checked(topic, attributes)
        if not self._has_groups:
            return found
        return [list(_chosen(each)) for each in found]

    def matching(self, message: PublishedMessage, found: list[ClientSubscription]) -> Iterator[int]:
        """Append the results of `match` to `found`, in steps; yields the nodes of each step.

        Subscriptions must not change until it ends.
        """
        attributes = self._reader.attributes_of(message)
        some: list[Any] = []
        for places in self._index.matching(message.topic, [attributes], [some]):
            found += _chosen(some) if self._has_groups else some
            some.clear()
            yield places
        found += _chosen(some) if self._has_groups else some

    @property
    def _has_groups(self) -> bool:
        """Whether the index has groups."""
        return bool(self._groups) and self.at_change is None

    def members(self, group: str) -> GroupMembers:
        """The number of members of a group."""
        found = self._groups.get(group)
        return GroupMembers(0, 0) if found is None else found.members

    def member(self, group: str, *, is_any: bool = True) -> ClientSubscription | None:
        """The next member of a group, among connected ones or all; None if there is none."""
        found = self._groups.get(group)
        return None if found is None else found.choose(is_any=is_any)

    def asked(
        self, topic: str, most: int
    ) -> Iterator[tuple[ClientSubscription | None, list[ClientSubscription], int]]:
        """The topic filters that match a topic, each with at most `most` content filters.

        Yields a subscription without a content filter and the number of these, or some with content
        filters and the number of those.
        """
        for plain, asking, among in self._index.asked(topic, most):
            if plain is None:
                yield None, [each for each in asking if isinstance(each, ClientSubscription)], among
            elif isinstance(plain, ClientSubscription):
                yield plain, [], among

    def _report_change(self, subscription: ClientSubscription) -> None:
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
        if subscription.conflator is not None and self.conflation is not None:
            self.conflation.end(subscription)
        if not subscription.shared:
            self._index.remove(subscription)
            if self._front_end is not None:
                self._front_end.removed(
                    subscription.wanted_topics, subscription.content, subscription.pace
                )
            return
        self._report_change(subscription)
        group = self._groups[subscription.group]
        group.remove(subscription)
        if not group:
            del self._groups[subscription.group]
            if group in self._index:
                self._index.remove(group)


def alone(work: int) -> int:
    """The work of a publication that goes to each receiver separately, from that of `work_of`."""
    return 1 + _ALONE * (work - 1)


def _chosen(found: Iterable[ClientSubscription | SharedGroup]) -> Iterator[ClientSubscription]:
    """Replace each group by its next member."""
    for each in found:
        if isinstance(each, SharedGroup):
            member = each.choose()
            if member is not None:
                yield member
        else:
            yield each
