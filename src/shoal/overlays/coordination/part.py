"""State of one broker in link changes, shared by decider and participant."""

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
    ChangeKey,
    ChangeMessage,
    Decide,
    Flushed,
    LinkChange,
    Side,
)

# The decider aborts after this without all votes; the leaving broker asks another neighbour.
TIMEOUT_US = 5_000_000
# A broker in doubt sends Query at this interval.
QUERY_US = 2_000_000
# Random, so that two brokers that refuse each other do not retry at one moment.
AGAIN_US = (50_000, 500_000)
# Keys of the facts that the driver keeps on disk.
VOTE, DECISIONS = "vote", "decisions"


class Stage(Label):
    """State of a broker in the change that it takes part in."""

    FREE = "free"
    GATHERING = "gathering"
    CLOSING = "closing"
    IN_DOUBT = "in doubt"
    DRAINING = "draining"
    OUT = "out"


class ChangeEvent(Label):
    WANTED = "LeaveWanted"
    PREPARE = "Prepare"
    READY = "Ready"
    REFUSE = "Refuse"
    ABORT = "Abort"
    DECIDE = "Decide"
    LOST = "a participant's link is lost"
    LATE = "timeout"


class ChangeDecision(msgspec.Struct):
    """An installed change, and the participants that have not confirmed it.

    `told`: at the leaving broker, the participants to which it has sent Flushed.
    """

    change: LinkChange
    at_us: int
    missing: set[BrokerId]
    told: set[BrokerId] = msgspec.field(default_factory=set)


