"""Brokers with disks, links that open and end on purpose, and publications under way on each link.

`network.py` has the rest. Here are links that last and links that do not, which end when they are
empty; records that a machine writes; publications that are sent and not settled; and a broker that
is killed, also between its disk write for an input and its messages about it.

A neighbour settles a publication when it has handled it and settled everything it sent because of
it; if the publisher awaits no acknowledgement (`is_awaited`), when it has handled it. The
settlement is in order with the neighbour's other messages, as late as possible. Unsettled
publications of a failed or ended link go back to the machine (`Returned`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shoal.broker.effects import (
    Departed,
    EndLink,
    Hold,
    Input,
    Left,
    LinkChanged,
    LinkState,
    OpenLink,
    Recall,
    Received,
    Release,
    Remember,
    ResetLink,
    Returned,
    Started,
)
from shoal.broker.messages import Carrier
from shoal.broker.strategy import StrategyFactory
from tests.exploration.around import DOWN, World, evenly
from tests.exploration.network import DEAD, Draft, Ends, Network, State


class Disks(Network):
    """A network of brokers that can be killed."""

    def __init__(self, names: tuple[str, ...], system: StrategyFactory) -> None:
        super().__init__(names, (), evenly(system))
        self._ends = list(self.ways)
        self.is_awaited = True
        # By input: the number of the publication in it.
        self._carried: dict[int, int] = {}

    def begin(self, links: tuple[Ends, ...]) -> State:
        """All brokers at rest, with these links."""
        linked = frozenset(map(frozenset, links))
        neighbours = {
            name: tuple(sorted(other for ends in linked if name in ends for other in ends - {name}))
            for name in self.names
        }
        started = tuple(self.lives.input(self.starting(name)) for name in self.names)
        world = World(
            linked,
            linked,
            frozenset(),
            None,
            (None,) * len(self.names),
            started,
            ((),) * len(self.ways),
        )
        closed = {way for ends, way in self.ways.items() if frozenset(ends) not in linked}
        lives = tuple(self.fresh(name, neighbours[name]) for name in self.names)
        state = State(lives, ((),) * len(self.ways), frozenset(closed), (), 0, ((),), (world, None))
        draft = Draft(state)
        for who, _ in enumerate(self.names):
            self.take(draft, who, started[who])
        return draft.state()

    def starting(self, name: str) -> Input:
        """The first input of a broker."""
        return Started()

    # --- surroundings -----------------------------------------------------------------------------

    def world(self, state: State | Draft) -> World:
        found: World = state.left[0]
        return found

    def change(self, draft: Draft, **what: Any) -> None:
        world, script = draft.left
        draft.left = (world._replace(**what), script)

    def is_alive(self, state: State | Draft, name: str) -> bool:
        return state.lives[self.index[name]] not in (DEAD, DOWN)

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
            case Remember(facts):
                return "remember", self.lives.input(Started(facts=facts))
            case Recall(neighbour, None, moves):
                return "recall", neighbour, moves
            case Left():
                return ("left",)
        return None

    def carry_out(self, draft: Draft, who: int, effect: tuple[Any, ...]) -> None:
        name, world = self.names[who], self.world(draft)
        match effect:
            case "send", way, number:
                self._send(draft, way, number)
            case "saw", key, subscriptions:
                for subscription in subscriptions:
                    draft.seen[self.watchers.index(subscription)] += (key,)
            case "set", key, at_us:
                draft.timers[name, key] = at_us
            case "cancel", key:
                draft.timers.pop((name, key), None)
            case "hold", but:
                self.change(draft, holds=(*world.holds[:who], but, *world.holds[who + 1 :]))
            case "remember", facts:
                self.change(draft, facts=(*world.facts[:who], facts, *world.facts[who + 1 :]))
            case ("left",):
                self._leave(draft, name)
            case "open", other, is_lasting:
                self._open(draft, name, other, is_lasting=is_lasting)
            case "end", other:
                self._end(draft, name, other)
            case "recall", other, moves:
                self._return(draft, name, other, moves=moves)
            case "reset", other:
                ends = frozenset((name, other))
                if ends in world.linked and ends not in world.ending:
                    self.unlink(draft, name, other, name, other)
                    self.link(draft, name, other)

    def _leave(self, draft: Draft, name: str) -> None:
        """A broker has left; drop its remaining links."""
        for other in self.names:
            world = self.world(draft)
            is_known = frozenset((name, other)) in world.linked | world.lasting
            self.unlink(draft, name, other, other)
            if self.is_alive(draft, other) and is_known:
                # Its driver finds that out when it looks for that broker.
                departed = self.lives.input(Departed(name))
                draft.queues[self.ways[name, other]] += (departed,)
        world = self.world(draft)
        down = {each for each in self.names if draft.lives[self.index[each]] == DOWN}
        # Brokers that are down read it from their files.
        gone = {ends for ends in world.lasting if name in ends and not ends & down}
        self.change(draft, lasting=world.lasting - gone)
        self.kill(draft, name)

    def _open(self, draft: Draft, name: str, other: str, *, is_lasting: bool) -> None:
        ends, world = frozenset((name, other)), self.world(draft)
        if ends in world.ending:
            return
        if is_lasting and draft.lives[self.index[other]] != DEAD:
            self.change(draft, lasting=world.lasting | {ends})
        if ends in world.linked:
            return
        if draft.lives[self.index[other]] == DEAD:
            self.refuse(draft, name, other)
            draft.queues[self.ways[other, name]] += (self.lives.input(Departed(other)),)
        elif not self.is_alive(draft, other) or ends == world.broken:
            self.refuse(draft, name, other)
        else:
            self.link(draft, name, other)

    def link(self, draft: Draft, name: str, other: str) -> None:
        ends, world = frozenset((name, other)), self.world(draft)
        self.change(draft, linked=world.linked | {ends})
        self.join(draft, name, other, is_lasting=ends in world.lasting)

    def unlink(self, draft: Draft, name: str, other: str, *told: str) -> None:
        """Drop a link if there is one; the given ends notice."""
        ends, world = frozenset((name, other)), self.world(draft)
        if ends in world.linked:
            self.change(draft, linked=world.linked - {ends}, ending=world.ending - {ends})
            self.sever(draft, name, other)
            for each in told:
                self.refuse(draft, each, other if each == name else name)

    def refuse(self, draft: Draft, source: str, target: str) -> None:
        """Drop a link, or the request for it; one end notices."""
        is_lasting = frozenset((source, target)) in self.world(draft).lasting
        failed = LinkChanged(target, LinkState.FAILED, is_lasting)
        draft.queues[self.ways[target, source]] += (self.lives.input(failed),)

    def _end(self, draft: Draft, name: str, other: str) -> None:
        ends, world = frozenset((name, other)), self.world(draft)
        self.change(draft, lasting=world.lasting - {ends})
        if ends in world.linked:
            self.change(draft, ending=world.ending | {ends})
        else:
            ended = LinkChanged(other, LinkState.ENDED)
            draft.queues[self.ways[other, name]] += (self.lives.input(ended),)
            if ends in world.lasting and self.is_alive(draft, other):
                # The other end is refused when it connects.
                departed = self.lives.input(Departed(name))
                draft.queues[self.ways[name, other]] += (departed,)

    # --- publications under way ---------------------------------------------------------------

    def take(self, draft: Draft, who: int, input: int) -> None:
        step = self.lives.take(draft.lives[who], input, draft.now_us)
        draft.lives[who] = step.life
        for effect in step.effects:
            self.carry_out(draft, who, effect)

    def _send(self, draft: Draft, way: int, input: int) -> None:
        source, target = self._ends[way]
        is_lost = way in draft.closed
        if not is_lost:
            draft.queues[way] += (input,)
        number = self._number(input)
        if number is not None and (not is_lost or self._is_news(draft, target, source)):
            unsent = list(self.world(draft).unsent)
            unsent[way] += ((number, input, False),)
            self.change(draft, unsent=tuple(unsent))

    def _is_news(self, draft: Draft, lost: str, name: str) -> bool:
        """Whether a broker has yet to notice the loss of a link."""
        queue = draft.queues[self.ways[lost, name]]
        changes = (self.lives.inputs[each] for each in queue if each >= 0)
        return any(isinstance(each, LinkChanged) and not each.up for each in changes)

    def _number(self, input: int) -> int | None:
        if input not in self._carried:
            message = getattr(self.lives.inputs[input], "message", None) if input >= 0 else None
            is_carrier = isinstance(message, Carrier)
            self._carried[input] = (
                message.publications[0].publication.sequence if is_carrier else -1
            )
        number = self._carried[input]
        return None if number < 0 else number

    def arrive(self, draft: Draft, way: int, input: int) -> None:
        super().arrive(draft, way, input)
        target, source = self._ends[way][1], self._ends[way][0]
        if not self.is_alive(draft, target):
            return
        change = self.lives.inputs[input]
        if isinstance(change, LinkChanged) and not change.up:
            self._return(draft, target, source)
        elif self._number(input) is not None:
            unsent = list(self.world(draft).unsent)
            place = next(i for i, row in enumerate(unsent[way]) if row[1] == input and not row[2])
            rows = unsent[way]
            unsent[way] = (*rows[:place], (*rows[place][:2], True), *rows[place + 1 :])
            self.change(draft, unsent=tuple(unsent))
        self.settle(draft)

    def _return(self, draft: Draft, name: str, other: str, *, moves: bool = True) -> None:
        """Give the unsettled publications of a link back to the machine."""
        way, unsent = self.ways[name, other], self.world(draft).unsent
        for _, input, _ in unsent[way]:
            self._bring(draft, name, other, input)
        if moves:
            self._forget(draft, way)

    def _bring(self, draft: Draft, name: str, other: str, input: int) -> None:
        carrier = self.lives.inputs[input].message
        self.take(draft, self.index[name], self.lives.input(Returned(other, carrier)))

    def _forget(self, draft: Draft, way: int) -> None:
        unsent = list(self.world(draft).unsent)
        unsent[way] = ()
        self.change(draft, unsent=tuple(unsent))

    def settle(self, draft: Draft) -> None:
        """Send settlements; those with nothing queued before them take effect at once."""
        is_new = True
        while is_new:
            is_new = False
            unsent = self.world(draft).unsent
            for way, rows in enumerate(unsent):
                source, target = self._ends[way]
                back = self.ways[target, source]
                for number, input, is_handled in rows:
                    word = -1 - input
                    is_owed = self.is_awaited and any(
                        number == each[0]
                        for ends, routing_decision in self.ways.items()
                        if ends[0] == target and ends[1] != source
                        for each in unsent[routing_decision]
                    )
                    is_said = word in draft.queues[back] or back in draft.closed
                    if is_handled and not is_owed and not is_said:
                        draft.queues[back] += (word,)
                        is_new = True
            for way, queue in enumerate(draft.queues):
                while queue and queue[0] < 0:
                    input, queue = -1 - queue[0], queue[1:]
                    draft.queues[way] = queue
                    self._settled(draft, way, input)
                    is_new = True

    def _settled(self, draft: Draft, way: int, input: int) -> None:
        source, target = self._ends[way]
        back, unsent = self.ways[target, source], list(self.world(draft).unsent)
        unsent[back] = tuple(row for row in unsent[back] if row[1] != input or not row[2])
        self.change(draft, unsent=tuple(unsent))

    # --- possible steps ---------------------------------------------------------------------------

    def arrives(self, state: State, way: int, input: int) -> bool:
        """Messages of neighbours on hold wait; changes of links do not."""
        message = self.lives.inputs[input]
        but = self.world(state).holds[self.targets[way]]
        return but is None or not isinstance(message, Received) or message.neighbour in but

    def endings(self, state: State) -> Iterator[tuple[object, State]]:
        """Links that are to end and are empty."""
        world = self.world(state)
        for ends in sorted(world.ending, key=sorted):
            one, other = sorted(ends)
            ways = self.ways[one, other], self.ways[other, one]
            if any(state.queues[way] or world.unsent[way] for way in ways):
                continue
            draft = Draft(state)
            self.change(draft, linked=world.linked - {ends}, ending=world.ending - {ends})
            draft.closed |= {*ways}
            for end, gone in ((one, other), (other, one)):
                if self.is_alive(draft, end):
                    ended = LinkChanged(gone, LinkState.ENDED)
                    self.take(draft, self.index[end], self.lives.input(ended))
            self.settle(draft)
            yield ("ends:", one, other), draft.state()

    def cut(self, draft: Draft, ends: Ends) -> None:
        """Break a link, or keep it from coming up, until it is mended."""
        self.unlink(draft, *ends, *ends)
        self.change(draft, broken=frozenset(ends))

    def mend(self, draft: Draft) -> None:
        world = self.world(draft)
        assert world.broken is not None
        self.change(draft, broken=None)
        one, other = sorted(world.broken)
        self._come_up(draft, one, other)

    def _come_up(self, draft: Draft, one: str, other: str) -> None:
        """Bring up a lasting link, if both ends can."""
        ends, world = frozenset((one, other)), self.world(draft)
        if ends not in world.lasting or ends in world.linked or ends == world.broken:
            return
        if self.is_alive(draft, one) and self.is_alive(draft, other):
            self.link(draft, one, other)

    def crash(self, draft: Draft, name: str) -> None:
        """Kill a broker; everything that is not on its disk is lost."""
        who, world = self.index[name], self.world(draft)
        for other in self.names:
            if other != name:
                ends = frozenset((name, other))
                if ends in world.linked - world.lasting and draft.queues[self.ways[other, name]]:
                    self.change(draft, late=self.world(draft).late | {ends})
                self.unlink(draft, name, other, other)
                self._forget(draft, self.ways[name, other])
        self.kill(draft, name)
        draft.lives[who] = DOWN
        holds = self.world(draft).holds
        self.change(draft, holds=(*holds[:who], None, *holds[who + 1 :]))
        self.settle(draft)

    def write(self, draft: Draft, who: int, input: int, most: int) -> int:
        """Write the first records of an input to the broker's disk; return how many there are."""
        step = self.lives.take(draft.lives[who], input, draft.now_us)
        name, found = self.names[who], 0
        for effect in step.effects:
            world = self.world(draft)
            match effect:
                case "remember", _ if (found := found + 1) <= most:
                    self.carry_out(draft, who, effect)
                case "open", other, True if (found := found + 1) <= most:
                    if draft.lives[self.index[other]] != DEAD:
                        self.change(draft, lasting=world.lasting | {frozenset((name, other))})
                case "end", other if (found := found + 1) <= most:
                    self.change(draft, lasting=world.lasting - {frozenset((name, other))})
        return found

    def crashes(self, state: State, name: str) -> Iterator[tuple[object, State]]:
        """Kills of this broker: at rest, and after each record that its next input writes."""
        draft = Draft(state)
        self.crash(draft, name)
        yield ("dies:", name), draft.state()
        who = self.index[name]
        for way, queue in enumerate(state.queues):
            if self.targets[way] != who or not queue or not self.arrives(state, way, queue[0]):
                continue
            for most in range(1, self.write(Draft(state), who, queue[0], 0) + 1):
                draft = Draft(state)
                self.write(draft, who, queue[0], most)
                self.crash(draft, name)
                yield ("dies having written of", queue[0], way, most), draft.state()

    def restart(self, draft: Draft, name: str, *, has_late: bool) -> None:
        """Start a broker from its disk."""
        late = self.world(draft).late
        self.change(draft, late=frozenset())
        who, world = self.index[name], self.world(draft)
        others = sorted(other for ends in world.lasting if name in ends for other in ends - {name})
        draft.lives[who] = self.fresh(name, (), tuple(others))
        self.take(draft, who, world.facts[who])
        for other in others:
            if draft.lives[self.index[other]] == DEAD:
                self.change(draft, lasting=self.world(draft).lasting - {frozenset((name, other))})
                self._open(draft, name, other, is_lasting=False)
            elif not self.is_alive(draft, other) or {name, other} == world.broken:
                self.refuse(draft, name, other)
            else:
                self._come_up(draft, name, other)
        for ends in sorted(late - self.world(draft).linked, key=sorted) if has_late else ():
            (other,) = ends - {name}
            if self.is_alive(draft, other):
                self.link(draft, name, other)

    # --- texts ------------------------------------------------------------------------------------

    def describe(self, what: Any) -> str:
        match what:
            case "dies having written of", input, way, most:
                of = super().describe(("arrives", input, way))
                return f"{self._ends[way][1]} dies having written {most} times of {of}"
        return super().describe(what)
