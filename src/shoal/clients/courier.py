"""The door's end of a courier: the direct channel to a broker where clients of the door publish.

What clients ask waits until the other broker is there, goes over in order and exactly once, and
is kept until that broker has handled it, publications that somebody waits for until they are
settled.  When that broker has forgotten (it started again), or is away for too long, what is kept
is given back, so that it can be asked again.

A pure machine around a `LinkSession`; the driver dials for as long as the courier lives.

| state | hello, same session | hello, any other | away for lost_us | away for stranded_us |
| --- | --- | --- | --- | --- |
| new | (cannot be) | → up: what waited is sent | Lost | Stranded |
| up | (closes the connection before) | | | |
| away | → up | → up: Forgotten | Lost | Stranded → new |
"""

from __future__ import annotations

import msgspec

from shoal.broker.custody import Custody
from shoal.broker.links.controls import Hello
from shoal.broker.links.session import LinkSession
from shoal.broker.links.states import State
from shoal.broker.messages import Publish
from shoal.broker.wire import Codec, FrameReader, WireError
from shoal.clients.courier_messages import ClientRequest
from shoal.model import BrokerId


class CourierLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of a courier.

    lost_us       away for so long, the other broker counts as lost to whoever moves there
    stranded_us   away for so long, who publishes there is brought home
    idle_us       unused for so long, it is closed
    """

    lost_us: int = 3_000_000
    stranded_us: int = 15_000_000
    idle_us: int = 60_000_000


class Lost(msgspec.Struct, frozen=True):
    """Event: the broker does not answer, and may do so again."""

    broker: BrokerId


class Forgotten(msgspec.Struct, frozen=True):
    """Event: the broker is back and knows nothing; `requests` it may have had no time for."""

    broker: BrokerId
    requests: tuple[ClientRequest, ...]


class Stranded(msgspec.Struct, frozen=True):
    """Event: the broker counts as gone; `requests` it may have had no time for."""

    broker: BrokerId
    requests: tuple[ClientRequest, ...]


CourierEvent = Lost | Forgotten | Stranded


class Courier:
    """The courier to the other end of a session that is idle; it does not last for ever."""

    def __init__(
        self, session: LinkSession, codec: Codec, limits: CourierLimits, now_us: int
    ) -> None:
        self.session = session
        self.broker = session.neighbour
        self._codec = codec
        self._limits = limits
        self._waiting: list[tuple[ClientRequest, Custody | None]] = []
        self._away_us = now_us
        self._is_lost = False
        # Whether the other broker counts as away, though it connects now and then.
        self.is_quarantined = False
        self._used_us = now_us

    @property
    def is_full(self) -> bool:
        """Whether those who publish over it must wait."""
        return self.session.is_full

    def ask(
        self, request: ClientRequest, now_us: int, custody: Custody | None = None
    ) -> list[CourierEvent]:
        """Pass a request on; WireError when it cannot be written.

        `custody` is extended until the request is settled; it is lost when that is given back.
        """
        self._used_us = now_us
        if self.session.state is State.IDLE:
            if custody is not None:
                custody.extend()
            self._waiting.append((request, custody))
        elif not self._send(request, custody):
            return [self._strand(now_us)]
        return []

    def _send(self, request: ClientRequest, custody: Custody | None) -> bool:
        try:
            return self.session.send(request, custody)
        except WireError:
            asked = request.request
            if not isinstance(asked, Publish) or len(asked.publications) < 2:
                raise
        # Too long together: what a client published while it was moved goes in one request.
        middle = len(asked.publications) // 2
        halves = asked.publications[:middle], asked.publications[middle:]
        sent = [
            self._send(ClientRequest(request.client, Publish(half)), custody) for half in halves
        ]
        return all(sent)

    def connected(self, hello: Hello, now_us: int) -> list[CourierEvent]:
        """Both ends have said hello; WireError as `LinkSession.connected`."""
        was_idle, unsettled = self.session.state is State.IDLE, self.session.unsettled()
        is_fresh = bool(self.session.connected(hello, now_us))
        self._is_lost = False
        if was_idle:
            waiting, self._waiting = self._waiting, []
            for request, custody in waiting:
                self._send(request, custody)
                if custody is not None:
                    custody.settle()
        elif is_fresh:
            return [Forgotten(self.broker, self._read(unsettled))]
        return []

    def disconnected(self, now_us: int) -> None:
        """The connection is gone."""
        if self.session.state is State.UP and not self.is_quarantined:
            self._away_us = now_us
        self.session.lost(now_us)

    def tick(self, now_us: int) -> list[CourierEvent]:
        """To be called about every second."""
        if self.session.state is State.UP:
            self.session.tick(now_us)
            return []
        away_us = now_us - self._away_us
        if away_us > self._limits.stranded_us:
            return [self._strand(now_us)]
        if away_us > self._limits.lost_us and not self._is_lost:
            self._is_lost = True
            return [Lost(self.broker)]
        return []

    def excuse(self, missed_us: int) -> None:
        """As `LinkSession.excuse`."""
        self.session.excuse(missed_us)
        self._away_us += missed_us

    def is_idle(self, now_us: int) -> bool:
        """Whether nobody has asked anything for long, and nothing is left to be handled."""
        if self._waiting or self.session.buffered_bytes:
            return False
        return now_us - self._used_us > self._limits.idle_us

    def _strand(self, now_us: int) -> Stranded:
        waiting = (request for request, _ in self._waiting)
        requests = (*self._read(self.session.unsettled()), *waiting)
        self._waiting.clear()
        self.session.give_up()
        self._away_us, self._is_lost = now_us, False
        return Stranded(self.broker, requests)

    def _read(self, frames: list[bytes]) -> tuple[ClientRequest, ...]:
        bodies = FrameReader().feed(b"".join(frames))
        return tuple(self._codec.decode(body) for body in bodies)
