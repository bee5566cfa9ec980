"""An exchange of two links without losing, doubling or reordering anything: the quiet ring.

A new link closes a cycle, and another link of it goes.  Only the brokers of the cycle turn tables,
when nothing is under way between them.  The *first* broker and the *last* are the new link's ends.
The last begins; the first decides, as it is the last to agree.

    last -> first   Halt      each takes in only what comes over the cycle, and says it on
    first -> last   Halted    behind all that goes up; beyond the link that goes each agrees
    last -> first   Drained   behind all that goes down; on this side each agrees
    first -> all    Verdict   both ways, up to the link that goes: each turns its tables, goes on

`Halted` and `Drained` bring what a broker's tables must know to turn (`tree/turning.py`), from the
link that goes on.  A broker that has agreed can still be turned either way.  With one message for
each link of the path by which the exchange was decided on, that is five for each.

**Why nothing is lost, doubled or reordered.**  What was taken in before is handled by the old
tables, and no `Drained` overtakes it; what is held back is handled by the new ones, behind the
`Verdict` on every link.  The link that goes is empty then.  Held back means not handled, so who
sent it still has it, and all the brokers beside the cycle see is that this takes a moment.

**When something fails.**  Who has not agreed gives up by itself, and tells all; who has must
be told (`broken_cycle.py`).

| input | free | opening | quiet | agreed |
| --- | --- | --- | --- | --- |
| told to exchange links | opens the new link → opening | | | |
| the new link is up | | holds, says Halt → quiet | | the first decides, if the new link is up |
| Halt | holds, says Halt on, or Halted → quiet | | | |
| Halted or Drained, to be passed on | | | says it on | says it on |
| Halted or Drained, to agree | | | knows how to turn, says it on; the first decides → agreed | |
| Verdict: yes | | | | turns its tables, says it on → free |
| Verdict: no | | drops the new link → free | says it on → free | says it on → free |
| Doubt | | | gives up | asks on; the first gives up |
| Forgotten | | | | the first has decided nothing: gives up |
| a link is gone | | gives up | gives up | asks the other way round; the first gives up |
| time is up | | gives up | gives up | the first gives up |
"""

from __future__ import annotations

import enum
from typing import Any

from shoal.broker.effects import CancelTimer, Effect, Hold, OpenLink, Send, SetTimer, TimerKey
from shoal.broker.life_cycle import IGNORED, LifeCycle, does
from shoal.broker.messages import Message
from shoal.broker.strategy import ProtocolError
from shoal.model import BrokerId
from shoal.overlays.self_organising.exchanges import LinkExchange
from shoal.overlays.self_organising.quiet_ring.broken_cycle import BrokenCycle
from shoal.overlays.self_organising.quiet_ring.ring import Ring
from shoal.overlays.self_organising.quiet_ring.ring_host import Host
from shoal.overlays.self_organising.quiet_ring.ring_messages import (
    Doubt,
    Drained,
    ExchangeKey,
    Forgotten,
    Halt,
    Halted,
    Verdict,
)
from shoal.overlays.self_organising.quiet_ring.verdicts import Verdicts
from shoal.overlays.tree.turning import Turn, first_turn, next_turn

# How long the new link may take to come up, and how long a broker holds still without agreeing.
OPEN_US = 2_000_000
PATIENCE_US = 10_000_000
TIMER: TimerKey = ("quiet ring",)


class State(enum.Enum):
    FREE = "free"
    OPENING = "opening"
    QUIET = "quiet"
    AGREED = "agreed"


class Event(enum.Enum):
    TOLD = "told to exchange links"
    OPENED = "the new link is up"
    HALT = "Halt"
    PASS = "Halted or Drained, to be passed on"
    AGREE = "Halted or Drained, to agree"
    DONE = "Verdict: yes"
    KEPT = "Verdict: no"
    DOUBT = "Doubt"
    FORGOTTEN = "Forgotten"
    BROKEN = "a link is gone"
    LATE = "time is up"


