"""A client's session: its user, its will, its subscriptions, and its unsettled publications.

`delivery` has its in-flight window and its queue.

Source: MQTT Version 5.0, section 4.1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from hashlib import blake2b
from types import MappingProxyType
from typing import NamedTuple, Protocol

from shoal.conflation import Conflator, KeyName
from shoal.language import format_filter
from shoal.language.conflation_rules import ConflationRule
from shoal.model import EVERYTHING, BrokerId, Filter, Pace
from shoal.mqtt.codec.packets import WillFields
from shoal.mqtt.content import bytes_of
from shoal.mqtt.front_end.pending_acks import OwedAck
from shoal.mqtt.limits import MqttLimits
from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.sessions.deduplication_window import DeduplicationWindow
from shoal.mqtt.sessions.delivering.backlog import Backlog
from shoal.mqtt.sessions.delivering.delivery import SessionDelivery
from shoal.mqtt.sessions.delivering.outgoing import ClientSessionWriter, Outgoing
from shoal.mqtt.sessions.delivering.slow_consumers import SlowConsumerPolicy
from shoal.mqtt.sessions.live_gate import LiveGate

# The approximate memory of a conflator without keys, and of each of its values.
CONFLATOR_BYTES, VALUE_BYTES = 1_500, 1_000
# The reason to refuse publications while the journal cannot write.
CANNOT_WRITE = "the broker cannot write to its disk"


class Farewell(NamedTuple):
    """The end of an export that is owed to the broker from which the session came back.

    `at_us`: the fencing token of that transfer; `after_us`: that of a transfer from `source` to
    here that must be complete before, None if it is.
    """

    broker: BrokerId
    at_us: int
    after_us: int | None
    source: BrokerId = ""


class Diversion(Protocol):
    """Takes a session's messages in its place, while it is transferred.

    `known` are the keys of earlier messages, `held` the held messages. With `is_departed` the
    session is elsewhere, and takes nothing more here; with `may_have_departed` that is not known
    yet.
    """

    is_departed: bool
    may_have_departed: bool

    known: dict[tuple[str, int], None]

    @property
    def held(self) -> Collection[Outgoing]: ...

    def deliver(
        self,
        message: PublishedMessage,
        qos: int,
        retain: bool,
        identifiers: tuple[int, ...],
        now_us: int,
        via: tuple[str, ...] = (),
    ) -> None: ...


def qos_for(message: PublishedMessage, subscriptions: Sequence[ClientSubscription]) -> int:
    """The QoS of a message that is delivered once for these subscriptions."""
    return min(message.qos, max([each.qos for each in subscriptions]))


class HeldMessage:
    """A message that conflation holds for one session, once for all its subscriptions.

    `holders` are these, with the key of each. `is_retained`: it was retained before the SUBSCRIBE.
    """

    __slots__ = ("holders", "is_retained", "message")

    def __init__(self, message: PublishedMessage, *, is_retained: bool = False) -> None:
        self.message = message
        self.is_retained = is_retained
        self.holders: dict[SubscriptionConflator, KeyName] = {}

    @property
    def subscriptions(self) -> list[ClientSubscription]:
        """The subscriptions that hold it."""
        return [each.subscription for each in self.holders]

    @property
    def qos(self) -> int:
        """The QoS at which it will be delivered."""
        return qos_for(self.message, self.subscriptions)

    @property
    def via(self) -> tuple[str, ...]:
        """The names of the subscriptions that hold it."""
        return tuple([each.text for each in self.subscriptions])


class SubscriptionConflator(Conflator[HeldMessage]):
    """The conflation of one subscription; equal only to itself.

    `armed_us` is the time at which its timer is due, None while none is set.
    """

    def __init__(self, rule: ConflationRule, subscription: ClientSubscription) -> None:
        super().__init__(rule)
        self.subscription = subscription
        self.armed_us: int | None = None

    __hash__ = object.__hash__


class ConflationHost(Protocol):
    """Conflates the messages of a broker's sessions (see `conflating`)."""

    def take(
        self,
        message: PublishedMessage,
        session: Session,
        subscriptions: Sequence[ClientSubscription],
        now_us: int,
        *,
        is_retained: bool = False,
    ) -> None: ...

    def resume(self, session: Session, now_us: int) -> None: ...

    def wake(self, subscription: ClientSubscription, now_us: int) -> None: ...

    def forget_at_0(self, session: Session) -> None: ...


