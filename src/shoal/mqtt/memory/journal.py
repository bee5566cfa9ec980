"""The journal of a broker's MQTT clients: the state to restore after a restart, as records.

Each record states the present value of a thing (a session, a subscription, a queued message), or
its end, so a repeated record does no harm. That keeps the journal short: `restate` writes all
values, a part at each step, while changes continue; afterwards all records before its begin are
obsolete. A message is written once in that time, for all its receivers.

Sessions that end with their connection are not recorded, except for their wills, and QoS 0 is not
recorded. The writer of the records calls `take` before it sends to any client or neighbour.

>>> from shoal.mqtt.memory.journal_records import read_records
>>> journal = SessionJournal()
>>> journal.retained(PublishedMessage("a", b"on", publisher="p", published_us=7))
>>> [type(record).__name__ for record in read_records(journal.take())]
['MessagePut', 'RetainedPut']
>>> journal.take()
b''
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import msgspec

from shoal.conflation import KeyName, key_values
from shoal.conflation.conflator import Values
from shoal.model import BrokerId
from shoal.mqtt.front_end.deduplication import MAX_STREAMS
from shoal.mqtt.front_end.network import write_body
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
    encode_record,
    encode_records,
)
from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.sessions.deduplication_window import (
    Heard,
    Last,
    in_short,
    is_of_front_end,
    of_front_ends,
)
from shoal.mqtt.sessions.delivering.outgoing import Outgoing
from shoal.mqtt.sessions.retained import RetainedStore
from shoal.mqtt.sessions.session import ClientSubscription, Session, SubscriptionConflator
from shoal.mqtt.sessions.sessions import Sessions
from shoal.mqtt.sessions.subscribed.rows import row_of

# The approximate size of a record without a message.
_RECORD_BYTES = 64
# The number of keys of an imported session that one step writes.
_CAME_AT_ONCE = 500


class SessionJournal:
    """Gathers records until the writer takes them.

    The writer sets `is_failing` if it cannot write: the broker then refuses what it must record.
    """

    def __init__(self, last_serial: int = 0, last_message: int = 0) -> None:
        self.is_failing = False
        # The last publication of each stream that was delivered here (see `OrderedDeduplication`);
        # written with its effects, if it had any.
        self.heard: OrderedDict[str, int] = OrderedDict()
        # Those of front ends, which each session transfer needs; all together would be many.
        self._heard_of_front_ends: dict[str, int] = {}
        self._to_hear: dict[str, None] = {}
        # Sessions whose gaps have become smaller since the last `take`.
        self._filled: dict[str, Session] = {}
        # Subscriptions whose past has gone on since the last `take`.
        self._replayed: dict[ClientSubscription, None] = {}
        # Keys of conflated subscriptions that have changed since the last `take`.
        self._conflated: dict[tuple[SubscriptionConflator, KeyName], None] = {}
        # All brokers that this one was ever linked to.
        self.neighbours: dict[BrokerId, None] = {}
        self._records: list[Record | msgspec.Raw] = []
        # Of sessions that are being filled: the encoded records of their subscriptions.
        self._prepared: dict[Session, list[msgspec.Raw]] = {}
        # And those of their messages.
        self._prepared_items: dict[Session, dict[Outgoing, list[msgspec.Raw]]] = {}
        self._last_serial = last_serial
        self._last_message = last_message
        # Incremented by `restate`: messages written before must be written again.
        self._epoch = 1

    def take(self) -> bytes:
        """The gathered records, to be written atomically; empty if there are none."""
        for session in self._filled.values():
            if session.journal is self:
                self._put_session(session)
        self._filled.clear()
        for subscription in self._replayed:
            session = subscription.session
            known = session.subscriptions.get(subscription.text)
            if session.journal is self and known is subscription:
                self.subscribed(subscription)
        self._replayed.clear()
        for conflator, key in self._conflated:
            self._put_conflated(conflator, key)
        self._conflated.clear()
        if not self._records:
            return b""
        records, self._records = self._records, []
        for stream in self._to_hear:
            records.append(HeardPut(stream, self.heard[stream]))
        self._to_hear.clear()
        return encode_records(records)

    # --- what changes -------------------------------------------------------------------------

    def entered(self, session: Session) -> None:
        """A client has connected to its session, perhaps with other terms."""
        session.left_us = None
        if not session.expiry_interval_s:
            self.ended(session)
            if session.will is not None:
                self._put_session(session)
            return
        if session.journal is None:
            # An earlier session of that client, which is at another broker, may have left records.
            self._records.append(SessionEnd(session.client_id))
        self._put_session(session)
        if session.journal is None:
            session.journal = self
            self._put_contents(session)

    def prepare(self, subscription: ClientSubscription) -> None:
        """Encode a subscription of an incoming session; it is written when the session
        `entered`."""
        session = subscription.session
        put = SubscriptionPut(session.client_id, row_of(subscription))
        self._prepared.setdefault(session, []).append(msgspec.Raw(encode_record(put)))

    def prepare_item(self, session: Session, outgoing: Outgoing) -> None:
        """Encode a queued message of an incoming session, like `prepare`."""
        records, self._records = self._records, []
        self.item(session, outgoing)
        records, self._records = self._records, records
        prepared = self._prepared_items.setdefault(session, {})
        prepared[outgoing] = [msgspec.Raw(encode_record(record)) for record in records]

    def is_not_coming(self, session: Session) -> None:
        """Drop the encoded records: the session does not come."""
        self._prepared.pop(session, None)
        self._prepared_items.pop(session, None)

    def left(self, session: Session, now_us: int) -> None:
        """The client has disconnected; the session stays."""
        session.left_us = now_us
        self._put_session(session)

    def moved(self, session: Session) -> None:
        """The session's transfer has begun, was cancelled, or is complete."""
        self._put_session(session)

    def filled(self, session: Session) -> None:
        """The session has received some publications it lacked; `take` writes one record for
        all."""
        self._filled[session.client_id] = session

    def came(self, session: Session, keys: Iterable[tuple[str, int]]) -> None:
        """An incoming session has got these messages, which may arrive a second time."""
        self._records.append(CamePut(session.client_id, tuple(keys)))

    def will_is_gone(self, session: Session) -> None:
        """The session's will was published or dropped."""
        if session.journal is not None:
            self._put_session(session)
        else:
            self.ended(session)

    def ended(self, session: Session) -> None:
        """The session has ended, or has left this broker."""
        session.journal = None
        self.is_not_coming(session)
        if session.is_remembered:
            session.is_remembered = False
            self._records.append(SessionEnd(session.client_id))

    def subscribed(self, subscription: ClientSubscription) -> None:
        client_id = subscription.session.client_id
        self._records.append(SubscriptionPut(client_id, row_of(subscription)))

    def replayed(self, subscription: ClientSubscription) -> None:
        """The past of a subscription has gone on; `take` writes one record, with its messages."""
        self._replayed[subscription] = None

    def conflated(self, conflator: SubscriptionConflator, key: KeyName) -> None:
        """A key of a conflated subscription has changed; `take` writes one record."""
        self._conflated[conflator, key] = None

    def conflation_reset(self, subscription: ClientSubscription) -> None:
        """Another SUBSCRIBE replaces a conflated subscription: its keys are forgotten."""
        client_id = subscription.session.client_id
        self._records.append(ConflationReset(client_id, subscription.text))

    def _put_conflated(self, conflator: SubscriptionConflator, key: KeyName) -> None:
        subscription = conflator.subscription
        session, state = subscription.session, conflator.get(key)
        if session.journal is not self or conflator not in session.conflators:
            return
        values = key_values(key)
        if state is None:
            self._records.append(ConflatedEnd(session.client_id, subscription.text, values))
            return
        held = state.held
        number, is_retained = 0, False
        held_values: Values = ()
        if held is not None and held.qos:
            number, held_values = self._number(held.message), state.held_values
            is_retained = held.is_retained
        put = ConflatedPut(
            session.client_id,
            subscription.text,
            values,
            state.ends_us,
            state.last,
            number,
            held_values,
            is_retained,
            state.newest,
        )
        self._records.append(put)

    def unsubscribed(self, session: Session, text: str) -> None:
        self._records.append(SubscriptionEnd(session.client_id, text))

    def item(self, session: Session, outgoing: Outgoing) -> None:
        """A message is queued for a client, or its delivery has advanced."""
        if not outgoing.serial:
            self._last_serial += 1
            outgoing.serial = self._last_serial
        self._records.append(
            ItemPut(
                session.client_id,
                outgoing.serial,
                self._number(outgoing.message),
                outgoing.qos,
                outgoing.retain,
                outgoing.identifiers,
                outgoing.packet_id,
                outgoing.released,
                outgoing.is_held,
                outgoing.via,
            )
        )

    def item_done(self, session: Session, outgoing: Outgoing) -> None:
        """The client has the message, or it was dropped."""
        if outgoing.serial:
            self._records.append(ItemEnd(session.client_id, outgoing.serial))
            outgoing.serial = 0

    def received(self, session: Session, packet_id: int) -> None:
        self._records.append(ReceivedPut(session.client_id, packet_id))

    def unsettled(self, session: Session, packet_id: int, message: PublishedMessage) -> None:
        number = self._number(message)
        shares = tuple((message.shares or {}).items())
        self._records.append(UnsettledPut(session.client_id, packet_id, number, shares))

    def record_received(self, stream: str, sequence: int) -> None:
        """A publication was delivered here that may arrive a second time."""
        heard = self.heard
        if sequence > heard.get(stream, -1):
            heard[stream] = sequence
            self._to_hear[stream] = None
            if is_of_front_end(stream):
                self._heard_of_front_ends[stream] = sequence
            if len(heard) > MAX_STREAMS:
                oldest, _ = heard.popitem(last=False)
                self._heard_of_front_ends.pop(oldest, None)
                self._to_hear.pop(oldest, None)

    def restore_heard(self, last: Last) -> None:
        """Restore the last publications of all streams."""
        self.heard.update(last)
        self._heard_of_front_ends.update(of_front_ends(last))

    @property
    def heard_in_short(self) -> Heard:
        """The summary of delivered publications that goes with a session transfer."""
        return in_short(self.heard, self._heard_of_front_ends)

    def released(self, session: Session, packet_id: int) -> None:
        self._records.append(ReceivedEnd(session.client_id, packet_id))

    def retained(self, message: PublishedMessage) -> None:
        """A topic's retained message was replaced or removed."""
        self._records.append(RetainedPut(message.topic, self._number(message)))

    def spreads(self, message: PublishedMessage) -> None:
        """A sliced fan-out begins."""
        self._records.append(SpreadPut(self._number(message)))

    def spread_to(self, message: PublishedMessage, group: str) -> None:
        """A member of this group has the message."""
        self._records.append(SpreadTo(self._number(message), group))

    def spread_is_over(self, message: PublishedMessage) -> None:
        """A sliced fan-out is complete."""
        self._records.append(SpreadEnd(self._number(message)))

    def linked(self, neighbour: BrokerId) -> None:
        """A link to a broker is up."""
        if neighbour not in self.neighbours:
            self.neighbours[neighbour] = None
            self._records.append(NeighbourPut(neighbour))

    def home(self, put: HomePut | HomeEnd) -> None:
        """A session directory entry was added or removed."""
        self._records.append(put)

    def group(self, put: GroupPut | AnswerPut | ClosedPut) -> None:
        """Another broker has announced members, or was told which member has a group's message."""
        self._records.append(put)

    def _put_session(self, session: Session) -> None:
        session.is_remembered = True
        had = session.had
        self._records.append(
            SessionPut(
                session.client_id,
                session.expiry_interval_s,
                session.left_us,
                session.entered_us,
                session.will,
                session.arriving_us,
                session.going,
                session.user,
                session.began_us,
                {} if had is None else had.last,
                session.farewells,
                {} if had is None else had.gaps,
                session.waits_to_publish,
                session.source,
            )
        )

    def _put_contents(self, session: Session) -> None:
        """Record the content of a session that came from another broker."""
        if session.arriving_us is not None and session.diversion is not None:
            self.came(session, session.diversion.known)
        for packet_id in sorted(session.received):
            self._put_received(session, packet_id)
        prepared = self._prepared.pop(session, [])
        if len(prepared) == len(session.subscriptions):
            self._records += prepared
        else:
            for subscription in session.subscriptions.values():
                self.subscribed(subscription)
        for conflator in session.conflators:
            for key in conflator:
                self.conflated(conflator, key)
        held = session.diversion.held if session.diversion is not None else ()
        items = self._prepared_items.pop(session, {})
        for outgoing in (*session.on_its_way(), *held):
            if outgoing in items:
                self._records += items[outgoing]
            elif outgoing.qos:
                self.item(session, outgoing)

    def _put_received(self, session: Session, packet_id: int) -> int:
        """Record a QoS 2 publication of the client; returns the approximate bytes."""
        owed = session.unsettled.get(packet_id)
        if owed is None:
            self.received(session, packet_id)
        elif owed.message is not None:
            self.unsettled(session, packet_id, owed.message)
            return _RECORD_BYTES + owed.message.size
        return _RECORD_BYTES

    def _number(self, message: PublishedMessage) -> int:
        """The message's number; the message is recorded unless it is already."""
        if message.epoch != self._epoch:
            if not message.number:
                self._last_message += 1
                message.number = self._last_message
            message.epoch = self._epoch
            self._records.append(
                MessagePut(
                    message.number,
                    write_body(message),
                    message.published_us,
                    message.expires_us,
                    message.key,
                )
            )
        return message.number

    # --- compaction ---------------------------------------------------------------------------

    def restate(
        self,
        sessions: Sessions,
        retained: RetainedStore,
        homes: Callable[[], Iterator[HomePut]],
        groups: Callable[[], Iterator[GroupPut | AnswerPut | ClosedPut]],
    ) -> Iterator[int]:
        """Record the whole state, a record or two at each step, which yields the approximate bytes.

        The state may change between steps.
        """
        self._epoch += 1
        return self._restate(sessions, retained, homes, groups)

    def _restate(
        self,
        sessions: Sessions,
        retained: RetainedStore,
        homes: Callable[[], Iterator[HomePut]],
        groups: Callable[[], Iterator[GroupPut | AnswerPut | ClosedPut]],
    ) -> Iterator[int]:
        for put in groups():
            self.group(put)
            yield _RECORD_BYTES
        for session in tuple(sessions):
            contents = self._restate_session(session)
            while sessions.get(session.client_id) is session:
                said = next(contents, None)
                if said is None:
                    break
                yield said
        for message in retained.history():
            self.retained(message)
            yield _RECORD_BYTES + message.size
        for stream in tuple(self.heard):
            if stream in self.heard:
                self._to_hear[stream] = None
                yield _RECORD_BYTES
        for neighbour in tuple(self.neighbours):
            self._records.append(NeighbourPut(neighbour))
            yield _RECORD_BYTES
        for home in homes():
            self.home(home)
            yield _RECORD_BYTES

    def _restate_session(self, session: Session) -> Iterator[int]:
        if session.is_remembered:
            self._put_session(session)
            yield _RECORD_BYTES
        if session.journal is None:
            return
        if session.arriving_us is not None and session.diversion is not None:
            known = iter(tuple(session.diversion.known))
            while some := tuple(islice(known, _CAME_AT_ONCE)):
                self.came(session, some)
                yield _RECORD_BYTES * len(some)
        for packet_id in sorted(session.received):
            if packet_id in session.received:
                yield self._put_received(session, packet_id)
        for subscription in tuple(session.subscriptions.values()):
            if session.subscriptions.get(subscription.text) is subscription:
                self.subscribed(subscription)
                yield _RECORD_BYTES + len(subscription.text)
        for conflator in tuple(session.conflators):
            for key in tuple(conflator):
                self._put_conflated(conflator, key)
                yield 2 * _RECORD_BYTES
        held = session.diversion.held if session.diversion is not None else ()
        for outgoing in (*session.on_its_way(), *held):
            if outgoing.serial:
                self.item(session, outgoing)
                yield _RECORD_BYTES + outgoing.message.size
