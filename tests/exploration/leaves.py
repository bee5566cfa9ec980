"""A broker of three that leaves, in every order of messages, and one link that breaks.

A - B - C, and B leaves; P publishes at A or C, and somebody at the other wants it all.  Messages
are as slow as they like; no timer fires until all of the script has happened and nothing can
arrive.  Links end when nothing is in them, at both ends at one moment.  In the end there is one
tree of A and C, with the tables that it must have, and what is published then arrives; what was
published before arrives at most once, in order, and all of it unless a link broke.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from shoal.broker.effects import (
    EndLink,
    Hold,
    Leave,
    Left,
    LinkChanged,
    LinkState,
    OpenLink,
    Received,
    Release,
    Requested,
    ResetLink,
    Started,
)
from shoal.broker.messages import Advertise, Message, Publish, Subscribe
from shoal.overlays.registry import strategy_factory
from shoal.overlays.tree.oracle import check_tables, expected_tables
from tests.broker.transcript import advertisement, publication, subscription
from tests.exploration.network import DEAD, Draft, Ends, Network, State
from tests.exploration.search import Explored, explore

LEAVING = "B"
NAMES = ("A", LEAVING, "C")
PROMISE, WISH = advertisement("a"), subscription("s")
FIRST = frozenset({frozenset("AB"), frozenset("BC")})


class Script(NamedTuple):
    """What the script still has, and what is so.

    publications  how many are still to be published
    leaves        whether B has yet to be asked to leave
    fault         the link that will break
    broken        the link that is broken
    linked        links that are up, or about to be
    lasting       links that come up again
    ending        links that are to end
    holds         for each broker, whom it hears, None for everybody
    """

    publications: int
    leaves: bool = True
    fault: Ends | None = None
    broken: Ends | None = None
    linked: frozenset[frozenset[str]] = FIRST
    lasting: frozenset[frozenset[str]] = FIRST
    ending: frozenset[frozenset[str]] = frozenset()
    holds: tuple[tuple[str, ...] | None, ...] = (None, None, None)


class Leaves(Network):
    """The three, from the moment at which A and C know each other's clients."""

    def __init__(
        self, publications: int, fault: Ends | None = None, *, publishing: str = "A"
    ) -> None:
        super().__init__(NAMES, (), strategy_factory("tree"))
        self.publishing, self.subscribing = publishing, "C" if publishing == "A" else "A"
        self.publications = publications
        self.watchers = [WISH.id]
        self.is_broken = fault is not None
        ways = {way for ends, way in self.ways.items() if frozenset(ends) not in FIRST}
        neighbours = {"A": ("B",), "B": ("A", "C"), "C": ("B",)}
        state = State(
            tuple(self.fresh(name, neighbours[name]) for name in NAMES),
            ((),) * len(self.ways),
            frozenset(ways),
            (),
            0,
            ((),),
            Script(0, leaves=False),
        )
        draft = Draft(state)
        for who, _ in enumerate(NAMES):
            self.take(draft, who, self.lives.input(Started()))
        self._ask(draft, self.publishing, "P", Advertise(PROMISE))
        self._ask(draft, self.subscribing, "C", Subscribe(WISH))
        state = draft.state()
        while following := next((after for _, after in self.arrivals(state)), None):
            state = following
        self.start = state._replace(left=Script(publications, fault=fault))

    def _ask(self, draft: Draft, broker: str, client: str, request: Message) -> None:
        self.take(draft, self.index[broker], self.lives.input(Requested(client, request)))

    # --- what comes of effects ----------------------------------------------------------------

    def other(self, effect: Any) -> tuple[Any, ...] | None:
        match effect:
            case OpenLink(neighbour, is_lasting=is_lasting):
                return "open", neighbour, is_lasting
            case EndLink(neighbour):
                return "end", neighbour
            case ResetLink(neighbour):
                return "reset", neighbour
            case Hold(but):
                return "hold", but
            case Release():
                return "hold", None
            case Left():
                return ("left",)
        return None

    def carry_out(self, draft: Draft, who: int, effect: tuple[Any, ...]) -> None:
        name, script = self.names[who], draft.left
        match effect:
            case "hold", but:
                holds = (*script.holds[:who], but, *script.holds[who + 1 :])
                draft.left = script._replace(holds=holds)
            case ("left",):
                self._leave(draft, name)
            case "open", other, is_lasting:
                self._open(draft, name, other, is_lasting=is_lasting)
            case "end", other:
                self._end(draft, name, other)
            case "reset", other:
                ends = frozenset((name, other))
                if ends in script.linked and ends not in script.ending:
                    self.sever(draft, name, other, name, other)
                    self.join(draft, name, other)

    def _leave(self, draft: Draft, name: str) -> None:
        """It is gone, with its links, if there are any left."""
        script: Script = draft.left
        mine = frozenset(ends for ends in script.linked | script.lasting if name in ends)
        for ends in sorted(mine & script.linked, key=sorted):
            (other,) = ends - {name}
            self.sever(draft, name, other, other)
        draft.left = script._replace(
            linked=script.linked - mine,
            lasting=script.lasting - mine,
            ending=script.ending - mine,
        )
        self.kill(draft, name)

    def _open(self, draft: Draft, name: str, other: str, *, is_lasting: bool) -> None:
        ends, script = frozenset((name, other)), draft.left
        if ends in script.ending:
            return
        if is_lasting:
            script = draft.left = script._replace(lasting=script.lasting | {ends})
        if ends in script.linked:
            return
        if draft.lives[self.index[other]] == DEAD or ends == frozenset(script.broken or ()):
            self.refuse(draft, name, other)
            return
        draft.left = script._replace(linked=script.linked | {ends})
        self.join(draft, name, other, is_lasting=ends in script.lasting)

    def _end(self, draft: Draft, name: str, other: str) -> None:
        ends, script = frozenset((name, other)), draft.left
        script = draft.left = script._replace(lasting=script.lasting - {ends})
        if ends in script.linked:
            draft.left = script._replace(ending=script.ending | {ends})
        else:
            way = self.ways[other, name]
            draft.queues[way] += (self.lives.input(LinkChanged(other, LinkState.ENDED)),)

    # --- what may happen ----------------------------------------------------------------------

    def arrives(self, state: State, way: int, input: int) -> bool:
        """What is held back waits; that a link has changed comes all the same."""
        message = self.lives.inputs[input]
        but = state.left.holds[self.targets[way]]
        return but is None or not isinstance(message, Received) or message.neighbour in but

    def steps(self, state: State) -> Iterator[tuple[object, State]]:
        is_quiet = True
        for step in (*self.arrivals(state), *self._ends(state), *self._script(state)):
            is_quiet = False
            yield step
        if is_quiet and state.lives[self.index[LEAVING]] != DEAD:
            yield from self.timeouts(state)

    def _ends(self, state: State) -> Iterator[tuple[object, State]]:
        """Links that are to end, and with nothing in them."""
        for ends in sorted(state.left.ending, key=sorted):
            one, other = sorted(ends)
            ways = self.ways[one, other], self.ways[other, one]
            if any(state.queues[way] for way in ways):
                continue
            draft = Draft(state)
            script: Script = draft.left
            draft.left = script._replace(
                linked=script.linked - {ends}, ending=script.ending - {ends}
            )
            for way, end, gone in zip(ways, (other, one), (one, other), strict=True):
                draft.closed.add(way)
                self.take(
                    draft,
                    self.index[end],
                    self.lives.input(LinkChanged(gone, LinkState.ENDED)),
                )
            yield ("ends:", one, other), draft.state()

    def _script(self, state: State) -> Iterator[tuple[object, State]]:
        script: Script = state.left
        if script.publications and script.holds[self.index[self.publishing]] is None:
            draft = Draft(state)
            draft.left = script._replace(publications=script.publications - 1)
            number = self.publications - script.publications
            self._ask(draft, self.publishing, "P", Publish((publication(number),)))
            yield ("P publishes", number), draft.state()
        if script.leaves:
            draft = Draft(state)
            draft.left = script._replace(leaves=False)
            self.take(draft, self.index[LEAVING], self.lives.input(Leave()))
            yield (LEAVING, "leaves"), draft.state()
        if script.fault is not None and not script.leaves:
            yield from self._break(state, script.fault)
        if script.broken is not None:
            draft = Draft(state)
            ends = frozenset(script.broken)
            draft.left = script._replace(broken=None)
            alive = all(draft.lives[self.index[end]] != DEAD for end in script.broken)
            if ends in script.lasting and ends not in script.linked and alive:
                draft.left = draft.left._replace(linked=script.linked | {ends})
                self.join(draft, *script.broken)
            yield ("mended:", *script.broken), draft.state()

    def _break(self, state: State, fault: Ends) -> Iterator[tuple[object, State]]:
        draft, script, ends = Draft(state), state.left, frozenset(fault)
        draft.left = script._replace(
            fault=None,
            broken=fault,
            linked=script.linked - {ends},
            ending=script.ending - {ends},
        )
        if ends in script.linked:
            self.sever(draft, *fault, *fault)
        yield ("breaks:", *fault), draft.state()

    # --- judging ------------------------------------------------------------------------------

    def explore(self) -> Explored:
        return explore(self.start, self.steps, self.describe, self.judge)

    def judge(self, state: State) -> list[str]:
        """What is wrong when nothing can happen any more."""
        problems = []
        script: Script = state.left
        if state.lives[self.index[LEAVING]] != DEAD:
            problems.append(f"{LEAVING} has not left")
        if script.linked != {frozenset("AC")} or script.lasting != {frozenset("AC")}:
            problems.append(f"links are {script.linked}, and last {script.lasting}")
        if script.holds != (None, None, None) and any(script.holds[::2]):
            problems.append(f"still held: {script.holds}")
        problems += self._judge_deliveries(state) + self._judge_tables(state)
        return problems

    def _judge_deliveries(self, state: State) -> list[str]:
        draft = Draft(state)
        number = self.publications
        self._ask(draft, self.publishing, "P", Publish((publication(number),)))
        state = draft.state()
        while following := next((after for _, after in self.arrivals(state)), None):
            state = following
        seen = [sequence for _, sequence in state.seen[0]]
        problems = [] if seen == sorted(set(seen)) else [f"seen: {seen}"]
        wanted = [number] if self.is_broken else range(number + 1)
        return problems + [f"misses {each}" for each in wanted if each not in seen]

    def _judge_tables(self, state: State) -> list[str]:
        expected = expected_tables(
            [("A", "C")], [(PROMISE, self.publishing)], [(WISH, self.subscribing)]
        )
        tables = {
            name: self.lives.machine(state.lives[self.index[name]]).broker.strategy.tables
            for name in ("A", "C")
        }
        return check_tables(expected, tables)
