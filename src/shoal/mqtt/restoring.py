"""Making a broker's MQTT side again what its journal says it was.

`Remembered` is what a journal's records come to, without a broker: each says what something is
from now on, so the last one holds.  `restore` gives it to a broker that has just been made, and
begins its journal, so that what happens from then on is written down.

>>> from shoal.mqtt.memory.journal_records import SessionPut
>>> remembered = Remembered()
>>> remembered.apply([SessionPut("c", 60, None, 5, None)])
>>> clients = BrokerClients("B1", now_us=7)
>>> restore(clients, remembered, now_us=7)
[]
>>> clients.sessions.is_kept("c")
True
"""

from __future__ import annotations

from collections.abc import Iterable

from shoal.model import BrokerId
from shoal.mqtt.broker_clients import BrokerClients
from shoal.mqtt.door.network import read_body
from shoal.mqtt.door.owed import Owed
from shoal.mqtt.federation.roaming.whereabouts.homes import Home
from shoal.mqtt.memory.journal import Journal
from shoal.mqtt.memory.journal_records import (
    AnswerPut,
    CamePut,
    ClosedPut,
    GroupPut,
    HeardPut,
    HomeEnd,
    HomePut,
    ItemEnd,
    ItemPut,
    MessagePut,
    NeighbourPut,
    ReceivedEnd,
    ReceivedPut,
    Record,
    RetainedPut,
    SessionEnd,
    SessionPut,
    SpreadEnd,
    SpreadPut,
    SpreadTo,
    SubscriptionEnd,
    SubscriptionPut,
    UnsettledPut,
)
from shoal.mqtt.messages import Message
from shoal.mqtt.sessions.delivering.outgoing import Outgoing
from shoal.mqtt.sessions.had import Had
from shoal.mqtt.sessions.session import Session
from shoal.mqtt.sessions.subscribed.rows import SubscriptionState, subscription_of
from shoal.mqtt.sessions.unsettled import owed_to_nobody


class RememberedSession:
    """One session: its last `SessionPut`, and what belongs to it by name or number."""

    __slots__ = ("came", "items", "put", "received", "subscriptions", "unsettled")

    def __init__(self, put: SessionPut) -> None:
        self.put = put
        self.subscriptions: dict[str, SubscriptionState] = {}
        self.items: dict[int, ItemPut] = {}
        # Keys of messages, while it is on its way here.
        self.came: dict[tuple[str, int], None] = {}
        self.received: set[int] = set()
        # By packet identifier.
        self.unsettled: dict[int, UnsettledPut] = {}


class RememberedSpread:
    """A message on its way to many: the clients that have it, and the groups."""

    __slots__ = ("clients", "groups")

    def __init__(self) -> None:
        self.clients: set[str] = set()
        self.groups: set[str] = set()


class Remembered:
    """What records come to, one after the other.

    What belongs to a session that is not known is left out: where a journal was cut short, all
    that is still so is said again behind.
    """

    def __init__(self) -> None:
        self.sessions: dict[str, RememberedSession] = {}
        # Numbers of messages, by topic.
        self.retained: dict[str, int] = {}
        self.homes: dict[str, HomePut] = {}
        # By group and broker.
        self.groups: dict[tuple[str, str], GroupPut] = {}
        self.answers: list[AnswerPut | ClosedPut] = []
        self.heard: dict[str, int] = {}
        self.neighbours: dict[BrokerId, None] = {}
        self.messages: dict[int, MessagePut] = {}
        # By the number of the message.
        self.spreads: dict[int, RememberedSpread] = {}
        self.last_serial = 0
        self.last_message = 0

    def apply(self, records: Iterable[Record]) -> None:
        for record in records:
            match record:
                case ItemPut():
                    self.last_serial = max(self.last_serial, record.serial)
                    if (spread := self.spreads.get(record.message)) is not None:
                        spread.clients.add(record.client_id)
                    if (session := self.sessions.get(record.client_id)) is not None:
                        session.items[record.serial] = record
                case ItemEnd(client_id, serial):
                    if (session := self.sessions.get(client_id)) is not None:
                        session.items.pop(serial, None)
                case MessagePut():
                    self.last_message = max(self.last_message, record.number)
                    self.messages[record.number] = record
                case RetainedPut(topic, message):
                    self.retained[topic] = message
                case HeardPut(publisher, sequence):
                    self.heard[publisher] = sequence
                case NeighbourPut(broker):
                    self.neighbours[broker] = None
                case GroupPut():
                    self.groups[record.group, record.broker] = record
                case AnswerPut() | ClosedPut():
                    self.answers.append(record)
                case SpreadPut(message):
                    self.spreads[message] = RememberedSpread()
                case SpreadTo(message, group):
                    if (spread := self.spreads.get(message)) is not None:
                        spread.groups.add(group)
                case SpreadEnd(message):
                    self.spreads.pop(message, None)
                case HomePut():
                    self.homes[record.client_id] = record
                case HomeEnd(client_id):
                    self.homes.pop(client_id, None)
                case _:
                    self._apply_to_session(record)

    def _apply_to_session(self, record: Record) -> None:
        if isinstance(record, SessionPut):
            session = self.sessions.setdefault(record.client_id, RememberedSession(record))
            session.put = record
            if record.arriving_us is None:
                session.came.clear()
        elif isinstance(record, SessionEnd):
            self.sessions.pop(record.client_id, None)
        elif (known := self.sessions.get(record.client_id)) is not None:  # type: ignore[union-attr]
            match record:
                case CamePut(_, keys):
                    known.came.update(dict.fromkeys(keys))
                case SubscriptionPut(_, row):
                    known.subscriptions[row.text] = row
                case SubscriptionEnd(_, text):
                    known.subscriptions.pop(text, None)
                case UnsettledPut(_, packet_id):
                    known.unsettled[packet_id] = record
                case ReceivedPut(_, packet_id):
                    known.received.add(packet_id)
                    known.unsettled.pop(packet_id, None)
                case ReceivedEnd(_, packet_id):
                    known.received.discard(packet_id)
                    known.unsettled.pop(packet_id, None)


