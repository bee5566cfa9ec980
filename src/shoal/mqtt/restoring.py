"""Restores a broker's MQTT side from its journal.

`Remembered` is the state that a journal's records add up to, without a broker: each record states
the present value of a thing, so the last one holds. `restore` installs that state in a new broker
and begins the broker's journal, which records all later changes.

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

from shoal.conflation import KeyName, KeyState, key_name
from shoal.model import BrokerId
from shoal.mqtt.broker_clients import BrokerClients
from shoal.mqtt.federation.session_transfer.directory.session_directory import SessionOwner
from shoal.mqtt.front_end.network import read_body
from shoal.mqtt.front_end.pending_acks import OwedAck
from shoal.mqtt.memory.journal import SessionJournal
from shoal.mqtt.memory.journal_records import (
    AnswerPut,
    CamePut,
    ClosedPut,
    ConflatedEnd,
    ConflatedPut,
    ConflationReset,
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
from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.sessions.deduplication_window import DeduplicationWindow
from shoal.mqtt.sessions.delivering.outgoing import Outgoing
from shoal.mqtt.sessions.session import HeldMessage, Session
from shoal.mqtt.sessions.subscribed.rows import SubscriptionState, subscription_of
from shoal.mqtt.sessions.unsettled import owed_without_connection


class RememberedSession:
    """One session: its last `SessionPut`, and the records that belong to it."""

    __slots__ = ("came", "conflated", "items", "put", "received", "subscriptions", "unsettled")

    def __init__(self, put: SessionPut) -> None:
        self.put = put
        self.subscriptions: dict[str, SubscriptionState] = {}
        self.items: dict[int, ItemPut] = {}
        # Keys of messages, while the session is being imported.
        self.came: dict[tuple[str, int], None] = {}
        self.received: set[int] = set()
        # Keys of conflated subscriptions, by the names of these.
        self.conflated: dict[str, dict[KeyName, ConflatedPut]] = {}
        # By packet identifier.
        self.unsettled: dict[int, UnsettledPut] = {}


class RememberedSpread:
    """An interrupted sliced fan-out: the clients that have the message, and the groups."""

    __slots__ = ("clients", "groups")

    def __init__(self) -> None:
        self.clients: set[str] = set()
        self.groups: set[str] = set()


class Remembered:
    """The sum of records, in their order.

    Records of an unknown session are ignored: where a journal was cut short, all that still holds
    is written again behind the cut.
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
                    known.conflated.pop(text, None)
                case ConflatedPut(_, text, key):
                    known.conflated.setdefault(text, {})[key_name(key)] = record
                    if (spread := self.spreads.get(record.message)) is not None:
                        spread.clients.add(record.client_id)
                case ConflatedEnd(_, text, key):
                    known.conflated.get(text, {}).pop(key_name(key), None)
                case ConflationReset(_, text):
                    known.conflated.pop(text, None)
                case UnsettledPut(_, packet_id):
                    known.unsettled[packet_id] = record
                case ReceivedPut(_, packet_id):
                    known.received.add(packet_id)
                    known.unsettled.pop(packet_id, None)
                case ReceivedEnd(_, packet_id):
                    known.received.discard(packet_id)
                    known.unsettled.pop(packet_id, None)


def restore(clients: BrokerClients, remembered: Remembered, now_us: int) -> list[str]:
    """Install the state and the journal in a new broker; returns what could not be read."""
    restoring = _Restoring(clients, remembered, now_us)
    for topic, number in remembered.retained.items():
        message = restoring.message(number, f"retained at {topic!r}")
        if message is not None and not message.has_expired(now_us):
            clients.retained.keep(message)
    sessions = [restoring.session(each) for each in remembered.sessions.values()]
    federation = clients.federation
    if federation is not None:
        for home in remembered.homes.values():
            where = SessionOwner(home.broker, home.at_us, home.user, home.had_us)
            federation.session_transfer.restore_home(home.client_id, where)
    journal = SessionJournal(remembered.last_serial, remembered.last_message)
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
                federation.session_transfer.restored(session, now_us)
        if session.going is None:
            clients.sessions.restored(session, now_us)
        if federation is not None:
            came = tuple(remembered.sessions[session.client_id].came)
            held = restoring.held.get(session.client_id, [])
            federation.session_transfer.arriving.remember(session, came, held)
    restoring.resume_fan_out()
    restoring.publish_again(now_us)
    return restoring.problems


class _Restoring:
    def __init__(self, clients: BrokerClients, remembered: Remembered, now_us: int) -> None:
        self._now_us = now_us
        self.problems: list[str] = []
        # By client: messages that may still come from the session's source.
        self.held: dict[str, list[Outgoing]] = {}
        self._clients = clients
        self._remembered = remembered
        self._messages: dict[int, PublishedMessage] = {}
        self._unsettled: list[OwedAck] = []

    def message(self, number: int, what: str) -> PublishedMessage | None:
        """A message by its number, one object for all its receivers."""
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
        session.will = put.will
        session.arriving_us, session.source = put.arriving_us, put.source
        session.give_to(put.user)
        session.going, session.began_us = put.going, put.began_us
        session.farewells, session.waits_to_publish = put.farewells, put.waits_to_publish
        if put.had or put.gaps:
            session.had = DeduplicationWindow(put.had, put.gaps)
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
                outgoing.serial, outgoing.via = item.serial, item.via
                if item.held:
                    outgoing.is_held = True
                    self.held.setdefault(put.client_id, []).append(outgoing)
                else:
                    session.restore(outgoing)
        self._restore_conflation(session, known)
        for packet_id, unsettled in known.unsettled.items():
            message = self.message(unsettled.message, f"from {put.client_id!r}")
            if message is not None:
                message.shares = dict(unsettled.shares)
                session.remember((packet_id,))
                self._unsettled.append(owed_without_connection(session, packet_id, message))
        return session

    def _restore_conflation(self, session: Session, known: RememberedSession) -> None:
        """Restore the keys of conflated subscriptions, each held message once."""
        held: dict[int, HeldMessage] = {}
        for text, puts in known.conflated.items():
            subscription = session.subscriptions.get(text)
            if subscription is None or subscription.conflator is None:
                continue
            for name, put in puts.items():
                found = held.get(put.message)
                message = None
                if put.message and found is None:
                    message = self.message(put.message, f"held for {session.client_id!r}")
                if message is not None:
                    found = held[put.message] = HeldMessage(message, is_retained=put.is_retained)
                self._clients.conflation.restore(
                    subscription.conflator,
                    name,
                    KeyState(put.ends_us, put.last, found, put.values, put.newest),
                    self._now_us,
                )

    def resume_fan_out(self) -> None:
        """Resume the interrupted fan-outs."""
        for number, spread in self._remembered.spreads.items():
            message = self.message(number, "on its way to many")
            if message is not None:
                self._clients.resume_fan_out(message, spread.clients, spread.groups)

    def publish_again(self, now_us: int) -> None:
        """Retransmit publications that were not settled at the stop, in their order."""
        front_end, federation = self._clients.front_end, self._clients.federation
        messages: list[PublishedMessage] = []
        for each in sorted(self._unsettled, key=_sequence_of):
            if front_end is None or each.message is None:
                each.incoming.settled(each)
            else:
                front_end.publish_again(each)
                messages.append(each.message)
        if federation is not None:
            # After all of these: later messages have higher numbers.
            for message in messages:
                federation.sharing.share_again(message, now_us)


def _sequence_of(owed: OwedAck) -> int:
    key = owed.message.key if owed.message is not None else None
    return key[1] if key is not None else 0
