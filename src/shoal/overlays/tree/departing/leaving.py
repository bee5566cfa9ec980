"""How a broker leaves a tree: its neighbours take its place (`succession.py`), then it has none.

It waits until it is *quiet*: no clients, no publisher on its way through it, all tables said, of no
subscription two words, nobody away who may come back, for a minute at most, and nobody leaving in
whose place it or its centre has come: that one would not know whether it has moved.  Where all
neighbours are away, and they are several, it waits for one of them.  A leaf then ends its link,
over which it says last who is away.  An inner broker prepares its neighbours, one of which is the
centre, stops them, and asks again in turn until nothing came in between: tables that answer each
other are said.  Then it hands over, and hears only the others until it knows of each whether it has
moved: what it would say before might be old.  Who is back meanwhile is heard when its link counts,
behind all that.  Its links to the others end as these move, the link to the centre last.

| state | hears | does |
| --- | --- | --- |
| staying | leave | begins, when it is quiet: linking, or for a leaf ending |
| linking | all are prepared | stops them: stopping |
| stopping | all have stopped, again if anything came in between | hands over: succeeding |
| linking, stopping | refused, seconds without a word | abandons: waiting |
| linking, stopping | a neighbour's link changes, or one comes up | abandons: waiting |
| succeeding | the links to the others have ended | ends the link to the centre: ending |
| succeeding | that, or refusals, and other changes | begins the centre's link anew: waiting |
| ending | its links have ended, or the link to the centre has failed | has left: left |
| ending | that of a leaf, or where somebody is away, has failed | opens it again: waiting |
| ending | a link comes up | has none but that: waiting |
| waiting | its last link has failed, or has ended and who came is new | opens it again |
| waiting | a while later | begins, when it is quiet |
| waiting | stay | nothing more: staying |
| linking, stopping | stay | abandons: staying |
| succeeding | stay | begins the centre's link anew when the others have moved: staying |
| ending, left | stay | refuses: its neighbours have its place |

Staying, it does about its links what it does waiting.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from random import Random

from shoal.broker.effects import (
    CancelTimer,
    Effect,
    EndLink,
    Hold,
    Left,
    LinkChanged,
    LinkState,
    OpenLink,
    Release,
    ResetLink,
    Send,
    SetTimer,
    TimerKey,
)
from shoal.broker.strategy import ProtocolError
from shoal.model import BrokerId
from shoal.overlays.tree.departing.succession import Succession, behind
from shoal.overlays.tree.exchange import Exchange
from shoal.overlays.tree.messages import (
    Abandon,
    Absent,
    Flushed,
    LeavingMessage,
    Prepare,
    Prepared,
    Refuse,
    Stayed,
    Stop,
    Stopped,
    Succeed,
)
from shoal.overlays.tree.propagation import Propagation

TIMER: TimerKey = ("leave",)
# For how long all of a step may be silent; twice as long after each time that this was too short.
PATIENCE_US, MOST_PATIENCE_US = 2_000_000, 8_000_000
# Who is away for longer will find the network without this broker.
ABSENCE_US = 60_000_000
# Two that wait for each other to leave must not try again at one moment.
AGAIN_US = (50_000, 500_000)


class State(enum.Enum):
    """Where a broker is on its way out."""

    STAYING = "staying"
    WAITING = "waiting"
    LINKING = "linking"
    STOPPING = "stopping"
    SUCCEEDING = "succeeding"
    ENDING = "ending"
    LEFT = "left"


class Leaver:
    """One broker's own leaving."""

    def __init__(
        self,
        random: Random,
        propagation: Propagation,
        exchange: Exchange,
        expected: Iterable[BrokerId],
    ) -> None:
        self.state = State.STAYING
        self._is_wanted = False
        self._random = random
        self._propagation = propagation
        self._exchange = exchange
        self._attempt = 0
        self._centre: BrokerId = ""
        self._turn = 0
        self._patience_us = PATIENCE_US
        self._heard = False
        self._awaited: set[BrokerId] = set()
        # While others move: what has happened to links.
        self._changes: list[LinkChanged] = []
        # Who has said in the last attempt that it stays, for its centre.
        self._stayed: tuple[BrokerId, ...] = ()
        # Who was away as it said its last word, and was left to the other end.
        self._told: tuple[BrokerId, ...] = ()
        # Links that are to end though it has returned, and whether it needs them.
        self._last: dict[BrokerId, bool] = {}
        # Neighbours whose links are down, and since when; it starts with these.
        self._away = dict.fromkeys(expected, 0)

    @property
    def is_engaged(self) -> bool:
        """Whether its neighbours are about to take its place."""
        return self.state not in (State.STAYING, State.WAITING)

    @property
    def is_parting(self) -> bool:
        """Whether it has said that its last links end."""
        return self.state in (State.ENDING, State.LEFT)

    def knows(self, broker: BrokerId) -> bool:
        """Whether this is a neighbour, or one that is away."""
        return broker in self._propagation.neighbours or broker in self._away

    def start(self, now_us: int) -> None:
        """The broker starts: whom it expects is away from now on."""
        self._away = dict.fromkeys(self._away, now_us)

    def heard(self) -> None:
        """A neighbour has said something that may change tables."""
        self._heard = True

    def relinked(
        self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]
    ) -> None:
        """A link of the tree's came up, failed or ended; comes before what follows from that."""
        if state is LinkState.UP and neighbour == self._centre:
            stayed = tuple(each for each in self._stayed if each in self._propagation.neighbours)
            if stayed:
                out.append(Send(neighbour, Stayed(self._attempt, stayed)))
        if state is LinkState.FAILED:
            self.misses(neighbour, now_us)
        else:
            self._away.pop(neighbour, None)

    def misses(self, neighbour: BrokerId, now_us: int) -> None:
        """A neighbour's link is not up."""
        self._away.setdefault(neighbour, now_us)

    def parts(
        self, neighbour: BrokerId, succession: Succession, now_us: int, out: list[Effect]
    ) -> bool:
        """One is no neighbour any more, though its link has not ended; as `link`."""
        match self.state:
            case State.LINKING | State.STOPPING:
                self._abandon(now_us, out)  # others have to be asked
            case State.SUCCEEDING:
                self._changed(LinkChanged(neighbour, LinkState.ENDED), succession, now_us, out)
                return True
        return False

    def inherit(self, neighbours: Iterable[BrokerId], now_us: int, out: list[Effect]) -> None:
        """Link up to these, which are away, as to its neighbours."""
        for each in neighbours:
            self.misses(each, now_us)
            out.append(OpenLink(each, is_lasting=True))

    def forget(self, neighbour: BrokerId) -> None:
        """It is no neighbour any more, also when it is back."""
        self._away.pop(neighbour, None)
        failed = LinkChanged(neighbour, LinkState.FAILED)
        ended = LinkChanged(neighbour, LinkState.ENDED)
        self._changes = [ended if each == failed else each for each in self._changes]

    def leave(self, succession: Succession, now_us: int, out: list[Effect]) -> None:
        self._is_wanted = True
        if self.state is State.STAYING:
            self._begin(succession, now_us, out)

    def stay(self, now_us: int, out: list[Effect]) -> None:
        """Take the leave back.  ProtocolError when a neighbour has this broker's place."""
        if self.is_parting:
            raise ProtocolError("its last links end: its neighbours have its place")
        self._is_wanted = False
        match self.state:
            case State.LINKING | State.STOPPING:
                self._abandon(now_us, out)
            case State.WAITING:
                self._wait(now_us, out)

    @property
    def successor(self) -> BrokerId | None:
        """The neighbour that would be the centre, or adopts the neighbours that are away."""
        return next(iter(self._propagation.neighbours), None)

    def timer(self, succession: Succession, now_us: int, out: list[Effect]) -> None:
        match self.state:
            case State.WAITING:
                self._begin(succession, now_us, out)
            case State.LINKING | State.STOPPING:
                self._patience_us = min(2 * self._patience_us, MOST_PATIENCE_US)
                self._abandon(now_us, out)

    # --- steps --------------------------------------------------------------------------------

    def _begin(self, succession: Succession, now_us: int, out: list[Effect]) -> None:
        neighbours = self._propagation.neighbours
        if not succession.is_free or not self._is_quiet(succession, now_us):
            self._wait(now_us, out)
        elif len(neighbours) < 2:
            self._end(list(neighbours), succession, now_us, out)
        else:
            self.state = State.LINKING
            self._attempt = max(now_us, self._attempt + 1)
            centre, *others = neighbours
            self._awaited, self._stayed = set(others), ()
            prepare = Prepare(self._attempt, centre, (), tuple(self._away))
            out.extend(Send(each, prepare) for each in others)
            self._be_patient(now_us, out)

    def _is_quiet(self, succession: Succession, now_us: int) -> bool:
        tables = self._propagation.tables
        return not (
            succession.around.is_moving
            or succession.is_awaited
            or self._last
            or any(now_us < since_us + ABSENCE_US for since_us in self._away.values())
            # Only this broker knows of all of them: one must be back, to be told of the others.
            or (len(self._away) > 1 and not self._propagation.neighbours)
            or any(row.last_hop is None for row in tables.advertisements.values())
            or tables.local.clients
            or self._propagation.hearsay
            or not all(map(self._exchange.is_settled, self._propagation.neighbours))
        )

    def _wait(self, now_us: int, out: list[Effect]) -> None:
        if not self._is_wanted:
            self.state = State.STAYING
            out.append(CancelTimer(TIMER))
            return
        self.state = State.WAITING
        out.append(SetTimer(TIMER, now_us + self._random.randint(*AGAIN_US)))

    def _be_patient(self, now_us: int, out: list[Effect]) -> None:
        out.append(SetTimer(TIMER, now_us + self._patience_us))

    def _stop(self, now_us: int, out: list[Effect]) -> None:
        self._be_patient(now_us, out)
        self._turn += 1
        self._heard = False
        self._awaited = set(self._propagation.neighbours)
        stop = Stop(self._attempt, self._turn)
        out.extend(Send(each, stop) for each in self._propagation.neighbours)

    def _hand_over(self, out: list[Effect]) -> None:
        self.state = State.SUCCEEDING
        centre, *others = self._propagation.neighbours
        self._centre = centre
        self._awaited = set(others)
        self._changes = []
        out.append(CancelTimer(TIMER))
        self._hold(out)
        out.extend(Send(each, Flushed(self._attempt)) for each in others)
        tables = self._propagation.tables
        rows = tuple(behind(tables, each) for each in others)
        out.append(Send(centre, Succeed(self._attempt, rows, tables.moves)))

    def _end(
        self, neighbours: list[BrokerId], succession: Succession, now_us: int, out: list[Effect]
    ) -> None:
        self.state = State.ENDING
        self._awaited, self._told = set(neighbours), tuple(self._away)
        if neighbours and self._told:
            steads = {each: succession.around.stood_in(each) for each in self._told}
            out.append(Send(neighbours[0], Absent(self._attempt, steads)))
        succession.around.parting(neighbours, now_us, out)
        out.extend(EndLink(each) for each in neighbours)
        self._finish(out)

    def _finish(self, out: list[Effect]) -> None:
        if not self._awaited:
            self.state = State.LEFT
            out.append(Left())

    def _abandon(self, now_us: int, out: list[Effect]) -> None:
        abandon = Abandon(self._attempt)
        out.extend(Send(each, abandon) for each in self._propagation.neighbours)
        self._wait(now_us, out)

    def _changed(
        self, change: LinkChanged, succession: Succession, now_us: int, out: list[Effect]
    ) -> None:
        """This happened to a link while neighbours move; a stranger's that goes is forgotten."""
        if change.state is LinkState.UP or change.neighbour in self._propagation.neighbours:
            self._changes.append(change)
        else:
            others = [each for each in self._changes if each.neighbour != change.neighbour]
            self._changes = others
        self._resolve(change.neighbour, succession, now_us, out)
        if self.state is State.SUCCEEDING:
            self._hold(out)

    def _hold(self, out: list[Effect]) -> None:
        """Hear only the others; who is back among them, when its link counts as one that came."""
        _, *others = self._propagation.neighbours
        out.append(Hold(tuple(each for each in others if not self._has_changed(each))))

    def _has_changed(self, neighbour: BrokerId) -> bool:
        """Whether something happened to this link since neighbours began to move."""
        return any(each.neighbour == neighbour for each in self._changes)

    def _resolve(
        self, neighbour: BrokerId, succession: Succession, now_us: int, out: list[Effect]
    ) -> None:
        """This neighbour has moved, or stays; until all are known, tables could say what is old."""
        self._awaited.discard(neighbour)
        if self._awaited:
            return
        centre = self._centre
        have_moved = all(each.state is LinkState.ENDED for each in self._changes)
        if self._is_wanted and not self._stayed and have_moved:
            self._end([centre], succession, now_us, out)
            out.append(Release())
            return
        if not self._has_changed(centre):
            out.append(ResetLink(centre))
        changes, self._changes = self._changes, []
        self._wait(now_us, out)
        for change in changes:
            neighbour, state = change.neighbour, change.state
            if state is LinkState.FAILED and neighbour != centre:
                # It goes on at the centre, or comes back: nothing is to be kept here for it.
                succession.around.relink(neighbour, LinkState.ENDED, now_us, out)
                self._away[neighbour] = now_us
            else:
                succession.around.relink(neighbour, state, now_us, out)
        out.append(Release())

    def _return(
        self, gone: tuple[BrokerId, ...], succession: Succession, now_us: int, out: list[Effect]
    ) -> None:
        """Its last links do not end: it is without those who have moved, and leaves again."""
        changes, self._changes = self._changes, []
        if changes:
            for each in (*gone, *(change.neighbour for change in changes)):
                succession.around.relink(each, LinkState.ENDED, now_us, out)
        self._wait(now_us, out)

    def _resume(
        self, change: LinkChanged, succession: Succession, now_us: int, out: list[Effect]
    ) -> None:
        """The last link, which was to end, is down: it comes back where somebody would be alone.

        If it has ended, who was away is the other end's.
        """
        neighbour, state, around = change.neighbour, change.state, succession.around
        is_needed = self._last.pop(neighbour)
        if neighbour in self._propagation.neighbours:
            around.relink(neighbour, state, now_us, out)
        if state is LinkState.ENDED and is_needed:
            for each in self._told:
                self.forget(each)
                around.settled(each, now_us, is_in=False)
                out.append(EndLink(each))
        if is_needed or state is LinkState.FAILED:
            self._keep(neighbour, succession, now_us, out)

    def _keep(
        self, neighbour: BrokerId, succession: Succession, now_us: int, out: list[Effect]
    ) -> None:
        """The link that was to end stays after all."""
        self.misses(neighbour, now_us)
        succession.around.settled(neighbour, now_us, is_in=True)
        out.append(OpenLink(neighbour, is_lasting=True))

    # --- what neighbours say ------------------------------------------------------------------

    def receive(
        self,
        neighbour: BrokerId,
        message: LeavingMessage,
        succession: Succession,
        now_us: int,
        out: list[Effect],
    ) -> None:
        """An answer to this attempt; others are out of date."""
        if message.attempt != self._attempt:
            return
        match self.state, message:
            case State.LINKING, Prepared(moved=moved):
                for each in moved:
                    self._away.pop(each, None)
                self._awaited.discard(neighbour)
                if self._awaited:
                    return
                centre, *others = self._propagation.neighbours
                if neighbour == centre:
                    self.state = State.STOPPING
                    self._stop(now_us, out)
                else:
                    self._awaited = {centre}
                    self._be_patient(now_us, out)  # links are opened now
                    away = tuple(self._away)
                    out.append(Send(centre, Prepare(self._attempt, centre, tuple(others), away)))
            case State.STOPPING, Stopped(turn=turn) if turn == self._turn:
                self._awaited.discard(neighbour)
                if self._awaited:
                    return
                if self._heard:
                    self._stop(now_us, out)
                elif self._is_quiet(succession, now_us):
                    self._hand_over(out)
                else:
                    self._abandon(now_us, out)
            case ((State.LINKING | State.STOPPING), Refuse()):
                self._abandon(now_us, out)
            case State.SUCCEEDING, Refuse() if neighbour != self._centre:
                self._stayed += (neighbour,)
                self._resolve(neighbour, succession, now_us, out)

    def link(
        self,
        neighbour: BrokerId,
        state: LinkState,
        succession: Succession,
        now_us: int,
        out: list[Effect],
    ) -> bool:
        """A link changed; whether the tables do not change for it now."""
        is_up = state is LinkState.UP
        is_trees = is_up or neighbour in self._propagation.neighbours
        match self.state:
            case State.LINKING | State.STOPPING if is_trees:
                self._abandon(now_us, out)
            case State.SUCCEEDING if is_trees or self._has_changed(neighbour):
                if state is LinkState.ENDED and is_trees:
                    succession.around.parting([neighbour], now_us, out)
                self._changed(LinkChanged(neighbour, state), succession, now_us, out)
                return True
            case State.ENDING if is_up:
                # The centre has its place, and takes nothing from it any more.
                others = self._awaited - {neighbour}
                self._last = dict.fromkeys(others, neighbour not in self._told)
                self._return((self._centre,), succession, now_us, out)
            case State.WAITING | State.STAYING if neighbour in self._last:
                self._resume(LinkChanged(neighbour, state), succession, now_us, out)
                return True
            case State.WAITING | State.STAYING if is_up and neighbour in self._told:
                self._last = dict.fromkeys(self._last, False)  # nobody is alone without it
            case State.ENDING if neighbour not in self._awaited:
                # It is none of the tree's; who has moved has said so before.
                return self._has_changed(neighbour)
            case State.ENDING if state is LinkState.FAILED and (self._away or not self._changes):
                # Nobody may have its place, or know who is away: these would look for it for ever.
                self._return((), succession, now_us, out)
                self._keep(neighbour, succession, now_us, out)
            case State.ENDING:
                self._awaited.discard(neighbour)
                self._finish(out)
        return False
