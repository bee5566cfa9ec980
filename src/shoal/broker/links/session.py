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

| input | idle | up | away | ending | parting | gone |
| --- | --- | --- | --- | --- | --- | --- |
| hello, same session | refused | refused | goes on → up | refused | goes on → ending | over |
| the same, out of step | refused | refused | failed or parks | refused | failed or parks | over |
| another hello | link up → up | refused | link up anew → up | refused | failed or anew | refused |
| another, to end | failed or anew | refused | failed or anew | refused | failed or anew | refused |
| connection lost | | waits → away | | waits → parting | | |
| given up | a new name | failed → idle | failed → idle | failed → gone | failed → gone | |
| tick | | heartbeat | parks or failed | heartbeat | parks or failed | |
| to be ended | ended → gone | says so → ending | says so → parting | says so | | |
| all is settled | | refused | | ended → gone | | |
| the other end has none | failed → gone | | failed → gone | | failed → gone | |

A link may be ended for good, by either end (`ending.py`).  One whose ends are not in one session
any more cannot be settled, and has failed instead; unless something is on disk for the other end,
which is settled over a fresh session.

That the other end has forgotten all is told as link up without a link down before; where the system
cannot do with that (`is_graceful` is False) as down and up, and what was in custody comes back
(`returned`), as it does when a link is given up.  Refused is a connection: it is made anew.

With a spool an end that is away for `park_us` ends its session by itself, without a word to the
broker: what somebody waits for is then on disk (`spool.py`), nobody waits for it any longer, and
the next hello begins a fresh session.  It gives up after the spool's `keep_us`.

`shoal.simulation.links.reliable` is for links that lose single messages, as the simulator's do.
Over TCP a connection loses nothing but its end, so this machine needs no timers to resend, and what
it needs instead (agreeing on where to go on, or to start afresh) has no place there.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

from shoal.broker.custody import Custody
from shoal.broker.effects import LinkChanged, LinkState
from shoal.broker.life_cycle import IGNORED, LifeCycle, does
from shoal.broker.links.controls import Ends, Hello, Over, Purpose, Refuse, Rests, check_control
from shoal.broker.links.names import Names
from shoal.broker.links.outbox import LinkLimits
from shoal.broker.links.protocol import PROTOCOL
from shoal.broker.links.spool import Spool
from shoal.broker.links.states import LinkError, OutOfStepError, State, Word
from shoal.broker.links.traffic import LinkTraffic
from shoal.broker.messages import Message
from shoal.broker.wire import Codec, WireError
from shoal.model import BrokerId


