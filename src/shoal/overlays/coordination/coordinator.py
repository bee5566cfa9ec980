"""State machine of one broker in link changes, one change at a time.

The package's docstring explains the protocol and its safety.

| input | free | gathering | closing | in doubt | draining | out |
| --- | --- | --- | --- | --- | --- | --- |
| LeaveWanted | opens links → gathering | declines | declines | declines | declines | declines |
| Prepare | votes → in doubt; or refuses | refuses | refuses | votes anew | refuses | refuses |
| Ready | | counts; asks the leaving broker last → closing | decides → draining | | | |
| Refuse | | aborts → free | aborts → free | | | |
| Abort | | | | resumes → free | | |
| Decide | | | | installs → draining, out | | |
| a participant's link is lost | | aborts → free | aborts → free | | | |
| timeout | asks again | aborts → free | aborts → free | sends a query | | |
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from shoal.broker.effects import (
    CancelTimer,
    Effect,
    EndLink,
    Left,
    LinkChanged,
    LinkState,
    OpenLink,
    Send,
    SetTimer,
    TimerKey,
)
from shoal.broker.life_cycle import IGNORED, LifeCycle, does
from shoal.broker.strategy import ProtocolError
from shoal.model import BrokerId
from shoal.overlays.coordination.deciding import Decider
from shoal.overlays.coordination.host import TIMER, UNUSED
from shoal.overlays.coordination.messages import (
    Abort,
    ChangeMessage,
    Decide,
    Flushed,
    GoElsewhere,
    Installed,
    LeaveWanted,
    LinkChange,
    NotNow,
    Prepare,
    Query,
    Ready,
    RefuseChange,
)
from shoal.overlays.coordination.part import (
    DECISIONS,
    QUERY_US,
    TIMEOUT_US,
    VOTE,
    ChangeDecision,
    ChangeEvent,
    Stage,
    why_away,
)
from shoal.overlays.coordination.taking_part import Participant


class Coordinator(Decider, Participant):
    """The coordinator of one broker: inputs, and the state machine over both roles."""

    def _awaits(self, broker: BrokerId) -> bool:
        """Whether a change still lacks this broker's confirmation."""
        return any(broker in each.missing for each in self._decisions.values())

    # --- inputs -----------------------------------------------------------------------------------

    def start(self, facts: Mapping[str, Any], now_us: int, out: list[Effect]) -> None:
        """Restore the votes and decisions in `facts`, which the driver kept on disk."""
        self._attempt = now_us
        decisions = msgspec.convert(facts.get(DECISIONS, []), list[ChangeDecision])
        self._decisions = {each.change.key: each for each in decisions}
        self._change = msgspec.convert(facts.get(VOTE), LinkChange | None)
        if self._change is not None:
            self.stage = Stage.IN_DOUBT
            out.append(SetTimer(TIMER, now_us + QUERY_US))
        if self._change is not None and self._change.leaving_broker == self._broker:
            self._is_leaving = True
        for each in decisions:
            each.told.clear()
            if each.change.leaving_broker == self._broker:
                self._change, self.stage = each.change, Stage.OUT
                self._links = {*each.change.participants} - {self._broker}
                self.drain(out)
            else:
                self._host.restore(each.change, each.at_us, now_us, out)
                if each.change.leaving_broker in each.missing:
                    out.append(OpenLink(each.change.leaving_broker, is_lasting=True))

    def leave(self, now_us: int, out: list[Effect]) -> None:
        """Leave the overlay; `Left` follows once the broker is out and its links have ended."""
        if self.is_out:
            self.drain(out)
        elif not self._is_leaving:
            self._is_leaving = True
            self._ask_to_leave(now_us, out)

    def stay(self, now_us: int, out: list[Effect]) -> None:
        """Cancel the leave.  ProtocolError once a decider is at work, or has decided."""
        if self.is_out:
            raise ProtocolError("its neighbours have already taken its place")
        change = self._change
        if change is not None and change.leaving_broker == self._broker:
            raise ProtocolError(f"{change.decider} is deciding on the leave; try again in a moment")
        self._is_leaving, self.problem = False, ""
        if self.stage is Stage.FREE:
            out.append(CancelTimer(TIMER))

    @property
    def successor(self) -> BrokerId | None:
        """The neighbour that this broker asks first to take its place."""
        neighbours = list(self._host.neighbours)
        return neighbours[self._turn % len(neighbours)] if neighbours else None

    def receive(
        self, neighbour: BrokerId, message: ChangeMessage, now_us: int, out: list[Effect]
    ) -> None:
        match message:
            case LeaveWanted():
                self._step(ChangeEvent.WANTED, neighbour, message, now_us, out)
            case NotNow(attempt, reason) if attempt == self._attempt and self._is_leaving:
                self._wait(f"{neighbour}: {reason}", now_us, out)
            case Prepare():
                self._step(ChangeEvent.PREPARE, neighbour, message, now_us, out)
            case Ready(key):
                if self._is_deciding(key):
                    self._step(ChangeEvent.READY, neighbour, message, now_us, out)
                elif key[0] == self._broker:
                    self._answer_query(neighbour, key, out)
            case RefuseChange(key) if self._is_deciding(key):
                self._step(ChangeEvent.REFUSE, neighbour, message, now_us, out)
            case Abort(key) if self._is_in_doubt(key):
                self._step(ChangeEvent.ABORT, neighbour, message, now_us, out)
            case Decide(change):
                if self._is_in_doubt(change.key):
                    self._step(ChangeEvent.DECIDE, neighbour, message, now_us, out)
                if change.key not in self._decisions:
                    out.append(Send(neighbour, Installed(change.key)))
                # The leaving broker confirms with Flushed, after it has forwarded what it holds.
                if neighbour != change.leaving_broker:
                    self._confirm(neighbour, change.key, out)
            case Installed(key):
                self._confirm(neighbour, key, out)
            case Query(change) if self._broker in change.participants[:2]:
                self._answer_query(neighbour, change.key, out)
            case Flushed(key):
                self._end_link_to_leaving_broker(neighbour, key, now_us, out)
            case GoElsewhere(successor) if neighbour in self._host.neighbours:
                self._host.go_elsewhere(neighbour, successor, now_us, out)
            case GoElsewhere():  # over a temporary link, for which the sender waits
                out.append(EndLink(neighbour))

    def timer(self, key: TimerKey, now_us: int, out: list[Effect]) -> None:
        """One of `CHANGE_TIMERS` has fired."""
        if key == UNUSED:
            self._end_unused(now_us, out)
        else:
            self._step(ChangeEvent.LATE, "", None, now_us, out)

    def link(self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]) -> bool:
        """A link changed.  True if the overlay must not see the event now, or at all."""
        if state is LinkState.UP:
            is_taken = self._link_up(neighbour, now_us, out)
        else:
            is_taken = self._link_down(neighbour, state, now_us, out)
        return is_taken or self.defers(LinkChanged(neighbour, state))

    def opened(self, neighbour: BrokerId, now_us: int, out: list[Effect]) -> bool:
        """A temporary link came up; True if a change has opened it."""
        if not self._passing:  # else the timer is set, and further links would delay it
            out.append(SetTimer(UNUSED, now_us + TIMEOUT_US))
        self._passing[neighbour] = now_us
        return self._link_up(neighbour, now_us, out)

    def _end_unused(self, now_us: int, out: list[Effect]) -> None:
        """End temporary links that no change uses: their opener has crashed, and knows of none."""
        if self.stage is Stage.OUT:
            return  # all its links end
        used = () if self._change is None else self._change.participants
        for each, since_us in list(self._passing.items()):
            if each in self._host.neighbours:
                del self._passing[each]
            elif each not in used and now_us - since_us >= TIMEOUT_US:
                del self._passing[each]
                self._ending.add(each)
                out.append(EndLink(each))
        if self._passing:
            out.append(SetTimer(UNUSED, now_us + TIMEOUT_US))

    def failed(self, neighbour: BrokerId, now_us: int, out: list[Effect]) -> None:
        """A temporary link failed, or did not come up."""
        self._link_down(neighbour, LinkState.FAILED, now_us, out)

    def declare_dead(
        self, broker: BrokerId, others: Collection[BrokerId], now_us: int, out: list[Effect]
    ) -> None:
        """Take the place of a neighbour that an operator declares dead, and link to these others.

        The driver has already decided that the neighbour is not waited for. ProtocolError when the
        change cannot begin; `problem` has the reason if it was not made.
        """
        host = self._host
        if broker not in host.neighbours and broker not in host.away:
            raise ProtocolError(f"{broker} is no neighbour")
        if reason := self._why_busy(but=broker):
            raise ProtocolError(reason)
        missing = tuple(each for each in others if not host.obstacle_to_link(each))
        self._begin(broker, missing, now_us, out, is_dead=True)

    def departed(self, broker: BrokerId, out: list[Effect]) -> None:
        """This broker has left for good: no change waits for its confirmation."""
        # A loss of its link that was deferred is the end of the link.
        lost, ended = (LinkChanged(broker, each) for each in (LinkState.FAILED, LinkState.ENDED))
        self._deferred = [ended if each == lost else each for each in self._deferred]
        for key in list(self._decisions):
            self._confirm(broker, key, out)
        self._links.discard(broker)
        self.drain(out)

    def _step(
        self, event: ChangeEvent, neighbour: BrokerId, message: Any, now_us: int, out: list[Effect]
    ) -> None:
        do = LIFE[self.stage, event].do
        if do is not None:
            do(self, neighbour, message, now_us, out)

    # --- the leaving broker -----------------------------------------------------------------------

    def _ask_to_leave(self, now_us: int, out: list[Effect]) -> None:
        host = self._host
        neighbours = list(host.neighbours)
        if reason := self._why_busy() or why_away(host.away) or host.obstacle_to(self._broker):
            self._wait(reason, now_us, out)
        elif not neighbours:
            out.append(Left())
        else:
            self._attempt += 1
            decider = neighbours[self._turn % len(neighbours)]
            others = tuple(each for each in neighbours if each != decider)
            self.problem = f"{decider} has yet to answer"
            out.append(Send(decider, LeaveWanted(self._attempt, others)))
            out.append(SetTimer(TIMER, now_us + TIMEOUT_US))

    def _ask_again(self, _: BrokerId, __: None, now_us: int, out: list[Effect]) -> None:
        """Asks again."""
        if self._is_leaving:
            self._turn += 1
            self._ask_to_leave(now_us, out)

    # --- links ------------------------------------------------------------------------------------

    def _link_up(self, neighbour: BrokerId, now_us: int, out: list[Effect]) -> bool:
        out.extend(
            Send(neighbour, Decide(decision.change, decision.at_us))
            for decision in self._decisions.values()
            if neighbour in decision.change.participants
        )
        change = self._change
        if self.stage is Stage.OUT:
            assert change is not None
            if neighbour not in change.participants:
                self._links.add(neighbour)
                out.append(Send(neighbour, GoElsewhere(change.decider)))
            return True
        is_taken = self.has_left(neighbour) or self.opens(neighbour)
        if change is None or neighbour not in change.participants:
            return is_taken
        is_new = neighbour in change.others and neighbour not in self._asked
        if self.stage is Stage.GATHERING and is_new:
            self._asked.add(neighbour)
            out.append(Send(neighbour, Prepare(change)))
        else:
            self._lose_link(neighbour, now_us, out)  # it is up anew, with nothing in it
            if self.stage is Stage.IN_DOUBT and neighbour in (
                change.decider,
                change.leaving_broker,
            ):
                out.append(Send(neighbour, Query(change)))
        return is_taken

    def _link_down(
        self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]
    ) -> bool:
        change, is_taken = self._change, self.has_left(neighbour) or self.opens(neighbour)
        is_taken |= neighbour in self._ending and state is LinkState.FAILED
        self._ending.discard(neighbour)
        self._passing.pop(neighbour, None)
        if self.stage is Stage.OUT:
            assert change is not None
            is_last = state is LinkState.ENDED or self._is_ending
            if is_last or neighbour not in change.participants:
                self._links.discard(neighbour)
            self.drain(out)
            return True
        if state is LinkState.ENDED:
            for key, decision in list(self._decisions.items()):
                if decision.change.leaving_broker == neighbour:
                    self._confirm(neighbour, key, out)
        elif self.has_left(neighbour) and self._awaits(neighbour):
            # A Departed event of the driver confirms in its stead if it has left.
            out.append(OpenLink(neighbour, is_lasting=True))
        if change is not None and neighbour in change.participants:
            self._lose_link(neighbour, now_us, out)
        return is_taken

    def _lose_link(self, neighbour: BrokerId, now_us: int, out: list[Effect]) -> None:
        """Messages to or from a participant may be lost: resume, quiesce anew, or abort."""
        change = self._change
        assert change is not None
        if self.stage is Stage.IN_DOUBT and neighbour == change.decider:
            self._resume(now_us, out)
        elif (
            self.stage is Stage.IN_DOUBT
            and self._is_quiesced
            and neighbour == change.leaving_broker
        ):
            self._quiesce((change.decider,), out)
        elif self.stage is Stage.DRAINING and neighbour == change.leaving_broker:
            self._end_change(now_us, out)
        else:
            self._step(ChangeEvent.LOST, neighbour, None, now_us, out)


