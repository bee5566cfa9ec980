"""Proposals of link exchanges by one broker, and its part in those of others.

| event | action |
| --- | --- |
| an interval ends | removes stale entries; broadcasts its clients' interest |
| a broadcast comes | notes it, forwards it; proposes a link to its origin if that would pay |
| a proposal comes | adds its own costs, and forwards it along the cycle |
| it comes to the new link's other end | the sum decides which link is removed: begun, or advised |

If nothing changes it broadcasts less often (`deciding/pace.py`).

A broker keeps no state of a proposal in transit: the proposal carries everything, and a broker that
cannot agree drops it and records the reason. Entries about others expire without a refresh.

Source: Cost and Interest, sections 4.1 to 4.3. Ours: the operator's rules, and that a broker
proposes nothing before it knows the cost of messages (`Costs`).
"""

from __future__ import annotations

from collections.abc import Collection
from random import Random

import msgspec

from shoal.broker.effects import Costs, Effect, Record, Send, SetTimer, TimerKey, WatchCosts
from shoal.model import BrokerId, ClientId
from shoal.overlays.self_organising.deciding.interest import (
    Cache,
    Ids,
    InterestSummary,
    bloom_filter,
    notification_id,
    smallest,
)
from shoal.overlays.self_organising.deciding.neighbourhood import (
    Neighbourhood,
    NeighbourHop,
    Way,
    cycle_of,
)
from shoal.overlays.self_organising.deciding.pace import MOST_PUBLISHERS, Pace, differ
from shoal.overlays.self_organising.deciding.planner import (
    ON_ITS_WAY_US,
    VARIATION,
    Cycle,
    ExchangePlan,
    UnknownBrokerError,
    cost_vector,
    decide,
    evaluate,
    gives_way,
)
from shoal.overlays.self_organising.deciding.steadiness import Steadiness
from shoal.overlays.self_organising.deciding.trails import Trail, Trails, counted_vector
from shoal.overlays.self_organising.exchanges import Exchanges, LinkExchange
from shoal.overlays.self_organising.messages import Broadcast, ExchangeProposal
from shoal.overlays.self_organising.parameters import Consensus, Heuristic, SelfOrganisingParameters
from shoal.overlays.self_organising.records import ProposalRecord
from shoal.overlays.self_organising.rules import ExchangeRules

TIMER: TimerKey = ("interval",)
# Windows of an interval for counted costs; a broker cannot count for a window after a link change.
WINDOWS = 4
# Least estimated gain for an exchange at a broker that will count soon, but cannot yet: estimates
# err by about as much.
CLEAR_GAIN_PERCENT = 10


# Why a link does not return.
UNCHANGED = "it was exchanged, and neither costs nor traffic have changed since"


