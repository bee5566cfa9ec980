"""Delivery of one session: its in-flight window and its queue.

Publications above QoS 0 get a packet identifier and are in flight until the client has acknowledged
them; at most as many as the client's receive maximum, the others wait in the queue. When the client
reconnects, those in flight are retransmitted in their order, before anything new.

| in flight at | PUBACK | PUBREC | PUBREC with an error | PUBCOMP |
| --- | --- | --- | --- | --- |
| QoS 1 | done | protocol error | protocol error | protocol error |
| QoS 2, sent | protocol error | PUBREL sent, released | done | protocol error |
| QoS 2, released | protocol error | PUBREL sent | done | done |
| nothing | ignored | PUBREL, not found | ignored | ignored |

While the journal cannot record a session, its QoS 2 publications are suspended: a broker that is
killed in that state would send delivered ones again, as new.

Source: MQTT Version 5.0, sections 4.3, 4.4, 4.6 and 4.9.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from shoal.mqtt.codec.errors import protocol_error
from shoal.mqtt.codec.reason_codes import FIRST_ERROR, ReasonCode
from shoal.mqtt.limits import MqttLimits
from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.sessions.delivering.backlog import ENTRY_BYTES, Backlog
from shoal.mqtt.sessions.delivering.counted import CountedDeliveries
from shoal.mqtt.sessions.delivering.outgoing import ClientSessionWriter, Outgoing
from shoal.mqtt.sessions.delivering.slow_consumers import SlowConsumerPolicy

MAX_PACKET_ID = 65_535


# Messages sent in one time slice: some 5 ms.
MOST_AT_ONCE = 1_000
TOO_LARGE = "it is larger than the client's maximum packet size"
# The work of a feed that ends, in messages.
FEED_WORK = 10


class DeliveryJournal(Protocol):
    """Records deliveries that must outlast a restart (see `memory`).

    `is_failing`: the journal cannot write.
    """

    is_failing: bool

    def item(self, delivery: Any, outgoing: Outgoing, /) -> None:
        """Record a message above QoS 0 that is queued, or whose delivery has advanced."""

    def item_done(self, delivery: Any, outgoing: Outgoing, /) -> None:
        """Record that the client has the message, or that it is dropped."""


class SessionDelivery(CountedDeliveries):
    """Messages for the client `client_id`; `session_writer` is None while it is disconnected.

    The `journal`, if there is one, records each message above QoS 0 when it is sent, queued, or
    done.
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
        "has_room",
        "is_moving",
        "journal",
        "session_writer",
        "took_us",
    )

    def __init__(
        self,
        client_id: str,
        limits: MqttLimits,
        backlog: Backlog | None,
        patience: SlowConsumerPolicy | None,
    ) -> None:
        super().__init__(client_id, limits, backlog)
        self.session_writer: ClientSessionWriter | None = None
        self.journal: DeliveryJournal | None = None
        # Whether its client was redirected and is on its way: QoS 0 is queued, too.
        self.is_moving = False
        # The slow-consumer policy, and the time at which the client last took a queued message.
        self._patience = patience
        self._is_behind = False
        self.took_us = 0
        self._last_id = 0
        # By packet identifier, oldest first; those in `_resend` were not sent on this connection.
        self._inflight: dict[int, Outgoing] = {}
        self._resend: OrderedDict[int, None] | None = None
        self._waiting: deque[Outgoing] | None = None
        # The number of QoS 0 messages in the queue, which later ones must not overtake.
        self._waiting_at_0 = 0
        # Feeds of retained messages and of logs, by the name of their subscription.
        self._feeds: OrderedDict[str, Iterator[Outgoing | int]] | None = None
        self._queued_bytes = 0
        # Whether acknowledgements have made room for queued messages.
        self.has_room = False

    @property
    def inflight(self) -> int:
        return len(self._inflight)

    @property
    def queued(self) -> int:
        return len(self._waiting) if self._waiting is not None else 0

    @property
    def waiting_bytes(self) -> int:
        """The bytes queued for the client, without those in flight."""
        return self._queued_bytes + ENTRY_BYTES * self.queued

    def accept(
        self,
        message: PublishedMessage,
        qos: int,
        retain: bool,
        identifiers: tuple[int, ...],
        now_us: int,
    ) -> None:
        """Send or queue a message; `qos` is the lower of the publication's and the
        subscription's."""
        session_writer = self.session_writer
        if session_writer is not None and session_writer.writable:
            if not qos:
                if not self._waiting_at_0:
                    session_writer.send_now(message, retain, identifiers, now_us)
                    return
            elif (
                not (self._waiting or self._resend)
                and len(self._inflight) < session_writer.window
                and not (qos == 2 and self.is_suspended)
                and (self._share is None or not self.is_share_full)
            ):
                self.backlog.enter(message)  # as `count_in`
                if self._share is not None:
                    self._share.enter(message)
                self._send_new(Outgoing(message, qos, retain, identifiers), session_writer, now_us)
                return
        elif qos == 0 and session_writer is None and not self.is_moving:
            return
        if session_writer is not None:
            self._note_behind(message, now_us)
        self._queue_message(Outgoing(message, qos, retain, identifiers))

    def fate_of(self, message: PublishedMessage, qos: int) -> str:
        """The fate of a message that was just accepted: sent, delivered, waiting, dropped.

        At QoS 0 it is delivered when it is written.
        """
        if any(outgoing.message is message for outgoing in reversed(self._waiting or ())):
            return "waiting"
        if any(outgoing.message is message for outgoing in reversed(self._inflight.values())):
            return "sent"
        return "delivered" if self.session_writer is not None and not qos else "dropped"

    def feed(
        self,
        feeds: Iterable[tuple[str, Iterator[Outgoing | int]]],
        now_us: int,
        most: int = MOST_AT_ONCE,
    ) -> int:
        """Send these after all else, as fast as the client reads; a feed replaces one of its name.

        A number in a feed is the work to find the next message, in messages sent. Returns the work
        done now, as `pump` does.
        """
        if self._feeds is None:
            self._feeds = OrderedDict()
        self._feeds.update(feeds)
        return self.pump(now_us, most)

    def drop_feed(self, name: str) -> None:
        """End a feed."""
        if self._feeds is not None and self._feeds.pop(name, None) is not None:
            self._feeds = self._feeds or None

    def attach(self, session_writer: ClientSessionWriter, now_us: int) -> None:
        """Attach a connection: all in-flight messages are retransmitted [MQTT-4.4.0-1]."""
        self.session_writer = session_writer
        self.took_us = now_us
        self._resend = OrderedDict.fromkeys(self._inflight) if self._inflight else None
        self.pump(now_us)

    def detach(self, now_us: int) -> None:
        """Detach the connection; queued QoS 0 is dropped unless the client was redirected."""
        self.session_writer = None
        self._end_behind(now_us)
        if not self.is_moving:
            self.forget_at_0()

    def forget_at_0(self) -> None:
        """Drop queued messages of QoS 0: the client does not fetch them."""
        self.drop_at_0(0, is_lost=False)
        self.backlog.forget_at_0(self)

    def pump(self, now_us: int, most: int = MOST_AT_ONCE) -> int:
        """Send all that the window allows: retransmissions, then the queue, then feeds.

        Returns the number sent; beyond `most`, the rest follows after a time slice of other inputs.
        """
        self.has_room = False
        session_writer = self.session_writer
        if session_writer is None:
            return 0
        sent = self._pump(session_writer, most, now_us)
        if sent >= most:
            session_writer.pump_again()
        return sent

    def _pump(self, session_writer: ClientSessionWriter, most: int, now_us: int) -> int:
        sent = 0
        while self._resend and session_writer.writable and sent < most:
            packet_id = next(iter(self._resend))
            outgoing = self._inflight[packet_id]
            if self._must_wait(outgoing, session_writer.window):
                return sent
            sent += 1
            del self._resend[packet_id]
            if outgoing.released:
                session_writer.send_release(packet_id, ReasonCode.SUCCESS)
            elif not session_writer.send_outgoing(outgoing, now_us, True):
                del self._inflight[packet_id]
                self.report_drop(outgoing.message, TOO_LARGE)
                self._record_done(outgoing)
        self._resend = self._resend or None
        waiting = self._waiting
        while waiting and session_writer.writable and sent < most:
            if waiting[0].qos and self._must_wait(waiting[0], session_writer.window):
                break
            outgoing = waiting.popleft()
            sent += 1
            message = outgoing.message
            self._queued_bytes -= message.kept_bytes
            if message.has_expired(now_us):
                self._waiting_at_0 -= not outgoing.qos
                self.report_drop(message, "it expired in the client's queue")
                self._record_done(outgoing)
            elif outgoing.qos:
                self._send_new(outgoing, session_writer, now_us)
            else:
                self._waiting_at_0 -= 1
                self.count_out(message)
                session_writer.send_now(message, outgoing.retain, outgoing.identifiers, now_us)
            self.took_us = now_us
        if self._is_behind and not self._is_filled(4):
            self._end_behind(now_us)
        return self._pump_feeds(session_writer, most, sent, now_us) if self._feeds else sent

    @property
    def is_suspended(self) -> bool:
        """Whether the journal cannot record this session."""
        return self.journal is not None and self.journal.is_failing

    def _must_wait(self, outgoing: Outgoing, window: int) -> bool:
        """Whether a message above QoS 0 must wait on this connection."""
        if outgoing.qos == 2 and self.is_suspended:
            return True
        return len(self._inflight) - len(self._resend or ()) >= window

    def resume(self) -> None:
        """Resume suspended messages: the journal can write again."""
        if self.session_writer is not None and (self._resend or self._waiting or self._feeds):
            self.session_writer.pump_again()

    # --- slow-consumer policy -----------------------------------------------------------------

    def _is_filled(self, part: int) -> bool:
        """Whether the queue is filled to 1/`part` of its bounds."""
        limits = self.limits
        return (
            part * self.queued > limits.maximum_queued_messages
            or part * self._queued_bytes > limits.maximum_queued_bytes
        )

    def _note_behind(self, message: PublishedMessage, now_us: int) -> None:
        """Handle a message that is queued for a connected client."""
        if not self._waiting:
            self.took_us = now_us
        if self._patience is not None and (self._is_behind or self._is_filled(2)):
            self._is_behind = True
            self._patience.sent(self, message.publisher, now_us)

    def _end_behind(self, now_us: int) -> None:
        if self._is_behind and self._patience is not None:
            self._is_behind = False
            self._patience.caught_up(self, now_us)

    def _pump_feeds(
        self, session_writer: ClientSessionWriter, most: int, sent: int, now_us: int
    ) -> int:
        while (
            self._feeds and session_writer.writable and len(self._inflight) < session_writer.window
        ):
            if session_writer.has_more or sent >= most:
                break
            name, messages = next(iter(self._feeds.items()))
            try:
                outgoing = next(messages)
            except StopIteration:
                del self._feeds[name]
                self._feeds = self._feeds or None
                sent += FEED_WORK
                continue
            if isinstance(outgoing, int):
                sent += outgoing
                continue
            sent += 1
            if outgoing.via:
                self.take_fed(outgoing, now_us)
            elif outgoing.qos:
                self.count_in(outgoing.message)
                self._send_new(outgoing, session_writer, now_us)
            else:
                session_writer.send_now(
                    outgoing.message, outgoing.retain, outgoing.identifiers, now_us
                )
        return sent

    def take_fed(self, outgoing: Outgoing, now_us: int) -> None:
        """Take a message of a feed whose subscription is conflated (see `session`)."""
        raise NotImplementedError

    # --- state --------------------------------------------------------------------------------

    def give_to(self, user: str) -> None:
        """Give the session to a user."""
        if user != self.user:
            self._count_for(user, [*self.counted_messages()])

    def on_its_way(self) -> Iterator[Outgoing]:
        """All messages in flight or queued, in order."""
        yield from self._inflight.values()
        yield from self._waiting or ()

    def take_undecided(self) -> list[Outgoing]:
        """Take out the queued messages about which conflation is still to decide."""
        waiting = self._waiting
        found = [outgoing for outgoing in waiting or () if outgoing.via]
        if waiting is not None and found:
            self._waiting = deque(outgoing for outgoing in waiting if not outgoing.via)
            for outgoing in found:
                self._queued_bytes -= outgoing.message.kept_bytes
                self._waiting_at_0 -= not outgoing.qos
                self._record_done(outgoing)
        return found

    def counted_messages(self) -> Iterator[PublishedMessage]:
        """All messages that count for its user."""
        for outgoing in self.on_its_way():
            yield outgoing.message

    def restore(self, outgoing: Outgoing) -> None:
        """Restore a message; in flight if it has a packet identifier."""
        if outgoing.packet_id:
            self.count_in(outgoing.message)
            self._inflight[outgoing.packet_id] = outgoing
            self._last_id = outgoing.packet_id
        else:
            self._queue_message(outgoing)

    # --- acknowledgements; after a batch of them, the caller pumps sessions that have `has_room` -

    def on_puback(self, packet_id: int) -> None:
        outgoing = self._inflight.get(packet_id)
        if outgoing is None:
            return
        if outgoing.qos != 1:
            raise protocol_error(f"PUBACK for packet {packet_id}, which was sent at QoS 2")
        self._finish(packet_id)

    def on_pubrec(self, packet_id: int, reason_code: ReasonCode) -> None:
        outgoing = self._inflight.get(packet_id)
        failed = reason_code >= FIRST_ERROR
        if outgoing is None:
            if not failed:
                self._release(packet_id, ReasonCode.PACKET_IDENTIFIER_NOT_FOUND)
            return
        if outgoing.qos != 2:
            raise protocol_error(f"PUBREC for packet {packet_id}, which was sent at QoS 1")
        if failed:
            self._finish(packet_id)
            return
        if not outgoing.released:
            outgoing.released = True
            if self.journal is not None:
                self.journal.item(self, outgoing)
        if self.is_suspended:
            if self._resend is None:
                self._resend = OrderedDict()
            self._resend[packet_id] = None
            return
        if self._resend:
            self._resend.pop(packet_id, None)
        self._release(packet_id, ReasonCode.SUCCESS)

    def on_pubcomp(self, packet_id: int) -> None:
        outgoing = self._inflight.get(packet_id)
        if outgoing is None:
            return
        if not outgoing.released:
            raise protocol_error(f"PUBCOMP for packet {packet_id}, which was not released")
        self._finish(packet_id)

    def _release(self, packet_id: int, reason_code: ReasonCode) -> None:
        if (
            self.session_writer is not None
        ):  # otherwise a redirected client sends its last acknowledgements
            self.session_writer.send_release(packet_id, reason_code)

    def _finish(self, packet_id: int) -> None:
        self._record_done(self._inflight.pop(packet_id))
        if self._resend:
            self._resend.pop(packet_id, None)
        if self._waiting or self._resend or self._feeds:
            self.has_room = True

    # --- sending and queueing -----------------------------------------------------------------

    def _send_new(
        self, outgoing: Outgoing, session_writer: ClientSessionWriter, now_us: int
    ) -> None:
        packet_id = self._last_id % MAX_PACKET_ID + 1
        if packet_id in self._inflight:
            packet_id = self._free_id(packet_id)
        outgoing.packet_id = self._last_id = packet_id
        if session_writer.send_outgoing(outgoing, now_us, False):
            self._inflight[packet_id] = outgoing
            if self.journal is not None:
                self.journal.item(self, outgoing)
        else:
            self.report_drop(outgoing.message, TOO_LARGE)
            self._record_done(outgoing)

    def _free_id(self, packet_id: int) -> int:
        """The first identifier from this one on that is not in flight."""
        while packet_id in self._inflight:
            packet_id = packet_id % MAX_PACKET_ID + 1
        return packet_id

    def _queue_message(self, outgoing: Outgoing) -> None:
        if self._waiting is None:
            self._waiting = deque()
        size = outgoing.message.size
        if why := self._reason_to_drop(outgoing.qos, size):
            self.count_dropped(outgoing.message, why)
            return
        if not self._waiting:
            self.backlog.begin_queue(self)
        self._queued_bytes += size
        self._waiting.append(outgoing)
        if not outgoing.qos:
            self._waiting_at_0 += 1
            self.backlog.waits_at_0(self)
        elif self.journal is not None:
            self.journal.item(self, outgoing)
        self.count_in(outgoing.message)

    def has_room_for(self, message: PublishedMessage, qos: int) -> bool:
        """Whether a message would be sent or queued, if it came now."""
        return self._is_open_for(qos) or not self._reason_to_drop(qos, message.size)

    def _is_open_for(self, qos: int) -> bool:
        """Whether `accept` would send a message of this QoS at once: no bound of a queue counts."""
        session_writer = self.session_writer
        if session_writer is None or not session_writer.writable:
            return False
        if not qos:
            return not self._waiting_at_0
        return (
            not (self._waiting or self._resend)
            and len(self._inflight) < session_writer.window
            and not (qos == 2 and self.is_suspended)
            and not self.is_share_full
        )

    def _reason_to_drop(self, qos: int, size: int) -> str:
        """Why the queue does not take a message of this size; empty if it does."""
        limits = self.limits
        if self.queued >= limits.maximum_queued_messages:
            return f"its queue is full: {limits.maximum_queued_messages:,} messages"
        if self._queued_bytes + size > limits.maximum_queued_bytes:
            return f"its queue is full: {limits.maximum_queued_bytes:,} bytes"
        if self.backlog.is_full and not qos:
            return "the queues of all clients are full, and it was sent at QoS 0"
        if self.is_share_full:
            return f"the queues of its user are full: {limits.maximum_user_queued_bytes:,} bytes"
        return ""

    def drop_at_0(self, level: int, *, is_lost: bool = True) -> bool:
        """Drop queued messages of QoS 0, the newest first, down to this many bytes.

        Returns whether any of QoS 0 is left.
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
            if is_lost:
                why = "the queues of all clients are full, and it was sent at QoS 0"
                self.count_dropped(outgoing.message, why)
            self.count_out(outgoing.message)
        if waiting is not None:
            waiting.extend(reversed(kept))
        return self._waiting_at_0 > 0

    def forget_all(self) -> None:
        """Drop all messages."""
        for outgoing in self.on_its_way():
            self.count_out(outgoing.message)
        self.backlog.forget(self)
        self._inflight.clear()
        self._resend = self._waiting = self._feeds = None
        self._waiting_at_0 = self._queued_bytes = 0

    def _record_done(self, outgoing: Outgoing) -> None:
        message = outgoing.message
        self.backlog.leave(message)  # inlines `count_out`: this runs for each acknowledgement
        if self._share is not None:
            self._share.leave(message)
        if message.traced and self.backlog.at_done is not None:
            self.backlog.at_done(self.client_id, message)
        if self.journal is not None:
            self.journal.item_done(self, outgoing)
