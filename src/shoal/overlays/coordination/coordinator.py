"""One broker's part in changes of links, one at a time; why it holds, the package's docstring says.

| input | free | gathering | closing | in doubt | draining | out |
| --- | --- | --- | --- | --- | --- | --- |
| LeaveWanted | opens links → gathering; or no | says no | says no | says no | says no | says no |
| Prepare | votes → in doubt; or refuses | refuses | refuses | votes anew | refuses | refuses |
| Ready | | counts; asks the leaver last → closing | decides → draining | | | |
| Refuse | | aborts → free | aborts → free | | | |
| Abort | | | | goes on → free | | |
| Decide | | | | installs → draining, out | | |
| a participant's link is lost | | aborts → free | aborts → free | | | |
| time is up | asks again | aborts → free | aborts → free | asks | | |
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from shoal.broker.effects import (
    CancelTimer,
    Effect,
    Left,
    LinkChanged,
    LinkState,
    OpenLink,
    Send,
    SetTimer,
)
from shoal.broker.life_cycle import IGNORED, LifeCycle, does
from shoal.broker.strategy import ProtocolError
from shoal.model import BrokerId
from shoal.overlays.coordination.deciding import Decider
from shoal.overlays.coordination.host import TIMER
from shoal.overlays.coordination.messages import (
    Abort,
    Change,
    ChangeMessage,
    Decide,
    Elsewhere,
    Flushed,
    Installed,
    LeaveWanted,
    NotNow,
    Prepare,
    Query,
    Ready,
    Refuse,
)
from shoal.overlays.coordination.part import (
    ASK_US,
    DECISIONS,
    PATIENCE_US,
    VOTE,
    Decision,
    Event,
    Stage,
    why_away,
)
from shoal.overlays.coordination.taking_part import Participant


class Coordinator(Decider, Participant):
    """One broker's part."""

    def _awaits(self, broker: BrokerId) -> bool:
        """Whether this broker has yet to confirm a change."""
        return any(broker in each.missing for each in self._decisions.values())

    # --- inputs -----------------------------------------------------------------------------------

    def start(self, facts: Mapping[str, Any], now_us: int, out: list[Effect]) -> None:
        """The broker starts; `facts` are what it has said last that must outlast it."""
        self._attempt = now_us
        decisions = msgspec.convert(facts.get(DECISIONS, []), list[Decision])
        self._decisions = {each.change.key: each for each in decisions}
        self._change = msgspec.convert(facts.get(VOTE), Change | None)
        if self._change is not None:
            self.stage = Stage.IN_DOUBT
            out.append(SetTimer(TIMER, now_us + ASK_US))
        if self._change is not None and self._change.leaver == self._broker:
            self._is_leaving = True
        for each in decisions:
            each.told.clear()
            if each.change.leaver == self._broker:
                self._change, self.stage = each.change, Stage.OUT
                self._links = {*each.change.participants} - {self._broker}
                self.drain(out)
            else:
                self._host.restore(each.change, each.at_us, now_us, out)
                if each.change.leaver in each.missing:
                    out.append(OpenLink(each.change.leaver, is_lasting=True))

    def leave(self, now_us: int, out: list[Effect]) -> None:
        """Leave the overlay; `Left` says when it has."""
        if self.is_out:
            self.drain(out)
        elif not self._is_leaving:
            self._is_leaving = True
            self._ask_to_leave(now_us, out)

    def stay(self, now_us: int, out: list[Effect]) -> None:
        """Take the leave back.  ProtocolError when that is too late, or not known yet."""
        if self.is_out:
            raise ProtocolError("its neighbours have its place")
        change = self._change
        if change is not None and change.leaver == self._broker:
            raise ProtocolError(f"{change.decider} decides on it now; ask again in a moment")
        self._is_leaving, self.problem = False, ""
        if self.stage is Stage.FREE:
            out.append(CancelTimer(TIMER))

    @property
    def successor(self) -> BrokerId | None:
        """The neighbour that is asked first to take this broker's place."""
        neighbours = list(self._host.neighbours)
        return neighbours[self._turn % len(neighbours)] if neighbours else None

    def receive(
        self, neighbour: BrokerId, message: ChangeMessage, now_us: int, out: list[Effect]
    ) -> None:
        match message:
            case LeaveWanted():
                self._step(Event.WANTED, neighbour, message, now_us, out)
            case NotNow(attempt, reason) if attempt == self._attempt and self._is_leaving:
                self._wait(f"{neighbour}: {reason}", now_us, out)
            case Prepare():
                self._step(Event.PREPARE, neighbour, message, now_us, out)
            case Ready(key):
                if self._is_deciding(key):
                    self._step(Event.READY, neighbour, message, now_us, out)
                elif key[0] == self._broker:
                    self._answer(neighbour, key, out)
            case Refuse(key) if self._is_deciding(key):
                self._step(Event.REFUSE, neighbour, message, now_us, out)
            case Abort(key) if self._is_in_doubt(key):
                self._step(Event.ABORT, neighbour, message, now_us, out)
            case Decide(change):
                if self._is_in_doubt(change.key):
                    self._step(Event.DECIDE, neighbour, message, now_us, out)
                if change.key not in self._decisions:
                    out.append(Send(neighbour, Installed(change.key)))
                if neighbour != change.leaver:  # that one has yet to pass on what it has
                    self._confirm(neighbour, change.key, out)
            case Installed(key):
                self._confirm(neighbour, key, out)
            case Query(change) if self._broker in change.participants[:2]:
                self._answer(neighbour, change.key, out)
            case Flushed(key):
                self._end_link_to_leaver(neighbour, key, now_us, out)
            case Elsewhere(successor) if neighbour in self._host.neighbours:
                self._host.go_elsewhere(neighbour, successor, now_us, out)

    def timer(self, now_us: int, out: list[Effect]) -> None:
        """`TIMER` has fired."""
        self._step(Event.LATE, "", None, now_us, out)

    def link(self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]) -> bool:
        """A link changed; whether that is no affair of the overlay's, or waits."""
        if state is LinkState.UP:
            is_taken = self._link_up(neighbour, now_us, out)
        else:
            is_taken = self._link_down(neighbour, state, now_us, out)
        return is_taken or self.defers(LinkChanged(neighbour, state))

    def opened(self, neighbour: BrokerId, now_us: int, out: list[Effect]) -> bool:
        """A link is up that does not last; whether a change has opened it."""
        self._passing[neighbour] = now_us
        return self._link_up(neighbour, now_us, out)

    def failed(self, neighbour: BrokerId, now_us: int, out: list[Effect]) -> None:
        """A link that does not last has failed, or did not come up."""
        self._link_down(neighbour, LinkState.FAILED, now_us, out)

    def declare_dead(
        self, broker: BrokerId, others: Collection[BrokerId], now_us: int, out: list[Effect]
    ) -> None:
        """A neighbour is dead, as an operator says: take its place among these others.

        Whether it is connected the driver knows better: it may wait for it to come back.
        ProtocolError when that cannot begin; `problem` says why it has not been done.
        """
        host = self._host
        if broker not in host.neighbours and broker not in host.away:
            raise ProtocolError(f"{broker} is no neighbour")
        if reason := self._why_busy(but=broker):
            raise ProtocolError(reason)
        missing = tuple(each for each in others if not host.obstacle_to_link(each))
        self._begin(broker, missing, now_us, out, is_dead=True)

    def departed(self, broker: BrokerId, out: list[Effect]) -> None:
        """This broker is gone for good: no change waits for it."""
        for key in list(self._decisions):
            self._confirm(broker, key, out)
        self._links.discard(broker)
        self.drain(out)

    def _step(
        self, event: Event, neighbour: BrokerId, message: Any, now_us: int, out: list[Effect]
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
            out.append(SetTimer(TIMER, now_us + PATIENCE_US))

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
                out.append(Send(neighbour, Elsewhere(change.decider)))
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
            if self.stage is Stage.IN_DOUBT and neighbour in (change.decider, change.leaver):
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
                if decision.change.leaver == neighbour:
                    self._confirm(neighbour, key, out)
        elif self.has_left(neighbour) and self._awaits(neighbour):
            # It has yet to confirm, or has left: that the driver says (`Departed`).
            out.append(OpenLink(neighbour, is_lasting=True))
        if change is not None and neighbour in change.participants:
            self._lose_link(neighbour, now_us, out)
        return is_taken

    def _lose_link(self, neighbour: BrokerId, now_us: int, out: list[Effect]) -> None:
        """What was under way to or from a participant may be lost."""
        change = self._change
        assert change is not None
        if self.stage is Stage.IN_DOUBT and neighbour == change.decider:
            self._release(now_us, out)
        elif self.stage is Stage.IN_DOUBT and self._is_holding and neighbour == change.leaver:
            self._hold((change.decider,), out)
        elif self.stage is Stage.DRAINING and neighbour == change.leaver:
            self._be_free(now_us, out)
        else:
            self._step(Event.LOST, neighbour, None, now_us, out)


LIFE = LifeCycle(
    Stage,
    Event,
    {
        Event.WANTED: (
            does(Coordinator._gather),
            does(Coordinator._decline),
            does(Coordinator._decline),
            does(Coordinator._decline),
            does(Coordinator._decline),
            does(Coordinator._decline),
        ),
        Event.PREPARE: (
            does(Coordinator._vote),
            does(Coordinator._refuse),
            does(Coordinator._refuse),
            does(Coordinator._vote_anew),
            does(Coordinator._refuse),
            does(Coordinator._refuse),
        ),
        Event.READY: (
            IGNORED,
            does(Coordinator._count),
            does(Coordinator._decide),
            IGNORED,
            IGNORED,
            IGNORED,
        ),
        Event.REFUSE: (
            IGNORED,
            does(Coordinator._give_up),
            does(Coordinator._give_up),
            IGNORED,
            IGNORED,
            IGNORED,
        ),
        Event.ABORT: (IGNORED, IGNORED, IGNORED, does(Coordinator._retract), IGNORED, IGNORED),
        Event.DECIDE: (IGNORED, IGNORED, IGNORED, does(Coordinator._follow), IGNORED, IGNORED),
        Event.LOST: (
            IGNORED,
            does(Coordinator._lose),
            does(Coordinator._lose),
            IGNORED,
            IGNORED,
            IGNORED,
        ),
        Event.LATE: (
            does(Coordinator._ask_again),
            does(Coordinator._tire),
            does(Coordinator._tire),
            does(Coordinator._wonder),
            IGNORED,
            IGNORED,
        ),
    },
)
