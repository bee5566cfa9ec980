"""What one broker knows of changes of links, whichever role it has in one."""

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
    Release,
    Send,
    SetTimer,
)
from shoal.broker.life_cycle import Label
from shoal.model import BrokerId
from shoal.overlays.coordination.host import TIMER, Deferred, Host
from shoal.overlays.coordination.messages import (
    Abort,
    Change,
    ChangeKey,
    ChangeMessage,
    Decide,
    Flushed,
    Side,
)

# How long a decider waits for all votes, and a leaving broker for the decision.
PATIENCE_US = 5_000_000
# A broker in doubt asks again after this.
ASK_US = 2_000_000
# Two that wait for each other must not try again at one moment.
AGAIN_US = (50_000, 500_000)
# By these names a broker's driver remembers them.
VOTE, DECISIONS = "vote", "decisions"


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


class Part:
    """A broker in a change, and the decisions that it knows."""

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

    # --- what is so -------------------------------------------------------------------------------

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

    # --- the leaving broker -----------------------------------------------------------------------

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

    def _why_busy(self, but: BrokerId = "") -> str:
        """Why it can take part in no change, but for one that ends the wait for a dead broker."""
        if self.stage is not Stage.FREE:
            return "it takes part in another change"
        missing = {each for row in self._decisions.values() for each in row.missing} - {but}
        return f"{', '.join(sorted(missing))} has yet to confirm the last change" if missing else ""

    def _is_deciding(self, key: ChangeKey) -> bool:
        is_open = self.stage in (Stage.GATHERING, Stage.CLOSING)
        return is_open and self._change is not None and self._change.key == key

    def _is_in_doubt(self, key: ChangeKey) -> bool:
        is_open = self.stage is Stage.IN_DOUBT
        return is_open and self._change is not None and self._change.key == key

    def _wait(self, reason: str, now_us: int, out: list[Effect]) -> None:
        """Ask again in a while."""
        self.problem = reason
        if self.stage is Stage.FREE:
            out.append(SetTimer(TIMER, now_us + self._random.randint(*AGAIN_US)))

    # --- decisions --------------------------------------------------------------------------------

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

    # --- stopping and going on --------------------------------------------------------------------

    def _say(self, message: ChangeMessage, to: Collection[BrokerId], out: list[Effect]) -> None:
        """To those of them that are connected; this broker itself never is."""
        out.extend(Send(each, message) for each in to if self._host.is_connected(each))

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


def why_away(away: Collection[BrokerId]) -> str:
    """
    >>> why_away(["B7"])
    'B7 is not connected'
    """
    verb = "is" if len(away) == 1 else "are"
    return f"{', '.join(sorted(away))} {verb} not connected" if away else ""
