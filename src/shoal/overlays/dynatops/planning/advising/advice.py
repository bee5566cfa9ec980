"""A plan for an operator of topic trees: moves of users and swaps of brokers, with gains and
prices.

First users move, then brokers change places, as the brokers' topics decide their places. Gains and
prices are messages over a period; a hop of a publication to a subscribing broker counts beside them
by `delay_weight`, as in Eq. 5.

>>> from shoal.overlays.dynatops.planning.advising.survey import SurveyedBroker, SurveyedClient
>>> brokers = [SurveyedBroker(name) for name in ("A", "B", "C", "D")]
>>> users = {f"u{n}": SurveyedClient("ABCD"[n % 4], ("news",
...     "sport")[n % 2 : n % 2 + 1]) for n in range(8)}
>>> found = advise(UserSurvey(brokers, users, {"news": 1.0, "sport": 1.0}), SurveyedInterests())
>>> found.gain > found.price, found.before.messages > found.after.messages
(True, True)

Source: DYNATOPS, sections 4 and 5; budgets, pins, regions and capacities are ours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
import numpy as np

from shoal.model import BrokerId
from shoal.overlays.dynatops.planning.advising.choosing import PlanLimits
from shoal.overlays.dynatops.planning.advising.hybrid import (
    Outlook,
    clusters,
    messages,
    with_gateways,
)
from shoal.overlays.dynatops.planning.advising.moving import (
    HANDOVER,
    AdvisedMove,
    join_ways,
    plan_moves,
)
from shoal.overlays.dynatops.planning.advising.prices import (
    Prices,
    bounded_prices,
    no_prices,
    predicted_prices,
)
from shoal.overlays.dynatops.planning.advising.survey import SurveyedInterests, UserSurvey
from shoal.overlays.dynatops.planning.advising.swapping import (
    PositionSwap,
    Search,
    SwapRules,
    after,
    handled,
    plan_swaps,
    swaps,
)
from shoal.overlays.dynatops.planning.costs import distances, standing
from shoal.overlays.dynatops.planning.crowd import PlannedCrowd, User
from shoal.overlays.dynatops.planning.problem import Amounts, PlacementProblem, inverse, trees_of
from shoal.overlays.dynatops.planning.problem import Mapping as Places
from shoal.overlays.dynatops.structures.structure import hash_of
from shoal.overlays.dynatops.structures.systems import structure_of
from shoal.overlays.planning import PlanError

SECONDS_PER_HOUR = 3600.0
# All swaps are compared while this many topics at pairs of brokers are looked at for each: below a
# second.
_ALL_PAIRS = 20_000_000


class AdviceState(msgspec.Struct, frozen=True):
    """Figures of a network.

    messages  hops of a publication on average, from its topic's root on
    relays    of these, hops to brokers that do not subscribe
    delay     of a delivery on average, from the root on: hops, or ms one way
    brokers   number of subscribers of a topic among brokers, on average
    load      the most subscriptions of users at a broker, in units of the mean
    """

    messages: float
    relays: float
    delay: float
    brokers: float
    load: float


class UserMove(msgspec.Struct, frozen=True, rename={"source": "from", "target": "to"}):
    """A user that should go to another broker, and why."""

    user: str
    source: BrokerId
    target: BrokerId
    gain: float
    price: float
    why: str


class BrokerSwap(msgspec.Struct, frozen=True):
    """Two brokers that should change places.

    relays, delay  savings in hops to brokers that do not subscribe, and in delay (Eq. 4)
    roots          savings in hops to brokers that subscribe: to those that become roots
    """

    brokers: tuple[BrokerId, BrokerId]
    positions: tuple[int, int]
    gain: float
    price: float
    relays: float
    delay: float
    roots: float = 0.0


class PlacementAdvice(msgspec.Struct, frozen=True):
    """A plan: moves first, then swaps, each in this order.

    gain, price  of all together, in messages over the period: a saving that needs several moves
                 counts once here, but at each of them
    fixed        the part of the price of any swap, as all brokers are informed of it
    bound        the price of the swaps by the paper's Eq. 7
    pays_from    the factor of the publication rate from which some swaps pay; none: never
    delay_unit   of delays
    positions    the broker of each position then
    warnings     problems that the plan does not solve
    gateways     figures with gateways, if requested
    clusters     of a hybrid network, the clusters then, each with its gateway first
    """

    hours: float
    before: AdviceState
    after: AdviceState
    moves: Sequence[UserMove]
    swaps: Sequence[BrokerSwap]
    gain: float
    price: float
    fixed: float
    bound: float
    pays_from: float | None
    delay_unit: Literal["hops", "ms"]
    positions: Mapping[BrokerId, int]
    warnings: Sequence[str]
    gateways: Outlook | None = None
    clusters: Sequence[Sequence[BrokerId]] = ()


def advise(survey: UserSurvey, wishes: SurveyedInterests) -> PlacementAdvice:
    """The plan; PlanError describes an invalid survey or invalid constraints."""
    return _Advisor(survey, wishes).advise()


class _Advisor:
    """Names to numbers, and back."""

    def __init__(self, survey: UserSurvey, wishes: SurveyedInterests) -> None:
        self._survey, self._wishes = survey, wishes
        self._names = [broker.name for broker in survey.brokers]
        self._numbers = {name: number for number, name in enumerate(self._names)}
        self._check_wishes()
        self._users = sorted(survey.users)
        wanted = {topic for user in survey.users.values() for topic in user.topics}
        self._topics = sorted(wanted | set(survey.rates))
        self._start = self._positions_at_start()
        self._structure = structure_of(survey.system, len(self._names), survey.per_gateway)
        roots = [self._structure.root(topic) for topic in self._topics]
        self._trees = trees_of(self._structure, roots)
        self._unit_ms, round_trips = self._measured()
        period_s = SECONDS_PER_HOUR * wishes.hours
        self._problem = PlacementProblem(
            trees=self._trees,
            wanted=np.zeros((len(self._names), len(self._topics)), np.bool_),
            publications=np.array([survey.rates.get(each, 0.0) for each in self._topics])
            * period_s,
            round_trips=round_trips,
            delay_weight=wishes.delay_weight,
        )
        regions = sorted({broker.region for broker in survey.brokers})
        self._regions = [regions.index(broker.region) for broker in survey.brokers]

    def advise(self) -> PlacementAdvice:
        crowd = PlannedCrowd(self._problem, self._start, self._numbered(), self._apart(self._start))
        before = self._state(crowd, self._start)
        cost_before = self._cost(crowd, self._start)
        hops = trees_of(self._structure, range(self._structure.size)).depths
        limits = PlanLimits(
            most=self._wishes.most_moves,
            least_gain=self._wishes.least_gain,
            load_weight=self._wishes.load_weight,
            regions=self._regions,
            rooms=[broker.room for broker in self._survey.brokers],
        )
        ways, wanted = join_ways(hops, self._trees), crowd.problem.wanted
        moves = plan_moves(crowd, limits, ways)
        problem = crowd.problem
        told = ways[:, self._start].T[problem.wanted != wanted]
        prices, bounds = self._prices(problem)
        rules = self._rules(problem)
        found = plan_swaps(problem, self._start, prices, rules)
        mapping = after(self._start, found)
        return PlacementAdvice(
            hours=self._wishes.hours,
            before=before,
            after=self._state(crowd, mapping),
            moves=[self._named_move(each) for each in moves],
            swaps=self._named_swaps(problem, found),
            gain=cost_before - self._cost(crowd, mapping),
            price=HANDOVER * len(moves) + float(told.sum()) + prices.of(mapping),
            fixed=prices.fixed if found else 0.0,
            bound=bounds.of(mapping),
            pays_from=_pays_from(problem, self._start, prices, rules),
            delay_unit="ms" if self._survey.round_trips else "hops",
            positions={name: mapping[number] for name, number in self._numbers.items()},
            warnings=self._warnings(crowd, mapping),
            gateways=with_gateways(
                problem,
                mapping,
                self._wishes.gateways,
                self._topics,
                self._names,
            )
            if self._wishes.gateways
            else None,
            clusters=self._clusters(mapping),
        )

    # --- inputs -------------------------------------------------------------------------------

    def _check_wishes(self) -> None:
        wishes, survey = self._wishes, self._survey
        if len(self._numbers) < len(self._names):
            raise PlanError("a broker is there twice")
        if len(self._names) < 2:
            raise PlanError(f"{len(self._names)} brokers are no network; it has two or more")
        known = ", ".join(self._names[:8])
        for name in sorted(wishes.pinned):
            if name not in self._numbers:
                raise PlanError(f"no broker {name!r} to pin; there are {known}")
        for name in sorted(wishes.pinned_users):
            if name not in survey.users:
                raise PlanError(f"no user {name!r} to pin")
        for user, client in survey.users.items():
            if client.broker not in self._numbers:
                raise PlanError(f"user {user!r}: no broker {client.broker!r}; there are {known}")
        if not any(client.topics for client in survey.users.values()):
            raise PlanError("there are no subscriptions, so nothing can be saved")
        if not any(survey.rates.values()):
            raise PlanError("there are no publications, so nothing can be saved")

    def _positions_at_start(self) -> Places:
        given = [broker.position for broker in self._survey.brokers]
        if all(position is None for position in given):
            order = sorted(self._names, key=lambda name: (hash_of(name), name))
            at = {name: position for position, name in enumerate(order)}
            return [at[name] for name in self._names]
        stood: dict[int, BrokerId] = {}
        for broker in self._survey.brokers:
            position = broker.position
            if position is None:
                raise PlanError(f"broker {broker.name!r} has no position, but others have one")
            if not 0 <= position < len(self._names):
                last = len(self._names) - 1
                raise PlanError(f"broker {broker.name!r}: position {position} is not 0 to {last}")
            if position in stood:
                raise PlanError(f"{stood[position]!r} and {broker.name!r} stand at {position}")
            stood[position] = broker.name
        return [position for position in given if position is not None]

    def _measured(self) -> tuple[float, Amounts | None]:
        """The mean round trip in ms, and all of them in units of it."""
        given = self._survey.round_trips
        if not given:
            return 1.0, None
        size = len(self._names)
        found = np.zeros((size, size))
        for one, left in enumerate(self._names):
            for other, right in enumerate(self._names[:one]):
                ms = given.get((left, right), given.get((right, left)))
                if ms is None:
                    raise PlanError(f"no round trip between {left!r} and {right!r}")
                found[one, other] = found[other, one] = ms
        mean = float(found.sum() / (size * (size - 1)))
        if not mean:
            raise PlanError("all round trips are 0; leave them out, then a hop is 1")
        return mean, found / mean

    def _numbered(self) -> list[User]:
        topics = {topic: number for number, topic in enumerate(self._topics)}
        found = []
        for name in self._users:
            client = self._survey.users[name]
            wanted = frozenset(topics[topic] for topic in client.topics)
            is_pinned = name in self._wishes.pinned_users
            found.append(User(wanted, self._numbers[client.broker], is_pinned))
        return found

    def _rules(self, problem: PlacementProblem) -> SwapRules:
        capacities = [broker.capacity for broker in self._survey.brokers]
        pairs = problem.brokers**2 * problem.topics
        search: Search = "any" if pairs <= _ALL_PAIRS else "next"
        return SwapRules(
            search=search,
            most=self._wishes.most_swaps,
            least_gain=self._wishes.least_gain,
            pinned=np.array([name in self._wishes.pinned for name in self._names]),
            regions=self._regions,
            capacities=None
            if all(map(math.isinf, capacities))
            else np.array(capacities) * SECONDS_PER_HOUR * self._wishes.hours,
        )

    def _prices(self, problem: PlacementProblem) -> tuple[Prices, Prices]:
        """Those that decide, and the paper's bound."""
        bounds = bounded_prices(problem, self._start)
        if self._wishes.price == "bound":
            return bounds, bounds
        return predicted_prices(self._structure, problem, self._start), bounds

    # --- how it does ---------------------------------------------------------------------------

    def _apart(self, mapping: Places) -> Amounts:
        """(rows, positions): distance of each from its root."""
        return distances(self._problem, np.array(inverse(mapping), np.int32))

    def _cost(self, crowd: PlannedCrowd, mapping: Places) -> float:
        """Eq. 5, with the messages to brokers that subscribe."""
        delay = standing(crowd.problem, mapping).delay
        return self._hops(crowd, mapping) + self._wishes.delay_weight * delay

    def _hops(self, crowd: PlannedCrowd, mapping: Places) -> float:
        """All messages of the period from the roots on."""
        return messages(crowd.problem, standing(crowd.problem, mapping))

    def _state(self, crowd: PlannedCrowd, mapping: Places) -> AdviceState:
        publications = self._problem.publications
        found = standing(crowd.problem, mapping)
        users = crowd.counts[found.brokers].T
        apart = self._apart(mapping)[self._trees.of]
        deliveries = float(publications @ users.sum(axis=1))
        # A hop takes half a round trip.
        scale = self._unit_ms / 2 if self._survey.round_trips else 1.0
        total = float(publications.sum())
        return AdviceState(
            messages=self._hops(crowd, mapping) / total,
            relays=found.relays / total,
            delay=scale * float(publications @ (users * apart).sum(axis=1)) / (deliveries or 1.0),
            brokers=float(publications @ found.is_member.sum(axis=1)) / total,
            load=max(crowd.loads) * len(crowd.loads) / sum(crowd.loads),
        )

    def _warnings(self, crowd: PlannedCrowd, mapping: Places) -> list[str]:
        found = []
        period_s = SECONDS_PER_HOUR * self._wishes.hours
        by_position = handled(crowd.problem, standing(crowd.problem, mapping)) / period_s
        for number, broker in enumerate(self._survey.brokers):
            if crowd.loads[number] > broker.room:
                found.append(
                    f"{broker.name} holds {crowd.loads[number]} subscriptions, and has room for "
                    f"{broker.room:g}: no broker of its region has room for more"
                )
            rate = float(by_position[mapping[number]])
            if rate > broker.capacity:
                found.append(
                    f"{broker.name} handles {rate:.4g} messages a second, and can handle "
                    f"{broker.capacity:g}"
                )
        return found

    # --- in names ------------------------------------------------------------------------------

    def _clusters(self, mapping: Places) -> Sequence[Sequence[BrokerId]]:
        if self._survey.per_gateway == 1:
            return ()
        names = [self._names[number] for number in inverse(mapping)]
        return clusters(names, self._survey.per_gateway)

    def _named_move(self, move: AdvisedMove) -> UserMove:
        name = self._users[move.user]
        source, target = self._names[move.source], self._names[move.target]
        count = len(self._survey.users[name].topics)
        why = f"{target} has {move.shared} of its {count} topics for others"
        if move.is_forced:
            why += f"; {source} holds more than it has room for"
        return UserMove(name, source, target, move.gain, move.price, why)

    def _named_swaps(
        self, problem: PlacementProblem, found: Sequence[PositionSwap]
    ) -> list[BrokerSwap]:
        named = []
        roots = self._trees.roots[self._trees.of]
        for swap in found:
            (one, other), (here, there) = swap.brokers, swap.positions
            # Topics that are wanted where they have their root need a message less.
            changes = problem.wanted[other].astype(float) - problem.wanted[one]
            at_roots = problem.publications * changes @ ((roots == here) * 1.0 - (roots == there))
            named.append(
                BrokerSwap(
                    (self._names[one], self._names[other]),
                    swap.positions,
                    swap.gain + float(at_roots),
                    swap.price,
                    swap.relays,
                    swap.delay,
                    float(at_roots),
                )
            )
        return named


def _pays_from(
    problem: PlacementProblem, start: Places, prices: Prices, rules: SwapRules
) -> float | None:
    """Of how many times as many publications on some first swaps pay, were there no prices."""
    mapping, gained, best = start, 0.0, math.inf
    for swap in swaps(problem, start, no_prices(start), rules._replace(search="next")):
        mapping = after(mapping, [swap])
        gained += swap.gain
        best = min(best, prices.of(mapping) / gained)
    return None if math.isinf(best) else best