class QuietRing:
    """One broker's part in exchanges, one at a time."""

    def __init__(self, broker: BrokerId, host: Host) -> None:
        self._broker = broker
        self._host = host
        self.state = State.FREE
        self._key: ExchangeKey = (broker, 0)
        # The cycle of an exchange that is going on here, and its breaks.
        self._ring: Ring | None = None
        self._breaks = BrokenCycle()
        self._turn: Turn | None = None
        self._latest_us = 0
        self.verdicts = Verdicts(host.is_up)

    @property
    def is_quiet(self) -> bool:
        """Whether the broker must change nothing by itself now."""
        return self.state in (State.QUIET, State.AGREED)

    @property
    def busy(self) -> str:
        """Why it can take part in no exchange now."""
        return "" if self._ring is None else f"{self._broker} exchanges links already"

    def opens(self, neighbour: BrokerId) -> bool:
        """Whether the link to this broker is the new one of an exchange that is going on here."""
        ring = self._ring
        return ring is not None and ring.opens_link and neighbour == ring.opposite

    # --- what comes ---------------------------------------------------------------------------

    def begin(self, exchange: LinkExchange, now_us: int, out: list[Effect]) -> None:
        """The exchange is decided on; this broker is the last, and nothing is in the way."""
        self._key = (self._broker, max(now_us, self._key[1] + 1))
        self._step(Event.TOLD, None, Ring(self._broker, exchange), now_us, out)

    def receive(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> bool:
        """A message of the cycle; whether it was one.  ProtocolError when it makes no sense."""
        match message:
            case Halt(key, exchange):
                self._halt(neighbour, message, Ring(self._broker, exchange), now_us, out)
            case Halted(key, _) | Drained(key, _):
                if key != self._key or not self.is_quiet:
                    self.verdicts.tell(neighbour, key, out)  # it was given up here, or is forgotten
                    return True
                ring = self._checked(neighbour)
                if neighbour != (ring.down if type(message) is Halted else ring.up):
                    raise ProtocolError(f"{neighbour} is on the other side of {self._broker}")
                agrees = ring.is_beyond == (type(message) is Halted)
                event = Event.AGREE if agrees else Event.PASS
                self._step(event, neighbour, message, now_us, out)
            case Verdict():
                self.judge(neighbour, message, now_us, out)
            case Doubt(key):
                if key == self._key and self._ring is not None:
                    self._checked(neighbour)
                    self._step(Event.DOUBT, neighbour, message, now_us, out)
                else:
                    self.verdicts.answer(neighbour, key, out)
            case Forgotten(key):
                if key == self._key and self._ring is not None:
                    self._checked(neighbour)
                    self._step(Event.FORGOTTEN, neighbour, message, now_us, out)
            case _:
                return False
        return True

    def judge(self, neighbour: BrokerId, verdict: Verdict, now_us: int, out: list[Effect]) -> None:
        """Somebody knows what became of an exchange."""
        if verdict.key == self._key and self._ring is not None:
            self._checked(neighbour)
            event = Event.DONE if verdict.is_done else Event.KEPT
            self._step(event, neighbour, verdict, now_us, out)
            return
        ring = Ring(self._broker, verdict.exchange)
        if self.verdicts.are_revised_by(verdict):
            # Others of the cycle may have started anew, too, and must hear it before any tables.
            self.verdicts.remember(verdict)
            listeners = [each for each in ring.neighbours if each != neighbour]
            self.verdicts.say(listeners, verdict, out)
        if verdict.is_done:
            self._host.revised(verdict, now_us, out)

    def opened(self, neighbour: BrokerId, now_us: int, out: list[Effect]) -> bool:
        """A link is up; whether it is the new one of an exchange that is going on here."""
        if not self.opens(neighbour):
            return False
        self._step(Event.OPENED, neighbour, None, now_us, out)
        return True

    def is_renewed(self, neighbour: BrokerId) -> bool:
        """Whether the link has come up anew while an exchange goes on over it here."""
        return self._ring is not None and neighbour in self._ring.renewed

    def broken(
        self, neighbour: BrokerId, now_us: int, out: list[Effect], *, is_back: bool = False
    ) -> None:
        """A link is gone; or it is back, with nothing in it."""
        ring = self._ring
        if ring is not None and neighbour in ring.neighbours:
            self._breaks.gone.add(neighbour)
            ring.renewed.discard(neighbour)
            if is_back:
                ring.renewed.add(neighbour)
            self._step(Event.BROKEN, neighbour, None, now_us, out)

    def ended(self, neighbour: BrokerId, now_us: int, out: list[Effect]) -> None:
        """A link has ended on purpose: the one that goes does so when the exchange is done."""
        ring = self._ring
        is_last_word = self.state is State.AGREED and ring is not None and ring.ends_link
        if ring is not None and is_last_word and neighbour == ring.before:
            self._breaks.has_ended = True
            if self._breaks.askers or self._breaks.gone:
                self._say_verdict(True, now_us, out)
        else:
            self.broken(neighbour, now_us, out)

    def gives_up_new_link(self, now_us: int, out: list[Effect]) -> bool:
        """The other end of the new link says that it is one of the tree's; whether that is so.

        It is unless this broker has agreed: then it waits to be told what became of the exchange.
        """
        ring = self._ring
        if ring is None or self.state is State.AGREED:
            return False
        ring.is_old_link = True
        self._refuse(f"{self._broker} - {ring.opposite} is a link already", now_us, out)
        return True

    def late(self, now_us: int, out: list[Effect]) -> None:
        """`TIMER` has fired."""
        self._step(Event.LATE, None, None, now_us, out)

    def _step(
        self,
        event: Event,
        neighbour: BrokerId | None,
        message: Any,
        now_us: int,
        out: list[Effect],
    ) -> None:
        entry = LIFE[self.state, event]
        if entry.then is not None:
            self.state = State(entry.then)
        if entry.do is not None:
            entry.do(self, neighbour, message, now_us, out)

    def _checked(self, neighbour: BrokerId) -> Ring:
        ring = self._ring
        if ring is None or neighbour not in ring.neighbours:
            raise ProtocolError(f"{neighbour} is not beside {self._broker} on the cycle")
        return ring

    def _halt(
        self, neighbour: BrokerId, halt: Halt, ring: Ring, now_us: int, out: list[Effect]
    ) -> None:
        if neighbour != ring.up:
            raise ProtocolError(f"{neighbour} is not above {self._broker} on the cycle")
        if halt.key in self.verdicts.known:
            self.verdicts.tell(neighbour, halt.key, out)
        elif reason := self.busy or self._host.obstacle(ring):
            verdict = Verdict(halt.key, halt.exchange, is_done=False, at_us=0, reason=reason)
            self.verdicts.remember(verdict)
            out.append(Send(neighbour, verdict))
        else:
            self._key = halt.key
            self._step(Event.HALT, neighbour, ring, now_us, out)

    # --- steps --------------------------------------------------------------------------------

    def _open(self, _: None, ring: Ring, now_us: int, out: list[Effect]) -> None:
        """Opens the new link."""
        self._enter(ring)
        out += [OpenLink(ring.first), SetTimer(TIMER, now_us + OPEN_US)]

    def _call(self, neighbour: BrokerId, _: None, now_us: int, out: list[Effect]) -> None:
        """Holds, says Halt."""
        ring = self._ring
        assert ring is not None
        if reason := self._host.obstacle(ring):
            self._refuse(reason, now_us, out)
            return
        self._hold(ring, now_us, out)
        out.append(Send(_down(ring), Halt(self._key, ring.exchange)))

    def _be_quiet(self, neighbour: BrokerId, ring: Ring, now_us: int, out: list[Effect]) -> None:
        """Holds, says Halt on, or Halted."""
        self._enter(ring)
        self._hold(ring, now_us, out)
        if ring.down is not None:
            out.append(Send(ring.down, Halt(self._key, ring.exchange)))
        else:
            self._latest_us = self._host.latest_us(ring)
            out.append(Send(neighbour, Halted(self._key, self._latest_us)))

    def _pass(
        self, neighbour: BrokerId, message: Halted | Drained, now_us: int, out: list[Effect]
    ) -> None:
        """Says it on."""
        self._say_on(message, None, out)

    def _agree(
        self, neighbour: BrokerId, message: Halted | Drained, now_us: int, out: list[Effect]
    ) -> None:
        """Knows how to turn, says it on; the first decides."""
        ring, tables = self._ring, self._host.tables
        assert ring is not None
        self._turn = turn = message.turn or first_turn(tables, ring.before)
        if ring.is_first:
            self._latest_us = max(self._latest_us, message.latest_us)
            self._decide(None, None, now_us, out)
            return
        out.append(CancelTimer(TIMER))
        if ring.is_last:
            self._latest_us = max(message.latest_us, self._host.latest_us(ring))
            out.append(Send(_down(ring), Drained(self._key, self._latest_us)))
        else:
            self._say_on(message, next_turn(tables, turn, ring.before, ring.behind), out)

    def _say_on(self, message: Halted | Drained, turn: Turn | None, out: list[Effect]) -> None:
        ring = self._ring
        assert ring is not None
        self._latest_us = latest_us = max(message.latest_us, self._host.latest_us(ring))
        if type(message) is Halted:
            assert ring.up is not None
            out.append(Send(ring.up, Halted(self._key, latest_us, turn)))
        else:
            out.append(Send(_down(ring), Drained(self._key, latest_us, turn)))

    def _decide(self, _: Any, __: None, now_us: int, out: list[Effect]) -> None:
        """The first decides, if the new link is up."""
        ring = self._ring
        assert ring is not None
        if ring.is_first and self._host.is_up(ring.last):
            self._say_verdict(True, now_us, out)

    def _say_verdict(self, is_done: bool, now_us: int, out: list[Effect], reason: str = "") -> None:
        """This broker decides."""
        ring = self._ring
        assert ring is not None
        # Later than all that it changes; and what is so later than what was only supposed.
        at_us = max(now_us, self._latest_us + 2) if is_done else self._latest_us + 1
        verdict = Verdict(self._key, ring.exchange, is_done, at_us, reason)
        self._step(Event.DONE if is_done else Event.KEPT, None, verdict, now_us, out)

    def _refuse(self, reason: str, now_us: int, out: list[Effect]) -> None:
        """Not all have agreed, so that nothing can have been decided."""
        assert self._ring is not None
        verdict = Verdict(self._key, self._ring.exchange, is_done=False, at_us=0, reason=reason)
        self._step(Event.KEPT, None, verdict, now_us, out)

    def _turn_over(
        self, neighbour: BrokerId | None, verdict: Verdict, now_us: int, out: list[Effect]
    ) -> None:
        """Turns its tables, says it on."""
        ring, turn = self._ring, self._turn
        assert ring is not None
        assert turn is not None
        listeners = [each for each in ring.neighbours if each != neighbour]
        if ring.ends_link and ring.before not in self._breaks.askers:
            listeners = [each for each in listeners if each != ring.before]
        self._leave(listeners, verdict, out)
        self._host.exchanged(ring, verdict, turn, now_us, out)

    def _let_be(
        self, neighbour: BrokerId | None, verdict: Verdict, now_us: int, out: list[Effect]
    ) -> None:
        """Says it on."""
        ring = self._ring
        assert ring is not None
        self._leave([each for each in ring.neighbours if each != neighbour], verdict, out)
        self._host.kept(ring, verdict, now_us, out)

    def _drop(
        self, neighbour: BrokerId | None, verdict: Verdict, now_us: int, out: list[Effect]
    ) -> None:
        """Drops the new link."""
        ring = self._ring
        assert ring is not None
        self._leave([], verdict, out)
        self._host.kept(ring, verdict, now_us, out)

    def _break_off(self, neighbour: BrokerId, _: None, now_us: int, out: list[Effect]) -> None:
        """Gives up."""
        self._refuse(f"{self._broker} has lost {neighbour}", now_us, out)

    def _give_up(self, _: Any, __: Any, now_us: int, out: list[Effect]) -> None:
        """Gives up."""
        self._refuse(f"it takes {self._broker} too long", now_us, out)

    def _tire(self, _: Any, __: Any, now_us: int, out: list[Effect]) -> None:
        """The first gives up."""
        assert self._ring is not None
        assert self._ring.is_first
        self._give_up(None, None, now_us, out)

    def _wonder(self, neighbour: BrokerId, _: None, now_us: int, out: list[Effect]) -> None:
        """Asks the other way round; the first gives up."""
        ring = self._ring
        assert ring is not None
        breaks = self._breaks
        heard = [each for each in ring.neighbours if breaks.outcome(ring, each) is None]
        out.append(Hold(tuple(heard)))
        if breaks.is_asked(ring, neighbour):
            out.append(Send(neighbour, Doubt(self._key)))
            return
        self._ask(ring.across(neighbour), f"{self._broker} has lost {neighbour}", now_us, out)

    def _ask_on(self, neighbour: BrokerId, doubt: Doubt, now_us: int, out: list[Effect]) -> None:
        """Asks on; the first gives up."""
        ring = self._ring
        assert ring is not None
        self._breaks.askers.add(neighbour)
        self._ask(ring.across(neighbour), "the cycle is broken", now_us, out)

    def _ask(self, whom: BrokerId, reason: str, now_us: int, out: list[Effect]) -> None:
        ring = self._ring
        assert ring is not None
        if ring.is_first:
            self._refuse(reason, now_us, out)
        elif (is_done := self._breaks.outcome(ring, whom)) is not None:
            self._say_verdict(is_done, now_us, out, "" if is_done else reason)
        elif not self._breaks.is_asked(ring, whom):
            out.append(Send(whom, Doubt(self._key)))

    def _presume(self, neighbour: BrokerId, _: Any, now_us: int, out: list[Effect]) -> None:
        """The first has decided nothing: gives up."""
        if self._breaks.is_asked(self._checked(neighbour), neighbour):
            self._say_verdict(False, now_us, out, "the cycle is broken")

    # --- coming and going ---------------------------------------------------------------------

    def _enter(self, ring: Ring) -> None:
        self._ring, self._turn, self._latest_us = ring, None, 0
        self._breaks = BrokenCycle()

    def _hold(self, ring: Ring, now_us: int, out: list[Effect]) -> None:
        ring.is_held = True
        out += [Hold(ring.neighbours), SetTimer(TIMER, now_us + PATIENCE_US)]

    def _leave(self, listeners: list[BrokerId], verdict: Verdict, out: list[Effect]) -> None:
        """The exchange is over here; others are told first."""
        out.append(CancelTimer(TIMER))
        self.verdicts.say(self._breaks.without(listeners), verdict, out)
        self._ring = None
        self.verdicts.remember(verdict)


def _down(ring: Ring) -> BrokerId:
    assert ring.down is not None
    return ring.down


LIFE = LifeCycle(
    State,
    Event,
    {
        Event.TOLD: (does(QuietRing._open, State.OPENING), IGNORED, IGNORED, IGNORED),
        Event.OPENED: (
            IGNORED,
            does(QuietRing._call, State.QUIET),
            IGNORED,
            does(QuietRing._decide),
        ),
        Event.HALT: (does(QuietRing._be_quiet, State.QUIET), IGNORED, IGNORED, IGNORED),
        Event.PASS: (IGNORED, IGNORED, does(QuietRing._pass), does(QuietRing._pass)),
        Event.AGREE: (IGNORED, IGNORED, does(QuietRing._agree, State.AGREED), IGNORED),
        Event.DONE: (IGNORED, IGNORED, IGNORED, does(QuietRing._turn_over, State.FREE)),
        Event.KEPT: (
            IGNORED,
            does(QuietRing._drop, State.FREE),
            does(QuietRing._let_be, State.FREE),
            does(QuietRing._let_be, State.FREE),
        ),
        Event.DOUBT: (IGNORED, IGNORED, does(QuietRing._break_off), does(QuietRing._ask_on)),
        Event.FORGOTTEN: (IGNORED, IGNORED, IGNORED, does(QuietRing._presume)),
        Event.BROKEN: (
            IGNORED,
            does(QuietRing._break_off),
            does(QuietRing._break_off),
            does(QuietRing._wonder),
        ),
        Event.LATE: (
            IGNORED,
            does(QuietRing._give_up),
            does(QuietRing._give_up),
            does(QuietRing._tire),
        ),
    },
)
