"""What is kept about one client while it is away, and everything on its way to it.

Publications above QoS 0 get a packet identifier and are in flight until the client has taken
them; no more of them than the client's receive maximum, the others wait.  When the client comes
back, those in flight are sent again in their order, before anything new.

| in flight at | PUBACK | PUBREC | PUBREC with an error | PUBCOMP |
| --- | --- | --- | --- | --- |
| QoS 1 | done | protocol error | protocol error | protocol error |
| QoS 2, sent | protocol error | PUBREL sent, released | done | protocol error |
| QoS 2, released | protocol error | PUBREL sent | done | done |
| nothing | ignored | PUBREL, not found | ignored | ignored |

Source: MQTT Version 5.0, sections 4.1, 4.3, 4.4, 4.6 and 4.9.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple, Protocol

from shoal.language import format_filter
from shoal.model import EVERYTHING, BrokerId, ClientId, Filter
from shoal.mqtt.codec.errors import protocol_error
from shoal.mqtt.codec.packets import Will
from shoal.mqtt.codec.reason_codes import FIRST_ERROR, ReasonCode
from shoal.mqtt.limits import Limits
from shoal.mqtt.messages import Message
from shoal.mqtt.sessions.backlog import ENTRY_BYTES, Backlog
from shoal.mqtt.sessions.patience import Patience

if TYPE_CHECKING:
    from shoal.mqtt.connection.incoming import Owed
    from shoal.mqtt.connection.outlet import Outlet
    from shoal.mqtt.memory.journal import Journal

MAX_PACKET_ID = 65_535


class Farewell(NamedTuple):
    """The broker that a session came back from is owed the word that nothing more comes to it.

    `at_us`: on the journey of that stamp; `after_us`: once all has come here on the journey of
    that stamp, unless all has come.
    """

    broker: BrokerId
    at_us: int
    after_us: int | None


class Outgoing:
    """One message on its way to one client.  `released`: QoS 2, and the client has it.

    `serial` is its number in the journal, 0 if it is not written there; `is_held` says that a
    `Diversion` holds it back.
    """

    __slots__ = (
        "identifiers",
        "is_held",
        "message",
        "packet_id",
        "qos",
        "released",
        "retain",
        "serial",
    )

    def __init__(
        self, message: Message, qos: int, retain: bool, identifiers: tuple[int, ...]
    ) -> None:
        self.message = message
        self.qos = qos
        self.retain = retain
        self.identifiers = identifiers
        self.packet_id = 0
        self.released = False
        self.serial = 0
        self.is_held = False


class Diversion(Protocol):
    """Takes a session's messages in its place.

    `known` are the keys of those that came before, `held` those that are held back.  With
    `is_departed` the session is elsewhere, and takes nothing more here; with `is_restored` that is
    not known yet.
    """

    is_departed: bool
    is_restored: bool

    known: dict[tuple[str, int], None]
    held: list[Outgoing]

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


class Session:
    """One client's session.  `outlet` is its connection, None while it is away.

    A session that outlives its connection tells the `journal`, if there is one, what changes.
    """

    __slots__ = (
        "_feeds",
        "_inflight",
        "_is_behind",
        "_last_id",
        "_patience",
        "_queued_bytes",
        "_resend",
        "_waiting",
        "_waiting_at_0",
        "arriving_us",
        "backlog",
        "began_us",
        "client_id",
        "diversion",
        "dropped",
        "entered_us",
        "expiry_interval_s",
        "farewells",
        "going",
        "had",
        "is_remembered",
        "journal",
        "left_us",
        "limits",
        "outlet",
        "received",
        "subscriptions",
        "took_us",
        "unsettled",
        "user",
        "will",
    )

    def __init__(
        self,
        client_id: str,
        limits: Limits,
        backlog: Backlog | None = None,
        patience: Patience | None = None,
    ) -> None:
        self.client_id = client_id
        # Whose it is; nobody else may connect to it.
        self.user = ""
        self.outlet: Outlet | None = None
        self.expiry_interval_s = 0
        # When it began, at whichever broker, by that broker's stamp: no other session has it.
        self.began_us = 0
        # When its client came to this broker, as others know it, and when it went, if it did.
        self.entered_us = 0
        self.left_us: int | None = None
        # The stamp of its journey, while something may still come from where it was.
        self.arriving_us: int | None = None
        # Where it was sent, and the stamp of that journey; it is kept until it is there.
        self.going: tuple[BrokerId, int] | None = None
        # Who waits for the last word of this broker, where it was when it came here.
        self.farewells: tuple[Farewell, ...] = ()
        # What it had where it was before, if anywhere: by the door that published, the last one.
        self.had: Mapping[ClientId, int] | None = None
        self.journal: Journal | None = None
        self.is_remembered = False
        self.will: Will | None = None
        self.subscriptions: dict[str, ClientSubscription] = {}
        # Identifiers of QoS 2 publications that came from the client and are not released yet.
        self.received: set[int] = set()
        # Those among them whose PUBREC is still owed, since they are not settled.
        self.unsettled: dict[int, Owed] = {}
        self.dropped = 0
        # Where messages go while the session moves between brokers (see `roaming`).
        self.diversion: Diversion | None = None
        self.limits = limits
        # What is on its way in all sessions, counted.
        self.backlog = backlog if backlog is not None else Backlog()
        # Who waits for it while it is behind, and when it last took something that waited.
        self._patience = patience
        self._is_behind = False
        self.took_us = 0
        self._last_id = 0
        # By packet identifier, oldest first; those of `_resend` were not sent on this connection.
        self._inflight: dict[int, Outgoing] = {}
        self._resend: dict[int, None] = {}
        self._waiting: deque[Outgoing] | None = None
        # Those of QoS 0 among them, which must not be overtaken by others.
        self._waiting_at_0 = 0
        # Retained messages that are still to be sent, by the name of the subscription they are for.
        self._feeds: dict[str, Iterator[Outgoing | None]] | None = None
        self._queued_bytes = 0

    @property
    def is_only_a_will(self) -> bool:
        """Whether it ended with the broker's last run, and its will is still to be published."""
        return self.is_remembered and not self.expiry_interval_s

    @property
    def inflight(self) -> int:
        return len(self._inflight)

    @property
    def queued(self) -> int:
        return len(self._waiting) if self._waiting is not None else 0

    @property
    def waiting_bytes(self) -> int:
        """What waits for the client, and is not in flight."""
        return self._queued_bytes + ENTRY_BYTES * self.queued

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
        """Send a message, or keep it for later; `qos` is the lower of what both sides asked."""
        if self.diversion is None:
            self.accept(message, qos, retain, identifiers, now_us)
        else:
            self.diversion.deliver(message, qos, retain, identifiers, now_us)

    def accept(
        self, message: Message, qos: int, retain: bool, identifiers: tuple[int, ...], now_us: int
    ) -> None:
        """As `deliver`, for a session that is all here."""
        outlet = self.outlet
        if outlet is not None and outlet.writable:
            if qos == 0 and not self._waiting_at_0:
                outlet.send_now(message, retain, identifiers, now_us)
                return
            if qos and not (self._waiting or self._resend) and len(self._inflight) < outlet.window:
                self.backlog.enter(message)
                self._send_new(Outgoing(message, qos, retain, identifiers), outlet, now_us)
                return
        elif qos == 0 and outlet is None:
            return
        if outlet is not None:
            self._falls_behind(message, now_us)
        self._keep(Outgoing(message, qos, retain, identifiers))

    def feed(self, name: str, messages: Iterator[Outgoing | None], now_us: int) -> None:
        """Send these behind all else, as fast as the client takes them; ends an older feed."""
        self._feeds = {**(self._feeds or {}), name: messages}
        self.pump(now_us)

    def attach(self, outlet: Outlet, now_us: int) -> None:
        """The client is back: all that is in flight is sent again [MQTT-4.4.0-1]."""
        self.outlet = outlet
        self.took_us = now_us
        self._resend = dict.fromkeys(self._inflight)
        self.pump(now_us)

    def detach(self, now_us: int) -> None:
        """The client is gone; what waits at QoS 0 goes with it."""
        self.outlet = None
        self._has_caught_up(now_us)
        self.drop_at_0(0, is_lost=False)
        self.backlog.forget(self)

    def pump(self, now_us: int) -> None:
        """Send what can be sent now: again what was in flight, then what has waited."""
        outlet = self.outlet
        if outlet is None:
            return
        while self._resend and outlet.writable:
            if len(self._inflight) - len(self._resend) >= outlet.window:
                return
            packet_id = next(iter(self._resend))
            del self._resend[packet_id]
            outgoing = self._inflight[packet_id]
            if outgoing.released:
                outlet.send_release(packet_id, ReasonCode.SUCCESS)
            elif not outlet.send_outgoing(outgoing, now_us, True):
                del self._inflight[packet_id]
                self._is_done(outgoing)
        while self._waiting and outlet.writable:
            if self._waiting[0].qos and len(self._inflight) - len(self._resend) >= outlet.window:
                break
            outgoing = self._waiting.popleft()
            message = outgoing.message
            self._queued_bytes -= message.size
            if message.has_expired(now_us):
                self._waiting_at_0 -= not outgoing.qos
                self._is_done(outgoing)
            elif outgoing.qos:
                self._send_new(outgoing, outlet, now_us)
            else:
                self._waiting_at_0 -= 1
                self.backlog.leave(message)
                outlet.send_now(message, outgoing.retain, outgoing.identifiers, now_us)
            self.took_us = now_us
        if self._is_behind and not self._is_filled(4):
            self._has_caught_up(now_us)
        if self._feeds:
            self._pump_feeds(outlet, now_us)

    # --- who waits for it ---------------------------------------------------------------------

    def _is_filled(self, part: int) -> bool:
        """Whether at least half, a quarter, … of what may wait does."""
        limits = self.limits
        return (
            part * self.queued > limits.maximum_queued_messages
            or part * self._queued_bytes > limits.maximum_queued_bytes
        )

    def _falls_behind(self, message: Message, now_us: int) -> None:
        """A message is about to wait for a client that is there."""
        if not self._waiting:
            self.took_us = now_us
        if self._patience is not None and (self._is_behind or self._is_filled(2)):
            self._is_behind = True
            self._patience.sent(self, message.publisher, now_us)

    def _has_caught_up(self, now_us: int) -> None:
        if self._is_behind and self._patience is not None:
            self._is_behind = False
            self._patience.caught_up(self, now_us)

    def _pump_feeds(self, outlet: Outlet, now_us: int) -> None:
        assert self._feeds is not None
        while self._feeds and outlet.writable and len(self._inflight) < outlet.window:
            name, messages = next(iter(self._feeds.items()))
            try:
                outgoing = next(messages)
            except StopIteration:
                del self._feeds[name]
                continue
            if outgoing is None:
                outlet.pump_again()
                return
            if outgoing.qos:
                self.backlog.enter(outgoing.message)
                self._send_new(outgoing, outlet, now_us)
            else:
                outlet.send_now(outgoing.message, outgoing.retain, outgoing.identifiers, now_us)

    # --- moving to another broker -------------------------------------------------------------

    def on_its_way(self) -> Iterator[Outgoing]:
        """All that is in flight or waits, in its order."""
        yield from self._inflight.values()
        yield from self._waiting or ()

    def restore(self, outgoing: Outgoing) -> None:
        """Take over what was on its way; in flight if it has a packet identifier."""
        if outgoing.packet_id:
            self.backlog.enter(outgoing.message)
            self._inflight[outgoing.packet_id] = outgoing
            self._last_id = outgoing.packet_id
        else:
            self._keep(outgoing)

    # --- what comes from the client -----------------------------------------------------------

    def has_received(self, packet_id: int) -> None:
        """A QoS 2 publication is settled: it is not taken again, whatever happens to the broker."""
        if self.journal is not None:
            self.journal.received(self, packet_id)

    def release(self, packet_id: int) -> bool:
        """Forget it; whether it was there."""
        if packet_id not in self.received:
            return False
        self.received.discard(packet_id)
        if self.journal is not None:
            self.journal.released(self, packet_id)
        return True

    # --- what the client answers --------------------------------------------------------------

    def on_puback(self, packet_id: int, now_us: int) -> None:
        outgoing = self._inflight.get(packet_id)
        if outgoing is None:
            return
        if outgoing.qos != 1:
            raise protocol_error(f"PUBACK for packet {packet_id}, which was sent at QoS 2")
        self._finish(packet_id, now_us)

    def on_pubrec(self, packet_id: int, reason_code: ReasonCode, now_us: int) -> None:
        outgoing = self._inflight.get(packet_id)
        failed = reason_code >= FIRST_ERROR
        if outgoing is None:
            if not failed:
                self._release(packet_id, ReasonCode.PACKET_IDENTIFIER_NOT_FOUND)
            return
        if outgoing.qos != 2:
            raise protocol_error(f"PUBREC for packet {packet_id}, which was sent at QoS 1")
        if failed:
            self._finish(packet_id, now_us)
            return
        if not outgoing.released:
            outgoing.released = True
            if self.journal is not None:
                self.journal.item(self, outgoing)
        self._resend.pop(packet_id, None)
        self._release(packet_id, ReasonCode.SUCCESS)

    def on_pubcomp(self, packet_id: int, now_us: int) -> None:
        outgoing = self._inflight.get(packet_id)
        if outgoing is None:
            return
        if not outgoing.released:
            raise protocol_error(f"PUBCOMP for packet {packet_id}, which was not released")
        self._finish(packet_id, now_us)

    def _release(self, packet_id: int, reason_code: ReasonCode) -> None:
        if self.outlet is not None:  # else its client was sent away, and says its last words
            self.outlet.send_release(packet_id, reason_code)

    def _finish(self, packet_id: int, now_us: int) -> None:
        outgoing = self._inflight.pop(packet_id)
        self._is_done(outgoing)
        self._resend.pop(packet_id, None)
        if self._resend or self._waiting or self._feeds:
            self.pump(now_us)

    # --- what is sent and kept ----------------------------------------------------------------

    def _send_new(self, outgoing: Outgoing, outlet: Outlet, now_us: int) -> None:
        outgoing.packet_id = packet_id = self._new_id()
        if outlet.send_outgoing(outgoing, now_us, False):
            self._inflight[packet_id] = outgoing
            if self.journal is not None:
                self.journal.item(self, outgoing)
        else:
            self._is_done(outgoing)

    def _new_id(self) -> int:
        packet_id = self._last_id
        while True:
            packet_id = packet_id % MAX_PACKET_ID + 1
            if packet_id not in self._inflight:
                self._last_id = packet_id
                return packet_id

    def _keep(self, outgoing: Outgoing) -> None:
        if self._waiting is None:
            self._waiting = deque()
        size = outgoing.message.size
        if (
            len(self._waiting) >= self.limits.maximum_queued_messages
            or self._queued_bytes + size > self.limits.maximum_queued_bytes
            or (self.backlog.is_full and not outgoing.qos)
        ):
            self.dropped += 1
            return
        self._queued_bytes += size
        self._waiting.append(outgoing)
        if not outgoing.qos:
            self._waiting_at_0 += 1
            self.backlog.waits_at_0(self)
        elif self.journal is not None:
            self.journal.item(self, outgoing)
        self.backlog.enter(outgoing.message)

    def drop_at_0(self, level: int, *, is_lost: bool = True) -> bool:
        """Drop what waits at QoS 0, the newest first, until no more bytes wait than this.

        Whether any of QoS 0 is left.
        """
        waiting, kept, waiting_bytes = self._waiting, [], self.waiting_bytes
        while waiting and self._waiting_at_0 and waiting_bytes > level:
            outgoing = waiting.pop()
            if outgoing.qos:
                kept.append(outgoing)
                continue
            size = outgoing.message.size
            waiting_bytes -= size + ENTRY_BYTES
            self._queued_bytes -= size
            self._waiting_at_0 -= 1
            self.dropped += is_lost
            self.backlog.leave(outgoing.message)
        if waiting is not None:
            waiting.extend(reversed(kept))
        return self._waiting_at_0 > 0

    def forget_all(self) -> None:
        """The session is over, or elsewhere: nothing is on its way here."""
        for outgoing in self.on_its_way():
            self.backlog.leave(outgoing.message)
        if self.diversion is not None:
            for outgoing in self.diversion.held:
                self.backlog.leave(outgoing.message)
        self.backlog.forget(self)
        self._inflight.clear()
        self._resend.clear()
        self._waiting = self._feeds = None
        self._waiting_at_0 = self._queued_bytes = 0

    def _is_done(self, outgoing: Outgoing) -> None:
        self.backlog.leave(outgoing.message)
        if self.journal is not None:
            self.journal.item_done(self, outgoing)
