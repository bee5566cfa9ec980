"""One end of a link that outlives its connections: exactly once, in order, bounded.

Two ends make a session.  Each numbers what it sends, keeps it until the other end has handled it,
and after a lost connection goes on from where the other end stopped.  Every hello offers a session
of a new name, for the case that the two are not in one: so nothing that one end has forgotten goes
by the name of what the other end remembers, whichever of their hellos arrive, and when.  An end
that does not know the session any more (it restarted, or gave the link up) starts a fresh one: the
broker is told, and repairs its tables.  What somebody waits for (`shoal.broker.custody`) is kept
until the other end says that it is settled, and goes over to a fresh session.

A pure machine: the driver brings bytes and the time, writes what `to_write` gives, and carries
what `take` gives and what changed to the broker.

| input | idle | up | away |
| --- | --- | --- | --- |
| hello, same session | refused | refused | the rest is sent again → up |
| the same, out of step | refused | refused | refused; given up, or parked |
| hello, any other | link up → up | refused | link up, as it has forgotten all → up |
| connection lost | | waits → away | |
| given up | a new name | link down → idle | link down → idle |
| tick | | heartbeat | in time parked, given up |

That the other end has forgotten all is told as link up without a link down before; where the system
cannot do with that (`is_graceful` is False) as down and up, and what was in custody comes back
(`returned`), as it does when a link is given up.  Refused is a connection: it is closed, and made
anew.

With a spool an end that is away for `park_us` ends its session by itself, without a word to the
broker: what somebody waits for is then on disk (`shoal.broker.link_spool`), nobody waits for it any
longer, and the next hello begins a fresh session.  It gives up after the spool's `keep_us`.

What is sent and not handled fits into a window, so the other end may stop handling messages for a
while (`take` not called) without a bound being crossed; acknowledgements are read even then.  On a
tree what an end has in custody depends on what lies beyond the other end and on nothing else.
Both let brokers hold back what comes from elsewhere while one link is full, and never wait for
each other in a circle.

`shoal.simulation.links` is for links that lose single messages, as the simulator's do.  Over TCP a
connection loses nothing but its end, so this machine needs no timers to resend, and what it needs
instead (agreeing on where to go on, or to start afresh) has no place there.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

from shoal.broker.custody import Custody, Errand, repeated
from shoal.broker.effects import LinkChanged, LinkState
from shoal.broker.life_cycle import IGNORED, LifeCycle, does
from shoal.broker.link_controls import (
    Acknowledge,
    Control,
    Echo,
    Heartbeat,
    Hello,
    Purpose,
    Refuse,
    SessionName,
)
from shoal.broker.link_inbox import Debt, LinkInbox
from shoal.broker.link_outbox import Frame, LinkLimits, LinkOutbox
from shoal.broker.link_spool import Spool
from shoal.broker.messages import Carrier, Message
from shoal.broker.wire import (
    LENGTH_BYTES,
    Codec,
    FrameReader,
    WireError,
)
from shoal.model import BrokerId


class OutOfStepError(WireError):
    """Both ends were in one session and could not go on in it; it is given up."""

    def __init__(self, problem: str, changes: list[LinkChanged]) -> None:
        super().__init__(problem)
        self.changes = changes


class State(enum.Enum):
    IDLE = "idle"
    UP = "up"
    AWAY = "away"


class Word(enum.Enum):
    """What an end of a link hears."""

    SAME = "hello, same session"
    OUT_OF_STEP = "the same, out of step"
    OTHER = "hello, any other"
    LOST = "connection lost"
    GIVE_UP = "given up"
    TICK = "tick"


class LinkSession:
    """The link to `neighbour`, seen from `broker`; `incarnation` differs at every start.

    Several for one neighbour, one after the other, take their sessions' `numbers` from one source.
    """

    def __init__(
        self,
        network: str,
        broker: BrokerId,
        neighbour: BrokerId,
        incarnation: int,
        codec: Codec,
        limits: LinkLimits | None = None,
        purpose: Purpose = Purpose.LINK,
        *,
        is_graceful: bool = False,
        spool: Spool | None = None,
        numbers: Iterator[int] | None = None,
    ) -> None:
        """A spool is for systems that are graceful."""
        self.neighbour = neighbour
        self.state = State.IDLE
        self._network = network
        self._broker = broker
        self._codec = codec
        self._limits = limits or LinkLimits()
        self._incarnation = incarnation
        self._purpose = purpose
        self._is_graceful = is_graceful
        self._spool = spool
        self._numbers = count(1) if numbers is None else numbers
        self._name: SessionName = (incarnation, 0)
        self._other: SessionName | None = None
        self._heard: SessionName | None = None  # what the last hello that was taken offered
        self._said: Hello | None = None
        self._round_trip_us = 0
        self._changed_us = 0
        self._outbox = self._new_outbox()
        self._unsettled: list[Frame] = []
        self._start()
        self._connect()

    def _new_outbox(self) -> LinkOutbox:
        return LinkOutbox(self._limits, self._spool, self._repeat)

    def _start(self) -> None:
        """Forget what came in the session."""
        self._inbox = LinkInbox(self._limits)

    def _connect(self) -> None:
        """Forget the connection."""
        self._reader = FrameReader(self._limits.longest_frame_bytes)
        self._inbox.reconnect()
        self._outbox.reconnect()
        # What is to be said beside messages, each at most once.
        self._heartbeat: Heartbeat | None = None
        self._echo: Echo | None = None
        self._heard_us = 0

    # --- the connection -----------------------------------------------------------------------

    def hello(self) -> Hello:
        """What to say first on a new connection; the connection before, if any, is lost."""
        self._said = Hello(
            self._network,
            self._broker,
            self._name,
            self._other,
            self.handled,
            self._purpose,
            next(self._numbers),
        )
        return self._said

    def is_overtaken(self, hello: Hello) -> bool:
        """Whether the other end has said a later hello, on a connection that it made later."""
        incarnation, number = self._heard or (0, 0)
        return hello.session[0] == incarnation and hello.begins < number

    def connected(self, hello: Hello, now_us: int) -> list[LinkChanged]:
        """Both ends have said hello; what changed for the broker.

        WireError when they cannot go on by what they said: close, and try anew.
        """
        said = self._said
        now = (self._name, self._other, self.handled)
        if said is None or (said.session, said.other, said.handled) != now:
            raise self._changed_meanwhile()
        if hello.session != said.other or hello.other != said.session:
            return self._hear(Word.OTHER, said, hello, now_us)
        outbox = self._outbox
        in_step = outbox.handled <= hello.handled <= outbox.sent
        return self._hear(Word.SAME if in_step else Word.OUT_OF_STEP, said, hello, now_us)

    def _hear(self, word: Word, *about: Any) -> list[LinkChanged]:
        """What the table says."""
        do, then = LIFE[self.state, word]
        if isinstance(then, State):
            self.state = then
        changes: list[LinkChanged] = []
        return changes if do is None else [*getattr(self, do.__name__)(*about)]

    def _changed_meanwhile(self) -> WireError:
        return WireError("the session changed while the connection was made")

    def _refuse(self, said: Hello, hello: Hello, now_us: int) -> list[LinkChanged]:
        """Refused."""
        raise self._changed_meanwhile()

    def _fall_out(self, said: Hello, hello: Hello, now_us: int) -> list[LinkChanged]:
        """Refused; given up, or parked."""
        problem = f"{hello.handled} messages cannot be handled, {self._outbox.sent} were sent"
        changes: list[LinkChanged] = []
        if self._spool is None:
            changes = self.give_up()
        else:
            self._park()
        raise OutOfStepError(problem, changes)

    def _connected(self, hello: Hello, now_us: int) -> None:
        self._said = None
        self._heard = (hello.session[0], hello.begins)
        self._connect()
        self._heard_us = now_us

    def _go_on(self, said: Hello, hello: Hello, now_us: int) -> list[LinkChanged]:
        """The rest is sent again."""
        self._connected(hello, now_us)
        self._outbox.handle(hello.handled)
        self._inbox.say_again()
        return []

    def _begin(self, said: Hello, hello: Hello, now_us: int) -> list[LinkChanged]:
        """Link up."""
        self._connected(hello, now_us)
        self._start()
        self._name, self._other = (self._incarnation, said.begins), self._heard
        self._start_afresh()
        return [LinkChanged(self.neighbour, LinkState.UP)]

    def _begin_again(self, said: Hello, hello: Hello, now_us: int) -> list[LinkChanged]:
        """Link up, as it has forgotten all."""
        up = self._begin(said, hello, now_us)
        return up if self._is_graceful else [LinkChanged(self.neighbour, LinkState.FAILED), *up]

    def _start_afresh(self) -> None:
        """Nothing is under way in the new session but what somebody waits for."""
        frames = self._outbox.assured()
        self._outbox = self._new_outbox()
        self._outbox.is_gate_closed = self._is_graceful
        if not self._is_graceful:
            self._take_back(frames)
            return
        if self._spool is not None and not self._spool.is_empty:
            self._spool.rewind(self._again(frames))
            return
        for data, custody in self._again(frames):
            self._outbox.put(data, custody, passes=False)
            custody.settle()

    def _again(self, frames: Iterable[Frame]) -> list[tuple[bytes, Custody]]:
        """What is to be sent again of some frames."""
        waited_for = self._waited_for(frames)
        return [(self._codec.encode(carrier), custody) for carrier, custody in waited_for]

    def _waited_for(self, frames: Iterable[Frame]) -> list[tuple[Carrier, Custody]]:
        """What somebody waits for in some frames, marked; the rest is settled, wherever it is."""
        found = []
        for frame in frames:
            assert frame.custody is not None
            carrier = self._repeated(frame.data)
            if carrier.publications:
                found.append((carrier, frame.custody))
            else:
                frame.custody.settle()
        return found

    def _repeated(self, frame: bytes) -> Carrier:
        message = self._codec.decode(frame[LENGTH_BYTES:])
        assert isinstance(message, Carrier)
        return repeated(message)

    def _repeat(self, frame: bytes) -> bytes:
        return self._codec.encode(self._repeated(frame))

    def open_gate(self) -> None:
        """The other end has said its table, and can take publications."""
        self._outbox.open_gate()

    def lost(self, now_us: int) -> None:
        """The connection is gone; what was not taken yet will come again."""
        self._said = None
        self._connect()
        self._hear(Word.LOST, now_us)

    def _wait(self, now_us: int) -> list[LinkChanged]:
        """Waits."""
        self._changed_us = now_us
        return []

    def expect(self, now_us: int) -> None:
        """The other end had a link to this one before it started: wait as if it had just gone."""
        assert self._spool is not None
        assert self.state is State.IDLE
        self.state, self._changed_us = State.AWAY, now_us
        self._park()

    def _park(self) -> None:
        """Forget the session, and have on disk what somebody waits for."""
        assert self._spool is not None
        frames = self._outbox.assured()
        self._outbox = self._new_outbox()
        self._outbox.is_parked = True
        self._spool.rewind(self._again(frames))
        self._begin_anew()
        self._start()

    def _begin_anew(self) -> None:
        """From now on this end is in no session with the other."""
        self._name, self._other = (self._incarnation, next(self._numbers)), None

    def give_up(self) -> list[LinkChanged]:
        """End the session: the next connection begins a fresh one."""
        return self._hear(Word.GIVE_UP)

    def _give_up(self) -> list[LinkChanged]:
        """Link down."""
        self._forget_all()
        return [LinkChanged(self.neighbour, LinkState.FAILED)]

    def _forget_all(self) -> list[LinkChanged]:
        """A new name."""
        self._begin_anew()
        frames, self._outbox = self._outbox.assured(), self._new_outbox()
        self._start()
        self._connect()
        self._take_back(frames)
        return []

    def _take_back(self, frames: Iterable[Frame]) -> None:
        """These were not settled; errands among them are asked again elsewhere."""
        self._unsettled += [each for each in frames if not isinstance(each.custody, Errand)]

    def returned(self) -> list[tuple[Carrier, Custody]]:
        """What was not settled when a session ended, marked, oldest first; each is said once.

        Each custody is to be settled when what it was for has been seen to.
        """
        frames, self._unsettled = self._unsettled, []
        return self._waited_for(frames)

    # --- what goes out ------------------------------------------------------------------------

    @property
    def is_full(self) -> bool:
        """Whether whoever feeds the link must wait."""
        return self._outbox.is_full

    @property
    def buffered_bytes(self) -> int:
        """What is kept because the other end has not handled it, or has not settled it."""
        return self._outbox.bytes

    def unsettled(self) -> list[bytes]:
        """The frames that are kept, oldest first."""
        return [frame.data for frame in self._outbox]

    def send(self, message: Message, custody: Custody | None = None) -> bool:
        """Keep a message and send it when there is room; False when the link must be given up.

        `custody` is extended, and settled when the message is, or is gone.  Without a session the
        message goes nowhere.  WireError when it cannot be written.
        """
        if self.state is State.IDLE:
            return True
        passes = message.introduces
        for frame in self._frames(message):
            self._outbox.put(frame, custody, passes=passes)
        return not self._outbox.is_overfull

    def _frames(self, message: Message) -> list[bytes]:
        longest = self._limits.longest_frame_bytes
        try:
            frame = self._codec.encode(message)
            if len(frame) - LENGTH_BYTES > longest:
                raise WireError(f"{type(message).__name__} takes {len(frame)} bytes, not {longest}")
            return [frame]
        except WireError:
            if not isinstance(message, Carrier) or len(message.publications) < 2:
                raise
        # Too long together: what goes into one here came in several.
        middle = len(message.publications) // 2
        halves = message.publications[:middle], message.publications[middle:]
        return [frame for half in halves for frame in self._frames(message.with_publications(half))]

    def to_write(self) -> bytes:
        """Bytes for the connection: what is owed, and messages as far as the window allows."""
        if self.state is not State.UP:
            return b""
        owed = (self._inbox.acknowledgement(), self._heartbeat, self._echo)
        parts = [self._codec.encode(control) for control in owed if control is not None]
        self._heartbeat = self._echo = None
        return b"".join(parts + self._outbox.take())

    # --- what comes in ------------------------------------------------------------------------

    def receive(self, data: bytes, now_us: int) -> None:
        """Bytes of the connection; WireError when they make no sense: close the connection."""
        self._heard_us = now_us
        for body in self._reader.feed(data):
            self._take_in(self._codec.decode(body), len(body), now_us)

    def _take_in(self, message: Any, size: int, now_us: int) -> None:
        if not isinstance(message, Control):
            self._inbox.put(message, size)
            return
        match message:
            case Acknowledge(handled, settled):
                outbox = self._outbox
                if not 0 <= handled - outbox.handled <= outbox.in_flight:
                    raise WireError(f"an acknowledgement of {handled} messages makes no sense")
                outbox.handle(handled)
                outbox.settle(settled)
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
        return self._inbox.take()

    def take_run(self, most: int) -> list[Message]:
        """As `take`, of the messages that came next: so many carriers, or one of another kind."""
        return self._inbox.take_run(most)

    @property
    def has_come(self) -> bool:
        """Whether there is something to take."""
        return self._inbox.has_come

    @property
    def handled(self) -> int:
        """How many messages of the session were taken."""
        return self._inbox.handled

    def owe(self, first: int, last: int) -> Debt:
        """Of what was taken, these messages are to be settled."""
        return self._inbox.owe(first, last)

    def settle(self, debt: Debt) -> bool:
        """Tell the other end that these are settled; False if they came in an earlier session."""
        return self._inbox.settle(debt)

    # --- time ---------------------------------------------------------------------------------

    @property
    def delay_us(self) -> int | None:
        """How long a message takes to the other end, None when that is not known.

        Half of the last heartbeat's round trip, which waited behind the messages sent before.
        """
        return self._round_trip_us // 2 if self._round_trip_us else None

    def tick(self, now_us: int) -> list[LinkChanged]:
        """To be called about every second; asks the other end whether it is there."""
        return self._hear(Word.TICK, now_us)

    def _ask(self, now_us: int) -> list[LinkChanged]:
        """Heartbeat."""
        self._heartbeat = Heartbeat(now_us)
        return []

    def _lose_patience(self, now_us: int) -> list[LinkChanged]:
        """In time parked, given up."""
        away_us, spool = now_us - self._changed_us, self._spool
        if spool is None:
            return self.give_up() if away_us > self._limits.give_up_us else []
        if away_us > spool.keep_us:
            spool.clear()
            return self.give_up()
        if away_us > self._limits.park_us and not self._outbox.is_parked:
            self._park()
        return []

    def excuse(self, missed_us: int) -> None:
        """This end did not look for so long; it does not count against the other."""
        self._heard_us += missed_us
        self._changed_us += missed_us

    def is_silent(self, now_us: int) -> bool:
        """Whether nothing came for so long that the connection must be dead."""
        return self.state is State.UP and now_us - self._heard_us > self._limits.silence_us


def _life_cycle() -> LifeCycle[State, Word]:
    link, refused = LinkSession, does(LinkSession._refuse)
    given_up = does(link._give_up, State.IDLE)
    rows = {  # in the order of the states: idle, up, away
        Word.SAME: (refused, refused, does(link._go_on, State.UP)),
        Word.OUT_OF_STEP: (refused, refused, does(link._fall_out)),
        Word.OTHER: (does(link._begin, State.UP), refused, does(link._begin_again, State.UP)),
        Word.LOST: (IGNORED, does(link._wait, State.AWAY), IGNORED),
        Word.GIVE_UP: (does(link._forget_all), given_up, given_up),
        Word.TICK: (IGNORED, does(link._ask), does(link._lose_patience)),
    }
    return LifeCycle(State, Word, rows)


LIFE = _life_cycle()
