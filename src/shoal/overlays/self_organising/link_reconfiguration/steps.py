"""Actions of a broker in a link reconfiguration, and their state machine.

`link_reconfiguration.py` maps messages and link events to inputs.

| input | free | opening | quiesced | agreed |
| --- | --- | --- | --- | --- |
| an exchange begins | opens the new link → opening | | | |
| the new link is up | | holds, sends Halt → quiesced | | the first decides, if the new link is up |
| Halt | holds, forwards Halt or sends Halted → quiesced | | | |
| Halted or Drained, to forward | | | forwards it | forwards it |
| Halted or Drained, to agree | | | computes its turn, forwards it; the first decides → agreed | |
| Decision: done | | | | turns its tables, forwards it → free |
| Decision: not done | | drops the new link → free | forwards it → free | forwards it → free |
| Doubt | | | aborts | forwards it; the first aborts |
| Forgotten | | | | asks the other way round |
| a link is lost | | aborts | aborts | asks the other way round; the first aborts |
| timeout | | aborts | aborts | aborts |
"""

from __future__ import annotations

from typing import Any

from shoal.broker.effects import CancelTimer, Effect, Hold, OpenLink, Send, SetTimer, TimerKey
from shoal.broker.life_cycle import IGNORED, LifeCycle, does
from shoal.broker.strategy import ProtocolError
from shoal.model import BrokerId
from shoal.overlays.self_organising.link_reconfiguration.broken_cycle import BrokenCycle
from shoal.overlays.self_organising.link_reconfiguration.known_decisions import KnownDecisions
from shoal.overlays.self_organising.link_reconfiguration.ring import ExchangeRing
from shoal.overlays.self_organising.link_reconfiguration.ring_host import Late, RingHost
from shoal.overlays.self_organising.link_reconfiguration.ring_messages import (
    Doubt,
    Drained,
    ExchangeDecision,
    ExchangeKey,
    Halt,
    Halted,
)
from shoal.overlays.self_organising.link_reconfiguration.states import (
    ReconfigurationEvent,
    ReconfigurationState,
)
from shoal.overlays.tree.turning import TableTurn, first_turn, next_turn

# Timeout of the new link's connection, of the time between Halt and agreement, and after that of a
# wait for a lost neighbour.
OPEN_US = 2_000_000
TIMEOUT_US = 10_000_000
DOUBT_US = 5_000_000
TIMER: TimerKey = ("link reconfiguration",)


