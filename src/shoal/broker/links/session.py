"""One end of a link that outlives its connections: exactly once, in order, bounded.

Two ends form a session. Each numbers its messages, keeps them until the other end has handled them,
and after a lost connection continues where the other end stopped. Every hello offers a session with
a new name, for the case that the two are not in one: so a forgotten session never has the name of a
remembered one, whichever hellos arrive, and when. An end without the session (it restarted, or gave
the link up) starts a fresh one: the broker gets `LinkChanged`, and repairs its tables. Assured
messages (`shoal.broker.ack_tracker`) are kept until the other end reports them settled, and move to
a fresh session.

A pure machine: the driver passes in bytes and the time, writes the bytes of `to_write`, and passes
the messages of `take` and the changes to the broker.

| input | idle | up | away | ending | parting | gone |
| --- | --- | --- | --- | --- | --- | --- |
| hello, same session | refused | refused | goes on → up | refused | goes on → ending | over |
| the same, out of step | refused | refused | failed or spools | refused | failed or spools | over |
| another hello | link up → up | refused | link up anew → up | refused | failed or anew | refused |
| another, to end | failed or anew | refused | failed or anew | refused | failed or anew | refused |
| connection lost | | waits → away | | waits → parting | | |
| given up | new name | failed → idle | failed → idle | failed → gone | failed → gone | |
| tick | | heartbeat | spools or failed | heartbeat | spools or failed | |
| ends | ended → gone | sends Ends → ending | sends Ends → parting | sends Ends | | |
| all settled | | refused | | ended → gone | | |
| no link at the other end | failed → gone | | failed → gone | | failed → gone | |

Either end may end a link for good (`ending.py`). A link whose ends are not in one session any more
cannot be settled, and has failed instead; unless frames are on disk for the other end, which are
settled over a fresh session.

A restart of the other end is reported as link up without a link down before; to systems that cannot
handle that (`is_graceful` is False) as down and up, and unsettled frames come back (`returned`), as
they do when a link is given up. A refused connection is made anew.

With a spool an end whose neighbour is disconnected for `park_us` ends its session by itself,
without a report to the broker: assured frames are then on disk (`spool.py`), no publisher waits for
them any longer, and the next hello begins a fresh session. It gives up after the spool's `keep_us`.

`shoal.simulation.links.reliable` is for links that lose single messages, as the simulator's do.
Over TCP a connection loses nothing but its end, so this machine needs no retransmission timers, and
the agreement on where to continue, or to start afresh, has no place in that one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

from shoal.broker.ack_tracker import AckTracker
from shoal.broker.effects import LinkChanged, LinkState
from shoal.broker.life_cycle import IGNORED, LifeCycle, does
from shoal.broker.links.controls import (
    Ends,
    Hello,
    Over,
    Purpose,
    RefuseConnection,
    Rests,
    check_control,
)
from shoal.broker.links.names import Names
from shoal.broker.links.outbox import LinkLimits
from shoal.broker.links.protocol import PROTOCOL
from shoal.broker.links.spool import Spool
from shoal.broker.links.states import LinkError, LinkInput, LinkSessionState, OutOfStepError
from shoal.broker.links.traffic import LinkTraffic
from shoal.broker.messages import Message
from shoal.broker.wire import Codec, WireError
from shoal.model import BrokerId


class LinkSession(LinkTraffic):
    """The link to `neighbour`, seen from `broker`; `incarnation` differs at every start.

    Successive links to one neighbour take their sessions' `numbers` from one source.
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
        """Only graceful systems may have a spool; `opened_us` is as in `Hello`."""
        self.neighbour = neighbour
        self._protocol = protocol
        self.state = LinkSessionState.IDLE
        super().__init__(codec, limits or LinkLimits(), spool, opened_us)
        self._network = network
        self.broker = broker
        self._purpose = purpose
        self._is_graceful = is_graceful
        self._names = Names(incarnation, count(1) if numbers is None else numbers)
        self._changed_us = 0
        # Whether the neighbour counts as disconnected, though it connects now and then.
        self.is_quarantined = False

    # --- the connection -----------------------------------------------------------------------

    def hello(self) -> Hello:
        """The first control for a new connection; an earlier connection is lost."""
        hello = Hello(
            self._protocol,
            self._network,
            self.broker,
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
        return self.state in (LinkSessionState.ENDING, LinkSessionState.PARTING)

    def is_overtaken(self, hello: Hello) -> bool:
        """Whether the other end has sent a later hello, on a later connection."""
        return self._names.is_overtaken(hello)

    def connected(self, hello: Hello, now_us: int) -> list[LinkChanged]:
        """Handle the hellos of both ends; returns the changes for the broker.

        WireError when they do not agree: close, and try anew.
        """
        said = self._names.sent_hello(self.handled, self._ends)
        if said is None:
            raise self._changed_meanwhile()
        if not self.knows(hello):
            word = LinkInput.TO_END if hello.ends else LinkInput.OTHER
            return self._hear(word, said, hello, now_us)
        outbox = self._outbox
        in_step = outbox.handled <= hello.handled <= outbox.sent
        changes = self._hear(
            LinkInput.SAME if in_step else LinkInput.OUT_OF_STEP, said, hello, now_us
        )
        return [*changes, *self._hear(LinkInput.END)] if hello.ends else changes

    def knows(self, hello: Hello) -> bool:
        """Whether the other end is in the same session."""
        return self._names.are_in(hello)

    def _hear(self, word: LinkInput, *about: Any) -> list[LinkChanged]:
        """Apply the table."""
        do, then = LIFE[self.state, word]
        if isinstance(then, LinkSessionState):
            self.state = then
        changes: list[LinkChanged] = []
        return changes if do is None else [*getattr(self, do.__name__)(*about)]

    def _changed_meanwhile(self) -> WireError:
        return WireError("the session changed while the connection was made")

    def _refuse_hello(self, said: Hello, hello: Hello, now_us: int) -> list[LinkChanged]:
        """Refused."""
        raise self._changed_meanwhile()

    def _make_no_sense(self, now_us: int) -> list[LinkChanged]:
        """Refused."""
        raise WireError("the end of a link that is not ending")

    def _fall_out(self, said: Hello, hello: Hello, now_us: int) -> list[LinkChanged]:
        """Failed or spools."""
        problem = f"{hello.handled} messages cannot be handled, {self._outbox.sent} were sent"
        changes: list[LinkChanged] = []
        if self._spool is None:
            changes = self.give_up()
        else:
            self._begin_spooling()
        raise OutOfStepError(problem, changes)

    def _connected(self, hello: Hello, now_us: int) -> None:
        self._names.take(hello)
        self._connect()
        self._pulse.heard_us = now_us

    def _resume_session(self, said: Hello, hello: Hello, now_us: int) -> list[LinkChanged]:
        """Goes on."""
        self._connected(hello, now_us)
        self._outbox.handle(hello.handled)
        self._inbox.acknowledge_again()
        return []

    def _go_on_ending(self, said: Hello, hello: Hello, now_us: int) -> list[LinkChanged]:
        """Goes on."""
        self._resume_session(said, hello, now_us)
        self._ending.say()
        return []

    def _say_over(self, said: Hello, hello: Hello, now_us: int) -> list[LinkChanged]:
        """Over."""
        self._connected(hello, now_us)
        self._ending.end()
        return []

    def _begin_session(self, said: Hello, hello: Hello, now_us: int) -> list[LinkChanged]:
        """Link up."""
        self._connected(hello, now_us)
        self._start()
        self._names.begin(said)
        self._start_afresh()
        is_lasting = self.opened_us is not None or hello.opened_us is not None
        return [LinkChanged(self.neighbour, LinkState.UP, is_lasting)]

    def _begin_again(self, said: Hello, hello: Hello, now_us: int) -> list[LinkChanged]:
        """Link up anew."""
        up = self._begin_session(said, hello, now_us)
        return up if self._is_graceful else [LinkChanged(self.neighbour, LinkState.FAILED), *up]

    def _meet_to_end(self, said: Hello, hello: Hello, now_us: int) -> list[LinkChanged]:
        """Failed or anew.

        Frames on disk for the other end are settled over a fresh session.
        """
        if self._spool is None:
            self.state = LinkSessionState.GONE
            return self._fail_session()
        up = self._begin_session(said, hello, now_us)
        self.state = LinkSessionState.ENDING
        self._ending.say()
        return up

    def _start_afresh(self) -> None:
        """Begin a new session with the assured frames."""
        frames = self._outbox.assured()
        self._outbox = self._new_outbox()
        self._outbox.is_gate_closed = self._is_graceful
        if not self._is_graceful:
            self._take_back(frames)
            return
        if self._spool is not None and not self._spool.is_empty:
            self._spool.rewind(self._frames.again(frames))
            return
        for data, ack_tracker in self._frames.again(frames):
            self._outbox.put(data, ack_tracker, passes=False)
            ack_tracker.settle()

    def lost(self, now_us: int) -> None:
        """Handle the end of the connection; messages that were not taken will come again."""
        self._names.lose()
        self._connect()
        self._hear(LinkInput.LOST, now_us)

    def _begin_absence(self, now_us: int) -> list[LinkChanged]:
        """Waits."""
        if not self.is_quarantined:
            self._changed_us = now_us
        return []

    def expect(self, now_us: int) -> None:
        """Wait for a former neighbour after a restart, as if it had just disconnected."""
        assert self._spool is not None
        assert self.state is LinkSessionState.IDLE
        self.state, self._changed_us = LinkSessionState.AWAY, now_us
        self._begin_spooling()

    def _begin_spooling(self) -> None:
        """Forget the session, and spool the assured frames."""
        assert self._spool is not None
        frames = self._outbox.assured()
        self._outbox = self._new_outbox()
        self._outbox.is_spooling = True
        self._spool.rewind(self._frames.again(frames))
        self._names.begin_anew()
        self._start()

    def give_up(self) -> list[LinkChanged]:
        """End the session: the next connection begins a fresh one."""
        return self._hear(LinkInput.GIVE_UP)

    def _fail_session(self) -> list[LinkChanged]:
        """Failed."""
        self._forget_all()
        return [LinkChanged(self.neighbour, LinkState.FAILED, self.opened_us is not None)]

    def _forget_all(self) -> list[LinkChanged]:
        """New name."""
        self._names.begin_anew()
        frames, self._outbox = self._outbox.assured(), self._new_outbox()
        self._start()
        self._connect()
        self._take_back(frames)
        return []

    # --- the end ------------------------------------------------------------------------------

    def end(self) -> list[LinkChanged]:
        """End the link for good, once all its messages are settled or recalled.

        Messages at the gate come back (`returned`), unless a spool has them.
        """
        self._ending.want()
        changes = self._hear(LinkInput.END)
        if self._spool is None:
            # The other end will not get any tables now.
            self._take_back(self._outbox.empty_gate())
        return changes

    def vanish(self) -> list[LinkChanged]:
        """Handle the other end's report that the link has ended: it is not settled any more."""
        if self._spool is not None and self.state is not LinkSessionState.GONE:
            self._spool.clear()
        return self._hear(LinkInput.NONE)

    def may_be_forgotten(self, now_us: int) -> bool:
        """Whether the link has ended, and the other end will not ask about it any more."""
        if self.state is not LinkSessionState.GONE:
            return False
        return self._ending.is_known or now_us - self._changed_us > self._limits.give_up_us

    def _begin_to_end(self) -> list[LinkChanged]:
        """Sends Ends."""
        self._ending.say()
        return []

    def _end_idle(self) -> list[LinkChanged]:
        """Ended."""
        self._ending.is_known = True
        return [LinkChanged(self.neighbour, LinkState.ENDED)]

    def _end_session(self, now_us: int) -> list[LinkChanged]:
        """Ended."""
        self._changed_us = now_us
        frames, self._outbox = self._outbox.assured(), self._new_outbox()
        self._take_back(frames)
        self._ending.end()
        return [LinkChanged(self.neighbour, LinkState.ENDED)]

    # --- bytes --------------------------------------------------------------------------------

    def send(self, message: Message, ack_tracker: AckTracker | None = None) -> bool:
        """Keep a message and send it when there is room; False when the link must be given up.

        `ack_tracker` is extended, and settled when the message is settled or dropped. Without a
        session the message is dropped. WireError when it cannot be encoded.
        """
        if self.state in (LinkSessionState.IDLE, LinkSessionState.GONE):
            return True
        return self._put(message, ack_tracker)

    def to_write(self) -> bytes:
        """The bytes to write on the connection, if there is one."""
        if self.state in (LinkSessionState.IDLE, LinkSessionState.AWAY, LinkSessionState.PARTING):
            return b""
        if self.state is LinkSessionState.ENDING and self._is_settled:
            self._ending.rest()
        return self._take_out(has_ended=self.state is LinkSessionState.GONE)

    def receive(self, data: bytes, now_us: int) -> list[LinkChanged]:
        """Take bytes of the connection; returns the changes for the broker.

        LinkError when they are invalid: pass on the messages before the error, then close the
        connection. Otherwise a link that damages something in each read would not advance.
        """
        self._pulse.heard_us = now_us
        changes: list[LinkChanged] = []
        try:
            for body in self._reader.feed(data):
                check_control(body)
                message = self._codec.decode(body)
                if not self._take_in(message, len(body), now_us):
                    changes += self._on_control(message, now_us)
        except WireError as error:
            raise LinkError(str(error), changes) from None
        return changes

    def _on_control(self, control: Any, now_us: int) -> list[LinkChanged]:
        match control:
            case Ends(is_recalled):
                self._hear_of_the_end(is_recalled)
                return self._hear(LinkInput.END)
            case Rests():
                return self._hear(LinkInput.OVER, now_us) if self._is_settled else []
            case Over():
                self._ending.is_known = True
                return self._hear(LinkInput.OVER, now_us)
            case RefuseConnection(reason):
                raise WireError(f"refused by the other end: {reason}")
            case _:
                raise WireError(f"{type(control).__name__} in the middle of a session")

    # --- time ---------------------------------------------------------------------------------

    def tick(self, now_us: int) -> list[LinkChanged]:
        """Handle the time, about every second; sends a heartbeat."""
        return self._hear(LinkInput.TICK, now_us)

    def _send_heartbeat(self, now_us: int) -> list[LinkChanged]:
        """Heartbeat."""
        self._pulse.beat(now_us)
        return []

    def _check_timeout(self, now_us: int) -> list[LinkChanged]:
        """Spools or failed."""
        away_us, spool = now_us - self._changed_us, self._spool
        if spool is None:
            return self.give_up() if away_us > self._limits.give_up_us else []
        if away_us > spool.keep_us:
            spool.clear()
            return self.give_up()
        is_away = self.is_quarantined or away_us > self._limits.park_us
        if is_away and not self._outbox.is_spooling:
            self._begin_spooling()
        return []

    def discount_pause(self, missed_us: int) -> None:
        """Do not count a time in which this end did not read as silence of the other end."""
        self._pulse.heard_us += missed_us
        self._changed_us += missed_us

    def is_silent(self, now_us: int) -> bool:
        """Whether the connection must be dead: nothing was received for too long."""
        is_up = self.state in (LinkSessionState.UP, LinkSessionState.ENDING)
        return is_up and now_us - self._pulse.heard_us > self._limits.silence_us


def _life_cycle() -> LifeCycle[LinkSessionState, LinkInput]:
    link, refused = LinkSession, does(LinkSession._refuse_hello)
    go_on, go_on_ending = (
        does(link._resume_session, LinkSessionState.UP),
        does(link._go_on_ending, LinkSessionState.ENDING),
    )
    fall_out, over = does(link._fall_out), does(link._say_over)
    begin, begin_again = (
        does(link._begin_session, LinkSessionState.UP),
        does(link._begin_again, LinkSessionState.UP),
    )
    to_end, nonsense = does(link._meet_to_end), does(link._make_no_sense)
    away, parting = (
        does(link._begin_absence, LinkSessionState.AWAY),
        does(link._begin_absence, LinkSessionState.PARTING),
    )
    forget, down = does(link._forget_all), does(link._fail_session, LinkSessionState.IDLE)
    gone, ask, tire = (
        does(link._fail_session, LinkSessionState.GONE),
        does(link._send_heartbeat),
        does(link._check_timeout),
    )
    end_idle, ended = (
        does(link._end_idle, LinkSessionState.GONE),
        does(link._end_session, LinkSessionState.GONE),
    )
    ending, leaving = (
        does(link._begin_to_end, then)
        for then in (LinkSessionState.ENDING, LinkSessionState.PARTING)
    )
    none, acknowledge_again = IGNORED, does(link._begin_to_end)
    rows = {  # in the order of the states: idle, up, away, ending, parting, gone
        LinkInput.SAME: (refused, refused, go_on, refused, go_on_ending, over),
        LinkInput.OUT_OF_STEP: (refused, refused, fall_out, refused, fall_out, over),
        LinkInput.OTHER: (begin, refused, begin_again, refused, to_end, refused),
        LinkInput.TO_END: (to_end, refused, to_end, refused, to_end, refused),
        LinkInput.LOST: (none, away, none, parting, none, none),
        LinkInput.GIVE_UP: (forget, down, down, gone, gone, none),
        LinkInput.TICK: (none, ask, tire, ask, tire, none),
        LinkInput.END: (end_idle, ending, leaving, acknowledge_again, none, none),
        LinkInput.OVER: (none, nonsense, none, ended, none, none),
        LinkInput.NONE: (gone, none, gone, none, gone, none),
    }
    return LifeCycle(LinkSessionState, LinkInput, rows)


LIFE = _life_cycle()
