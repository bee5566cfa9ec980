"""Brokers of a tree that leave, in every order of messages, with one fault anywhere.

P publishes `a` at one broker, and a subscription at another asks for all of it (`s`). Messages may
take any time. A timer fires when only a repair could happen otherwise, and a bounded number of
times. At the end the remaining brokers form one tree with the right tables, none is quiesced or
holds anything back, and a last publication arrives. Earlier publications arrive at most once, in
order. All of them arrive if no broker was killed, except those on a link that broke before the
change was decided.

| play | states |
| --- | --- |
| the middle of a line, two publications, awaited or not | 1,076 to 1,859 |
| the middle, a link A - B, B - C or the new A - C breaks | 12,848, 7,614, 5,040 |
| the middle, the decider, the leaving broker or the other is killed | 33,572, 91,382, 27,654 |
| the middle, a timer fires too early | 2,974 |
| the middle, a publication, a link breaks | 17,717 to 71,638 |
| the middle, one subscription comes and one goes | 700 to 3,097 |
| a leaf, any fault | 69 to 3,459 |
| the centre of a star of four; with a publication | 15,404; 37,597 |
| the centre, subscriptions come and go | 128,813 |
| the centre, A - B, B - C or the new A - C breaks | 2,483,773, 1,734,164, 2,015,170 |
| the centre, its decider is killed | 10,895,055 |
| the centre, another broker is killed | more than 700,000: the nearest are explored |
| two neighbours; two that ask outwards, and a link that one opens breaks | 8,471; 425,805 |
| the middle and a leaf leave; and A - B or B - C breaks, or A is killed | 55,783, 36,734, 115,440 |
| a broker joins at the leaving one | 62,640 |
| the same and a fault | more than 300,000: the nearest are explored |

Steps of two brokers commute, so most states are orders of table messages on two links at once.
Chance is taken out (`around.Even`): different waits would distinguish equal states.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from shoal.broker.effects import Leave, LinkChanged, LinkState, Requested
from shoal.broker.machine import Broker
from shoal.broker.messages import (
    Advertise,
    Message,
    Publish,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from shoal.model import Subscription
from shoal.overlays.coordination.part import Stage
from shoal.overlays.registry import strategy_factory
from shoal.overlays.tree.oracle import check_tables, expected_tables
from shoal.overlays.tree.system import TreeParameters
from tests.broker.transcript import advertisement, publication, subscription
from tests.exploration.around import DOWN, Pair
from tests.exploration.disks import Disks
from tests.exploration.network import DEAD, Draft, Ends, State
from tests.exploration.search import Explored, exhaust, explore

PROMISE, EXTRA, WISH = advertisement("a"), advertisement("extra"), subscription("s")
LATE, OLD = subscription("late", client="L"), subscription("old", client="O")

LINE: tuple[Ends, ...] = (("A", "B"), ("B", "C"))
STAR: tuple[Ends, ...] = (("A", "B"), ("B", "C"), ("B", "D"))
LONG: tuple[Ends, ...] = (("A", "B"), ("B", "C"), ("C", "D"))


# Bound on the number of timers of a play.
END_US = 30_000_000


class Play(NamedTuple):
    """The events of a play, and the brokers concerned.

    links         at first
    leaving_brokers  asked to leave
    publications  how many are published at `publishing`, for the subscriber at `subscribing`
    fault         ("link", A, B), ("broker", A), ("early",): a timer fires too early; or none
    comes, goes   where a subscription comes, and where another goes
    joins         a broker that links to another
    patience      how many timers fire while something is down
    covering      whether covered subscriptions are not forwarded
    calm          "first" or "last": until the fault the events happen in one of these two orders
    awaited       whether publishers await acknowledgements; else the next broker settles
    retracts      whether P takes back a second advertisement
    """

    links: tuple[Ends, ...] = LINE
    leaving_brokers: tuple[str, ...] = ("B",)
    publications: int = 0
    fault: tuple[str, ...] = ()
    publishing: str = "A"
    subscribing: str = "C"
    comes: str = ""
    goes: str = ""
    joins: Ends | tuple[()] = ()
    patience: int = 2
    awaited: bool = True
    covering: bool = False
    calm: str = ""
    retracts: bool = False


class Script(NamedTuple):
    """The rest of a play, and whether publications may be lost."""

    publications: int
    leaving_brokers: tuple[str, ...]
    fault: tuple[str, ...]
    comes: str
    goes: str
    joins: Ends | tuple[()]
    patience: int
    retracts: bool
    is_lossy: bool = False


class Seen(NamedTuple):
    """The part of a broker's state that the explorer reads."""

    neighbours: frozenset[str]
    is_out: bool
    problem: str


