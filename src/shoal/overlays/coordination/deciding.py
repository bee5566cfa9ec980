"""The decider of a link change: the neighbour that takes a broker's place."""

from __future__ import annotations

from collections.abc import Collection

from shoal.broker.effects import (
    CancelTimer,
    Effect,
    EndLink,
    OpenLink,
    Send,
    SetTimer,
)
from shoal.model import BrokerId
from shoal.overlays.coordination.host import TIMER
from shoal.overlays.coordination.messages import (
    Abort,
    Facts,
    LeaveWanted,
    LinkChange,
    NotNow,
    Prepare,
    Ready,
    RefuseChange,
)
from shoal.overlays.coordination.part import TIMEOUT_US, ChangePart, Stage


class Decider(ChangePart):
    """Collects the votes of all participants, and decides."""

    def _gather(
        self, leaving_broker: BrokerId, message: LeaveWanted, now_us: int, out: list[Effect]
    ) -> None:
        """Opens links → gathering.

        Or declines, with a reason.
        """
        if reason := self._why_not_decide(leaving_broker, message.others):
            out.append(Send(leaving_broker, NotNow(message.attempt, reason)))
            return
        # Links of an earlier attempt, and those of other brokers, would end during this one.
        host = self._host
        new = [each for each in message.others if each not in host.neighbours]
        left = [each for each in new if each in self._ending or host.is_connected(each)]
        if left:
            reason = f"its link to {left[0]} has yet to end"
            out.append(Send(leaving_broker, NotNow(message.attempt, reason)))
            return
        self._asked_by = message.attempt
        self._begin(leaving_broker, message.others, now_us, out, is_dead=False)

    def _begin(
        self,
        leaving_broker: BrokerId,
        others: tuple[BrokerId, ...],
        now_us: int,
        out: list[Effect],
        *,
        is_dead: bool,
    ) -> None:
        number = self._number = max(now_us, self._number + 1)
        linked = tuple(each for each in others if each in self._host.neighbours)
        self._change = change = LinkChange(
            self._broker, number, leaving_broker, others, is_dead, linked
        )
        self._asked, self._votes, self._sides = {*linked}, {}, []
        self.stage = Stage.GATHERING
        out.append(SetTimer(TIMER, now_us + TIMEOUT_US))
        out.extend(OpenLink(each) for each in change.opens)
        out.extend(Send(each, Prepare(change)) for each in linked)
        self._close_if_all_voted(now_us, out)

    def _why_not_decide(self, leaving_broker: BrokerId, others: Collection[BrokerId]) -> str:
        host = self._host
        if reason := self._why_busy():
            return reason
        if self._is_leaving and self._broker > leaving_broker:
            return "it is leaving, too"
        for each in others:
            if reason := host.obstacle_to_link(each):
                return reason
        return "" if leaving_broker in host.neighbours else "there is no link"

    def _decline(
        self, leaving_broker: BrokerId, message: LeaveWanted, now_us: int, out: list[Effect]
    ) -> None:
        """Declines."""
        out.append(Send(leaving_broker, NotNow(message.attempt, "it takes part in another change")))

    def _count(self, neighbour: BrokerId, ready: Ready, now_us: int, out: list[Effect]) -> None:
        """Counts; asks the leaving broker last → closing."""
        self._votes[neighbour] = ready.since_us
        self._sides += ready.facts.sides
        self._close_if_all_voted(now_us, out)

    def _close_if_all_voted(self, now_us: int, out: list[Effect]) -> None:
        change = self._change
        assert change is not None
        if not self._votes.keys() >= {*change.others}:
            return
        if reason := self._host.obstacle_to(change.leaving_broker, is_dead=change.is_dead):
            self._abort(reason, now_us, out)
            return
        if change.is_dead:
            self._make(change, Facts(tuple(self._sides)), now_us, out)
            return
        self.stage = Stage.CLOSING
        self._quiesce((change.leaving_broker, *change.others), out)
        out.append(Send(change.leaving_broker, Prepare(change)))

    def _decide(self, neighbour: BrokerId, ready: Ready, now_us: int, out: list[Effect]) -> None:
        """Decides → draining."""
        change = self._change
        assert change is not None
        if neighbour == change.leaving_broker:
            self._make(change, ready.facts, now_us, out)

    def _make(self, change: LinkChange, facts: Facts, now_us: int, out: list[Effect]) -> None:
        known = (
            *self._votes.values(),
            *map(self._host.since_us, (change.leaving_broker, *change.others)),
        )
        at_us = max(now_us, *(each + 1 for each in known))
        out.append(CancelTimer(TIMER))
        self._install(change, at_us, out)
        self._host.succeed(change, facts, at_us, now_us, out)
        self._begin_to_drain(change, now_us, out)

    def _give_up(
        self, neighbour: BrokerId, refuse: RefuseChange, now_us: int, out: list[Effect]
    ) -> None:
        """Aborts → free.

        It begins anew without a broker that the dead one is not linked to.
        """
        change = self._change
        assert change is not None
        self._abort(f"{neighbour}: {refuse.reason}", now_us, out)
        if change.is_dead and not refuse.is_linked:
            others = tuple(each for each in change.others if each != neighbour)
            self._begin(change.leaving_broker, others, now_us, out, is_dead=True)

    def _time_out(self, _: BrokerId, __: None, now_us: int, out: list[Effect]) -> None:
        """Aborts → free."""
        change = self._change
        assert change is not None
        missing = [each for each in change.others if each not in self._votes] or [
            change.leaving_broker
        ]
        self._abort(f"{', '.join(missing)} does not answer", now_us, out)

    def _lose(self, neighbour: BrokerId, _: None, now_us: int, out: list[Effect]) -> None:
        """Aborts → free."""
        self._abort(f"{neighbour} is not connected", now_us, out)

    def _abort(self, reason: str, now_us: int, out: list[Effect]) -> None:
        change = self._change
        assert change is not None
        self._send_to_connected(Abort(change.key), change.participants, out)
        if not change.is_dead:
            self._send_to_connected(NotNow(self._asked_by, reason), [change.leaving_broker], out)
        out.extend(EndLink(each) for each in change.opens)
        self._ending |= {*change.opens}
        self._end_change(now_us, out)
        if change.is_dead:
            self.problem = f"{change.leaving_broker} cannot be declared dead: {reason}"
