"""Everything on its way to one client: what is in flight, and what waits.

Publications above QoS 0 get a packet identifier and are in flight until the client has taken
them; no more of them than the client's receive maximum, the others wait.  When the client comes
back, those in flight are sent again in their order, before anything new.

| in flight at | PUBACK | PUBREC | PUBREC with an error | PUBCOMP |
| --- | --- | --- | --- | --- |
| QoS 1 | done | protocol error | protocol error | protocol error |
| QoS 2, sent | protocol error | PUBREL sent, released | done | protocol error |
| QoS 2, released | protocol error | PUBREL sent | done | done |
| nothing | ignored | PUBREL, not found | ignored | ignored |

While the journal cannot record a session, QoS 2 stands still in it: a broker that is killed in that
state would send again, as new, what its client has had.

Source: MQTT Version 5.0, sections 4.3, 4.4, 4.6 and 4.9.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from shoal.mqtt.codec.errors import protocol_error
from shoal.mqtt.codec.reason_codes import FIRST_ERROR, ReasonCode
from shoal.mqtt.limits import Limits
from shoal.mqtt.messages import Message
from shoal.mqtt.sessions.delivering.backlog import ENTRY_BYTES, Backlog
from shoal.mqtt.sessions.delivering.counted import Counted
from shoal.mqtt.sessions.delivering.outgoing import ClientOutlet, Outgoing
from shoal.mqtt.sessions.delivering.patience import Patience

MAX_PACKET_ID = 65_535


# What is sent of what waits before others have their turn: some 5 ms.
MOST_AT_ONCE = 1_000
# A feed that ends, perhaps with nothing sent, is as much work as so many messages.
FEED_WORK = 10


class Journal(Protocol):
    """Who writes down what must not be forgotten (see `memory`).

    `is_failing`: nothing can be written for now.
    """

    is_failing: bool

    def item(self, delivery: Any, outgoing: Outgoing, /) -> None:
        """It is on its way above QoS 0, or has come further."""

    def item_done(self, delivery: Any, outgoing: Outgoing, /) -> None:
        """The client has it, or gets it no more."""


class Delivery(Counted):
    """What is on its way to the client `client_id`.  `outlet` is its connection's, if it is there.

    The `journal`, if there is one, is told of each above QoS 0 that is sent, kept, or done.
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
        "client_id",
        "has_room",
        "is_moving",
        "journal",
        "outlet",
        "took_us",
    )

    def __init__(
        self, client_id: str, limits: Limits, backlog: Backlog | None, patience: Patience | None
    ) -> None:
        super().__init__(limits, backlog)
        self.client_id = client_id
        self.outlet: ClientOutlet | None = None
        self.journal: Journal | None = None
        # Whether its client was sent to another broker and is on its way: QoS 0 waits for it, too.
        self.is_moving = False
        # Who waits for it while it is behind, and when it last took something that waited.
        self._patience = patience
        self._is_behind = False
        self.took_us = 0
        self._last_id = 0
        # By packet identifier, oldest first; those of `_resend` were not sent on this connection.
        self._inflight: dict[int, Outgoing] = {}
        self._resend: OrderedDict[int, None] | None = None
        self._waiting: deque[Outgoing] | None = None
        # Those of QoS 0 among them, which must not be overtaken by others.
        self._waiting_at_0 = 0
        # Retained messages that are still to be sent, by the name of the subscription they are for.
        self._feeds: OrderedDict[str, Iterator[Outgoing | int]] | None = None
        self._queued_bytes = 0
        # Whether something of what waits may be sent since the client answered.
        self.has_room = False

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

    def accept(
        self, message: Message, qos: int, retain: bool, identifiers: tuple[int, ...], now_us: int
    ) -> None:
        """Send a message, or keep it for later; `qos` is the lower of what both sides asked."""
        outlet = self.outlet
        if outlet is not None and outlet.writable:
            if not qos:
                if not self._waiting_at_0:
                    outlet.send_now(message, retain, identifiers, now_us)
                    return
            elif (
                not (self._waiting or self._resend)
                and len(self._inflight) < outlet.window
                and not (qos == 2 and self.is_suspended)
                and (self._share is None or not self.has_its_share)
            ):
                self.backlog.enter(message)  # as `count_in`
                if self._share is not None:
                    self._share.enter(message)
                self._send_new(Outgoing(message, qos, retain, identifiers), outlet, now_us)
                return
        elif qos == 0 and outlet is None and not self.is_moving:
            return
        if outlet is not None:
            self._falls_behind(message, now_us)
        self._keep(Outgoing(message, qos, retain, identifiers))

    def feed(
        self,
        feeds: Iterable[tuple[str, Iterator[Outgoing | int]]],
        now_us: int,
        most: int = MOST_AT_ONCE,
    ) -> int:
        """Send these behind all else, as fast as the client takes them; of a name the newest feed.

        A number among them says how much work it was to find the next, in messages sent.  How much
        was done now, as in `pump`.
        """
        if self._feeds is None:
            self._feeds = OrderedDict()
        self._feeds.update(feeds)
        return self.pump(now_us, most)

    def attach(self, outlet: ClientOutlet, now_us: int) -> None:
        """The client is back: all that is in flight is sent again [MQTT-4.4.0-1]."""
        self.outlet = outlet
        self.took_us = now_us
        self._resend = OrderedDict.fromkeys(self._inflight) if self._inflight else None
        self.pump(now_us)

    def detach(self, now_us: int) -> None:
        """The client is gone; what waits at QoS 0 goes with it, unless it comes elsewhere."""
        self.outlet = None
        self._has_caught_up(now_us)
        if not self.is_moving:
            self.forget_at_0()

    def forget_at_0(self) -> None:
        """Nobody comes for what waits at QoS 0."""
        self.drop_at_0(0, is_lost=False)
        self.backlog.forget(self)

    def pump(self, now_us: int, most: int = MOST_AT_ONCE) -> int:
        """Send what can be sent now: again what was in flight, then what has waited.

        How much that was; beyond `most`, the rest is sent when others have had their turn.
        """
        self.has_room = False
        outlet = self.outlet
        if outlet is None:
            return 0
        sent = self._pump(outlet, most, now_us)
        if sent >= most:
            outlet.pump_again()
        return sent

    def _pump(self, outlet: ClientOutlet, most: int, now_us: int) -> int:
        sent = 0
        while self._resend and outlet.writable and sent < most:
            packet_id = next(iter(self._resend))
            outgoing = self._inflight[packet_id]
            if self._must_wait(outgoing, outlet.window):
                return sent
            sent += 1
            del self._resend[packet_id]
            if outgoing.released:
                outlet.send_release(packet_id, ReasonCode.SUCCESS)
            elif not outlet.send_outgoing(outgoing, now_us, True):
                del self._inflight[packet_id]
                self._is_done(outgoing)
        self._resend = self._resend or None
        waiting = self._waiting
        while waiting and outlet.writable and sent < most:
            if waiting[0].qos and self._must_wait(waiting[0], outlet.window):
                break
            outgoing = waiting.popleft()
            sent += 1
            message = outgoing.message
            self._queued_bytes -= message.kept_bytes
            if message.has_expired(now_us):
                self._waiting_at_0 -= not outgoing.qos
                self._is_done(outgoing)
            elif outgoing.qos:
                self._send_new(outgoing, outlet, now_us)
            else:
                self._waiting_at_0 -= 1
                self.count_out(message)
                outlet.send_now(message, outgoing.retain, outgoing.identifiers, now_us)
            self.took_us = now_us
        if self._is_behind and not self._is_filled(4):
            self._has_caught_up(now_us)
        return self._pump_feeds(outlet, most, sent, now_us) if self._feeds else sent

    @property
    def is_suspended(self) -> bool:
        """Whether the journal cannot record this session."""
        return self.journal is not None and self.journal.is_failing

    def _must_wait(self, outgoing: Outgoing, window: int) -> bool:
        """Whether this, above QoS 0, may not be sent on this connection for now."""
        if outgoing.qos == 2 and self.is_suspended:
            return True
        return len(self._inflight) - len(self._resend or ()) >= window

    def resume(self) -> None:
        """The journal records again: have what stood still sent."""
        if self.outlet is not None and (self._resend or self._waiting or self._feeds):
            self.outlet.pump_again()

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

    def _pump_feeds(self, outlet: ClientOutlet, most: int, sent: int, now_us: int) -> int:
        while self._feeds and outlet.writable and len(self._inflight) < outlet.window:
            if outlet.has_more or sent >= most:
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
            if outgoing.qos:
                self.count_in(outgoing.message)
                self._send_new(outgoing, outlet, now_us)
            else:
                outlet.send_now(outgoing.message, outgoing.retain, outgoing.identifiers, now_us)
        return sent

    # --- what it comes to ---------------------------------------------------------------------

    def give_to(self, user: str) -> None:
        """It is this user's from now on."""
        if user != self.user:
            self._count_for(user, [outgoing.message for outgoing in self.on_its_way()])

    def on_its_way(self) -> Iterator[Outgoing]:
        """All that is in flight or waits, in its order."""
        yield from self._inflight.values()
        yield from self._waiting or ()

    def restore(self, outgoing: Outgoing) -> None:
        """Take over what was on its way; in flight if it has a packet identifier."""
        if outgoing.packet_id:
            self.count_in(outgoing.message)
            self._inflight[outgoing.packet_id] = outgoing
            self._last_id = outgoing.packet_id
        else:
            self._keep(outgoing)

    # --- what the client answers: once it has said all, who `has_room` is pumped --------------

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
        if self.outlet is not None:  # else its client was sent away, and says its last words
            self.outlet.send_release(packet_id, reason_code)

    def _finish(self, packet_id: int) -> None:
        self._is_done(self._inflight.pop(packet_id))
        if self._resend:
            self._resend.pop(packet_id, None)
        if self._waiting or self._resend or self._feeds:
            self.has_room = True

    # --- what is sent and kept ----------------------------------------------------------------

    def _send_new(self, outgoing: Outgoing, outlet: ClientOutlet, now_us: int) -> None:
        packet_id = self._last_id % MAX_PACKET_ID + 1
        if packet_id in self._inflight:
            packet_id = self._free_id(packet_id)
        outgoing.packet_id = self._last_id = packet_id
        if outlet.send_outgoing(outgoing, now_us, False):
            self._inflight[packet_id] = outgoing
            if self.journal is not None:
                self.journal.item(self, outgoing)
        else:
            self._is_done(outgoing)

    def _free_id(self, packet_id: int) -> int:
        """The first behind this one that is not in flight."""
        while packet_id in self._inflight:
            packet_id = packet_id % MAX_PACKET_ID + 1
        return packet_id

    def _keep(self, outgoing: Outgoing) -> None:
        if self._waiting is None:
            self._waiting = deque()
        size = outgoing.message.size
        if (
            len(self._waiting) >= self.limits.maximum_queued_messages
            or self._queued_bytes + size > self.limits.maximum_queued_bytes
            or (self.backlog.is_full and not outgoing.qos)
            or self.has_its_share
        ):
            self.count_dropped()
            return
        self._queued_bytes += size
        self._waiting.append(outgoing)
        if not outgoing.qos:
            self._waiting_at_0 += 1
            self.backlog.waits_at_0(self)
        elif self.journal is not None:
            self.journal.item(self, outgoing)
        self.count_in(outgoing.message)

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
            if is_lost:
                self.count_dropped()
            self.count_out(outgoing.message)
        if waiting is not None:
            waiting.extend(reversed(kept))
        return self._waiting_at_0 > 0

    def forget_all(self) -> None:
        """Nothing is on its way here any more."""
        for outgoing in self.on_its_way():
            self.count_out(outgoing.message)
        self.backlog.forget(self)
        self._inflight.clear()
        self._resend = self._waiting = self._feeds = None
        self._waiting_at_0 = self._queued_bytes = 0

    def _is_done(self, outgoing: Outgoing) -> None:
        message = outgoing.message
        self.backlog.leave(message)  # as `count_out`, which this is for each acknowledgement
        if self._share is not None:
            self._share.leave(message)
        if self.journal is not None:
            self.journal.item_done(self, outgoing)