class Leaves(Disks):
    """The network of a play, from the state in which all clients are known everywhere."""

    shape = "tree"

    def __init__(self, play: Play, system: str = "tree") -> None:
        names = {end for ends in (*play.links, play.joins[:1]) for end in ends}
        parameters = TreeParameters(covering=True) if play.covering else None
        super().__init__(tuple(sorted(names)), strategy_factory(system, parameters))
        self.play, self.is_awaited = play, play.awaited
        self.watchers = [WISH.id, LATE.id, OLD.id]
        script = Script(
            play.publications,
            play.leaving_brokers,
            play.fault,
            play.comes,
            play.goes,
            play.joins,
            play.patience,
            play.retracts,
        )
        draft = Draft(self.begin(play.links)._replace(seen=((), (), ())))
        draft.left = draft.left[0], script
        for name in self.names:
            for client, request in self._clients(draft, name):
                self._ask(draft, name, client, request)
        self.start = self.settled(draft.state())

    def settled(self, state: State) -> State:
        while following := next((after for _, after in self.arrivals(state)), None):
            state = following
        return state

    def script(self, state: State | Draft) -> Script:
        found: Script = state.left[1]
        return found

    def change_script(self, draft: Draft, **what: Any) -> None:
        world, script = draft.left
        draft.left = world, script._replace(**what)

    def facts(self, broker: Broker) -> Seen:
        strategy: Any = broker.strategy
        tree = getattr(strategy, "tree", strategy)
        changes, problem = tree.changes, unfinished(strategy, tree)
        if not problem and changes._passing.keys() - tree.neighbours:
            problem = f"temporary links to {[*changes._passing]}"
        elif not problem and (tree.propagation.alternate_routes or tree.forwarding.draining):
            problem = f"remembers {tree.forwarding.draining}"
        return Seen(frozenset(tree.neighbours), changes.is_out, problem)

    def seen(self, state: State | Draft, name: str) -> Seen:
        found: Seen = self.lives.facts[state.lives[self.index[name]]]
        return found

    # --- clients ------------------------------------------------------------------------------

    def _clients(self, draft: Draft, name: str) -> Iterator[tuple[str, Message]]:
        """The clients at this broker, and their requests when they connect."""
        script, play = self.script(draft), self.play
        if name == play.publishing:
            yield "P", Advertise(PROMISE)
            if script.retracts:
                yield "P", Advertise(EXTRA)
        if name == play.subscribing:
            yield "C", Subscribe(WISH)
        if name == play.comes and not script.comes:
            yield "L", Subscribe(LATE)
        if name == script.goes:
            yield "O", Subscribe(OLD)

    def _ask(self, draft: Draft, broker: str, client: str, request: Message) -> None:
        self.take(draft, self.index[broker], self.lives.input(Requested(client, request)))
        self.settle(draft)

    def _publish(self, draft: Draft, number: int) -> None:
        self._ask(draft, self.play.publishing, "P", Publish((publication(number),)))

    def _serves(self, state: State, name: str) -> bool:
        """Whether a broker accepts requests of clients now."""
        return self.is_alive(state, name) and self.world(state).holds[self.index[name]] is None

    # --- possible steps ---------------------------------------------------------------------------

    def steps(self, state: State) -> Iterator[tuple[object, State]]:
        self.check(state)
        assert state.now_us < END_US, "the play does not end"
        script, is_quiet = self.script(state), True
        ordinary = [*self.arrivals(state), *self.endings(state), *self._requests(state)]
        if self.play.calm and script.fault:
            ordinary = ordinary[:1] if self.play.calm == "first" else ordinary[-1:]
        for step in ordinary:
            is_quiet = False
            yield step
        is_whole = True
        for step in self._repairs(state):
            is_whole = False
            yield step
        yield from self._faults(state)
        if is_quiet and state.timers and not self._is_over(state):
            if is_whole:
                yield from self.timeouts(state)
            elif script.patience:
                for what, after in self.timeouts(state):
                    draft = Draft(after)
                    self.change_script(draft, patience=script.patience - 1)
                    yield what, draft.state()

    def fire(self, draft: Draft, timer: Any) -> None:
        super().fire(draft, timer)
        self.settle(draft)

    def _is_over(self, state: State) -> bool:
        script = self.script(state)
        leaving_brokers = (
            state.lives[self.index[each]] == DEAD for each in self.play.leaving_brokers
        )
        alive = (each for each in self.names if self.is_alive(state, each))
        return (
            all(leaving_brokers)
            and not script.joins
            and not any(self.seen(state, each).problem for each in alive)
        )

    def _requests(self, state: State) -> Iterator[tuple[object, State]]:
        script, play = self.script(state), self.play
        if script.publications and self._serves(state, play.publishing):
            draft = Draft(state)
            number = play.publications - script.publications
            self.change_script(draft, publications=script.publications - 1)
            self._publish(draft, number)
            yield ("P publishes", number), draft.state()
        if script.comes and self._serves(state, script.comes):
            draft = Draft(state)
            self.change_script(draft, comes="")
            self._ask(draft, script.comes, "L", Subscribe(LATE))
            yield ("L subscribes",), draft.state()
        if script.goes and self._serves(state, script.goes):
            draft = Draft(state)
            self.change_script(draft, goes="")
            self._ask(draft, script.goes, "O", Unsubscribe(OLD.id))
            yield ("O unsubscribes",), draft.state()
        if script.retracts and self._serves(state, play.publishing):
            draft = Draft(state)
            self.change_script(draft, retracts=False)
            self._ask(draft, play.publishing, "P", Unadvertise(EXTRA.id))
            yield ("P takes an advertisement back",), draft.state()
        for name in script.leaving_brokers:
            if self.is_alive(state, name):
                draft = Draft(state)
                left = tuple(each for each in script.leaving_brokers if each != name)
                self.change_script(draft, leaving_brokers=left)
                self.take(draft, self.index[name], self.lives.input(Leave()))
                yield (name, "leaves"), draft.state()
        if play.joins and self.is_alive(state, play.joins[0]):
            name, other = play.joins
            is_linked = any(name in ends for ends in self.world(state).lasting)
            # A broker whose first contact is gone joins through another one that it knows.
            other = "A" if state.lives[self.index[other]] == DEAD else other
            if not is_linked and self.is_alive(state, other):
                draft = Draft(state)
                self.change_script(draft, joins=())
                self._open(draft, name, other, is_lasting=True)
                self.settle(draft)
                yield (name, "joins"), draft.state()

    def arrive(self, draft: Draft, way: int, input: int) -> None:
        match self.lives.inputs[input]:
            case LinkChanged(neighbour, LinkState.FAILED):
                # A link of the tree is lost with its content, as this broker knows.
                name = self.names[self.targets[way]]
                seen = self.seen(draft, name) if self.is_alive(draft, name) else None
                if seen is not None and neighbour in seen.neighbours and not seen.is_out:
                    self.change_script(draft, is_lossy=True)
        super().arrive(draft, way, input)

    def _faults(self, state: State) -> Iterator[tuple[object, State]]:
        script = self.script(state)
        match script.fault:
            case "link", *ends:
                draft = Draft(state)
                self.change_script(draft, fault=())
                self.cut(draft, (ends[0], ends[1]))
                self.settle(draft)
                yield ("breaks:", *ends), draft.state()
            case "broker", name if self.is_alive(state, name):
                for what, after in self.crashes(state, name):
                    draft = Draft(after)
                    left = script.leaving_brokers
                    if name in self.play.leaving_brokers and name not in left:
                        left += (name,)
                    self.change_script(draft, fault=(), leaving_brokers=left, is_lossy=True)
                    yield what, draft.state()
            case ("early",):
                for what, after in self.timeouts(state):
                    draft = Draft(after)
                    self.change_script(draft, fault=())
                    yield what, draft.state()

    def _repairs(self, state: State) -> Iterator[tuple[object, State]]:
        if self.world(state).broken is not None:
            draft = Draft(state)
            self.mend(draft)
            yield ("mended",), draft.state()
        for who, name in enumerate(self.names):
            for has_late in (False, True) if state.lives[who] == DOWN else ():
                draft = Draft(state)
                self.restart(draft, name, has_late=has_late)
                for client, request in self._clients(draft, name):
                    self._ask(draft, name, client, request)
                self.settle(draft)
                yield (name, "starts", *["with late links"] * has_late), draft.state()

    # --- judging ------------------------------------------------------------------------------

    def explore(self, most: int = 3_000_000) -> Explored:
        return explore(self.start, self.steps, self.describe, self.judge, most)

    def exhaust(self, most: int = 100_000_000) -> Explored:
        return exhaust(self.start, self.steps, self.describe, self.judge, most)

    def check(self, state: State) -> None:
        """Links that both ends take for the tree's form no cycle."""
        alive = [name for name in self.names if self.is_alive(state, name)]
        root = {name: name for name in alive}
        for place, name in enumerate(alive):
            mine = self.seen(state, name)
            for other in alive[place + 1 :]:
                theirs = self.seen(state, other)
                if other not in mine.neighbours or name not in theirs.neighbours:
                    continue
                if mine.is_out or theirs.is_out:
                    continue
                one, two = _root(root, name), _root(root, other)
                assert one != two, f"a cycle: {name} - {other}"
                root[one] = two

    def judge(self, state: State) -> list[str]:
        """Faults of a state without further steps."""
        alive = [name for name in self.names if self.is_alive(state, name)]
        world = self.world(state)
        problems = [f"{each} has not left" for each in self.play.leaving_brokers if each in alive]
        problems += [f"{each}: {p}" for each in alive if (p := self.seen(state, each).problem)]
        problems += [f"{each} holds" for each in alive if world.holds[self.index[each]] is not None]
        if world.linked != world.lasting or world.ending:
            problems.append(f"links are {world.linked}, {world.lasting} last, {world.ending} end")
        if not self.is_sound(alive, world.linked):
            problems.append(f"no {self.shape} of {alive}: {world.linked}")
        return problems or self.judge_tables(state) + self._judge_deliveries(state)

    def is_sound(self, names: list[str], links: frozenset[Pair]) -> bool:
        """Whether these links form the shape of the system."""
        return is_connected(names, links) and len(links) == len(names) - 1

    @property
    def wishes(self) -> list[tuple[Subscription, str]]:
        """The subscriptions at the end, with their brokers."""
        late = [(LATE, self.play.comes)] if self.play.comes else []
        return [(WISH, self.play.subscribing), *late]

    def judge_tables(self, state: State) -> list[str]:
        links = [tuple(sorted(ends)) for ends in self.world(state).linked]
        expected = expected_tables(links, [(PROMISE, self.play.publishing)], self.wishes)
        tables = {}
        for name in self.names:
            if self.is_alive(state, name):
                strategy = self.lives.machine(state.lives[self.index[name]]).broker.strategy
                tables[name] = strategy.tables
        return check_tables(expected, tables)

    def _judge_deliveries(self, state: State) -> list[str]:
        script, last = self.script(state), self.play.publications
        draft = Draft(state)
        self._publish(draft, last)
        problems, state = [], self.settled(draft.state())
        seen = [sequence for _, sequence in state.seen[0]]
        # A subscriber's broker drops duplicates by sequence numbers.
        had = [each for place, each in enumerate(seen) if each > max(seen[:place], default=-1)]
        missed = sorted({*range(0 if script.is_lossy else last), last} - {*had})
        problems += [f"misses {each}, seen {seen}" for each in missed]
        if self.play.comes and last not in [sequence for _, sequence in state.seen[1]]:
            problems.append("L misses the last")
        return problems


def _root(root: dict[str, str], name: str) -> str:
    while root[name] != name:
        name = root[name]
    return name


def unfinished(strategy: Any, tree: Any) -> str:
    """The part of a change of links that a broker has not finished; `tree` has its links."""
    changes = tree.changes
    if changes.stage is not Stage.FREE or changes._decisions:
        return f"{changes.stage.value}, {changes._decisions}"
    if changes.is_leaving:
        return f"leaves: {changes.problem}"
    if tree._away or not strategy.is_ready:
        return f"away: {[*tree._away]}, awaited: {[*strategy.awaited]}"
    return ""


def is_connected(names: list[str], links: frozenset[Pair]) -> bool:
    reached = {names[0]}
    for _ in names:
        reached |= {end for ends in links if reached & ends for end in ends}
    return reached == {*names}