LIFE = LifeCycle(
    Stage,
    ChangeEvent,
    {
        ChangeEvent.WANTED: (
            does(Coordinator._gather),
            does(Coordinator._decline),
            does(Coordinator._decline),
            does(Coordinator._decline),
            does(Coordinator._decline),
            does(Coordinator._decline),
        ),
        ChangeEvent.PREPARE: (
            does(Coordinator._vote),
            does(Coordinator._refuse),
            does(Coordinator._refuse),
            does(Coordinator._vote_anew),
            does(Coordinator._refuse),
            does(Coordinator._refuse),
        ),
        ChangeEvent.READY: (
            IGNORED,
            does(Coordinator._count),
            does(Coordinator._decide),
            IGNORED,
            IGNORED,
            IGNORED,
        ),
        ChangeEvent.REFUSE: (
            IGNORED,
            does(Coordinator._give_up),
            does(Coordinator._give_up),
            IGNORED,
            IGNORED,
            IGNORED,
        ),
        ChangeEvent.ABORT: (
            IGNORED,
            IGNORED,
            IGNORED,
            does(Coordinator._retract),
            IGNORED,
            IGNORED,
        ),
        ChangeEvent.DECIDE: (
            IGNORED,
            IGNORED,
            IGNORED,
            does(Coordinator._follow),
            IGNORED,
            IGNORED,
        ),
        ChangeEvent.LOST: (
            IGNORED,
            does(Coordinator._lose),
            does(Coordinator._lose),
            IGNORED,
            IGNORED,
            IGNORED,
        ),
        ChangeEvent.LATE: (
            does(Coordinator._ask_again),
            does(Coordinator._time_out),
            does(Coordinator._time_out),
            does(Coordinator._query),
            IGNORED,
            IGNORED,
        ),
    },
)