class ReconfigurationSteps:
    """One broker's part in exchanges, one at a time."""

    def __init__(self, broker: BrokerId, host: RingHost, late: Late) -> None:
        self._broker = broker
        self._host = host
        self._late = late
        self.state = ReconfigurationState.FREE
        self._key: ExchangeKey = (broker, 0)
        # The cycle of an exchange that is going on here, and its breaks.
        self._ring: ExchangeRing | None = None
        self._breaks = BrokenCycle()
        self._turn: TableTurn | None = None
        self._latest_us = 0
        self.decisions = KnownDecisions(host.is_up)

    def _step(
        self,
        event: ReconfigurationEvent,
        neighbour: BrokerId | None,
        message: Any,
        now_us: int,
        out: list[Effect],
    ) -> None:
        entry = LIFE[self.state, event]
        if entry.then is not None:
            self.state = ReconfigurationState(entry.then)
        if entry.do is not None:
            entry.do(self, neighbour, message, now_us, out)

    def _checked(self, neighbour: BrokerId) -> ExchangeRing:
        ring = self._ring
        if ring is None or neighbour not in ring.neighbours:
            raise ProtocolError(f"{neighbour} is not beside {self._broker} on the cycle")
        return ring

    # --- steps --------------------------------------------------------------------------------

    def _open(self, _: None, ring: ExchangeRing, now_us: int, out: list[Effect]) -> None:
        """Opens the new link."""
        self._enter(ring)
        out += [OpenLink(ring.first), SetTimer(TIMER, now_us + OPEN_US)]

    def _call(self, neighbour: BrokerId, _: None, now_us: int, out: list[Effect]) -> None:
        """Holds, sends Halt."""
        ring = self._ring
        assert ring is not None
        if reason := self._host.obstacle(ring):
            self._abort_exchange(reason, now_us, out)
            return
        self._hold_exchange(ring, now_us, out)
        out.append(Send(_down(ring), Halt(self._key, ring.exchange)))

    def _quiesce(
        self, neighbour: BrokerId, ring: ExchangeRing, now_us: int, out: list[Effect]
    ) -> None:
        """Holds, forwards Halt or sends Halted."""
        self._enter(ring)
        self._hold_exchange(ring, now_us, out)
        if ring.down is not None:
            out.append(Send(ring.down, Halt(self._key, ring.exchange)))
        else:
            self._latest_us = self._host.latest_us(ring)
            out.append(Send(neighbour, Halted(self._key, self._latest_us)))

    def _forward(
        self, neighbour: BrokerId, message: Halted | Drained, now_us: int, out: list[Effect]
    ) -> None:
        """Forwards it."""
        self._forward_down(message, None, out)

    def _agree(
        self, neighbour: BrokerId, message: Halted | Drained, now_us: int, out: list[Effect]
    ) -> None:
        """Computes its turn, forwards it; the first decides."""
        ring, tables = self._ring, self._host.tables
        assert ring is not None
        if reason := self._host.contradiction:
            self._abort_exchange(reason, now_us, out)
            return
        self._turn = turn = message.turn or first_turn(tables, ring.before)
        if ring.is_first:
            self._latest_us = max(self._latest_us, message.latest_us)
            self._decide_as_first(None, None, now_us, out)
            return
        out.append(CancelTimer(TIMER))
        if ring.is_last:
            self._latest_us = max(message.latest_us, self._host.latest_us(ring))
            out.append(Send(_down(ring), Drained(self._key, self._latest_us)))
        else:
            if type(message) is Halted:
                # Subscriptions that come the other way until `Drained` are in no turn.
                self._host.suspend_covering(ring.before)
            self._forward_down(message, next_turn(tables, turn, ring.before, ring.behind), out)

    def _forward_down(
        self, message: Halted | Drained, turn: TableTurn | None, out: list[Effect]
    ) -> None:
        ring = self._ring
        assert ring is not None
        self._latest_us = latest_us = max(message.latest_us, self._host.latest_us(ring))
        if type(message) is Halted:
            assert ring.up is not None
            out.append(Send(ring.up, Halted(self._key, latest_us, turn)))
        else:
            out.append(Send(_down(ring), Drained(self._key, latest_us, turn)))

    def _decide_as_first(self, _: Any, __: None, now_us: int, out: list[Effect]) -> None:
        """The first decides, if the new link is up."""
        ring = self._ring
        assert ring is not None
        if ring.is_first and self._host.is_up(ring.last):
            self._announce_decision(True, now_us, out)

    def _announce_decision(
        self, is_done: bool, now_us: int, out: list[Effect], reason: str = ""
    ) -> None:
        """This broker decides."""
        ring = self._ring
        assert ring is not None
        # Later than all links that it changes; "done" is also later than any presumed abort.
        at_us = max(now_us, self._latest_us + 2) if is_done else self._latest_us + 1
        decision = ExchangeDecision(
            self._key, ring.exchange, is_done, at_us, self._latest_us, reason
        )
        self._step(
            ReconfigurationEvent.DONE if is_done else ReconfigurationEvent.KEPT,
            None,
            decision,
            now_us,
            out,
        )

    def _abort_exchange(self, reason: str, now_us: int, out: list[Effect]) -> None:
        """Not all have agreed, so that nothing can have been decided."""
        assert self._ring is not None
        decision = ExchangeDecision(
            self._key, self._ring.exchange, is_done=False, at_us=0, latest_us=0, reason=reason
        )
        self._step(ReconfigurationEvent.KEPT, None, decision, now_us, out)

    def _turn_over(
        self, neighbour: BrokerId | None, decision: ExchangeDecision, now_us: int, out: list[Effect]
    ) -> None:
        """Turns its tables, forwards it."""
        ring, turn = self._ring, self._turn
        assert ring is not None
        assert turn is not None
        listeners = [each for each in ring.neighbours if each != neighbour]
        if ring.ends_link and ring.before not in self._breaks.askers:
            listeners = [each for each in listeners if each != ring.before]
        self._leave_exchange(listeners, decision, out)
        self._host.exchanged(ring, decision, turn, now_us, out)

    def _keep_new_link(
        self, neighbour: BrokerId | None, decision: ExchangeDecision, now_us: int, out: list[Effect]
    ) -> None:
        """Forwards it."""
        ring = self._ring
        assert ring is not None
        self._leave_exchange([each for each in ring.neighbours if each != neighbour], decision, out)
        self._host.kept(ring, decision, now_us, out)

    def _drop_new_link(
        self, neighbour: BrokerId | None, decision: ExchangeDecision, now_us: int, out: list[Effect]
    ) -> None:
        """Drops the new link."""
        ring = self._ring
        assert ring is not None
        self._leave_exchange([], decision, out)
        self._host.kept(ring, decision, now_us, out)

    def _abort_on_loss(self, neighbour: BrokerId, _: None, now_us: int, out: list[Effect]) -> None:
        """Aborts."""
        self._abort_exchange(f"{self._broker} has lost {neighbour}", now_us, out)

    def _abort(self, _: Any, __: Any, now_us: int, out: list[Effect]) -> None:
        """Aborts."""
        self._abort_exchange(f"it takes {self._broker} too long", now_us, out)

    def _presume(self, _: Any, __: Any, now_us: int, out: list[Effect]) -> None:
        """Aborts."""
        assert self._ring is not None
        if self._ring.is_first:
            self._abort(None, None, now_us, out)
        else:
            self._announce_decision(False, now_us, out, "the cycle is broken")

    def _ask_around(self, neighbour: BrokerId, _: None, now_us: int, out: list[Effect]) -> None:
        """Asks the other way round; the first aborts."""
        ring = self._ring
        assert ring is not None
        breaks = self._breaks
        heard = (
            each
            for each in ring.neighbours
            if each not in breaks.gone or breaks.is_asked(ring, each)
        )
        out.append(Hold(tuple(heard)))
        if breaks.is_asked(ring, neighbour):
            breaks.waits = False
            out += [CancelTimer(TIMER), Send(neighbour, Doubt(self._key))]
            return
        self._ask_for_decision(
            ring.across(neighbour), f"{self._broker} has lost {neighbour}", now_us, out
        )

    def _forward_doubt(
        self, neighbour: BrokerId, doubt: Doubt, now_us: int, out: list[Effect]
    ) -> None:
        """Forwards it; the first aborts."""
        ring = self._ring
        assert ring is not None
        self._breaks.askers.add(neighbour)
        self._ask_for_decision(ring.across(neighbour), "the cycle is broken", now_us, out)

    def _ask_for_decision(
        self, whom: BrokerId, reason: str, now_us: int, out: list[Effect]
    ) -> None:
        ring = self._ring
        assert ring is not None
        if ring.is_first:
            self._abort_exchange(reason, now_us, out)
        elif (is_done := self._breaks.outcome(ring, whom)) is not None:
            self._announce_decision(is_done, now_us, out, "" if is_done else reason)
        elif self._breaks.is_away(ring, whom):
            if not self._breaks.waits:
                self._breaks.waits = True
                out.append(SetTimer(TIMER, now_us + DOUBT_US))
        elif not self._breaks.is_asked(ring, whom):
            out.append(Send(whom, Doubt(self._key)))

    def _ask_others(self, neighbour: BrokerId, _: Any, now_us: int, out: list[Effect]) -> None:
        """Asks the other way round."""
        # The first is asked, too: it may have forgotten its decision.
        ring, breaks = self._checked(neighbour), self._breaks
        if not breaks.is_asked(ring, neighbour):
            return
        breaks.ignorant.add(neighbour)
        self._ask_for_decision(ring.across(neighbour), "the cycle is broken", now_us, out)

    # --- coming and going ---------------------------------------------------------------------

    def _enter(self, ring: ExchangeRing) -> None:
        self._ring, self._turn, self._latest_us = ring, None, 0
        self._breaks = BrokenCycle()

    def _hold_exchange(self, ring: ExchangeRing, now_us: int, out: list[Effect]) -> None:
        ring.is_held = True
        self._host.send_held(out)
        out += [Hold(ring.neighbours), SetTimer(TIMER, now_us + TIMEOUT_US)]

    def _leave_exchange(
        self, listeners: list[BrokerId], decision: ExchangeDecision, out: list[Effect]
    ) -> None:
        """The exchange is over here; others are informed first."""
        out.append(CancelTimer(TIMER))
        self.decisions.send(self._breaks.without(listeners), decision, out)
        self._ring = None
        self.decisions.remember(decision)