class ChangePart:
    """A broker's current change, and the decisions that lack confirmations."""

    def __init__(self, broker: BrokerId, random: Random, host: Host) -> None:
        self._broker = broker
        self._random = random
        self._host = host
        self.stage = Stage.FREE
        # The change that this broker decides, is in doubt about, or has just installed.
        self._change: LinkChange | None = None
        self._asked: set[BrokerId] = set()
        self._votes: dict[BrokerId, int] = {}
        self._sides: list[Side] = []
        self._decisions: dict[ChangeKey, ChangeDecision] = {}
        # The change of its own leave that this broker has answered with Abort.
        self._aborted: ChangeKey | None = None
        self._is_quiesced = False
        self._deferred: list[Deferred] = []
        # Its own leave: whether it is wanted, the neighbour asked, and the obstacle.
        self._is_leaving = False
        self._attempt = self._turn = self._asked_by = self._number = 0
        self.problem = ""
        # Links of aborted changes, and links to leaving brokers, that have yet to end.
        self._ending: set[BrokerId] = set()
        # Temporary links, and since when they are up.
        self._passing: dict[BrokerId, int] = {}
        # Links that have to end before this broker has left.
        self._links: set[BrokerId] = set()
        self._is_ending = False

    # --- state ------------------------------------------------------------------------------------

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
        """Whether the current change opens a link to this broker, and is not decided."""
        change = self._change
        is_open = self.stage in (Stage.GATHERING, Stage.CLOSING, Stage.IN_DOUBT)
        if change is None or not is_open or self._broker == change.leaving_broker:
            return False
        return neighbour in change.new_links(self._broker)

    def has_left(self, neighbour: BrokerId) -> bool:
        """Whether a neighbour is out of the overlay, and its link has yet to end."""
        return any(each.change.leaving_broker == neighbour for each in self._decisions.values())

    def defers(self, what: Deferred) -> bool:
        """Whether this event is deferred until the end of a change."""
        if self._is_quiesced:
            self._deferred.append(what)
        return self._is_quiesced

    @property
    def facts(self) -> Mapping[str, Any]:
        """Votes and decisions that must survive a crash."""
        vote = self._change if self.stage is Stage.IN_DOUBT else None
        decisions = list(self._decisions.values())
        return {VOTE: msgspec.to_builtins(vote), DECISIONS: msgspec.to_builtins(decisions)}

    # --- the leaving broker -----------------------------------------------------------------------

    def drain(self, out: list[Effect]) -> None:
        """At the leaving broker, once nothing is left to send: send Flushed, and end its links."""
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
        if self._links:
            self.problem = f"its links to {', '.join(sorted(self._links))} have yet to end"
        else:
            out.append(Left())

    def flush(self, neighbour: BrokerId, out: list[Effect]) -> None:
        """At the leaving broker: nothing more goes to this neighbour, whatever else is pending."""
        change = self._change
        assert change is not None
        if neighbour in change.participants:
            self._decisions[change.key].told.add(neighbour)
            out.append(Send(neighbour, Flushed(change.key)))

    def _why_busy(self, but: BrokerId = "") -> str:
        """Why it can take part in no change.

        A confirmation of `but`, a dead broker, does not count.
        """
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
        """Ask again after a random delay."""
        self.problem = reason
        if self.stage is Stage.FREE:
            out.append(SetTimer(TIMER, now_us + self._random.randint(*AGAIN_US)))

    # --- decisions --------------------------------------------------------------------------------

    def _install(self, change: LinkChange, at_us: int, out: list[Effect]) -> None:
        """Write the decision to disk before anything else follows from it."""
        # The others are not linked to each other: decider and leaving broker confirm to them.
        missing = {change.decider, change.leaving_broker} & {*change.participants}
        if self._broker in missing:
            missing = {*change.participants} - {self._broker}
        if missing:
            self._decisions[change.key] = ChangeDecision(change, at_us, missing)
        self._change, self.stage = change, Stage.DRAINING
        self._host.record(out)
        self._send_to_connected(Decide(change, at_us), change.participants, out)

    def _begin_to_drain(self, change: LinkChange, now_us: int, out: list[Effect]) -> None:
        """Accept input from the leaving broker only, until it has sent Flushed."""
        if change.is_dead:
            out.append(DropLink(change.leaving_broker))
            for key in list(self._decisions):
                self._confirm(change.leaving_broker, key, out)
        if not change.is_dead and self._host.is_connected(change.leaving_broker):
            self._quiesce((change.leaving_broker,), out)
        else:
            self._end_change(now_us, out)

    def _end_link_to_leaving_broker(
        self, leaving_broker: BrokerId, key: ChangeKey, now_us: int, out: list[Effect]
    ) -> None:
        """Nothing more comes from the leaving broker."""
        out.append(
            EndLink(leaving_broker)
        )  # First: a broker without the decision on disk must not find the link.
        self._ending.add(leaving_broker)
        self._confirm(leaving_broker, key, out)
        if self.stage is Stage.DRAINING and self._change is not None and self._change.key == key:
            self._end_change(now_us, out)

    def _end_change(self, now_us: int, out: list[Effect]) -> None:
        """End this broker's part in the change; handle deferred events."""
        self._change, self.stage = None, Stage.FREE
        if self._is_leaving:
            self._wait(self.problem, now_us, out)
        else:
            self.problem = ""
            out.append(CancelTimer(TIMER))
        self._resume(now_us, out)

    def _confirm(self, broker: BrokerId, key: ChangeKey, out: list[Effect]) -> None:
        """A participant has installed a change: forget the decision once all have."""
        decision = self._decisions.get(key)
        if decision is None:
            return
        if decision.missing and decision.missing <= {broker}:
            if self._broker != decision.change.leaving_broker:
                del self._decisions[key]
            decision.missing.clear()
            self._host.record(out)
        decision.missing.discard(broker)
        self.drain(out)

    def _answer_query(self, neighbour: BrokerId, key: ChangeKey, out: list[Effect]) -> None:
        """Answer a query with the decision, or with Abort if this broker can exclude one."""
        decision = self._decisions.get(key)
        if decision is not None:
            out.append(Send(neighbour, Decide(decision.change, decision.at_us)))
        elif not (self._is_deciding(key) or self._is_in_doubt(key)):
            # The decider has no decision; a leaving broker that has not voted will not vote for it.
            self._aborted = key
            out.append(Send(neighbour, Abort(key)))

    # --- quiescing and resuming -------------------------------------------------------------------

    def _send_to_connected(
        self, message: ChangeMessage, to: Collection[BrokerId], out: list[Effect]
    ) -> None:
        """Send to those of them that are connected."""
        out.extend(Send(each, message) for each in to if self._host.is_connected(each))

    def _quiesce(self, but: tuple[BrokerId, ...], out: list[Effect]) -> None:
        if not self._host.stops:
            return
        self._is_quiesced = True
        self._host.send_held(out)
        out.append(Hold(but))

    def _resume(self, now_us: int, out: list[Effect]) -> None:
        if not self._is_quiesced:
            return
        self._is_quiesced = False
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
