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
from random import Random
from typing import Any

import msgspec

from shoal.broker.effects import (
    CancelTimer,
    DropLink,
    Effect,
    EndLink,
    Hold,
    Left,
    LinkChanged,
    LinkState,
    OpenLink,
    Release,
    Send,
    SetTimer,
    TimerKey,
)
from shoal.broker.life_cycle import IGNORED, Label, LifeCycle, does
from shoal.broker.strategy import ProtocolError
from shoal.model import BrokerId
from shoal.overlays.coordination.host import Deferred, Host
from shoal.overlays.coordination.messages import (
    Abort,
    Change,
    ChangeKey,
    ChangeMessage,
    Decide,
    Elsewhere,
    Facts,
    Flushed,
    Installed,
    LeaveWanted,
    NotNow,
    Prepare,
    Query,
    Ready,
    Refuse,
    Side,
)

TIMER: TimerKey = ("change",)
# How long a decider waits for all votes, and a leaving broker for the decision.
PATIENCE_US = 5_000_000
# A broker in doubt asks again after this.
ASK_US = 2_000_000
# Two that wait for each other must not try again at one moment.
AGAIN_US = (50_000, 500_000)
# By these names a broker's driver remembers them.
VOTE, DECISIONS, NUMBER = "vote", "decisions", "number"


class Stage(Label):
    """Where a broker is in the change that it takes part in."""

    FREE = "free"
    GATHERING = "gathering"
    CLOSING = "closing"
    IN_DOUBT = "in doubt"
    DRAINING = "draining"
    OUT = "out"


class Event(Label):
    WANTED = "LeaveWanted"
    PREPARE = "Prepare"
    READY = "Ready"
    REFUSE = "Refuse"
    ABORT = "Abort"
    DECIDE = "Decide"
    LOST = "a participant's link is lost"
    LATE = "time is up"


class Decision(msgspec.Struct):
    """A change that is installed here, and which participants have not confirmed it.

    `told`: at the leaving broker, which of them know that nothing more comes from it.
    """

    change: Change
    at_us: int
    missing: set[BrokerId]
    told: set[BrokerId] = msgspec.field(default_factory=set)