class ClientSubscription:
    """One subscription of one client; equal only to itself, so that it can be its own key.

    `text` is the topic filter of the SUBSCRIBE, which names the subscription; `topic_filter` and
    `content` are parsed from it. `group` names its shared subscription, and includes the content
    filter: members with another content filter form another group. `gate` is that of a subscription
    with a past; `conflator` is that of one with `$every` or `$changed`.
    """

    __slots__ = (
        "conflator",
        "content",
        "gate",
        "group",
        "identifiers",
        "is_plain",
        "no_local",
        "qos",
        "retain_as_published",
        "session",
        "shared",
        "size",
        "text",
        "topic_filter",
    )

    def __init__(
        self,
        session: Session,
        text: str,
        topic_filter: str,
        content: Filter,
        *,
        qos: int,
        no_local: bool,
        retain_as_published: bool,
        identifiers: tuple[int, ...],
        gate: LiveGate | None = None,
        conflation: ConflationRule | None = None,
    ) -> None:
        self.session = session
        self.gate = gate
        self.conflator = None if conflation is None else SubscriptionConflator(conflation, self)
        self.text = text
        self.topic_filter = topic_filter
        self.content = content
        self.qos = qos
        self.no_local = no_local
        self.retain_as_published = retain_as_published
        self.identifiers = identifiers
        self.shared = topic_filter.startswith("$share/")
        self.group = _group(topic_filter, content) if self.shared else topic_filter
        # Its approximate memory.
        self.size = bytes_of(topic_filter, content)
        if conflation is not None:
            values = len(conflation.by) + len(conflation.changes)
            self.size += CONFLATOR_BYTES + VALUE_BYTES * values
        # Whether the client gets a matching message of QoS 0 unchanged.
        self.is_plain = not (self.shared or no_local or identifiers or gate or conflation)

    @property
    def pace(self) -> Pace | None:
        """The pace of `$every`, None without it."""
        rule = None if self.conflator is None else self.conflator.rule
        if rule is None or not rule.every_us:
            return None
        return Pace(rule.every_us, tuple([value.text for value in rule.by]))

    @property
    def wanted_topics(self) -> str:
        """The topic filter without `$share/group/`."""
        return self.topic_filter.split("/", 2)[-1] if self.shared else self.topic_filter


def _group(topic_filter: str, content: Filter) -> str:
    """A topic filter of the same form, with a hash of the content filter in the group name."""
    if content == EVERYTHING:
        return topic_filter
    group, _, topics = topic_filter.removeprefix("$share/").partition("/")
    digest = blake2b(format_filter(content).encode(), digest_size=8).hexdigest()
    return f"$share/{group}?{digest}/{topics}"


class SessionMemory(Protocol):
    """Records changes of sessions (see `journal`)."""

    # Whether it cannot write: the broker refuses what it must record.
    is_failing: bool

    def prepare(self, subscription: ClientSubscription) -> None: ...

    def prepare_item(self, session: Session, outgoing: Outgoing) -> None: ...

    def is_not_coming(self, session: Session) -> None: ...

    def left(self, session: Session, now_us: int) -> None: ...

    def moved(self, session: Session) -> None: ...

    def filled(self, session: Session) -> None: ...

    def came(self, session: Session, keys: Iterable[tuple[str, int]]) -> None: ...

    def will_is_gone(self, session: Session) -> None: ...

    def ended(self, session: Session) -> None: ...

    def subscribed(self, subscription: ClientSubscription) -> None: ...

    def replayed(self, subscription: ClientSubscription) -> None: ...

    def unsubscribed(self, session: Session, text: str) -> None: ...

    def conflated(self, conflator: SubscriptionConflator, key: KeyName) -> None: ...

    def conflation_reset(self, subscription: ClientSubscription) -> None: ...

    def item(self, session: Session, outgoing: Outgoing) -> None: ...

    def item_done(self, session: Session, outgoing: Outgoing) -> None: ...

    def received(self, session: Session, packet_id: int) -> None: ...

    def unsettled(self, session: Session, packet_id: int, message: PublishedMessage) -> None: ...

    def released(self, session: Session, packet_id: int) -> None: ...


_NONE_RECEIVED: frozenset[int] = frozenset()
_NONE_OWED: Mapping[int, OwedAck] = MappingProxyType({})


