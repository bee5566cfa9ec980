"""Who subscribed to what, on top of the topic index.

Of a shared subscription's group one member gets a message (see `groups`).  In a network, `sharing`
sees to that, and they are not looked for here.

Source: MQTT Version 5.0, sections 3.8.4, 4.7 and 4.8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from shoal.matching import TopicIndex, read_topic_filter
from shoal.matching.filed.filters import longest_text
from shoal.model import Attributes
from shoal.mqtt.content import TOPIC_ATTRIBUTE, Json, attributes_of, work_on
from shoal.mqtt.door.network import Door
from shoal.mqtt.messages import Message
from shoal.mqtt.sessions.session import ClientSubscription, Session
from shoal.mqtt.sessions.subscribed.groups import Group, Members

_NO_ATTRIBUTES: Attributes = {}
# So many nodes and receivers of a topic, or filters that are asked about content, are as much work
# as one publication (see `TURN` in `serving`).
_PLACES_PER_WORK = 20
_FILTERS_PER_WORK = 100
# What is above QoS 0 or retained goes to each receiver by itself, so much longer.
_ALONE = 4
# So many characters are looked through in the time of one such filter more, where one must.
_SHORT = 256
# Topics whose receivers are remembered until any subscription changes; then all are forgotten.
_REMEMBERED_TOPICS = 65_536


class Subscriptions:
    """The subscriptions of all sessions of a broker; `door` is told of each that comes or goes."""

    def __init__(self, door: Door | None = None, json: Json = "auto") -> None:
        self._door = door
        self._json = json
        # Of subscriptions that are not shared, and, but for a network, of groups.
        self._index = TopicIndex()
        self._groups: dict[str, Group] = {}
        self.count = 0
        # What they take in memory, about.
        self.bytes = 0
        self._receivers: dict[str, tuple[ClientSubscription, ...] | None] = {}
        # Topics that content is asked for at, remembered as long.
        self._asks_for_content: dict[str, bool] = {}
        # And how much work a publication to a topic is.
        self._work: dict[str, tuple[int, int]] = {}
        self._not_plain = 0
        # In a network, who sees to the groups: it is told which members come, leave or are gone.
        self.at_change: Callable[[ClientSubscription], None] | None = None
        # Hears of sessions that want something else, and of those whose clients come or leave.
        self.at_wish: Callable[[Session], None] | None = None

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

    def receivers(self, topic: str) -> tuple[ClientSubscription, ...] | None:
        """Who gets everything that is published to a topic, each client once.

        Subscriptions of a client that overlap count as one, of the highest QoS, with all their
        identifiers [MQTT-3.3.4-2 to 4].  None where who gets it depends on the message.
        """
        try:
            return self._receivers[topic]
        except KeyError:
            pass
        found = self._index.match_topic(topic)
        receivers = None
        if found is not None and Group not in set(map(type, found)):
            receivers = _one_each(found)
        if len(self._receivers) >= _REMEMBERED_TOPICS:
            self._receivers.clear()
        self._receivers[topic] = receivers
        return receivers

    def work_of(self, topic: str) -> tuple[int, int]:
        """How much work a publication to a topic is, as far as this broker's clients go.

        One client can have tens of thousands of subscriptions that all match.  And how many filters
        are asked about content, which is `work_of_filters` more.
        """
        work = self._work.get(topic)
        if work is None:
            places, filters = self._index.sizes(topic)
            work = 1 + places // _PLACES_PER_WORK, filters
            if len(self._work) >= _REMEMBERED_TOPICS:
                self._work.clear()
            self._work[topic] = work
        return work

    def work_on(self, attributes: Attributes) -> int:
        """As `work_of`, of a publication with these that comes from the network; all of it."""
        topic = attributes.get(TOPIC_ATTRIBUTE)
        if not isinstance(topic, str):
            return 0
        work, filters = self.work_of(topic)
        return work + work_of_filters(filters, longest_text(attributes))

    def prepare(self, attributes: Attributes, work_us: float) -> bool:
        """Look through a publication's texts for so long; whether that is all."""
        topic = attributes.get(TOPIC_ATTRIBUTE)
        return not isinstance(topic, str) or self._index.prepare(topic, attributes, work_us)

    def prepare_message(self, message: Message, work_us: float) -> bool:
        """As `prepare`, of one that a client publishes here."""
        attributes = attributes_of(message, self._json)
        return self._index.prepare(message.topic, attributes, work_us)

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
        asks = self._asks_for_content.get(topic)
        if asks is None:
            if len(self._asks_for_content) >= _REMEMBERED_TOPICS:
                self._asks_for_content.clear()
            asks = self._asks_for_content[topic] = self._index.asks_for_content(topic)
        attributes = [
            attributes_of(each, self._json) if asks else _NO_ATTRIBUTES for each in messages
        ]
        found = self._index.match_each(topic, attributes)
        if not self._groups or self.at_change is not None:
            return found
        return [list(_chosen(each)) for each in found]

    def members(self, group: str) -> Members:
        """How many members a group has."""
        found = self._groups.get(group)
        return Members(0, 0) if found is None else found.members

    def member(self, group: str, *, is_any: bool = True) -> ClientSubscription | None:
        """The member of a group whose turn it is, of connected ones or of any; None if none is."""
        found = self._groups.get(group)
        return None if found is None else found.choose(is_any=is_any)

    def _tell(self, subscription: ClientSubscription) -> None:
        if self.at_change is not None:
            self.at_change(subscription)

    def _changed(self) -> None:
        self._receivers.clear()
        self._asks_for_content.clear()
        self._work.clear()

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


def work_of_filters(filters: int, characters: int) -> int:
    """How much work filters are that may look through texts of so many characters."""
    return filters * (1 + characters // _SHORT) // _FILTERS_PER_WORK


def _one_each(found: Sequence[ClientSubscription]) -> tuple[ClientSubscription, ...] | None:
    """One subscription for each session; None where some of one are for its own messages."""
    # One client may have tens of thousands that all match.
    by_session: dict[Session, list[ClientSubscription]] = {}
    for each in found:
        own = by_session.get(each.session)
        if own is None:
            by_session[each.session] = [each]
        else:
            own.append(each)
    if len(by_session) == len(found):
        return tuple(found)
    if any(len({each.no_local for each in own}) > 1 for own in by_session.values()):
        return None
    return tuple(
        own[0] if len(own) == 1 else _together(session, own) for session, own in by_session.items()
    )


def _together(session: Session, own: Sequence[ClientSubscription]) -> ClientSubscription:
    """As if a client had one subscription instead of these."""
    return ClientSubscription(
        session,
        own[0].text,
        own[0].topic_filter,
        own[0].content,
        qos=max([each.qos for each in own]),
        no_local=own[0].no_local,
        retain_as_published=True in {each.retain_as_published for each in own},
        identifiers=tuple([one for each in own if each.identifiers for one in each.identifiers]),
    )


def _chosen(found: Iterable[ClientSubscription | Group]) -> Iterator[ClientSubscription]:
    """Of each group the member whose turn it is."""
    for each in found:
        if isinstance(each, Group):
            member = each.choose()
            if member is not None:
                yield member
        else:
            yield each