class Coordinator:
    """One broker's part."""

    def __init__(self, broker: BrokerId, random: Random, host: Host) -> None:
        self._broker = broker
        self._random = random
        self._host = host
        self.stage = Stage.FREE
        # The change that this broker decides, is in doubt of, or has just installed.
        self._change: Change | None = None
        self._asked: set[BrokerId] = set()
        self._votes: dict[BrokerId, int] = {}
        self._sides: list[Side] = []
        self._decisions: dict[ChangeKey, Decision] = {}
        # A change of its own leave of which this broker has said that it is not made.
        self._dead: ChangeKey | None = None
        self._is_holding = False
        self._deferred: list[Deferred] = []
        # Its own leave: whether it is wanted, which neighbour is asked, and why it waits.
        self._is_leaving = False
        self._attempt = self._turn = self._asked_by = self._number = 0
        self.problem = ""
        # Links of changes that were not made, and to brokers that leave, that have yet to end.
        self._ending: set[BrokerId] = set()
        # Links that do not last, and since when they are up.
        self._passing: dict[BrokerId, int] = {}
        # Links that have to end before this broker has left.
        self._links: set[BrokerId] = set()
        self._is_ending = False

    # --- what is so ---------------------------------------------------------------------------

    @property
    def is_free(self) -> bool:
        """Whether this broker could take part in another change."""
        return self.stage is Stage.FREE and not self._decisions

    @property
    def is_out(self) -> bool:
        """Whether this broker is out of the overlay."""
        return self.stage is Stage.OUT

    @property
    def is_leaving(self) -> bool:
        """Whether it wants to leave, or is out already."""
        return self._is_leaving or self.is_out

    def opens(self, neighbour: BrokerId) -> bool:
        """Whether a link to this broker is one that a change opens, and no decision is known."""
        change = self._change
        is_open = self.stage in (Stage.GATHERING, Stage.CLOSING, Stage.IN_DOUBT)
        if change is None or not is_open or self._broker == change.leaver:
            return False
        return neighbour in change.new_links(self._broker)

    def has_left(self, neighbour: BrokerId) -> bool:
        """Whether a neighbour is out of the overlay, and its link has yet to end."""
        return any(each.change.leaver == neighbour for each in self._decisions.values())

    def _awaits(self, broker: BrokerId) -> bool:
        """Whether this broker has yet to confirm a change."""
        return any(broker in each.missing for each in self._decisions.values())

    def defers(self, what: Deferred) -> bool:
        """Whether this must wait for the end of a change; it comes then."""
        if self._is_holding:
            self._deferred.append(what)
        return self._is_holding

    @property
    def facts(self) -> Mapping[str, Any]:
        """What must outlast the process."""
        vote = self._change if self.stage is Stage.IN_DOUBT else None
        decisions = list(self._decisions.values())
        return {VOTE: msgspec.to_builtins(vote), DECISIONS: msgspec.to_builtins(decisions)}

    # --- inputs -------------------------------------------------------------------------------

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
                self._turn += 1
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

    def _is_deciding(self, key: ChangeKey) -> bool:
        is_open = self.stage in (Stage.GATHERING, Stage.CLOSING)
        return is_open and self._change is not None and self._change.key == key

    def _is_in_doubt(self, key: ChangeKey) -> bool:
        is_open = self.stage is Stage.IN_DOUBT
        return is_open and self._change is not None and self._change.key == key

    # --- the leaving broker -------------------------------------------------------------------

    def _ask_to_leave(self, now_us: int, out: list[Effect]) -> None:
        host = self._host
        neighbours = list(host.neighbours)
        if reason := self._why_busy() or _why_away(host.away) or host.obstacle_to(self._broker):
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

    def _wait(self, reason: str, now_us: int, out: list[Effect]) -> None:
        """Ask again in a while."""
        self.problem = reason
        if self.stage is Stage.FREE:
            out.append(SetTimer(TIMER, now_us + self._random.randint(*AGAIN_US)))

    def _ask_again(self, _: BrokerId, __: None, now_us: int, out: list[Effect]) -> None:
        """Asks again."""
        if self._is_leaving:
            self._turn += 1
            self._ask_to_leave(now_us, out)

    def _why_busy(self, but: BrokerId = "") -> str:
        """Why it can take part in no change, but for one that ends the wait for a dead broker."""
        if self.stage is not Stage.FREE:
            return "it takes part in another change"
        missing = {each for row in self._decisions.values() for each in row.missing} - {but}
        return f"{', '.join(sorted(missing))} has yet to confirm the last change" if missing else ""

    def drain(self, out: list[Effect]) -> None:
        """At the leaving broker: say that nothing more comes, and end its links, if that is so."""
        change = self._change
        if self.stage is not Stage.OUT or change is None:
            return
        decision = self._decisions.get(change.key)
        missing = set() if decision is None else decision.missing
        self.problem = f"{', '.join(sorted(missing))} has yet to confirm" if missing else ""
        if any(map(self._host.is_connected, missing)):
            return
        if not self._host.is_drained(out):
            self.problem = "publications still go over it"
            return
        if decision is not None:
            for each in change.participants:
                if self._host.is_connected(each) and each not in decision.told:
                    decision.told.add(each)
                    out.append(Send(each, Flushed(change.key)))
        if missing:
            return
        if not self._is_ending:
            self._is_ending = True
            out.extend(EndLink(each) for each in sorted(self._links))
        if not self._links:
            out.append(Left())

    def flush(self, neighbour: BrokerId, out: list[Effect]) -> None:
        """At the leaving broker: nothing goes to this neighbour any more, whatever is under way."""
        change = self._change
        assert change is not None
        if neighbour in change.participants:
            self._decisions[change.key].told.add(neighbour)
            out.append(Send(neighbour, Flushed(change.key)))

    # --- the decider --------------------------------------------------------------------------

    def _gather(
        self, leaver: BrokerId, message: LeaveWanted, now_us: int, out: list[Effect]
    ) -> None:
        """Opens links → gathering; or no."""
        if reason := self._why_not_decide(leaver, message.others):
            out.append(Send(leaver, NotNow(message.attempt, reason)))
            return
        # A link of an earlier attempt would end under this one; one of another broker's, too.
        host = self._host
        new = [each for each in message.others if each not in host.neighbours]
        left = [each for each in new if each in self._ending or host.is_connected(each)]
        if left:
            reason = f"its link to {left[0]} has yet to end"
            out.append(Send(leaver, NotNow(message.attempt, reason)))
            for each in left:
                # No decider waits for so long: its opener has been killed, and knows of none.
                if now_us - self._passing.get(each, now_us) > PATIENCE_US:
                    out.append(EndLink(each))
                    self._ending.add(each)
            return
        self._asked_by = message.attempt
        self._begin(leaver, message.others, now_us, out, is_dead=False)

    def _begin(
        self,
        leaver: BrokerId,
        others: tuple[BrokerId, ...],
        now_us: int,
        out: list[Effect],
        *,
        is_dead: bool,
    ) -> None:
        number = self._number = max(now_us, self._number + 1)
        linked = tuple(each for each in others if each in self._host.neighbours)
        self._change = change = Change(self._broker, number, leaver, others, is_dead, linked)
        self._asked, self._votes, self._sides = {*linked}, {}, []
        self.stage = Stage.GATHERING
        out.append(SetTimer(TIMER, now_us + PATIENCE_US))
        out.extend(OpenLink(each) for each in change.opens)
        out.extend(Send(each, Prepare(change)) for each in linked)
        self._close_if_all_voted(now_us, out)

    def _why_not_decide(self, leaver: BrokerId, others: Collection[BrokerId]) -> str:
        host = self._host
        if reason := self._why_busy():
            return reason
        if self._is_leaving and self._broker > leaver:
            return "it leaves itself"
        for each in others:
            if reason := host.obstacle_to_link(each):
                return reason
        return "" if leaver in host.neighbours else "there is no link"

    def _decline(
        self, leaver: BrokerId, message: LeaveWanted, now_us: int, out: list[Effect]
    ) -> None:
        """Says no."""
        out.append(Send(leaver, NotNow(message.attempt, "it takes part in another change")))

    def _count(self, neighbour: BrokerId, ready: Ready, now_us: int, out: list[Effect]) -> None:
        """Counts; asks the leaver last → closing."""
        self._votes[neighbour] = ready.since_us
        self._sides += ready.facts.sides
        self._close_if_all_voted(now_us, out)

    def _close_if_all_voted(self, now_us: int, out: list[Effect]) -> None:
        change = self._change
        assert change is not None
        if not self._votes.keys() >= {*change.others}:
            return
        if reason := self._host.obstacle_to(change.leaver, is_dead=change.is_dead):
            self._abort(reason, now_us, out)
            return
        if change.is_dead:
            self._make(change, Facts(tuple(self._sides)), now_us, out)
            return
        self.stage = Stage.CLOSING
        self._hold((change.leaver, *change.others), out)
        out.append(Send(change.leaver, Prepare(change)))

    def _decide(self, neighbour: BrokerId, ready: Ready, now_us: int, out: list[Effect]) -> None:
        """Decides → draining."""
        change = self._change
        assert change is not None
        if neighbour == change.leaver:
            self._make(change, ready.facts, now_us, out)

    def _make(self, change: Change, facts: Facts, now_us: int, out: list[Effect]) -> None:
        known = (*self._votes.values(), *map(self._host.since_us, (change.leaver, *change.others)))
        at_us = max(now_us, *(each + 1 for each in known))
        out.append(CancelTimer(TIMER))
        self._install(change, at_us, out)
        self._host.succeed(change, facts, at_us, now_us, out)
        self._begin_to_drain(change, now_us, out)

    def _give_up(self, neighbour: BrokerId, refuse: Refuse, now_us: int, out: list[Effect]) -> None:
        """Aborts → free.

        It begins anew without a broker that the dead one is not linked to.
        """
        change = self._change
        assert change is not None
        self._abort(f"{neighbour}: {refuse.reason}", now_us, out)
        if change.is_dead and not refuse.is_linked:
            others = tuple(each for each in change.others if each != neighbour)
            self._begin(change.leaver, others, now_us, out, is_dead=True)

    def _tire(self, _: BrokerId, __: None, now_us: int, out: list[Effect]) -> None:
        """Aborts → free."""
        change = self._change
        assert change is not None
        missing = [each for each in change.others if each not in self._votes] or [change.leaver]
        self._abort(f"{', '.join(missing)} does not answer", now_us, out)

    def _lose(self, neighbour: BrokerId, _: None, now_us: int, out: list[Effect]) -> None:
        """Aborts → free."""
        self._abort(f"{neighbour} is not connected", now_us, out)

    def _abort(self, reason: str, now_us: int, out: list[Effect]) -> None:
        change = self._change
        assert change is not None
        self._say(Abort(change.key), change.participants, out)
        if not change.is_dead:
            self._say(NotNow(self._asked_by, reason), [change.leaver], out)
        out.extend(EndLink(each) for each in change.opens)
        self._ending |= {*change.opens}
        self._be_free(now_us, out)
        if change.is_dead:
            self.problem = f"{change.leaver} cannot be declared dead: {reason}"

    # --- who is asked -------------------------------------------------------------------------

    def _vote(self, decider: BrokerId, message: Prepare, now_us: int, out: list[Effect]) -> None:
        """Votes → in doubt; or refuses."""
        change = message.change
        linked = (*self._host.neighbours, *self._host.away)
        if change.leaver not in (self._broker, *linked):
            reason = f"it is not linked to {change.leaver}"
            out.append(Send(decider, Refuse(change.key, reason, is_linked=False)))
            return
        if reason := self._why_not_vote(decider, change):
            out.append(Send(decider, Refuse(change.key, reason)))
            return
        self._change, self.stage = change, Stage.IN_DOUBT
        self._host.record(out)
        is_leaver = self._broker == change.leaver
        is_heard = not (is_leaver or change.is_dead)
        self._hold((decider, change.leaver) if is_heard else (decider,), out)
        facts = self._host.facts(change) if is_leaver or change.is_dead else Facts()
        out.append(Send(decider, Ready(change.key, self._host.since_us(decider), facts)))
        out.append(SetTimer(TIMER, now_us + ASK_US))

    def _why_not_vote(self, decider: BrokerId, change: Change) -> str:
        host, neighbours = self._host, self._host.neighbours
        if reason := self._why_busy(but=change.leaver if change.is_dead else ""):
            return reason
        if change.decider != decider or self._broker not in change.participants[1:]:
            return "it is no participant"
        if self._broker == change.leaver:
            if not self._is_leaving or change.key == self._dead:
                return "it does not leave"
            if {*neighbours} != {*change.participants} - {self._broker}:
                return "it has other neighbours"
            if host.away:
                return _why_away(host.away)
        elif decider in neighbours and self._broker in change.opens:
            return f"it is linked to {decider} already"
        elif decider not in neighbours and self._broker in change.linked:
            return f"it is not linked to {decider}"
        elif not change.is_dead and not host.is_connected(change.leaver):
            return f"it is not linked to {change.leaver}"
        return host.obstacle_to(change.leaver, is_dead=change.is_dead)

    def _vote_anew(
        self, decider: BrokerId, message: Prepare, now_us: int, out: list[Effect]
    ) -> None:
        """Votes anew.

        The decider has forgotten the former change, or is dead; others are refused.
        """
        change = message.change
        deciders = (decider, change.leaver) if change.is_dead else (decider,)
        if self._change is not None and self._change.decider in deciders:
            self._forget_vote(now_us, out)
        self._vote(decider, message, now_us, out)

    def _refuse(self, decider: BrokerId, message: Prepare, now_us: int, out: list[Effect]) -> None:
        """Refuses."""
        reason = "it takes part in another change"
        out.append(Send(decider, Refuse(message.change.key, reason)))

    def _retract(
        self, neighbour: BrokerId, _: Abort | None, now_us: int, out: list[Effect]
    ) -> None:
        """Goes on → free."""
        change = self._change
        assert change is not None
        self._forget_vote(now_us, out)
        if self._broker != change.leaver:
            out.extend(EndLink(each) for each in change.new_links(self._broker))
            return
        self._say(Abort(change.key), change.others, out)

    def _forget_vote(self, now_us: int, out: list[Effect]) -> None:
        self._be_free(now_us, out)
        self._host.record(out)

    def _follow(self, neighbour: BrokerId, decide: Decide, now_us: int, out: list[Effect]) -> None:
        """Installs → draining, out."""
        change, at_us = decide.change, decide.at_us
        out.append(CancelTimer(TIMER))
        self._install(change, at_us, out)
        if self._broker != change.leaver:
            failed = LinkChanged(change.leaver, LinkState.FAILED)
            self._deferred = [each for each in self._deferred if each != failed]
            self._host.follow(change, at_us, now_us, out)
            self._begin_to_drain(change, now_us, out)
            return
        self.stage, self.problem = Stage.OUT, ""
        self._links = {*change.participants} - {self._broker}
        self._host.part(change, at_us, now_us, out)
        self._release(now_us, out)
        self.drain(out)

    def _wonder(self, _: BrokerId, __: None, now_us: int, out: list[Effect]) -> None:
        """Asks."""
        change = self._change
        assert change is not None
        self._say(Query(change), (change.decider, change.leaver), out)
        new = change.new_links(self._broker)
        out.extend(OpenLink(each) for each in new if not self._host.is_connected(each))
        out.append(SetTimer(TIMER, now_us + ASK_US))
        self.problem = f"{change.decider} has yet to say what became of a change"

    # --- decisions ----------------------------------------------------------------------------

    def _install(self, change: Change, at_us: int, out: list[Effect]) -> None:
        """The decision is on disk before anything else follows from it."""
        # The others are not linked to each other: of them the decider and the leaving broker hear.
        missing = {change.decider, change.leaver} & {*change.participants}
        if self._broker in missing:
            missing = {*change.participants} - {self._broker}
        if missing:
            self._decisions[change.key] = Decision(change, at_us, missing)
        self._change, self.stage = change, Stage.DRAINING
        self._host.record(out)
        self._say(Decide(change, at_us), change.participants, out)

    def _begin_to_drain(self, change: Change, now_us: int, out: list[Effect]) -> None:
        """Take in what comes from the leaving broker first."""
        if change.is_dead:
            out.append(DropLink(change.leaver))
            for key in list(self._decisions):
                self._confirm(change.leaver, key, out)
        if not change.is_dead and self._host.is_connected(change.leaver):
            self._hold((change.leaver,), out)
        else:
            self._be_free(now_us, out)

    def _end_link_to_leaver(
        self, leaver: BrokerId, key: ChangeKey, now_us: int, out: list[Effect]
    ) -> None:
        """Nothing more comes from the leaving broker."""
        out.append(EndLink(leaver))  # first: who has no decision on disk must not find the link
        self._ending.add(leaver)
        self._confirm(leaver, key, out)
        if self.stage is Stage.DRAINING and self._change is not None and self._change.key == key:
            self._be_free(now_us, out)

    def _be_free(self, now_us: int, out: list[Effect]) -> None:
        """Take part in nothing any more; go on with what has waited."""
        self._change, self.stage = None, Stage.FREE
        if self._is_leaving:
            self._wait(self.problem, now_us, out)
        else:
            self.problem = ""
            out.append(CancelTimer(TIMER))
        self._release(now_us, out)

    def _confirm(self, broker: BrokerId, key: ChangeKey, out: list[Effect]) -> None:
        """A participant has installed a change: forget the decision once all have."""
        decision = self._decisions.get(key)
        if decision is None:
            return
        if decision.missing and decision.missing <= {broker}:
            if self._broker != decision.change.leaver:
                del self._decisions[key]
            decision.missing.clear()
            self._host.record(out)
        decision.missing.discard(broker)
        self.drain(out)

    def _answer(self, neighbour: BrokerId, key: ChangeKey, out: list[Effect]) -> None:
        """Say what became of a change, if that is known here."""
        decision = self._decisions.get(key)
        if decision is not None:
            out.append(Send(neighbour, Decide(decision.change, decision.at_us)))
        elif not (self._is_deciding(key) or self._is_in_doubt(key)):
            # The decider would know; the leaving broker has not voted, and will not.
            self._dead = key
            out.append(Send(neighbour, Abort(key)))

    # --- links --------------------------------------------------------------------------------

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

    def _say(self, message: ChangeMessage, to: Collection[BrokerId], out: list[Effect]) -> None:
        """To those of them that are connected; this broker itself never is."""
        out.extend(Send(each, message) for each in to if self._host.is_connected(each))

    # --- stopping and going on ----------------------------------------------------------------

    def _hold(self, but: tuple[BrokerId, ...], out: list[Effect]) -> None:
        if not self._host.stops:
            return
        self._is_holding = True
        out.append(Hold(but))

    def _release(self, now_us: int, out: list[Effect]) -> None:
        if not self._is_holding:
            return
        self._is_holding = False
        deferred, self._deferred = self._deferred, []
        for what in deferred:
            self._host.resume(what, now_us, out)
        out.append(Release())


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


def _why_away(away: Collection[BrokerId]) -> str:
    """
    >>> _why_away(["B7"])
    'B7 is not connected'
    """
    verb = "is" if len(away) == 1 else "are"
    return f"{', '.join(sorted(away))} {verb} not connected" if away else ""
