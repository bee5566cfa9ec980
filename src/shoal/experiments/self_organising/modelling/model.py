"""The study's fast model: the machines' own decisions on a tree, without sending a message.

Every broker has a `Neighbourhood` and decides by the functions of `planner.py`, as the broker does.
Time is simplified: notifications, broadcasts and exchanges take none beside an interval, so that
two broadcasts never meet; but the effects of one happen in the machines' order. So no message is
needed: delivery trees give the costs of notifications, routes those of other messages; and the
times of subscriptions give the shared notifications of two brokers, because filters of this size
err once in millions, and caches of this size hold more than an interval. `simulated.py` runs the
machines themselves on the same workload; a test finds the same exchanges and costs. So does
`compiled`, in arrays, for the runs that it can do.

Source: Cost and Interest, section 5.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, cast

from shoal.experiments.self_organising.modelling.delivery import DeliveryTree
from shoal.experiments.self_organising.modelling.setting import (
    TICK_US,
    WINDOW,
    SelfOrganisingSetting,
)
from shoal.experiments.self_organising.modelling.sharing import (
    Interested,
    SharedInterest,
    SharingInterval,
    SharingPairs,
    SharingTriples,
)
from shoal.experiments.self_organising.modelling.walks import Walk
from shoal.experiments.self_organising.modelling.workload import ModelWorkload
from shoal.overlays.self_organising.deciding.interest import ID_BYTES
from shoal.overlays.self_organising.deciding.planner import (
    Cycle,
    decide,
    gives_way,
)
from shoal.overlays.self_organising.parameters import Heuristic, SelfOrganisingParameters, ThreeWay

# Kinds of costs; each is added up by window.
KINDS = ("notifications", "broadcasts", "requests", "exchanges")
# As `ModelOutcome` says.
COUNTS = ("heard", "proposals", "exchanges", "kept", "refused", "filter", "ids")
FILTER_BYTES = SelfOrganisingParameters().filter_bits // 8
# A new link is open after as many messages over it.
OPENING = 2


class LinkSwap(NamedTuple):
    """An exchange: when, over which cycle, and which of its links went."""

    at: float
    cycle: tuple[int, ...]
    remove: int


class ModelOutcome(NamedTuple):
    """Results of a run.

    costs       of each kind, by window
    counts      broadcasts received, proposals, exchanges, those kept, refused; bytes of broadcasts
                as filters, and as identifiers where these are fewer
    links       the tree in the end
    """

    costs: dict[str, list[float]]
    counts: dict[str, int]
    swaps: list[LinkSwap]
    links: list[tuple[int, int]]


class SelfOrganisingModel:
    """A run of the study."""

    def __init__(
        self,
        setting: SelfOrganisingSetting,
        workload: ModelWorkload,
        links: Iterable[tuple[int, int]],
        broadcasts_at: Sequence[Sequence[float]],
    ) -> None:
        """`broadcasts_at` says when each broker broadcasts."""
        self._setting = setting
        self._workload = workload
        self._broadcasts_at = broadcasts_at
        self._costs = workload.costs[0]
        self._tree = DeliveryTree(setting.brokers, links)
        self._types = [Interested(times) for times in workload.publications]
        self._pairs = SharingPairs(setting.brokers, self._types)
        self._triples = SharingTriples(setting.brokers, self._types, 4 * setting.interval)
        self._members = list(workload.members)
        self._told = [0.0] * setting.brokers
        # When each broker proposed a link to another last.
        self._proposed: dict[tuple[int, int], float] = {}
        # By type: the brokers that a notification passes, and its cost.
        self._passed = list(workload.members)
        self._units = [0.0] * setting.types
        self._settled = [0] * setting.types
        self._sums = dict.fromkeys(KINDS, 0.0)
        self._windows: dict[str, list[float]] = {kind: [] for kind in KINDS}
        self._counts = dict.fromkeys(COUNTS, 0)
        self._swaps: list[LinkSwap] = []
        self._heuristic = None if setting.what == "static" else Heuristic(setting.what)
        self._walk = Walk(
            [SharedInterest(broker, self._triples) for broker in range(setting.brokers)],
            self._heuristic or Heuristic.COST_AND_INTEREST,
            ThreeWay.COUNTED if setting.counted else ThreeWay.MEAN,
        )

    def run(self) -> ModelOutcome:
        self._recount(0.0, range(self._setting.types))
        for at, act, arguments in sorted(self._agenda(), key=lambda each: each[0]):
            act(at, *arguments)
        return ModelOutcome(self._windows, self._counts, self._swaps, self._tree.links)

    def _agenda(self) -> Iterable[tuple[float, Callable[..., None], tuple[Any, ...]]]:
        setting = self._setting
        for move in self._workload.moves:
            yield move.at, self._move_member, move[1:]
        for number, at in enumerate(setting.changes_at, start=1):
            if at < setting.ticks:
                yield at, self._change, (number,)
        for window in range(1, setting.ticks // WINDOW + 1):
            yield window * WINDOW, self._end_window, ()
        if self._heuristic is not None:
            for broker, times in enumerate(self._broadcasts_at):
                for said_at in times:
                    yield said_at, self._broadcast, (broker,)

    # --- notifications ------------------------------------------------------------------------

    def _settle(self, type: int, at: float) -> None:
        """Add up the cost of a type's notifications up to now."""
        published = self._types[type].published(at)
        self._sums["notifications"] += (published - self._settled[type]) * self._units[type]
        self._settled[type] = published

    def _recount(self, at: float, types: Iterable[int]) -> None:
        """Members, the tree or costs have changed, for these."""
        for type in types:
            self._settle(type, at)
            members = self._members[type]
            passed, self._units[type] = self._tree.delivery(members, self._costs)
            self._passed[type] = passed
            interested = passed if self._setting.passing else members
            if interested != self._types[type].brokers:
                self._pairs.become(at, type, interested)
                if self._setting.counted:
                    self._triples.become(at, type, interested)
                self._types[type].brokers = interested

    def _move_member(self, at: float, type: int, old: int, new: int) -> None:
        self._members[type] = self._members[type] - {old} | {new}
        self._recount(at, (type,))

    def _change(self, at: float, number: int) -> None:
        self._costs = self._workload.costs[number]
        self._recount(at, range(self._setting.types))

    def _end_window(self, at: float) -> None:
        for type in range(len(self._types)):
            self._settle(type, at)
        for kind, sums in self._windows.items():
            sums.append(self._sums[kind])
            self._sums[kind] = 0.0

    # --- broadcasts ---------------------------------------------------------------------------

    def _interval(self, broker: int, at: float) -> SharingInterval:
        """An interval of a broker ends."""
        since, self._told[broker] = self._told[broker], at
        return SharingInterval(broker, since, at, self._pairs.since_told(at, broker))

    def _broadcast(self, at: float, origin: int) -> None:
        """Send a broadcast as far as it may go; a receiving broker may propose a link to its
        origin.
        """
        interval = self._interval(origin, at)
        spread = self._walk.spread(interval, self._tree, self._costs, self._setting.hops)
        proposals: list[_Proposal] = []
        for cycle in spread.cycles:
            judged = self._judgements(cycle)
            if (first := judged(0)) is not None:
                proposals.append(_Proposal(cycle, judged, first))
                self._proposed[cast(int, cycle.brokers[0]), origin] = at
        shared = int(interval.shared[origin])
        self._counts["heard"] += spread.heard
        self._counts["filter"] += spread.heard * FILTER_BYTES
        self._counts["ids"] += spread.heard * min(ID_BYTES * shared, FILTER_BYTES)
        self._sums["broadcasts"] += spread.cost
        self._consult(at, proposals)

    def _judgements(self, cycle: Cycle) -> Callable[[int], Sequence[float] | None]:
        """Return what the broker at each place of a cycle adds to the vector of its costs."""
        if self._heuristic is not Heuristic.COST_AND_INTEREST:
            return lambda place: (0.0,) * len(cycle.brokers)
        return self._walk.vectors(cycle)

    # --- consensus and exchange ---------------------------------------------------------------

    def _consult(self, at: float, proposals: Sequence[_Proposal]) -> None:
        """Carry out a broadcast's proposals, in order of their arrival.

        Time is counted in links that a message passes, since the broadcast began.
        """
        arriving = [
            # The broadcast has come that far, and the proposal goes back.
            (len(proposal.cycle.brokers), number, 1, proposal)
            for number, proposal in enumerate(proposals)
        ]
        heapq.heapify(arriving)
        number = len(arriving)
        ring: _Ring | None = None
        for proposal in proposals:
            self._counts["proposals"] += 1
            self._pay_request(proposal.cycle, 1)
        while arriving:
            time, _, place, proposal = heapq.heappop(arriving)
            cycle = proposal.cycle
            if ring is not None and time >= ring.decided:
                self._exchange(at, ring)
            brokers = cast(tuple[int, ...], cycle.brokers)
            if ring is not None and ring.is_busy(brokers[place], time):
                if ring.holds(brokers[place], brokers[place - 1], time):
                    number += 1
                    later = ring.released(brokers[place])
                    heapq.heappush(arriving, (later, number, place, proposal))
                else:
                    self._counts["refused"] += 1
                continue
            further = self._agreed(at, proposal, place)
            if further is None:
                self._counts["refused"] += 1
            elif place < len(brokers) - 1:
                self._pay_request(cycle, place + 1)
                number += 1
                agreed = proposal._replace(vector=further)
                heapq.heappush(arriving, (time + 1, number, place + 1, agreed))
            elif (remove := self._decision(cycle, further)) == place:
                self._counts["kept"] += 1
            else:
                ring = _Ring(brokers, remove, time)
                self._counts["exchanges"] += 1
        if ring is not None:
            self._exchange(at, ring)

    def _pay_request(self, cycle: Cycle, place: int) -> None:
        sender, receiver = cast(tuple[int, ...], cycle.brokers)[place - 1 : place + 1]
        self._sums["requests"] += (
            self._costs.links[sender][receiver] + self._costs.brokers[receiver]
        )

    def _agreed(self, at: float, proposal: _Proposal, place: int) -> Sequence[float] | None:
        """Return the judgement of the brokers up to this one about the cycle; None if this one
        cannot decide.
        """
        brokers = cast(tuple[int, ...], proposal.cycle.brokers)
        neighbours = self._tree.neighbours[brokers[place]]
        if brokers[place - 1] not in neighbours:
            return None
        if place == len(brokers) - 1:
            if self._against_link(at, brokers[place], brokers[0]):
                return None
        elif brokers[place + 1] not in neighbours:
            return None
        mine = proposal.judged(place)
        if mine is None:
            return None
        return [a + b for a, b in zip(proposal.vector, mine, strict=True)]

    def _against_link(self, at: float, broker: int, other: int) -> bool:
        """Return whether this broker does not decide on a link that the other proposes."""
        proposed = self._proposed.get((broker, other))
        proposed_us = None if proposed is None else proposed * TICK_US
        ends = cast(tuple[str, str], (broker, other))
        is_dropped = gives_way(*ends, proposed_us, at * TICK_US)
        return is_dropped or other in self._tree.neighbours[broker]

    def _decision(self, cycle: Cycle, vector: Sequence[float]) -> int:
        assert self._heuristic is not None
        return decide(self._heuristic, cycle, vector, self._setting.least_gain).remove

    def _exchange(self, at: float, ring: _Ring) -> None:
        """The links are exchanged, if they are not yet."""
        if ring.is_done:
            return
        ring.is_done = True
        brokers, remove = ring.brokers, ring.remove
        self._swaps.append(LinkSwap(at, brokers, remove))
        way, costs = self._tree.way, self._costs
        down = brokers[::-1]
        # Down, up and down the path, then both ways up to the link that goes.
        self._sums["exchanges"] += (
            way(down, costs)
            + way(brokers, costs)
            + way(down, costs)
            + way(brokers[: remove + 1], costs)
            + way((brokers[0], *down[: len(down) - remove - 1]), costs)
        )
        old = brokers[remove], brokers[remove + 1]
        # To others it makes no difference.
        over_old = [type for type, passed in enumerate(self._passed) if passed.issuperset(old)]
        self._tree.exchange(old, (brokers[0], brokers[-1]))
        self._recount(at, over_old)


