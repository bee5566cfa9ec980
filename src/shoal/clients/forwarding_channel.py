"""The front end's end of a forwarding channel to a broker where clients of the front end publish.

Requests of clients wait until the other broker is connected, go over in order and exactly once, and
are kept until that broker has handled them, assured publications until they are settled. If that
broker has lost its state (it restarted), or is disconnected for too long, the kept requests are
returned, to be made again.

A pure machine around a `LinkSession`; the driver dials as long as the forwarding channel exists.

| state | hello, same session | hello, any other | away for lost_us | away for stranded_us |
| --- | --- | --- | --- | --- |
| new | (cannot be) | → up: waiting requests are sent | Lost | Stranded |
| up | (closes the connection before) | | | |
| away | → up | → up: Forgotten | Lost | Stranded → new |
"""

from __future__ import annotations

import msgspec

from shoal.broker.ack_tracker import AckTracker
from shoal.broker.links.controls import Hello
from shoal.broker.links.session import LinkSession
from shoal.broker.links.states import LinkSessionState
from shoal.broker.messages import Publish
from shoal.broker.wire import Codec, FrameReader, WireError
from shoal.clients.forwarding_channel_messages import ClientRequest
from shoal.model import BrokerId


class ForwardingChannelLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of a forwarding channel.

    lost_us       after a disconnect of so long, publishers that move there turn back
    stranded_us   after a disconnect of so long, publishers there return to the front end
    idle_us       an unused channel is closed after this
    """

    lost_us: int = 3_000_000
    stranded_us: int = 15_000_000
    idle_us: int = 60_000_000


class Lost(msgspec.Struct, frozen=True):
    """Event: the broker does not answer; it may answer again."""

    broker: BrokerId


class ChannelForgotten(msgspec.Struct, frozen=True):
    """Event: the broker is back without its state; it may not have handled `requests`."""

    broker: BrokerId
    requests: tuple[ClientRequest, ...]


class Stranded(msgspec.Struct, frozen=True):
    """Event: the broker counts as dead; it may not have handled `requests`."""

    broker: BrokerId
    requests: tuple[ClientRequest, ...]


ForwardingChannelEvent = Lost | ChannelForgotten | Stranded


class ForwardingChannel:
    """The forwarding channel over a link session, which is idle at first; kept in memory only."""

    def __init__(
        self, session: LinkSession, codec: Codec, limits: ForwardingChannelLimits, now_us: int
    ) -> None:
        self.session = session
        self.broker = session.neighbour
        self._codec = codec
        self._limits = limits
        self._waiting: list[tuple[ClientRequest, AckTracker | None]] = []
        self._away_us = now_us
        self._is_lost = False
        # Whether the other broker counts as disconnected, though it connects now and then.
        self.is_quarantined = False
        self._used_us = now_us

    @property
    def is_full(self) -> bool:
        """Whether publishers that use it must wait."""
        return self.session.is_full

    def ask(
        self, request: ClientRequest, now_us: int, ack_tracker: AckTracker | None = None
    ) -> list[ForwardingChannelEvent]:
        """Send a request; WireError when it cannot be encoded.

        `ack_tracker` is extended until the request is settled; it is lost when the request is
        returned.
        """
        self._used_us = now_us
        if self.session.state is LinkSessionState.IDLE:
            if ack_tracker is not None:
                ack_tracker.extend()
            self._waiting.append((request, ack_tracker))
        elif not self._send_over_session(request, ack_tracker):
            return [self._strand(now_us)]
        return []

    def _send_over_session(self, request: ClientRequest, ack_tracker: AckTracker | None) -> bool:
        try:
            return self.session.send(request, ack_tracker)
        except WireError:
            asked = request.request
            if not isinstance(asked, Publish) or len(asked.publications) < 2:
                raise
        # Too long together: a client's publications during a move are one request.
        middle = len(asked.publications) // 2
        halves = asked.publications[:middle], asked.publications[middle:]
        sent = [
            self._send_over_session(ClientRequest(request.client, Publish(half)), ack_tracker)
            for half in halves
        ]
        return all(sent)

    def connected(self, hello: Hello, now_us: int) -> list[ForwardingChannelEvent]:
        """Handle the hellos of both ends; WireError as in `LinkSession.connected`."""
        was_idle, unsettled = self.session.state is LinkSessionState.IDLE, self.session.unsettled()
        is_fresh = bool(self.session.connected(hello, now_us))
        self._is_lost = False
        if was_idle:
            waiting, self._waiting = self._waiting, []
            for request, ack_tracker in waiting:
                self._send_over_session(request, ack_tracker)
                if ack_tracker is not None:
                    ack_tracker.settle()
        elif is_fresh:
            return [ChannelForgotten(self.broker, self._decode_requests(unsettled))]
        return []

    def disconnected(self, now_us: int) -> None:
        """Handle the end of the connection."""
        if self.session.state is LinkSessionState.UP and not self.is_quarantined:
            self._away_us = now_us
        self.session.lost(now_us)

    def tick(self, now_us: int) -> list[ForwardingChannelEvent]:
        """Handle the time, about every second."""
        if self.session.state is LinkSessionState.UP:
            self.session.tick(now_us)
            return []
        away_us = now_us - self._away_us
        if away_us > self._limits.stranded_us:
            return [self._strand(now_us)]
        if away_us > self._limits.lost_us and not self._is_lost:
            self._is_lost = True
            return [Lost(self.broker)]
        return []

    def discount_pause(self, missed_us: int) -> None:
        """As `LinkSession.discount_pause`: a pause of this process is no silence of the broker."""
        self.session.discount_pause(missed_us)
        self._away_us += missed_us

    def is_idle(self, now_us: int) -> bool:
        """Whether no request was made for long, and none is left to be handled."""
        if self._waiting or self.session.buffered_bytes:
            return False
        return now_us - self._used_us > self._limits.idle_us

    def _strand(self, now_us: int) -> Stranded:
        waiting = (request for request, _ in self._waiting)
        requests = (*self._decode_requests(self.session.unsettled()), *waiting)
        self._waiting.clear()
        self.session.give_up()
        self._away_us, self._is_lost = now_us, False
        return Stranded(self.broker, requests)

    def _decode_requests(self, frames: list[bytes]) -> tuple[ClientRequest, ...]:
        bodies = FrameReader().feed(b"".join(frames))
        return tuple(self._codec.decode(body) for body in bodies)
