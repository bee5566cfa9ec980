"""Messages by which brokers learn of each other, and agree on an exchange of links.

Source: Cost and Interest, sections 4.3.1 and 4.3.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shoal.broker.messages import Message
from shoal.broker.strategy import ProtocolError
from shoal.broker.wire import Vocabulary
from shoal.model import BrokerId
from shoal.overlays.self_organising.deciding.interest import InterestSummary
from shoal.overlays.self_organising.deciding.neighbourhood import NeighbourHop
from shoal.overlays.self_organising.deciding.planner import Cycle
from shoal.overlays.self_organising.deciding.steadiness import RemovedLink
from shoal.overlays.self_organising.deciding.trails import Trail
from shoal.overlays.self_organising.parameters import MAX_HOPS, MAX_INTERVALS

# Bounds on a notification's cost at one place, and on shared notifications: no value computed from
# them is infinite.
MAX_COST = 1e15
MAX_SUM = 1e30


class Broadcast(Message, frozen=True):
    """From one neighbour to the next: the recent interest of the path's first broker.

    It goes `hops` links further, this one included. The next comes in `every` intervals, unless
    something changes. A broker that `asks` knows nothing yet of the brokers around it.
    """

    hops: int
    summary: InterestSummary
    way: tuple[NeighbourHop, ...]
    every: int = 1
    asks: bool = False

    def check(self, sender: BrokerId) -> None:
        """ProtocolError unless it can have come from this neighbour."""
        way = self.way
        if not 1 <= self.every <= MAX_INTERVALS:
            raise ProtocolError(f"a broadcast in {self.every} intervals")
        if not way or self.hops < 1 or len(way) + self.hops > MAX_HOPS + 1:
            raise ProtocolError(f"a broadcast of {len(way)} hops, to go on for {self.hops}")
        _check_distinct([hop.broker for hop in way])
        if way[-1].broker != sender:
            raise ProtocolError(f"a broadcast over {way[-1].broker} comes from {sender}")
        _check_costs([cost for hop in way for cost in (hop.processing, hop.cost)])
        if any(hop.shared is not None and hop.shared < 0 for hop in way):
            raise ProtocolError("a broadcast with less than nothing shared")
        problem = self.summary.problem()
        if problem:
            raise ProtocolError(f"a broadcast's summary: {problem}")


class ExchangeProposal(Message, frozen=True):
    """Along a cycle, from the broker that proposes its new link to the link's other end.

    `vector` is the sum of the brokers' costs so far, without each link of the cycle. A proposer
    that `is_full` has as many links as it may, and must lose one of the cycle's. If one of the
    brokers only recommends links (`is_advice`), the decision is advice. With counted costs,
    `trails` are those of the brokers so far. `removed` is the exchange that removed the new link,
    if one did, and `has_changed` whether costs or traffic of one of the brokers so far have changed
    since (ours).
    """

    cycle: Cycle
    vector: tuple[float, ...]
    is_full: bool = False
    is_advice: bool = False
    trails: tuple[Trail, ...] = ()
    removed: RemovedLink | None = None
    has_changed: bool = False

    def check(self, sender: BrokerId, receiver: BrokerId) -> None:
        """ProtocolError unless it can have come from this neighbour."""
        cycle = self.cycle
        size = len(cycle.brokers)
        if not 3 <= size <= MAX_HOPS + 1:
            raise ProtocolError(f"a cycle of {size} brokers")
        _check_distinct(cycle.brokers)
        if receiver not in cycle.brokers[1:]:
            raise ProtocolError(f"a cycle without {receiver}")
        if cycle.brokers[cycle.brokers.index(receiver) - 1] != sender:
            raise ProtocolError(f"{sender} is not before {receiver} on a cycle")
        if {len(cycle.processing), len(cycle.costs), len(self.vector)} != {size}:
            raise ProtocolError(f"a cycle of {size} brokers without all costs")
        if len(cycle.shared) not in (0, size) or any(count < 0 for count in cycle.shared):
            raise ProtocolError("a cycle with less than nothing shared")
        _check_costs([*cycle.processing, *cycle.costs])
        _check_costs(self.vector, MAX_SUM)
        if self.removed is not None and min(self.removed.ago_us, self.removed.returns) < 0:
            raise ProtocolError("a link that is removed in the future")
        if len(self.trails) >= size:
            raise ProtocolError(f"a cycle of {size} brokers with {len(self.trails)} trails")
        for trail in self.trails:
            if problem := trail.problem():
                raise ProtocolError(f"a proposal's trail: {problem}")


def _check_distinct(brokers: Sequence[BrokerId]) -> None:
    if len(set(brokers)) < len(brokers):
        raise ProtocolError("a broker is twice on one path")


def _check_costs(costs: Iterable[float], most: float = MAX_COST) -> None:
    if not all(0 <= cost <= most for cost in costs):  # also false for NaN
        raise ProtocolError(f"costs must be between 0 and {most:g}")


MESSAGES: Vocabulary = (Broadcast, ExchangeProposal)