class _Proposal(NamedTuple):
    """A proposal on its way: a cycle, its brokers' judgements by place, and the sum so far."""

    cycle: Cycle
    judged: Callable[[int], Sequence[float] | None]
    vector: Sequence[float]


class _Ring:
    """An exchange that is going on: when each broker takes part in it (`link_reconfiguration.py`).

    Times are links that a message passes; `begun` is when the last broker decided on it.
    """

    def __init__(self, brokers: tuple[int, ...], remove: int, begun: int) -> None:
        hops = len(brokers) - 1
        self.brokers = brokers
        self.remove = remove
        self.is_done = False
        self._begun = begun
        opened = begun + OPENING
        self.decided = opened + 3 * hops
        self._from = {broker: opened + away for away, broker in enumerate(brokers[::-1])}
        self._until = {broker: self.decided + away for away, broker in enumerate(brokers)}
        for away, broker in enumerate(brokers[:remove:-1], start=1):
            self._until[broker] = self.decided + away

    def is_busy(self, broker: int, time: int) -> bool:
        if broker not in self._from:
            return False
        since = self._begun if broker == self.brokers[-1] else self._from[broker]
        return since <= time < self._until[broker]

    def holds(self, broker: int, sender: int, time: int) -> bool:
        """Return whether it takes in nothing that this one sends."""
        place = self.brokers.index(broker)
        beside = {self.brokers[place - 1], self.brokers[(place + 1) % len(self.brokers)]}
        return time >= self._from[broker] and sender not in beside

    def released(self, broker: int) -> int:
        return self._until[broker]