class Session(SessionDelivery):
    """One client's session. `session_writer` is its connection's, None while it is disconnected.

    The `journal`, if there is one, records changes of a session that outlives its connection.
    """

    __slots__ = (
        "_received",
        "_unsettled",
        "_unsettled_wills",
        "_will",
        "arriving_us",
        "at_settled",
        "began_us",
        "conflation",
        "conflators",
        "diversion",
        "entered_us",
        "expiry_interval_s",
        "farewells",
        "going",
        "had",
        "is_remembered",
        "is_taking_over",
        "left_us",
        "moved_us",
        "pasts",
        "published",
        "source",
        "subscriptions",
        "waits_to_publish",
        "withheld",
        "withheld_bytes",
    )

    journal: SessionMemory | None

    def __init__(
        self,
        client_id: str,
        limits: MqttLimits,
        backlog: Backlog | None = None,
        patience: SlowConsumerPolicy | None = None,
    ) -> None:
        super().__init__(client_id, limits, backlog, patience)
        self.expiry_interval_s = 0
        # The fencing token at its begin, at whichever broker: unique to this session.
        self.began_us = 0
        # The fencing token of its client's entry here, and the time of its disconnect, if any.
        self.entered_us = 0
        self.left_us: int | None = None
        # The times of its client's redirects within the last hour (see `moving`).
        self.moved_us: tuple[int, ...] = ()
        # The fencing token of its import, while it is incomplete, and the broker that exports it.
        self.arriving_us: int | None = None
        self.source: BrokerId = ""
        # The target and the fencing token of its export; it is kept until the target has it.
        self.going: tuple[BrokerId, int] | None = None
        # Brokers that wait for the end of an earlier export from here.
        self.farewells: tuple[Farewell, ...] = ()
        # The deduplication window of its earlier broker, if any.
        self.had: DeduplicationWindow | None = None
        self.is_remembered = False
        self._will: WillFields | None = None
        # The number of publications accepted from its client here.
        self.published = 0
        self.subscriptions: dict[str, ClientSubscription] = {}
        # Those that do not have their whole past yet.
        self.pasts: dict[str, ClientSubscription] | None = None
        # Conflates the messages of the conflated subscriptions; None while there are none.
        self.conflation: ConflationHost | None = None
        self.conflators: dict[SubscriptionConflator, None] = {}
        # The messages that conflation holds, in the order of their arrival.
        self.withheld: dict[HeldMessage, None] = {}
        self.withheld_bytes = 0
        # The client's QoS 2 publications, None until the first: see `received`, `unsettled`.
        self._received: set[int] | None = None
        self._unsettled: dict[int, OwedAck] | None = None
        # The number of unsettled wills.
        self._unsettled_wills = 0
        # Whether unsettled ones are at its earlier broker: later publications would overtake them.
        self.waits_to_publish = False
        # Whether its client may still be connected at another broker (see `takeovers`).
        self.is_taking_over = False
        # Called when there are no unsettled publications or wills any more.
        self.at_settled: Callable[[], None] | None = None
        # Takes its messages while it is transferred (see `session_transfer`).
        self.diversion: Diversion | None = None

    @property
    def will(self) -> WillFields | None:
        """The will, unless it was published or discarded."""
        return self._will

    @will.setter
    def will(self, will: WillFields | None) -> None:
        if will is not self._will:
            self._will = will
            self.count_will(will.size if will is not None else 0)

    @property
    def is_only_a_will(self) -> bool:
        """Whether it ended with the broker's last run, and only its will is left."""
        return self.is_remembered and not self.expiry_interval_s

    @property
    def is_departed(self) -> bool:
        """Whether it takes nothing more here: it is elsewhere, or has ended."""
        return self.diversion is not None and self.diversion.is_departed

    @property
    def takes_at_once(self) -> bool:
        """Whether a message of QoS 0 would be written at once."""
        session_writer = self.session_writer
        return (
            session_writer is not None
            and session_writer.writable
            and not self._waiting_at_0
            and self.diversion is None
        )

    def deliver(
        self,
        message: PublishedMessage,
        qos: int,
        retain: bool,
        identifiers: tuple[int, ...],
        now_us: int,
        via: tuple[str, ...] = (),
    ) -> None:
        """Accept a message, or pass it to the diversion while the session is transferred.

        `via` as in `Outgoing`.
        """
        if self.diversion is None:
            self.admit(message, qos, retain, identifiers, now_us, via)
        else:
            self.diversion.deliver(message, qos, retain, identifiers, now_us, via)

    def admit(
        self,
        message: PublishedMessage,
        qos: int,
        retain: bool,
        identifiers: tuple[int, ...],
        now_us: int,
        via: tuple[str, ...],
    ) -> None:
        """Accept a message, by way of the conflation of the subscriptions `via`, if any."""
        if not via:
            self.accept(message, qos, retain, identifiers, now_us)
            return
        known = self.subscriptions
        subscriptions = [known[text] for text in via if text in known]
        if self.conflation is not None:
            self.conflation.take(message, self, subscriptions, now_us)
        elif subscriptions:
            self.accept(message, qos, retain, identifiers, now_us)

    def conflate_queued(self, now_us: int) -> None:
        """Have conflation decide about queued messages that it has not seen yet."""
        for outgoing in self.take_undecided():
            message, qos, via = outgoing.message, outgoing.qos, outgoing.via
            self.admit(message, qos, outgoing.retain, outgoing.identifiers, now_us, via)

    def take_fed(self, outgoing: Outgoing, now_us: int) -> None:
        """Take a message of a feed, by way of conflation."""
        known = self.subscriptions
        subscriptions = [known[text] for text in outgoing.via if text in known]
        assert self.conflation is not None
        self.conflation.take(
            outgoing.message, self, subscriptions, now_us, is_retained=outgoing.retain
        )

    def attach(self, session_writer: ClientSessionWriter, now_us: int) -> None:
        """As `SessionDelivery.attach`; held messages that are due follow."""
        super().attach(session_writer, now_us)
        if self.conflation is not None:
            self.conflation.resume(self, now_us)

    def forget_at_0(self) -> None:
        """As `SessionDelivery.forget_at_0`; held messages of QoS 0 are dropped, too."""
        super().forget_at_0()
        if self.conflation is not None:
            self.conflation.forget_at_0(self)

    def counted_messages(self) -> Iterator[PublishedMessage]:
        """All messages that count for its user."""
        yield from super().counted_messages()
        for held in self.withheld:
            yield held.message

    def fate_of(self, message: PublishedMessage, qos: int) -> str:
        """As `SessionDelivery.fate_of`; a held message waits."""
        if any(held.message is message for held in self.withheld):
            return "waiting"
        return super().fate_of(message, qos)

    def has_got(self, key: tuple[str, int] | None) -> None:
        """Close the gap of the deduplication window for this key, if there is one."""
        had, journal = self.had, self.journal
        if key is not None and had is not None and had.fill(key) and journal is not None:
            journal.filled(self)

    # --- publications of the client -----------------------------------------------------------

    @property
    def received(self) -> Set[int]:
        """Packet identifiers of the client's QoS 2 publications that are not released yet."""
        return self._received if self._received is not None else _NONE_RECEIVED

    def remember(self, packet_ids: Iterable[int]) -> None:
        """Add packet identifiers of QoS 2 publications that are not released yet."""
        if self._received is None:
            self._received = set()
        self._received.update(packet_ids)

    @property
    def unsettled(self) -> Mapping[int, OwedAck]:
        """The received ones that are not settled, so that their PUBREC is owed."""
        return self._unsettled if self._unsettled is not None else _NONE_OWED

    def owe(self, packet_id: int, owed: OwedAck) -> None:
        """Owe the client a PUBREC until the publication is settled."""
        if self._unsettled is None:
            self._unsettled = {}
        self._unsettled[packet_id] = owed

    @property
    def is_settled(self) -> bool:
        """Whether all publications of its client, here and at its earlier broker, are settled."""
        return not (self._unsettled or self._unsettled_wills or self.waits_to_publish)

    @property
    def holds_publications(self) -> bool:
        """Whether the client's publications must wait for those at its earlier broker."""
        return self.waits_to_publish or self.is_taking_over

    def owe_will(self) -> None:
        """Note a published will that is not settled."""
        self._unsettled_wills += 1

    def will_is_settled(self) -> None:
        """Note that a will is settled."""
        self._unsettled_wills -= 1
        self._look_whether_settled()

    def settled(self, packet_id: int) -> None:
        """Note that a QoS 2 publication is settled."""
        if self._unsettled is not None:
            self._unsettled.pop(packet_id, None)
        self._look_whether_settled()

    def may_publish(self) -> None:
        """Accept publications: the earlier ones elsewhere are settled, or the wait is over."""
        if self.waits_to_publish:
            self.waits_to_publish = False
            if self.journal is not None:
                self.journal.moved(self)
            self._look_whether_settled()

    def _look_whether_settled(self) -> None:
        if self.at_settled is not None and self.is_settled:
            self.at_settled()

    def has_received(self, packet_id: int) -> None:
        """Record a settled QoS 2 publication, so that it is not accepted twice after a restart."""
        if self.journal is not None:
            self.journal.received(self, packet_id)

    def release(self, packet_id: int) -> bool:
        """Forget a packet identifier; returns whether it was known."""
        if self._received is None or packet_id not in self._received:
            return False
        self._received.discard(packet_id)
        if self.journal is not None:
            self.journal.released(self, packet_id)
        return True

    def note_unsettled(self, owed: OwedAck) -> None:
        """Record an unsettled publication again."""
        if self.journal is not None and owed.message is not None:
            self.journal.unsettled(self, owed.packet_id, owed.message)

    # --- deliveries ---------------------------------------------------------------------------

    def forget_all(self) -> None:
        """Drop all messages: the session has ended, or is elsewhere."""
        if self.diversion is not None:
            for outgoing in self.diversion.held:
                self.count_out(outgoing.message)
        for held in self.withheld:
            self.count_out(held.message)
        self.withheld.clear()
        self.withheld_bytes = 0
        super().forget_all()