class LinkSession(LinkTraffic):
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
        opened_us: int | None = None,
        protocol: int = PROTOCOL,
    ) -> None:
        """A spool is for systems that are graceful; `opened_us` is as in `Hello`."""
        self.neighbour = neighbour
        self._protocol = protocol
        self.state = State.IDLE
        super().__init__(codec, limits or LinkLimits(), spool, opened_us)
        self._network = network
        self._broker = broker
        self._purpose = purpose
        self._is_graceful = is_graceful
        self._names = Names(incarnation, count(1) if numbers is None else numbers)
        self._changed_us = 0
        # Whether the neighbour counts as away, though it connects now and then.
        self.is_quarantined = False

    # --- the connection -----------------------------------------------------------------------

    def hello(self) -> Hello:
        """What to say first on a new connection; the connection before, if any, is lost."""
        hello = Hello(
            self._protocol,
            self._network,
            self._broker,
            self._names.own,
            self._names.other,
            self.handled,
            self._purpose,
            self._names.next_number(),
            self._ends,
            self.opened_us,
        )
        return self._names.say(hello)

    @property
    def _ends(self) -> bool:
        """Whether the link is only to be settled, and then to end."""
        return self.state in (State.ENDING, State.PARTING)

    def is_overtaken(self, hello: Hello) -> bool:
        """Whether the other end has said a later hello, on a connection that it made later."""
        return self._names.is_overtaken(hello)

    def connected(self, hello: Hello, now_us: int) -> list[LinkChanged]:
        """Both ends have said hello; what changed for the broker.

        WireError when they cannot go on by what they said: close, and try anew.
        """
        said = self._names.what_was_said(self.handled, self._ends)
        if said is None:
            raise self._changed_meanwhile()
        if not self.knows(hello):
            word = Word.TO_END if hello.ends else Word.OTHER
            return self._hear(word, said, hello, now_us)
        outbox = self._outbox
        in_step = outbox.handled <= hello.handled <= outbox.sent
        changes = self._hear(Word.SAME if in_step else Word.OUT_OF_STEP, said, hello, now_us)
        return [*changes, *self._hear(Word.END)] if hello.ends else changes

    def knows(self, hello: Hello) -> bool:
        """Whether the other end is in the same session."""
        return self._names.are_in(hello)

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

    def _make_no_sense(self, now_us: int) -> list[LinkChanged]:
        """Refused."""
        raise WireError("the end of a link that nobody has ended")

    def _fall_out(self, said: Hello, hello: Hello, now_us: int) -> list[LinkChanged]:
        """Failed or parks."""
        problem = f"{hello.handled} messages cannot be handled, {self._outbox.sent} were sent"
        changes: list[LinkChanged] = []
        if self._spool is None:
            changes = self.give_up()
        else:
            self._park()
        raise OutOfStepError(problem, changes)

    def _connected(self, hello: Hello, now_us: int) -> None:
        self._names.take(hello)
        self._connect()
        self._pulse.heard_us = now_us

    def _go_on(self, said: Hello, hello: Hello, now_us: int) -> list[LinkChanged]:
        """Goes on."""
        self._connected(hello, now_us)
        self._outbox.handle(hello.handled)
        self._inbox.say_again()
        return []

    def _go_on_ending(self, said: Hello, hello: Hello, now_us: int) -> list[LinkChanged]:
        """Goes on."""
        self._go_on(said, hello, now_us)
        self._ending.say()
        return []

    def _say_over(self, said: Hello, hello: Hello, now_us: int) -> list[LinkChanged]:
        """Over."""
        self._connected(hello, now_us)
        self._ending.end()
        return []

    def _begin(self, said: Hello, hello: Hello, now_us: int) -> list[LinkChanged]:
        """Link up."""
        self._connected(hello, now_us)
        self._start()
        self._names.begin(said)
        self._start_afresh()
        opened = [each for each in (self.opened_us, hello.opened_us) if each is not None]
        return [LinkChanged(self.neighbour, LinkState.UP, max(opened, default=None))]

    def _begin_again(self, said: Hello, hello: Hello, now_us: int) -> list[LinkChanged]:
        """Link up anew."""
        up = self._begin(said, hello, now_us)
        return up if self._is_graceful else [LinkChanged(self.neighbour, LinkState.FAILED), *up]

    def _meet_to_end(self, said: Hello, hello: Hello, now_us: int) -> list[LinkChanged]:
        """Failed or anew.

        What is on disk for the other end is settled over a fresh session.
        """
        if self._spool is None:
            self.state = State.GONE
            return self._give_up()
        up = self._begin(said, hello, now_us)
        self.state = State.ENDING
        self._ending.say()
        return up

    def _start_afresh(self) -> None:
        """Nothing is under way in the new session but what somebody waits for."""
        frames = self._outbox.assured()
        self._outbox = self._new_outbox()
        self._outbox.is_gate_closed = self._is_graceful
        if not self._is_graceful:
            self._take_back(frames)
            return
        if self._spool is not None and not self._spool.is_empty:
            self._spool.rewind(self._frames.again(frames))
            return
        for data, custody in self._frames.again(frames):
            self._outbox.put(data, custody, passes=False)
            custody.settle()

    def lost(self, now_us: int) -> None:
        """The connection is gone; what was not taken yet will come again."""
        self._names.lose()
        self._connect()
        self._hear(Word.LOST, now_us)

    def _wait(self, now_us: int) -> list[LinkChanged]:
        """Waits."""
        if not self.is_quarantined:
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
        self._spool.rewind(self._frames.again(frames))
        self._names.begin_anew()
        self._start()

    def give_up(self) -> list[LinkChanged]:
        """End the session: the next connection begins a fresh one."""
        return self._hear(Word.GIVE_UP)

    def _give_up(self) -> list[LinkChanged]:
        """Failed."""
        self._forget_all()
        return [LinkChanged(self.neighbour, LinkState.FAILED, self.opened_us)]

    def _forget_all(self) -> list[LinkChanged]:
        """A new name."""
        self._names.begin_anew()
        frames, self._outbox = self._outbox.assured(), self._new_outbox()
        self._start()
        self._connect()
        self._take_back(frames)
        return []

    # --- the end ------------------------------------------------------------------------------

    def end(self) -> list[LinkChanged]:
        """End the link for good, once all that was sent over it is settled, or is recalled.

        What waits at the gate comes back (`returned`), unless a spool has it.
        """
        self._ending.want()
        changes = self._hear(Word.END)
        if self._spool is None:
            # The other end will not be told any tables now.
            self._take_back(self._outbox.empty_gate())
        return changes

    def vanish(self) -> list[LinkChanged]:
        """The other end says that the link has ended: it is not settled any more."""
        if self._spool is not None and self.state is not State.GONE:
            self._spool.clear()
        return self._hear(Word.NONE)

    def may_be_forgotten(self, now_us: int) -> bool:
        """Whether the link has ended, and the other end will not ask about it any more."""
        if self.state is not State.GONE:
            return False
        return self._ending.is_known or now_us - self._changed_us > self._limits.give_up_us

    def _begin_to_end(self) -> list[LinkChanged]:
        """Says so."""
        self._ending.say()
        return []

    def _end_idle(self) -> list[LinkChanged]:
        """Ended."""
        self._ending.is_known = True
        return [LinkChanged(self.neighbour, LinkState.ENDED)]

    def _end(self, now_us: int) -> list[LinkChanged]:
        """Ended."""
        self._changed_us = now_us
        frames, self._outbox = self._outbox.assured(), self._new_outbox()
        self._take_back(frames)
        self._ending.end()
        return [LinkChanged(self.neighbour, LinkState.ENDED)]

    # --- bytes --------------------------------------------------------------------------------

    def send(self, message: Message, custody: Custody | None = None) -> bool:
        """Keep a message and send it when there is room; False when the link must be given up.

        `custody` is extended, and settled when the message is, or is gone.  Without a session the
        message goes nowhere.  WireError when it cannot be written.
        """
        if self.state in (State.IDLE, State.GONE):
            return True
        return self._put(message, custody)

    def to_write(self) -> bytes:
        """Bytes for the connection, if there is one."""
        if self.state in (State.IDLE, State.AWAY, State.PARTING):
            return b""
        if self.state is State.ENDING and self._is_settled:
            self._ending.rest()
        return self._take_out(has_ended=self.state is State.GONE)

    def receive(self, data: bytes, now_us: int) -> list[LinkChanged]:
        """Bytes of the connection; what changed for the broker.

        LinkError when they make no sense: hand on the messages that came before that, then close
        the connection.  Else a link of which each read is damaged somewhere would stand still.
        """
        self._pulse.heard_us = now_us
        changes: list[LinkChanged] = []
        try:
            for body in self._reader.feed(data):
                check_control(body)
                message = self._codec.decode(body)
                if not self._take_in(message, len(body), now_us):
                    changes += self._obey(message, now_us)
        except WireError as error:
            raise LinkError(str(error), changes) from None
        return changes

    def _obey(self, control: Any, now_us: int) -> list[LinkChanged]:
        match control:
            case Ends(is_recalled):
                self._hear_of_the_end(is_recalled)
                return self._hear(Word.END)
            case Rests():
                return self._hear(Word.OVER, now_us) if self._is_settled else []
            case Over():
                self._ending.is_known = True
                return self._hear(Word.OVER, now_us)
            case Refuse(reason):
                raise WireError(f"refused by the other end: {reason}")
            case _:
                raise WireError(f"{type(control).__name__} in the middle of a session")

    # --- time ---------------------------------------------------------------------------------

    def tick(self, now_us: int) -> list[LinkChanged]:
        """To be called about every second; asks the other end whether it is there."""
        return self._hear(Word.TICK, now_us)

    def _ask(self, now_us: int) -> list[LinkChanged]:
        """Heartbeat."""
        self._pulse.beat(now_us)
        return []

    def _lose_patience(self, now_us: int) -> list[LinkChanged]:
        """Parks or failed."""
        away_us, spool = now_us - self._changed_us, self._spool
        if spool is None:
            return self.give_up() if away_us > self._limits.give_up_us else []
        if away_us > spool.keep_us:
            spool.clear()
            return self.give_up()
        is_away = self.is_quarantined or away_us > self._limits.park_us
        if is_away and not self._outbox.is_parked:
            self._park()
        return []

    def excuse(self, missed_us: int) -> None:
        """This end did not look for so long; it does not count against the other."""
        self._pulse.heard_us += missed_us
        self._changed_us += missed_us

    def is_silent(self, now_us: int) -> bool:
        """Whether nothing came for so long that the connection must be dead."""
        is_up = self.state in (State.UP, State.ENDING)
        return is_up and now_us - self._pulse.heard_us > self._limits.silence_us


