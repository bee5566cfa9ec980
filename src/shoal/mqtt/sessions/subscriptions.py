"""Who subscribed to what, on top of the topic index.

Of a shared subscription's group only members that are connected take part, as long as there is
one: what is published goes to someone who is there.  Without any, the sessions take turns.  In a
network, `sharing` sees to them, and they are not looked for here.

Source: MQTT Version 5.0, sections 3.8.4, 4.7 and 4.8.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shoal.matching import TopicIndex
from shoal.model import Attributes
from shoal.mqtt.content import Json, attributes_of, work_on
from shoal.mqtt.door.network import Door
from shoal.mqtt.messages import Message
from shoal.mqtt.sessions.session import ClientSubscription, Session

_NO_ATTRIBUTES: Attributes = {}
# Topics whose receivers are remembered until any subscription changes; then all are forgotten.
_REMEMBERED_TOPICS = 65_536


class Subscriptions:
    """The subscriptions of all sessions of a broker; `door` is told of each that comes or goes."""

    def __init__(self, door: Door | None = None, json: Json = "auto") -> None:
        self._door = door
        self._json = json
        self._index = TopicIndex()
        # The members of each group, present or not.
        self._groups: dict[str, dict[ClientSubscription, None]] = {}
        self.count = 0
        self._receivers: dict[str, tuple[ClientSubscription, ...] | None] = {}
        # Topics that content is asked for at, remembered as long.
        self._asks_for_content: dict[str, bool] = {}
        self._not_plain = 0
        # In a network, who sees to the groups: it is told which members come, leave or are gone.
        self.at_change: Callable[[ClientSubscription], None] | None = None

    def add(self, subscription: ClientSubscription) -> bool:
        """Take in a subscription; whether it is new, and not one of the same name changed.

        TopicError for a topic filter that MQTT does not allow; nothing is changed then.
        """
        self._index.add(subscription, subscription.group, subscription.content)
        self._changed()
        self._not_plain += not subscription.is_plain
        if subscription.shared and self.at_change is not None:
            self._index.remove(subscription)  # it is one that is allowed
        elif self._door is not None:
            self._door.added(subscription.wanted_topics, subscription.content)
        session = subscription.session
        known = session.subscriptions.get(subscription.text)
        if known is not None:
            self._take_out(known)
        session.subscriptions[subscription.text] = subscription
        self.count += known is None
        if subscription.shared:
            members = self._groups.setdefault(subscription.group, {})
            members[subscription] = None
            self._settle(members)
            self._tell(subscription)
        return known is None

    def remove(self, session: Session, text: str) -> ClientSubscription | None:
        """Take out the subscription to a topic filter; None if there is none."""
        known = session.subscriptions.pop(text, None)
        if known is not None:
            self._take_out(known)
            self.count -= 1
        return known

    def forget(self, session: Session, most: int) -> bool:
        """Take out subscriptions of a session, all that are shared and others until it is enough.

        `most` is the work on these, as `work_on` has it.  Whether none is left.
        """
        known = session.subscriptions
        leaving = [each for each in known.values() if each.shared]
        for subscription in known.values():
            if not subscription.shared:
                leaving.append(subscription)
                most -= work_on(subscription.content)
            if most <= 0:
                break
        for subscription in leaving:
            self._take_out(subscription)
            del known[subscription.text]
        self.count -= len(leaving)
        return not known

    def presence_changed(self, session: Session) -> None:
        """The session's client came or left: its groups choose among others now."""
        for subscription in session.subscriptions.values():
            if subscription.shared:
                self._settle(self._groups[subscription.group])
                self._tell(subscription)

    def receivers(self, topic: str) -> tuple[ClientSubscription, ...] | None:
        """Who gets everything that is published to a topic, each client once.

        None where that depends on the message, or where the subscriptions of a client overlap.
        """
        try:
            return self._receivers[topic]
        except KeyError:
            pass
        found = self._index.match_topic(topic)
        receivers = None
        if found is not None and len({each.session for each in found}) == len(found):
            receivers = tuple(found)
        if len(self._receivers) >= _REMEMBERED_TOPICS:
            self._receivers.clear()
        self._receivers[topic] = receivers
        return receivers

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
        return self._index.match_each(topic, attributes)

    def group(self, name: str) -> tuple[ClientSubscription, ...]:
        """The members of a group, present or not."""
        return tuple(self._groups.get(name, ()))

    def _tell(self, subscription: ClientSubscription) -> None:
        if self.at_change is not None:
            self.at_change(subscription)

    def _changed(self) -> None:
        self._receivers.clear()
        self._asks_for_content.clear()

    def _take_out(self, subscription: ClientSubscription) -> None:
        self._changed()
        self._not_plain -= not subscription.is_plain
        if self._door is not None and not subscription.shared:
            self._door.removed(subscription.wanted_topics, subscription.content)
        if subscription in self._index:
            self._index.remove(subscription)
        if subscription.shared:
            self._tell(subscription)
            members = self._groups[subscription.group]
            del members[subscription]
            if members:
                self._settle(members)
            else:
                del self._groups[subscription.group]

    def _settle(self, members: dict[ClientSubscription, None]) -> None:
        """Have exactly those members in the index who are connected, or all if nobody is."""
        if self.at_change is not None:
            return
        present = [member for member in members if member.session.outlet is not None]
        chosen = set(present or members)
        self._changed()
        for member in members:
            if member not in chosen:
                if member in self._index:
                    self._index.remove(member)
            elif member not in self._index:
                self._index.add(member, member.group, member.content)