def _down(ring: ExchangeRing) -> BrokerId:
    assert ring.down is not None
    return ring.down


LIFE = LifeCycle(
    ReconfigurationState,
    ReconfigurationEvent,
    {
        ReconfigurationEvent.BEGIN: (
            does(ReconfigurationSteps._open, ReconfigurationState.OPENING),
            IGNORED,
            IGNORED,
            IGNORED,
        ),
        ReconfigurationEvent.OPENED: (
            IGNORED,
            does(ReconfigurationSteps._call, ReconfigurationState.QUIESCED),
            IGNORED,
            does(ReconfigurationSteps._decide_as_first),
        ),
        ReconfigurationEvent.HALT: (
            does(ReconfigurationSteps._quiesce, ReconfigurationState.QUIESCED),
            IGNORED,
            IGNORED,
            IGNORED,
        ),
        ReconfigurationEvent.FORWARD: (
            IGNORED,
            IGNORED,
            does(ReconfigurationSteps._forward),
            does(ReconfigurationSteps._forward),
        ),
        ReconfigurationEvent.AGREE: (
            IGNORED,
            IGNORED,
            does(ReconfigurationSteps._agree, ReconfigurationState.AGREED),
            IGNORED,
        ),
        ReconfigurationEvent.DONE: (
            IGNORED,
            IGNORED,
            IGNORED,
            does(ReconfigurationSteps._turn_over, ReconfigurationState.FREE),
        ),
        ReconfigurationEvent.KEPT: (
            IGNORED,
            does(ReconfigurationSteps._drop_new_link, ReconfigurationState.FREE),
            does(ReconfigurationSteps._keep_new_link, ReconfigurationState.FREE),
            does(ReconfigurationSteps._keep_new_link, ReconfigurationState.FREE),
        ),
        ReconfigurationEvent.DOUBT: (
            IGNORED,
            IGNORED,
            does(ReconfigurationSteps._abort_on_loss),
            does(ReconfigurationSteps._forward_doubt),
        ),
        ReconfigurationEvent.FORGOTTEN: (
            IGNORED,
            IGNORED,
            IGNORED,
            does(ReconfigurationSteps._ask_others),
        ),
        ReconfigurationEvent.BROKEN: (
            IGNORED,
            does(ReconfigurationSteps._abort_on_loss),
            does(ReconfigurationSteps._abort_on_loss),
            does(ReconfigurationSteps._ask_around),
        ),
        ReconfigurationEvent.LATE: (
            IGNORED,
            does(ReconfigurationSteps._abort),
            does(ReconfigurationSteps._abort),
            does(ReconfigurationSteps._presume),
        ),
    },
)