def restore(clients: BrokerClients, remembered: Remembered, now_us: int) -> list[str]:
    """Give a new broker what it had, and its journal; returns what could not be understood."""
    restoring = _Restoring(clients, remembered)
    for topic, number in remembered.retained.items():
        message = restoring.message(number, f"retained at {topic!r}")
        if message is not None and not message.has_expired(now_us):
            clients.retained.keep(message)
    sessions = [restoring.session(each) for each in remembered.sessions.values()]
    federation = clients.federation
    if federation is not None:
        for home in remembered.homes.values():
            where = Home(home.broker, home.at_us, home.user, home.had_us)
            federation.roaming.restore_home(home.client_id, where)
    journal = Journal(remembered.last_serial, remembered.last_message)
    journal.restore_heard(remembered.heard)
    journal.neighbours.update(remembered.neighbours)
    clients.begin_journal(journal)
    if federation is not None:
        for group in remembered.groups.values():
            federation.sharing.restore(group)
        for answer in remembered.answers:
            federation.sharing.taking.restore(answer)
    for session in sessions:
        if session.expiry_interval_s:
            session.journal = journal
            if federation is not None:
                federation.roaming.restored(session, now_us)
        if session.going is None:
            clients.sessions.restored(session, now_us)
        if federation is not None:
            came = tuple(remembered.sessions[session.client_id].came)
            held = restoring.held.get(session.client_id, [])
            federation.roaming.arriving.remember(session, came, held)
    restoring.spread_on()
    restoring.publish_again(now_us)
    return restoring.problems


class _Restoring:
    def __init__(self, clients: BrokerClients, remembered: Remembered) -> None:
        self.problems: list[str] = []
        # By client: what may still come to its session from where that was.
        self.held: dict[str, list[Outgoing]] = {}
        self._clients = clients
        self._remembered = remembered
        self._messages: dict[int, Message] = {}
        self._unsettled: list[Owed] = []

    def message(self, number: int, what: str) -> Message | None:
        """A message by its number, the same for all to whom it goes."""
        found = self._messages.get(number)
        put = self._remembered.messages.get(number)
        if found is None and put is not None:
            found = read_body(put.body, put.published_us)
            if found is not None:
                found.expires_us, found.key, found.number = put.expires_us, put.key, number
                self._messages[number] = found
        if found is None:
            self.problems.append(f"message {number}, {what}, is missing or cannot be read")
        return found

    def session(self, known: RememberedSession) -> Session:
        put = known.put
        session = self._clients.sessions.add(put.client_id)
        session.expiry_interval_s = put.expiry_interval_s
        session.entered_us, session.left_us = put.entered_us, put.left_us
        session.will, session.arriving_us = put.will, put.arriving_us
        session.give_to(put.user)
        session.going, session.began_us = put.going, put.began_us
        session.farewells, session.waits_to_publish = put.farewells, put.waits_to_publish
        if put.had or put.gaps:
            session.had = Had(put.had, put.gaps)
            self._clients.sessions.lacking.note(session.had)
        session.is_remembered = True
        may_subscribe = self._clients.permissions(put.user, put.client_id).may_subscribe
        session.remember(known.received)
        for row in known.subscriptions.values():
            try:
                subscription = subscription_of(session, row)
                if not may_subscribe(subscription.wanted_topics):
                    raise ValueError("the rules do not allow it any more")
                self._clients.subscriptions.add(subscription)
            except ValueError as error:
                self.problems.append(f"subscription {row.text!r} of {put.client_id!r}: {error}")
        for _, item in sorted(known.items.items()):
            message = self.message(item.message, f"on its way to {put.client_id!r}")
            if message is not None:
                outgoing = Outgoing(message, item.qos, item.retain, item.identifiers)
                outgoing.packet_id, outgoing.released = item.packet_id, item.released
                outgoing.serial = item.serial
                if item.held:
                    outgoing.is_held = True
                    self.held.setdefault(put.client_id, []).append(outgoing)
                else:
                    session.restore(outgoing)
        for packet_id, unsettled in known.unsettled.items():
            message = self.message(unsettled.message, f"from {put.client_id!r}")
            if message is not None:
                message.shares = dict(unsettled.shares)
                session.remember((packet_id,))
                self._unsettled.append(owed_to_nobody(session, packet_id, message))
        return session

    def spread_on(self) -> None:
        """Go on with what was on its way to many."""
        for number, spread in self._remembered.spreads.items():
            message = self.message(number, "on its way to many")
            if message is not None:
                self._clients.spread_on(message, spread.clients, spread.groups)

    def publish_again(self, now_us: int) -> None:
        """Send on what was under way to other brokers when this one stopped, in its order."""
        door, federation = self._clients.door, self._clients.federation
        messages: list[Message] = []
        for each in sorted(self._unsettled, key=_sequence_of):
            if door is None or each.message is None:
                each.incoming.settled(each)
            else:
                door.publish_again(each)
                messages.append(each.message)
        if federation is not None:
            # Behind all of these, which have lower numbers than what is said now.
            for message in messages:
                federation.sharing.share_again(message, now_us)


def _sequence_of(owed: Owed) -> int:
    key = owed.message.key if owed.message is not None else None
    return key[1] if key is not None else 0