class Decisions:
    """Decisions of one broker.

    `neighbours` are those it is linked to now; `exchanges` carries decisions out, unless links are
    only recommended.
    """

    def __init__(
        self,
        broker: BrokerId,
        neighbours: Collection[BrokerId],
        parameters: SelfOrganisingParameters,
        rules: ExchangeRules,
        random: Random,
        exchanges: Exchanges | None,
    ) -> None:
        self._broker = broker
        self._neighbours = neighbours
        self._parameters = parameters
        self._random = random
        self._exchanges = exchanges
        self._rules = rules
        self._cache = Cache(parameters.cache_entries)
        self._around = Neighbourhood(self._cache, parameters.three_way)
        is_counted = parameters.consensus is Consensus.COUNTED
        is_counted &= parameters.heuristic is Heuristic.COST_AND_INTEREST
        # Paths of notifications, if costs are counted.
        self._trails = Trails(parameters.interval_us // WINDOWS) if is_counted else None
        self._pace = Pace(parameters.rest_intervals)
        # Whether it has new links, and asks others to broadcast.
        self._asks = True
        # For each broker known as a neighbour's neighbour, that neighbour.
        self._behind: dict[BrokerId, BrokerId] = {}
        self._costs: Costs | None = None
        # Costs in the last broadcast.
        self._told = Costs(0.0, {})
        self._last: tuple[ClientId, int] | None = None
        self._steadiness = Steadiness()
        # Notifications of local clients in this interval, by publisher, and the last one.
        self._local: dict[ClientId, int] = {}
        self._last_local: tuple[ClientId, int] | None = None
        # When links to these were proposed last.
        self._proposed: dict[BrokerId, int] = {}
        # Plans of the exchanges that this broker has begun.
        self._begun: dict[LinkExchange, ExchangePlan] = {}
        # The last reason of refusal by link, so that it is recorded once.
        self._said: dict[tuple[BrokerId, BrokerId], str] = {}

    @property
    def known(self) -> int:
        """Number of other brokers that it knows."""
        return len(self._around)

    @property
    def remembered(self) -> int:
        """Number of its clients' notifications that it remembers."""
        return len(self._cache)

    def note(self, publication: tuple[ClientId, int]) -> None:
        """A local client published this or got it."""
        if publication != self._last:  # mostly one that several clients get
            self._last = publication
            self._pace.note(publication[0])
            self._cache.add(notification_id(*publication))

    def note_local(self, publication: tuple[ClientId, int]) -> None:
        """The same, if it counts as traffic of this broker's clients, not as interest."""
        publisher = publication[0]
        if publication == self._last_local:
            return
        self._last_local = publication
        if publisher in self._local or len(self._local) < MOST_PUBLISHERS:
            self._local[publisher] = self._local.get(publisher, 0) + 1

    @property
    def counts(self) -> bool:
        """Whether it needs the paths of notifications (`trace`)."""
        return self._trails is not None

    def trace(
        self, publication: tuple[ClientId, int], sides: frozenset[BrokerId], now_us: int
    ) -> None:
        """A notification came from, or went to, these neighbours or local clients (`HERE`)."""
        if self._trails is not None:
            self._trails.add(notification_id(*publication), sides, now_us)

    # --- intervals ----------------------------------------------------------------------------

    def start(self, now_us: int, out: list[Effect]) -> None:
        """Not all brokers broadcast in one moment."""
        self.turned(now_us)
        out.append(WatchCosts())
        out.append(
            SetTimer(TIMER, now_us + 1 + self._random.randrange(self._parameters.interval_us))
        )

    def costs(self, costs: Costs) -> None:
        self._costs = costs
        if differ(costs, self._told, self._neighbours):
            self._pace.stir()

    def interval(self, now_us: int, out: list[Effect]) -> None:
        """An interval ends, and another begins."""
        self._set_decision_timer(now_us, out)
        self._around.turn()
        if self._trails is not None:
            self._trails.turn(now_us)
        ids = self._cache.turn()
        local, self._local = self._local, {}
        if self._costs is not None:
            here = {self._broker: self._costs.here}
            self._steadiness.turn(local, {**self._costs.links, **here}, now_us)
        self._proposed = {
            other: at_us
            for other, at_us in self._proposed.items()
            if now_us < at_us + ON_ITS_WAY_US
        }
        self._behind = {name: by for name, by in self._behind.items() if name in self._around}
        self._said = {pair: why for pair, why in self._said.items() if self._is_near(pair)}
        if self._costs is None:
            return
        every = self._pace.turn()
        if not every:
            return
        way = (NeighbourHop(self._broker, self._costs.here),)
        hops, summary = self._parameters.neighbourhood_hops, self._summary(ids)
        broadcast = Broadcast(hops, summary, way, every, self._asks)
        self._asks, self._told = False, self._costs
        out.extend(Send(neighbour, broadcast) for neighbour in self._neighbours)

    def _set_decision_timer(self, now_us: int, out: list[Effect]) -> None:
        """An interval with jitter: otherwise two brokers that collide once would always collide."""
        interval_us = self._parameters.interval_us
        out.append(SetTimer(TIMER, now_us + round(interval_us * self._random.uniform(*VARIATION))))

    def _summary(self, ids: Ids) -> InterestSummary:
        parameters = self._parameters
        make = smallest if parameters.exact_when_smaller else bloom_filter
        return make(ids, parameters.filter_bits, parameters.filter_hashes)

    def _is_near(self, pair: tuple[BrokerId, BrokerId]) -> bool:
        return all(end == self._broker or end in self._around for end in pair)

    def linked(self, now_us: int) -> None:
        """Its links have changed, but not by an exchange: it may be somewhere else than before."""
        self._asks = True
        self.turned(now_us)

    def turned(self, now_us: int) -> None:
        """Publications over this broker's links take other paths from now on."""
        self._pace.stir()
        if self._trails is not None:
            self._trails.begin(now_us)

    # --- broadcasts ---------------------------------------------------------------------------

    def on_broadcast(
        self, neighbour: BrokerId, broadcast: Broadcast, now_us: int, out: list[Effect]
    ) -> None:
        """A broadcast came."""
        broadcast.check(neighbour)
        costs, origin = self._costs, broadcast.way[0].broker
        if costs is None or neighbour not in costs.links or self._is_on(broadcast.way):
            return
        if self._around.is_full and origin not in self._around:
            return
        self._meet(origin, neighbour if len(broadcast.way) == 2 else "", asks=broadcast.asks)
        self._around.on_broadcast(origin, broadcast.summary, broadcast.every)
        shared = self._around.shared(neighbour)
        way = (
            *broadcast.way,
            NeighbourHop(self._broker, costs.here, costs.links[neighbour], shared),
        )
        if broadcast.hops > 1:
            further = msgspec.structs.replace(broadcast, hops=broadcast.hops - 1, way=way)
            out.extend(Send(each, further) for each in self._neighbours if each != neighbour)
        if len(way) > 2:
            self._propose(way, costs, now_us, out)

    def _meet(self, origin: BrokerId, behind: BrokerId, *, asks: bool) -> None:
        """Broadcast soon, as a new or near broker needs to know this one, and `asks` for others.

        Otherwise it could not weigh links with it, nor link to it when `behind` is lost.
        """
        if asks or origin not in self._around or behind != self._behind.get(origin, ""):
            self._pace.stir()
        if behind:
            self._behind[origin] = behind
        else:
            self._behind.pop(origin, None)

    def _is_on(self, way: Way) -> bool:
        """While two links are exchanged there may be a cycle."""
        return any(hop.broker == self._broker for hop in way)

    def _propose(self, way: Way, costs: Costs, now_us: int, out: list[Effect]) -> None:
        """Propose a link to a broadcast's origin, if that pays and may be."""
        origin = way[0].broker
        direct = costs.links.get(origin)
        if direct is None or origin in self._neighbours:
            return
        heuristic, around = self._parameters.heuristic, self._around
        cycle = cycle_of(way, direct, around.shared(origin) or 0, heuristic)
        if cycle is None:
            return
        try:
            evaluation = evaluate(heuristic, around, cycle)
            if evaluation is None or not evaluation.pays:
                return
            vector = self._vector(cycle)
        except UnknownBrokerError:
            return  # its broadcast will come soon, or it is no neighbour any more
        reason = self._against(cycle, now_us)
        if reason:
            self._record("refused", reason, cycle, now_us, out)
            return
        is_full = self._rules.is_full(len(self._neighbours))
        is_advice = self._exchanges is None
        trails = self._further((), cycle, now_us)
        proposal = self._with_changes(
            ExchangeProposal(cycle, vector, is_full, is_advice, trails), now_us
        )
        self._proposed[origin] = now_us
        out.append(Send(cycle.brokers[1], proposal))

    # --- proposals ----------------------------------------------------------------------------

    def proposed(
        self, neighbour: BrokerId, proposal: ExchangeProposal, now_us: int, out: list[Effect]
    ) -> None:
        """A proposal came along its cycle."""
        proposal.check(neighbour, self._broker)
        cycle = proposal.cycle
        reason = self._against(cycle, now_us)
        if not reason:
            try:
                mine = self._vector(cycle)
            except UnknownBrokerError as error:
                reason = f"{self._broker} knows nothing of {error.broker}"
        if reason:
            self._record("refused", reason, cycle, now_us, out)
            return
        vector = tuple(a + b for a, b in zip(proposal.vector, mine, strict=True))
        is_advice = proposal.is_advice or self._exchanges is None
        trails = self._further(proposal.trails, cycle, now_us)
        is_counted = len(trails) == len(cycle.brokers)
        if is_counted:
            vector, trails = counted_vector(cycle, trails), ()
        further = self._with_changes(
            msgspec.structs.replace(proposal, vector=vector, is_advice=is_advice, trails=trails),
            now_us,
        )
        if cycle.brokers[-1] == self._broker:
            least = self._parameters.least_gain_percent
            if self.counts and not is_counted:
                least = max(least, CLEAR_GAIN_PERCENT)
            self._decide_exchange(further, least, now_us, out)
        else:
            out.append(Send(cycle.brokers[cycle.brokers.index(self._broker) + 1], further))

    def _with_changes(self, proposal: ExchangeProposal, now_us: int) -> ExchangeProposal:
        """Add this broker's knowledge of an earlier removal of the link, and of changes since."""
        if self._parameters.returns_any_time or self.counts:
            return proposal
        brokers = proposal.cycle.brokers
        known = self._steadiness.removed((brokers[0], brokers[-1]), now_us)
        removed = proposal.removed if known is None else known
        if removed is None:
            return proposal
        has_changed = self._steadiness.has_changed_within(removed.ago_us, now_us)
        return msgspec.structs.replace(
            proposal, removed=removed, has_changed=proposal.has_changed or has_changed
        )

    def _further(self, trails: tuple[Trail, ...], cycle: Cycle, now_us: int) -> tuple[Trail, ...]:
        """Those so far and this broker's; none, so that all is estimated, if one cannot count."""
        brokers = cycle.brokers
        place = brokers.index(self._broker)
        if self._trails is None or len(trails) < place:
            return ()
        beside = [brokers[n] for n in (place - 1, place + 1) if 0 <= n < len(brokers)]
        mine = self._trails.beside(beside, now_us)
        return () if mine is None else (*trails, mine)

    def _vector(self, cycle: Cycle) -> tuple[float, ...]:
        """This broker's cost vector of the cycle; needed for costs and interest together only."""
        if self._parameters.heuristic is not Heuristic.COST_AND_INTEREST:
            return (0.0,) * len(cycle.brokers)
        return cost_vector(self._around, cycle, self._broker)

    def _against(self, cycle: Cycle, now_us: int) -> str:
        """Why this broker does not take part in an exchange over the cycle; empty when it does."""
        brokers = cycle.brokers
        place = brokers.index(self._broker)
        beside = [brokers[n] for n in (place - 1, place + 1) if 0 <= n < len(brokers)]
        gone = [broker for broker in beside if broker not in self._neighbours]
        exchanges = self._exchanges
        return (
            self._rules.against_link(brokers[0], brokers[-1])
            or (f"{self._broker} has no link to {gone[0]}" if gone else "")
            or self._rules.against_exchange(now_us)
            or ("" if exchanges is None else exchanges.busy)
        )

    def _decide_exchange(
        self,
        proposal: ExchangeProposal,
        least_gain: int,
        now_us: int,
        out: list[Effect],
    ) -> None:
        cycle = proposal.cycle
        if reason := self._against_link(cycle.brokers[0], now_us):
            self._record("refused", reason, cycle, now_us, out)
            return
        decision = self._decision(proposal, least_gain, None)
        undoes = proposal.removed is not None and proposal.removed.is_undone_by(
            cycle.link(decision.remove)
        )
        if undoes and not proposal.has_changed:
            self._record("refused", UNCHANGED, cycle, now_us, out)
            return
        if decision.remove == len(cycle.brokers) - 1:
            self._record("kept", "the other links cost no more", cycle, now_us, out, decision)
            return
        reason, removable = self._removable(proposal, decision.remove)
        if reason:
            decision = self._decision(proposal, least_gain, removable)
            if decision.remove == len(cycle.brokers) - 1:
                self._record("refused", reason, cycle, now_us, out)
                return
        exchanges = None if proposal.is_advice else self._exchanges
        outcome = "advised" if exchanges is None else "agreed"
        self._record(outcome, "", cycle, now_us, out, decision)
        if exchanges is not None:
            exchange = LinkExchange(
                cycle=cycle.brokers, remove=decision.remove, saving=decision.saving
            )
            self._begun[exchange] = decision
            exchanges.begin(exchange, now_us, out)

    def _against_link(self, other: BrokerId, now_us: int) -> str:
        """Why this broker does not decide on a link to `other`."""
        if other in self._neighbours:
            return f"{self._broker} has a link to {other} already"
        if self._exchanges is None:
            return ""
        is_dropped = gives_way(self._broker, other, self._proposed.get(other), now_us)
        return f"{self._broker} proposed it, too" if is_dropped else ""

    def _decision(
        self, proposal: ExchangeProposal, least_gain: int, removable: Collection[int] | None
    ) -> ExchangePlan:
        heuristic = self._parameters.heuristic
        return decide(heuristic, proposal.cycle, proposal.vector, least_gain, removable)

    def _removable(self, proposal: ExchangeProposal, best: int) -> tuple[str, list[int]]:
        """Why the best link may not be removed, and the links that may."""
        cycle = proposal.cycle
        last = len(cycle.brokers) - 2
        against = []
        for link in range(last + 1):
            reason = self._rules.against_removal(*cycle.link(link))
            if proposal.is_full and link != 0:
                reason = reason or f"{cycle.brokers[0]} has as many links as it may"
            if self._rules.is_full(len(self._neighbours)) and link != last:
                reason = reason or f"{self._broker} has as many links as it may"
            against.append(reason)
        return against[best], [link for link, reason in enumerate(against) if not reason]

    # --- outcomes of exchanges ----------------------------------------------------------------

    def done(self, exchange: LinkExchange, now_us: int, out: list[Effect]) -> None:
        """The links are exchanged; this broker was on the cycle."""
        self._rules.exchanged(now_us)
        self._steadiness.exchanged(exchange.old_link, exchange.new_link, now_us)
        self.turned(now_us)
        self._ended("done", exchange, "", now_us, out)

    def refused(self, exchange: LinkExchange, reason: str, now_us: int, out: list[Effect]) -> None:
        """All links are as they were."""
        self._ended("failed", exchange, reason, now_us, out)

    def _ended(
        self, outcome: str, exchange: LinkExchange, reason: str, now_us: int, out: list[Effect]
    ) -> None:
        if exchange.cycle[-1] == self._broker:
            row = self._row(outcome, reason, exchange.cycle, now_us, exchange.old_link)
            out.append(Record(_with_costs(row, self._begun.pop(exchange, None))))

    def _record(
        self,
        outcome: str,
        reason: str,
        cycle: Cycle,
        now_us: int,
        out: list[Effect],
        decision: ExchangePlan | None = None,
    ) -> None:
        """Record the outcome of a proposal; the same reason against the same link only once."""
        pair = min(cycle.link(len(cycle.brokers) - 1), cycle.link(len(cycle.brokers) - 1)[::-1])
        if reason and self._said.get(pair) == reason:
            return
        if reason:
            self._said[pair] = reason
        else:
            self._said.pop(pair, None)
        old = None if decision is None else cycle.link(decision.remove)
        row = self._row(outcome, reason, cycle.brokers, now_us, None if reason else old)
        out.append(Record(_with_costs(row, decision)))

    def _row(
        self,
        outcome: str,
        reason: str,
        brokers: tuple[BrokerId, ...],
        now_us: int,
        old: tuple[BrokerId, BrokerId] | None,
    ) -> ProposalRecord:
        left, right = old or (None, None)
        return ProposalRecord(
            broker=self._broker,
            at_us=now_us,
            outcome=outcome,
            reason=reason,
            left=brokers[0],
            right=brokers[-1],
            old_left=left,
            old_right=right,
            hops=len(brokers) - 1,
        )


def _with_costs(row: ProposalRecord, decision: ExchangePlan | None) -> ProposalRecord:
    if decision is None:
        return row
    costs = {"cost_now": decision.cost_now, "cost_then": decision.cost_then}
    return msgspec.structs.replace(row, **costs)