def _life_cycle() -> LifeCycle[State, Word]:
    link, refused = LinkSession, does(LinkSession._refuse)
    go_on, go_on_ending = does(link._go_on, State.UP), does(link._go_on_ending, State.ENDING)
    fall_out, over = does(link._fall_out), does(link._say_over)
    begin, begin_again = does(link._begin, State.UP), does(link._begin_again, State.UP)
    to_end, nonsense = does(link._meet_to_end), does(link._make_no_sense)
    away, parting = does(link._wait, State.AWAY), does(link._wait, State.PARTING)
    forget, down = does(link._forget_all), does(link._give_up, State.IDLE)
    gone, ask, tire = does(link._give_up, State.GONE), does(link._ask), does(link._lose_patience)
    end_idle, ended = does(link._end_idle, State.GONE), does(link._end, State.GONE)
    ending, leaving = (does(link._begin_to_end, then) for then in (State.ENDING, State.PARTING))
    none, say_again = IGNORED, does(link._begin_to_end)
    rows = {  # in the order of the states: idle, up, away, ending, parting, gone
        Word.SAME: (refused, refused, go_on, refused, go_on_ending, over),
        Word.OUT_OF_STEP: (refused, refused, fall_out, refused, fall_out, over),
        Word.OTHER: (begin, refused, begin_again, refused, to_end, refused),
        Word.TO_END: (to_end, refused, to_end, refused, to_end, refused),
        Word.LOST: (none, away, none, parting, none, none),
        Word.GIVE_UP: (forget, down, down, gone, gone, none),
        Word.TICK: (none, ask, tire, ask, tire, none),
        Word.END: (end_idle, ending, leaving, say_again, none, none),
        Word.OVER: (none, nonsense, none, ended, none, none),
        Word.NONE: (gone, none, gone, none, gone, none),
    }
    return LifeCycle(State, Word, rows)


LIFE = _life_cycle()
