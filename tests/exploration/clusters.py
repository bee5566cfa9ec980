"""A handover of a BlueDove segment, in every order of events, with one link that breaks.

Dispatcher D has a publisher and a subscriber, with subscriptions made before and one during the
handover. Matcher M2 leaves, and M1 takes over its segment. Messages and matching may take any time;
no timer fires until the script is done and nothing is under way. After enough time the judges check
that each publication reached its subscribers once and in order, that one matcher serves each place,
and that no broker holds anything back.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from shoal.broker.effects import Notify, OpenLink, Requested, Started, TimerFired
from shoal.broker.messages import Message, Publish, Subscribe
from shoal.matching.segments import Dimension
from shoal.overlays.bluedove.messages import LeaveCluster, SubscriptionStored
from shoal.overlays.bluedove.parameters import BlueDoveParameters
from shoal.overlays.bluedove.protocol import Bluedove
from tests.broker.transcript import publication, subscription
from tests.exploration.network import DEAD, Draft, Ends, Network, State
from tests.exploration.search import Explored, explore
from tests.overlays.bluedove.cluster import Cluster, ToItself

DISPATCHER, HEIR, LEAVING_BROKER = "D", "M1", "M2"
NAMES = (DISPATCHER, HEIR, LEAVING_BROKER)
SET_BY = BlueDoveParameters(
    dimensions=(Dimension(attribute="x", low=0, high=100),),
    dispatchers=(DISPATCHER,),
    matchers=(HEIR, LEAVING_BROKER),
    cores=1,
)
# Time until all brokers know each other; time until dead ones are noticed and requests repeated.
SET_UP_S, DRAIN_S = 5, 40
# The subscriptions: to everything, and to the range that only M2 serves at first, made before or
# during the handover.
ALL, EARLY, LATE = "all", "early", "late"
WANTED = {ALL: 0, EARLY: 60, LATE: 60}


class RemainingScript(NamedTuple):
    """The rest of the script, and facts for the judges.

    publications  to be published, by x; their number is their place
    leaves        whether M2 has yet to be told to leave
    subscribes    whether the later subscription is still to come
    fault         the link that will break
    broken        the link that is broken
    linked        the links that are up, or about to be
    is_stored     whether the later subscription is acknowledged
    owed          the publications after that acknowledgement
    """

    publications: tuple[int, ...]
    leaves: bool = True
    subscribes: bool = True
    fault: Ends | None = None
    broken: Ends | None = None
    linked: frozenset[frozenset[str]] = frozenset()
    is_stored: bool = False
    owed: tuple[int, ...] = ()


class Handovers(Network):
    """The cluster, from the state in which both matchers serve."""

    def __init__(
        self,
        publications: tuple[int, ...],
        fault: Ends | None = None,
        *,
        subscribes: bool = True,
    ) -> None:
        super().__init__(NAMES, (), lambda context: Bluedove(context, SET_BY))
        self.publications = publications
        self.watchers = list(WANTED)
        closed = frozenset(self.ways.values())
        state = State(
            tuple(self.fresh(name) for name in NAMES),
            ((),) * len(self.ways),
            closed,
            (),
            0,
            ((),) * len(WANTED),
            RemainingScript((), leaves=False, subscribes=False),
        )
        draft = Draft(state)
        for who, _ in enumerate(NAMES):
            self.take(draft, who, self.lives.input(Started()))
        for name in (ALL, EARLY):
            self._ask(draft, DISPATCHER, _subscribe(name))
        state = draft.state()
        while following := next(self._anything(state), None):
            state = following
        linked = state.left.linked
        left = RemainingScript(publications, subscribes=subscribes, fault=fault, linked=linked)
        self.start = state._replace(left=left)

    def _anything(self, state: State) -> Iterator[State]:
        """Take steps without choice until the cluster is set up."""
        for _, after in self.arrivals(state):
            yield after
        for _, after in self.timeouts(state):
            if after.now_us <= SET_UP_S * 1_000_000:
                yield after

    def _ask(self, draft: Draft, broker: str, request: Message) -> None:
        self.take(draft, self.index[broker], self.lives.input(Requested("C", request)))

    # --- effects ----------------------------------------------------------------------------------

    def other(self, effect: Any) -> tuple[Any, ...] | None:
        match effect:
            case OpenLink(neighbour):
                return "open", neighbour
            case Notify(_, SubscriptionStored(id)) if id == LATE:
                return ("stored",)
        return None

    def carry_out(self, draft: Draft, who: int, effect: tuple[Any, ...]) -> None:
        left: RemainingScript = draft.left
        match effect:
            case ("stored",):
                draft.left = left._replace(is_stored=True)
            case "open", other:
                ends = frozenset((self.names[who], other))
                if left.broken is not None and ends == frozenset(left.broken):
                    self.refuse(draft, self.names[who], other)
                elif ends not in left.linked:
                    draft.left = left._replace(linked=left.linked | {ends})
                    self.join(draft, self.names[who], other)

    # --- possible steps ---------------------------------------------------------------------------

    def steps(self, state: State) -> Iterator[tuple[object, State]]:
        yield from self.arrivals(state)
        for timer in state.timers:
            if timer.key[0] == "match":
                draft = Draft(state)
                del draft.timers[timer[1:]]
                self.take(draft, self.index[timer.who], self.lives.input(TimerFired(timer.key)))
                yield ("fires", timer), draft.state()
        yield from self._script(state)

    def _script(self, state: State) -> Iterator[tuple[object, State]]:
        left: RemainingScript = state.left
        draft = Draft(state)
        if left.publications:
            number = len(self.publications) - len(left.publications)
            owed = (*left.owed, number) if left.is_stored else left.owed
            draft.left = left._replace(publications=left.publications[1:], owed=owed)
            row = publication(number, "C", x=left.publications[0])
            self._ask(draft, DISPATCHER, Publish((row,)))
            yield ("C publishes", number), draft.state()
            draft = Draft(state)
        if left.leaves:
            draft.left = left._replace(leaves=False)
            self._ask(draft, LEAVING_BROKER, LeaveCluster())
            yield (LEAVING_BROKER, "leaves"), draft.state()
            draft = Draft(state)
        if left.subscribes:
            draft.left = left._replace(subscribes=False)
            self._ask(draft, DISPATCHER, _subscribe(LATE))
            yield ("C subscribes",), draft.state()
            draft = Draft(state)
        if left.fault is not None:
            ends = left.linked - {frozenset(left.fault)}
            draft.left = left._replace(fault=None, broken=left.fault, linked=ends)
            self.sever(draft, *left.fault, *left.fault)
            yield ("breaks:", *left.fault), draft.state()
            draft = Draft(state)
        if left.broken is not None:
            draft.left = left._replace(broken=None)
            yield ("mended:", *left.broken), draft.state()

    # --- judging ------------------------------------------------------------------------------

    def explore(self) -> Explored:
        return explore(self.start, self.steps, self.describe, self.judge)

    def judge(self, state: State) -> list[str]:
        """Faults of the state after enough time."""
        stage = self._live(state)
        stage.run(DRAIN_S)
        left: RemainingScript = state.left
        problems = [f"refused: {reason}" for reason in stage.refusals()]
        for number, watcher in enumerate(self.watchers):
            seen = [sequence for _, sequence in state.seen[number]]
            seen += [row[0] for row in stage.in_order() if watcher in row[2]]
            if seen != sorted(set(seen)):
                problems.append(f"{watcher} gets {seen}")
            owed = left.owed if watcher == LATE else range(len(self.publications))
            wanted = [each for each in owed if self.publications[each] >= WANTED[watcher]]
            problems += [f"{watcher} misses {each}" for each in wanted if each not in seen]
        dispatcher = stage.strategies[DISPATCHER].dispatcher
        assert dispatcher is not None
        if len(dispatcher.outbox) or dispatcher.home.unstored:
            problems.append(f"kept: {len(dispatcher.outbox)}, {dispatcher.home.unstored}")
        return problems + _judge_segments(stage)

    def _live(self, state: State) -> LiveStage:
        """The cluster in this state, driven by a clock."""
        stage = LiveStage(SET_BY)
        for name, life in zip(NAMES, state.lives, strict=True):
            assert life != DEAD
            broker = self.lives.machine(life).broker
            stage.nodes[name], stage.strategies[name] = broker, broker._strategy
            broker._strategy.node.inbox = ToItself()
        stage.now_us = state.now_us
        stage.timers = {(timer.who, timer.key): timer.at_us for timer in state.timers}
        stage.links = {ends for ends, way in self.ways.items() if way not in state.closed}
        stage.unsettled = Forgotten()
        stage.under_way.clear()
        stage.records.clear()
        return stage


def _subscribe(name: str) -> Subscribe:
    return Subscribe(subscription(name, f"x >= {WANTED[name]}"))


class Forgotten(dict[Any, Any]):
    """Leftovers of brokers from before the stage was made, which are dropped."""

    def pop(self, key: Any, default: Any = None) -> Any:
        return super().pop(key, default)


class LiveStage(Cluster):
    def in_order(self) -> list[tuple[int, str, tuple[str, ...]]]:
        """Deliveries of `delivered`, in their order."""
        return [
            (effect.routed.publication.sequence, effect.client, effect.subscriptions)
            for _, effect in self.deliveries
        ]


def _judge_segments(stage: Cluster) -> list[str]:
    """In the end exactly one matcher serves each place."""
    segments = sorted(
        segment
        for strategy in stage.strategies.values()
        if strategy.matcher is not None
        for segment in strategy.matcher.segments
        if segment
    )
    bounds = [bound for segment in segments for bound in segment]
    if bounds[1:-1:2] != bounds[2::2] or (bounds[0], bounds[-1]) != (-math.inf, math.inf):
        return [f"served are {segments}"]
    return []
