"""What a broker does at each step of an exchange of links, as the table of its life says.

What comes is told apart in `quiet_ring.py`.

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
| Forgotten | | | | asks the other way round |
| a link is gone | | gives up | gives up | asks the other way round; the first gives up |
| time is up | | gives up | gives up | the first gives up |
"""

from __future__ import annotations

from typing import Any

from shoal.broker.effects import CancelTimer, Effect, Hold, OpenLink, Send, SetTimer, TimerKey
from shoal.broker.life_cycle import IGNORED, LifeCycle, does
from shoal.broker.strategy import ProtocolError
from shoal.model import BrokerId
from shoal.overlays.self_organising.quiet_ring.broken_cycle import BrokenCycle
from shoal.overlays.self_organising.quiet_ring.ring import Ring
from shoal.overlays.self_organising.quiet_ring.ring_host import Host, Late
from shoal.overlays.self_organising.quiet_ring.ring_messages import (
    Doubt,
    Drained,
    ExchangeKey,
    Halt,
    Halted,
    Verdict,
)
from shoal.overlays.self_organising.quiet_ring.states import Event, State
from shoal.overlays.self_organising.quiet_ring.verdicts import Verdicts
from shoal.overlays.tree.turning import Turn, first_turn, next_turn

# How long the new link may take to come up, and how long a broker holds still without agreeing.
OPEN_US = 2_000_000
PATIENCE_US = 10_000_000
TIMER: TimerKey = ("quiet ring",)


class Steps:
    """One broker's part in exchanges, one at a time, of which `_step` takes the next step."""

    def __init__(self, broker: BrokerId, host: Host, late: Late) -> None:
        self._broker = broker
        self._host = host
        self._late = late
        self.state = State.FREE
        self._key: ExchangeKey = (broker, 0)
        # The cycle of an exchange that is going on here, and its breaks.
        self._ring: Ring | None = None
        self._breaks = BrokenCycle()
        self._turn: Turn | None = None
        self._latest_us = 0
        self.verdicts = Verdicts(host.is_up)

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
        if reason := self._host.contradiction:
            self._refuse(reason, now_us, out)
            return
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
        verdict = Verdict(self._key, ring.exchange, is_done, at_us, self._latest_us, reason)
        self._step(Event.DONE if is_done else Event.KEPT, None, verdict, now_us, out)

    def _refuse(self, reason: str, now_us: int, out: list[Effect]) -> None:
        """Not all have agreed, so that nothing can have been decided."""
        assert self._ring is not None
        verdict = Verdict(
            self._key, self._ring.exchange, is_done=False, at_us=0, latest_us=0, reason=reason
        )
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
        """Asks the other way round."""
        # Also of the first: it may have forgotten what it has decided.
        ring, breaks = self._checked(neighbour), self._breaks
        if not breaks.is_asked(ring, neighbour):
            return
        breaks.ignorant.add(neighbour)
        self._ask(ring.across(neighbour), "the cycle is broken", now_us, out)

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
        Event.TOLD: (does(Steps._open, State.OPENING), IGNORED, IGNORED, IGNORED),
        Event.OPENED: (
            IGNORED,
            does(Steps._call, State.QUIET),
            IGNORED,
            does(Steps._decide),
        ),
        Event.HALT: (does(Steps._be_quiet, State.QUIET), IGNORED, IGNORED, IGNORED),
        Event.PASS: (IGNORED, IGNORED, does(Steps._pass), does(Steps._pass)),
        Event.AGREE: (IGNORED, IGNORED, does(Steps._agree, State.AGREED), IGNORED),
        Event.DONE: (IGNORED, IGNORED, IGNORED, does(Steps._turn_over, State.FREE)),
        Event.KEPT: (
            IGNORED,
            does(Steps._drop, State.FREE),
            does(Steps._let_be, State.FREE),
            does(Steps._let_be, State.FREE),
        ),
        Event.DOUBT: (IGNORED, IGNORED, does(Steps._break_off), does(Steps._ask_on)),
        Event.FORGOTTEN: (IGNORED, IGNORED, IGNORED, does(Steps._presume)),
        Event.BROKEN: (
            IGNORED,
            does(Steps._break_off),
            does(Steps._break_off),
            does(Steps._wonder),
        ),
        Event.LATE: (
            IGNORED,
            does(Steps._give_up),
            does(Steps._give_up),
            does(Steps._tire),
        ),
    },
)
