"""A participant of a link change: it votes, and follows the decider's decision."""

from __future__ import annotations

from shoal.broker.effects import (
    CancelTimer,
    Effect,
    EndLink,
    LinkChanged,
    LinkState,
    OpenLink,
    Send,
    SetTimer,
)
from shoal.model import BrokerId
from shoal.overlays.coordination.host import TIMER
from shoal.overlays.coordination.messages import (
    Abort,
    Decide,
    Facts,
    LinkChange,
    Prepare,
    Query,
    Ready,
    RefuseChange,
)
from shoal.overlays.coordination.part import QUERY_US, ChangePart, Stage, why_away


class Participant(ChangePart):
    """Votes on a change, and installs or aborts it."""

    def _vote(self, decider: BrokerId, message: Prepare, now_us: int, out: list[Effect]) -> None:
        """Votes → in doubt; or refuses."""
        change = message.change
        linked = (*self._host.neighbours, *self._host.away)
        if change.leaving_broker not in (self._broker, *linked):
            reason = f"it is not linked to {change.leaving_broker}"
            out.append(Send(decider, RefuseChange(change.key, reason, is_linked=False)))
            return
        if reason := self._why_not_vote(decider, change):
            out.append(Send(decider, RefuseChange(change.key, reason)))
            return
        self._change, self.stage = change, Stage.IN_DOUBT
        self._host.record(out)
        is_leaving_broker = self._broker == change.leaving_broker
        is_open = not (is_leaving_broker or change.is_dead)
        self._quiesce((decider, change.leaving_broker) if is_open else (decider,), out)
        facts = self._host.facts(change) if is_leaving_broker or change.is_dead else Facts()
        out.append(Send(decider, Ready(change.key, self._host.since_us(decider), facts)))
        out.append(SetTimer(TIMER, now_us + QUERY_US))

    def _why_not_vote(self, decider: BrokerId, change: LinkChange) -> str:
        host, neighbours = self._host, self._host.neighbours
        if reason := self._why_busy(but=change.leaving_broker if change.is_dead else ""):
            return reason
        if decider in self._ending:
            return f"its link to {decider} has yet to end"
        if change.decider != decider or self._broker not in change.participants[1:]:
            return "it is no participant"
        if self._broker == change.leaving_broker:
            if not self._is_leaving or change.key == self._aborted:
                return "it does not leave"
            if {*neighbours} != {*change.participants} - {self._broker}:
                return "it has other neighbours"
            if host.away:
                return why_away(host.away)
        elif decider in neighbours and self._broker in change.opens:
            return f"it is linked to {decider} already"
        elif decider not in neighbours and self._broker in change.linked:
            return f"it is not linked to {decider}"
        elif not change.is_dead and not host.is_connected(change.leaving_broker):
            return f"it is not linked to {change.leaving_broker}"
        return host.obstacle_to(change.leaving_broker, is_dead=change.is_dead)

    def _vote_anew(
        self, decider: BrokerId, message: Prepare, now_us: int, out: list[Effect]
    ) -> None:
        """Votes anew.

        The decider has forgotten the former change, or is dead; others are refused.
        """
        change = message.change
        deciders = (decider, change.leaving_broker) if change.is_dead else (decider,)
        if self._change is not None and self._change.decider in deciders:
            self._forget_vote(now_us, out)
        self._vote(decider, message, now_us, out)

    def _refuse(self, decider: BrokerId, message: Prepare, now_us: int, out: list[Effect]) -> None:
        """Refuses."""
        reason = "it takes part in another change"
        out.append(Send(decider, RefuseChange(message.change.key, reason)))

    def _retract(
        self, neighbour: BrokerId, _: Abort | None, now_us: int, out: list[Effect]
    ) -> None:
        """Resumes → free."""
        change = self._change
        assert change is not None
        self._forget_vote(now_us, out)
        if self._broker != change.leaving_broker:
            out.extend(EndLink(each) for each in change.new_links(self._broker))
            return
        self._send_to_connected(Abort(change.key), change.others, out)

    def _forget_vote(self, now_us: int, out: list[Effect]) -> None:
        self._end_change(now_us, out)
        self._host.record(out)

    def _follow(self, neighbour: BrokerId, decide: Decide, now_us: int, out: list[Effect]) -> None:
        """Installs → draining, out."""
        change, at_us = decide.change, decide.at_us
        out.append(CancelTimer(TIMER))
        self._install(change, at_us, out)
        if self._broker != change.leaving_broker:
            failed = LinkChanged(change.leaving_broker, LinkState.FAILED)
            self._deferred = [each for each in self._deferred if each != failed]
            self._host.follow(change, at_us, now_us, out)
            self._begin_to_drain(change, now_us, out)
            return
        self.stage, self.problem = Stage.OUT, ""
        self._links = {*change.participants} - {self._broker}
        self._host.part(change, at_us, now_us, out)
        self._resume(now_us, out)
        self.drain(out)

    def _query(self, _: BrokerId, __: None, now_us: int, out: list[Effect]) -> None:
        """Sends a query."""
        change = self._change
        assert change is not None
        self._send_to_connected(Query(change), (change.decider, change.leaving_broker), out)
        new = change.new_links(self._broker)
        out.extend(OpenLink(each) for each in new if not self._host.is_connected(each))
        out.append(SetTimer(TIMER, now_us + QUERY_US))
        self.problem = f"{change.decider} has yet to answer about a change in doubt"
