"""One end of a link that outlives its connections: exactly once, in order, bounded.

Two ends make a session.  Each numbers what it sends, keeps it until the other end has handled it,
and after a lost connection goes on from where the other end stopped.  An end that does not know
the session any more (it restarted, or gave the link up) starts a fresh one: the broker is told
that the link went down and came up, and repairs its tables.

A pure machine: the driver brings bytes and the time, writes what `to_write` gives, and carries
what `take` gives and what changed to the broker.

| state | hello, same session | hello, any other | connection lost | gave up |
| --- | --- | --- | --- | --- |
| idle | (cannot be) | → up, link up | idle | idle |
| up | (closes the connection before) | | → away | → idle, link down |
| away | → up, the rest is sent again | → up, link down and up | away | → idle, link down |

What is sent and not acknowledged fits into a window, so the other end may stop handling messages
for a while (`take` not called) without a bound being crossed; acknowledgements are read even
then.  That is what lets brokers hold back what comes from elsewhere while one link is full, and
never wait for each other in a circle, as long as the overlay is a tree.

`shoal.broker.links` is for links that lose single messages, as the simulator's do.  Over TCP a
connection loses nothing but its end, so this machine needs no timers to resend, and what it needs
instead (agreeing on where to go on, or to start afresh) has no place there.
"""

from __future__ import annotations

import enum
from collections import deque
from typing import Any

import msgspec

from shoal.broker.effects import LinkChanged
from shoal.broker.messages import Message, PublicationBatch
from shoal.broker.wire import MAX_FRAME_BYTES, Codec, FrameReader, Vocabulary, WireError
from shoal.model import BrokerId

# (incarnation of an end, how many sessions it has begun): never the same again.
SessionName = tuple[int, int]


class Control(msgspec.Struct, frozen=True, tag=lambda name: f"link {name}", array_like=True):
    """What the ends of a link say to each other; tags that no system's messages have."""


class Purpose(enum.Enum):
    """What a connection is for: a link of the overlay, or a courier (`shoal.broker.courier`)."""

    LINK = "link"
    COURIER = "courier"


class Hello(Control, frozen=True):
    """First on a connection, the dialling end first.

    `other` is the other end's part of the session that the sender is in, None without one;
    `handled` counts the messages it has handled in it.
    """

    network: str
    broker: BrokerId
    session: SessionName
    other: SessionName | None
    handled: int
    purpose: Purpose = Purpose.LINK


class Refuse(Control, frozen=True):
    """Instead of a Hello, or last on a connection: why it ends."""

    reason: str


class Acknowledge(Control, frozen=True):
    """So many messages of this session are handled."""

    handled: int


class Heartbeat(Control, frozen=True):
    """Asks for an Echo; `at_us` is the sender's clock."""

    at_us: int


class Echo(Control, frozen=True):
    at_us: int


CONTROLS: Vocabulary = (Hello, Refuse, Acknowledge, Heartbeat, Echo)


class LinkLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one end of a link.

    window_bytes     sent and not acknowledged; a round trip of 100 ms then allows 40 MB/s
    high_bytes       kept to be sent: from here on the link is full, and what feeds it must wait
    low_bytes        it is not full any more
    limit_bytes      more is never kept: the link is given up
    silence_us       a connection on which nothing came for so long is dead
    give_up_us       a connection that is away for so long ends the session
    """

    window_bytes: int = 4 * 2**20
    high_bytes: int = 8 * 2**20
    low_bytes: int = 4 * 2**20
    limit_bytes: int = 128 * 2**20
    silence_us: int = 5_000_000
    give_up_us: int = 60_000_000


class State(enum.Enum):
    IDLE = "idle"
    UP = "up"
    AWAY = "away"


class LinkSession:
    """The link to `neighbour`, seen from `broker`; `incarnation` differs at every start."""

    def __init__(
        self,
        network: str,
        broker: BrokerId,
        neighbour: BrokerId,
        incarnation: int,
        codec: Codec,
        limits: LinkLimits | None = None,
        purpose: Purpose = Purpose.LINK,
    ) -> None:
        self.neighbour = neighbour
        self.state = State.IDLE
        self.is_full = False
        self._network = network
        self._broker = broker
        self._codec = codec
        self._limits = limits or LinkLimits()
        self._incarnation = incarnation
        self._purpose = purpose
        self._begun = 0
        self._other: SessionName | None = None
        self._said: Hello | None = None
        self._round_trip_us = 0
        self._changed_us = 0
        self._start()
        self._connect()

    def _start(self) -> None:
        """Forget the session."""
        # Sent and not acknowledged, oldest first: written on this connection, and not yet.
        self._in_flight: deque[bytes] = deque()
        self._waiting: deque[bytes] = deque()
        self._in_flight_bytes = 0
        self._buffered_bytes = 0
        self._acknowledged = 0  # the number of messages before the oldest of these
        self._handled = 0
        self.is_full = False

    def _connect(self) -> None:
        """Forget the connection."""
        self._reader = FrameReader()
        self._inbox: list[Message] = []
        self._inbox_bytes = 0
        self._waiting.extendleft(reversed(self._in_flight))
        self._in_flight.clear()
        self._in_flight_bytes = 0
        # What is to be said beside messages, each at most once.
        self._owes_acknowledgement = False
        self._heartbeat: Heartbeat | None = None
        self._echo: Echo | None = None
        self._heard_us = 0

    # --- the connection -----------------------------------------------------------------------

    def hello(self) -> Hello:
        """What to say first on a new connection; the connection before, if any, is lost."""
        self._said = self._greeting()
        return self._said

    def _greeting(self) -> Hello:
        name = (self._incarnation, self._begun)
        return Hello(self._network, self._broker, name, self._other, self._handled, self._purpose)

    def connected(self, hello: Hello, now_us: int) -> list[LinkChanged]:
        """Both ends have said hello; what changed for the broker.

        WireError when they cannot go on by what they said: close, and try anew.
        """
        said = self._said
        if said is None or said != self._greeting() or self.state is State.UP:
            raise WireError("the session changed while the connection was made")
        same = hello.session == said.other and hello.other == said.session
        if same and not self._acknowledged <= hello.handled <= self._sent:
            self.give_up()
            raise WireError(f"{hello.handled} messages cannot be handled, {self._sent} were sent")
        self._said = None
        self._connect()
        self._heard_us = now_us
        was_away, self.state = self.state is State.AWAY, State.UP
        if same:
            self._trim(hello.handled)
            return []
        self._start()
        self._other = hello.session
        down = [LinkChanged(self.neighbour, False)] if was_away else []
        return [*down, LinkChanged(self.neighbour, True)]

    def lost(self, now_us: int) -> None:
        """The connection is gone; what was not taken yet will come again."""
        self._said = None
        self._connect()
        if self.state is State.UP:
            self.state = State.AWAY
            self._changed_us = now_us

    def give_up(self) -> list[LinkChanged]:
        """End the session: the next connection begins a fresh one."""
        changes = [] if self.state is State.IDLE else [LinkChanged(self.neighbour, False)]
        self.state = State.IDLE
        self._begun += 1
        self._other = None
        self._start()
        self._connect()
        return changes

    # --- what goes out ------------------------------------------------------------------------

    @property
    def _sent(self) -> int:
        return self._acknowledged + len(self._in_flight) + len(self._waiting)

    @property
    def buffered_bytes(self) -> int:
        """What is kept because the other end has not handled it."""
        return self._buffered_bytes

    def unhandled(self) -> list[bytes]:
        """The frames that the other end has not handled, as far as is known, oldest first."""
        return [*self._in_flight, *self._waiting]

    def send(self, message: Message) -> bool:
        """Keep a message and send it when there is room; False when the link must be given up.

        Without a session it goes nowhere.  WireError when the message cannot be written.
        """
        if self.state is State.IDLE:
            return True
        for frame in self._frames(message):
            self._waiting.append(frame)
            self._buffered_bytes += len(frame)
        if self._buffered_bytes > self._limits.high_bytes:
            self.is_full = True
        return self._buffered_bytes <= self._limits.limit_bytes

    def _frames(self, message: Message) -> list[bytes]:
        try:
            return [self._codec.encode(message)]
        except WireError:
            if type(message) is not PublicationBatch or len(message.publications) < 2:
                raise
        # Too long together: what goes into one batch here came in several.
        middle, hops = len(message.publications) // 2, message.hops
        halves = message.publications[:middle], message.publications[middle:]
        return [frame for half in halves for frame in self._frames(PublicationBatch(half, hops))]

    def to_write(self) -> bytes:
        """Bytes for the connection: what is owed, and messages as far as the window allows."""
        if self.state is not State.UP:
            return b""
        acknowledge = Acknowledge(self._handled) if self._owes_acknowledgement else None
        owed = (acknowledge, self._heartbeat, self._echo)
        parts = [self._codec.encode(control) for control in owed if control is not None]
        self._owes_acknowledgement = False
        self._heartbeat = self._echo = None
        waiting, window_bytes = self._waiting, self._limits.window_bytes
        while waiting and self._in_flight_bytes < window_bytes:
            frame = waiting.popleft()
            parts.append(frame)
            self._in_flight.append(frame)
            self._in_flight_bytes += len(frame)
        return b"".join(parts)

    # --- what comes in ------------------------------------------------------------------------

    def receive(self, data: bytes, now_us: int) -> None:
        """Bytes of the connection; WireError when they make no sense: close the connection."""
        self._heard_us = now_us
        for body in self._reader.feed(data):
            self._take_in(self._codec.decode(body), len(body), now_us)

    def _take_in(self, message: Any, size: int, now_us: int) -> None:
        if not isinstance(message, Control):
            self._inbox.append(message)
            self._inbox_bytes += size
            if self._inbox_bytes > self._limits.window_bytes + MAX_FRAME_BYTES:
                raise WireError("more messages than the window allows")
            return
        match message:
            case Acknowledge(handled):
                if not 0 <= handled - self._acknowledged <= len(self._in_flight):
                    raise WireError(f"an acknowledgement of {handled} messages makes no sense")
                self._trim(handled)
            case Heartbeat(at_us):
                self._echo = Echo(at_us)
            case Echo(at_us) if at_us <= now_us:
                self._round_trip_us = now_us - at_us
            case Refuse(reason):
                raise WireError(f"refused by the other end: {reason}")
            case _:
                raise WireError(f"{type(message).__name__} in the middle of a session")

    def take(self) -> list[Message]:
        """The messages that came, to be handled now: they count as handled."""
        messages = self._inbox
        if messages:
            self._inbox = []
            self._inbox_bytes = 0
            self._handled += len(messages)
            self._owes_acknowledgement = True
        return messages

    def _trim(self, handled: int) -> None:
        for _ in range(handled - self._acknowledged):
            if self._in_flight:
                size = len(self._in_flight.popleft())
                self._in_flight_bytes -= size
            else:  # of an earlier connection
                size = len(self._waiting.popleft())
            self._buffered_bytes -= size
        self._acknowledged = handled
        if self._buffered_bytes <= self._limits.low_bytes:
            self.is_full = False

    # --- time ---------------------------------------------------------------------------------

    @property
    def delay_us(self) -> int | None:
        """How long a message takes to the other end, None when that is not known.

        Half of the last heartbeat's round trip, which waited behind the messages sent before.
        """
        return self._round_trip_us // 2 if self._round_trip_us else None

    def tick(self, now_us: int) -> list[LinkChanged]:
        """To be called about every second; asks the other end whether it is there."""
        if self.state is State.UP:
            self._heartbeat = Heartbeat(now_us)
        if self.state is State.AWAY and now_us - self._changed_us > self._limits.give_up_us:
            return self.give_up()
        return []

    def is_silent(self, now_us: int) -> bool:
        """Whether nothing came for so long that the connection must be dead."""
        return self.state is State.UP and now_us - self._heard_us > self._limits.silence_us
