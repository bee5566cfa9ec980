"""What is kept about one client while it is away: who it is, and what it has subscribed to.

What is on its way to it is in `delivery`.

Source: MQTT Version 5.0, section 4.1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Set
from hashlib import blake2b
from types import MappingProxyType
from typing import NamedTuple, Protocol

from shoal.language import format_filter
from shoal.model import EVERYTHING, BrokerId, Filter
from shoal.mqtt.codec.packets import Will
from shoal.mqtt.content import bytes_of
from shoal.mqtt.door.owed import Owed
from shoal.mqtt.limits import Limits
from shoal.mqtt.messages import Message
from shoal.mqtt.sessions.delivering.backlog import Backlog
from shoal.mqtt.sessions.delivering.delivery import Delivery
from shoal.mqtt.sessions.delivering.outgoing import Outgoing
from shoal.mqtt.sessions.delivering.patience import Patience
from shoal.mqtt.sessions.had import Had

# Why something is refused while nothing can be written.
CANNOT_WRITE = "the broker cannot write to its disk"


class Farewell(NamedTuple):
    """The broker that a session came back from is owed the word that nothing more comes to it.

    `at_us`: on the journey of that stamp; `after_us`: once all has come here on the journey of
    that stamp, unless all has come.
    """

    broker: BrokerId
    at_us: int
    after_us: int | None


class Diversion(Protocol):
    """Takes a session's messages in its place.

    `known` are the keys of those that came before, `held` those that are held back.  With
    `is_departed` the session is elsewhere, and takes nothing more here; with `may_have_departed`
    that is not known yet.
    """

    is_departed: bool
    may_have_departed: bool

    known: dict[tuple[str, int], None]

    @property
    def held(self) -> Collection[Outgoing]: ...

    def deliver(
        self, message: Message, qos: int, retain: bool, identifiers: tuple[int, ...], now_us: int
    ) -> None: ...


class ClientSubscription:
    """One subscription of one client; equal only to itself, so that it can be its own key.

    `text` is the topic filter as the client wrote it, which names the subscription;
    `topic_filter` and `content` are what that means.  `group` names the shared subscription it is
    a member of, by all of these: members that ask for other content share with their like.
    """

    __slots__ = (
        "content",
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
    ) -> None:
        self.session = session
        self.text = text
        self.topic_filter = topic_filter
        self.content = content
        self.qos = qos
        self.no_local = no_local
        self.retain_as_published = retain_as_published
        self.identifiers = identifiers
        self.shared = topic_filter.startswith("$share/")
        self.group = _group(topic_filter, content) if self.shared else topic_filter
        # What it takes in memory, about.
        self.size = bytes_of(topic_filter, content)
        # Whether a message of QoS 0 that matches goes to the client, as it is.
        self.is_plain = not (self.shared or no_local or identifiers)

    @property
    def wanted_topics(self) -> str:
        """The topic filter without the group that shares it."""
        return self.topic_filter.split("/", 2)[-1] if self.shared else self.topic_filter


def _group(topic_filter: str, content: Filter) -> str:
    """A topic filter of the same form, whose group tells what is asked of content."""
    if content == EVERYTHING:
        return topic_filter
    group, _, topics = topic_filter.removeprefix("$share/").partition("/")
    digest = blake2b(format_filter(content).encode(), digest_size=8).hexdigest()
    return f"$share/{group}?{digest}/{topics}"


class Memory(Protocol):
    """Who is told what of a session must not be forgotten (see `journal`)."""

    # Whether it cannot be written: what would have to be kept is refused then.
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

    def unsubscribed(self, session: Session, text: str) -> None: ...

    def item(self, session: Session, outgoing: Outgoing) -> None: ...

    def item_done(self, session: Session, outgoing: Outgoing) -> None: ...

    def received(self, session: Session, packet_id: int) -> None: ...

    def unsettled(self, session: Session, packet_id: int, message: Message) -> None: ...

    def released(self, session: Session, packet_id: int) -> None: ...


_NONE_RECEIVED: frozenset[int] = frozenset()
_NONE_OWED: Mapping[int, Owed] = MappingProxyType({})


class Session(Delivery):
    """One client's session.  `outlet` is its connection's way out, None while it is away.

    A session that outlives its connection tells the `journal`, if there is one, what changes.
    """

    __slots__ = (
        "_received",
        "_unsettled",
        "_unsettled_wills",
        "_will",
        "arriving_us",
        "at_settled",
        "began_us",
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
        "published",
        "subscriptions",
        "waits_to_publish",
    )

    journal: Memory | None

    def __init__(
        self,
        client_id: str,
        limits: Limits,
        backlog: Backlog | None = None,
        patience: Patience | None = None,
    ) -> None:
        super().__init__(client_id, limits, backlog, patience)
        self.expiry_interval_s = 0
        # When it began, at whichever broker, by that broker's stamp: no other session has it.
        self.began_us = 0
        # When its client came to this broker, as others know it, and when it went, if it did.
        self.entered_us = 0
        self.left_us: int | None = None
        # When it was sent to another broker, as far as that counts (see `moving`).
        self.moved_us: tuple[int, ...] = ()
        # The stamp of its journey, while something may still come from where it was.
        self.arriving_us: int | None = None
        # Where it was sent, and the stamp of that journey; it is kept until it is there.
        self.going: tuple[BrokerId, int] | None = None
        # Who waits for the last word of this broker, where it was when it came here.
        self.farewells: tuple[Farewell, ...] = ()
        # What it had where it was before, if anywhere.
        self.had: Had | None = None
        self.is_remembered = False
        self._will: Will | None = None
        # How many publications were taken from its client here.
        self.published = 0
        self.subscriptions: dict[str, ClientSubscription] = {}
        # Of its client's QoS 2 publications, None until there is one: see `received`, `unsettled`.
        self._received: set[int] | None = None
        self._unsettled: dict[int, Owed] | None = None
        # How many wills of it are under way.
        self._unsettled_wills = 0
        # Whether it has such where it was: what its client publishes here would overtake them.
        self.waits_to_publish = False
        # Whether its client may still be connected at another broker (see `takeovers`).
        self.is_taking_over = False
        # Who wants to know that there are none of both any more.
        self.at_settled: Callable[[], None] | None = None
        # Where messages go while the session moves between brokers (see `roaming`).
        self.diversion: Diversion | None = None

    @property
    def will(self) -> Will | None:
        """What is still to be published for its client, unless that says goodbye."""
        return self._will

    @will.setter
    def will(self, will: Will | None) -> None:
        if will is not self._will:
            self._will = will
            self.count_will(will.size if will is not None else 0)

    @property
    def is_only_a_will(self) -> bool:
        """Whether it ended with the broker's last run, and its will is still to be published."""
        return self.is_remembered and not self.expiry_interval_s

    @property
    def is_departed(self) -> bool:
        """Whether it takes nothing more here: it is elsewhere, or at its end."""
        return self.diversion is not None and self.diversion.is_departed

    @property
    def takes_at_once(self) -> bool:
        """Whether a message of QoS 0 would be written now."""
        outlet = self.outlet
        return (
            outlet is not None
            and outlet.writable
            and not self._waiting_at_0
            and self.diversion is None
        )

    def deliver(
        self, message: Message, qos: int, retain: bool, identifiers: tuple[int, ...], now_us: int
    ) -> None:
        """As `accept`, or where messages go while the session moves."""
        if self.diversion is None:
            self.accept(message, qos, retain, identifiers, now_us)
        else:
            self.diversion.deliver(message, qos, retain, identifiers, now_us)

    def has_got(self, key: tuple[str, int] | None) -> None:
        """If it lacked this of what had come before it, it does so no more."""
        had, journal = self.had, self.journal
        if key is not None and had is not None and had.fill(key) and journal is not None:
            journal.filled(self)

    # --- what comes from the client -----------------------------------------------------------

    @property
    def received(self) -> Set[int]:
        """Identifiers of QoS 2 publications that came from the client and are not released yet."""
        return self._received if self._received is not None else _NONE_RECEIVED

    def remember(self, packet_ids: Iterable[int]) -> None:
        """These came from the client and are not released yet."""
        if self._received is None:
            self._received = set()
        self._received.update(packet_ids)

    @property
    def unsettled(self) -> Mapping[int, Owed]:
        """Those among the received whose PUBREC is still owed, since they are not settled."""
        return self._unsettled if self._unsettled is not None else _NONE_OWED

    def owe(self, packet_id: int, owed: Owed) -> None:
        """The client's PUBREC is owed until that is settled."""
        if self._unsettled is None:
            self._unsettled = {}
        self._unsettled[packet_id] = owed

    @property
    def is_settled(self) -> bool:
        """Whether nothing that its client published, here or where it was, is under way."""
        return not (self._unsettled or self._unsettled_wills or self.waits_to_publish)

    @property
    def holds_publications(self) -> bool:
        """Whether what its client publishes must wait for what it left elsewhere."""
        return self.waits_to_publish or self.is_taking_over

    def owe_will(self) -> None:
        """A will of its client was published, and is not settled."""
        self._unsettled_wills += 1

    def will_is_settled(self) -> None:
        """A will of its client is settled."""
        self._unsettled_wills -= 1
        self._look_whether_settled()

    def settled(self, packet_id: int) -> None:
        """What its client published under that identifier is settled."""
        if self._unsettled is not None:
            self._unsettled.pop(packet_id, None)
        self._look_whether_settled()

    def may_publish(self) -> None:
        """What its client published where it was is settled, or is not waited for any more."""
        if self.waits_to_publish:
            self.waits_to_publish = False
            if self.journal is not None:
                self.journal.moved(self)
            self._look_whether_settled()

    def _look_whether_settled(self) -> None:
        if self.at_settled is not None and self.is_settled:
            self.at_settled()

    def has_received(self, packet_id: int) -> None:
        """A QoS 2 publication is settled: it is not taken again, whatever happens to the broker."""
        if self.journal is not None:
            self.journal.received(self, packet_id)

    def release(self, packet_id: int) -> bool:
        """Forget it; whether it was there."""
        if self._received is None or packet_id not in self._received:
            return False
        self._received.discard(packet_id)
        if self.journal is not None:
            self.journal.released(self, packet_id)
        return True

    def note_unsettled(self, owed: Owed) -> None:
        """What is known of a publication that is under way is written again."""
        if self.journal is not None and owed.message is not None:
            self.journal.unsettled(self, owed.packet_id, owed.message)

    # --- what is on its way -------------------------------------------------------------------

    def forget_all(self) -> None:
        """The session is over, or elsewhere: nothing is on its way here."""
        if self.diversion is not None:
            for outgoing in self.diversion.held:
                self.count_out(outgoing.message)
        super().forget_all()
