"""Cost and Interest's constants, with the paper's section for each, and the operator's rules.

The paper counts in ticks; one of ours is 100 ms. It exchanges links for any gain, without an
operator's rules, and always broadcasts Bloom filters; where our default differs, the paper's value
is named.

>>> SelfOrganisingParameters(pinned=(("A", "B"),)).neighbourhood_hops
4
>>> SelfOrganisingParameters(filter_hashes=0)
Traceback (most recent call last):
ValueError: filter_hashes: 0 is not between 1 and 32
>>> SelfOrganisingParameters(pinned=(("A", "B"),), forbidden=(("B", "A"),))
Traceback (most recent call last):
ValueError: forbidden: B - A is pinned
>>> SelfOrganisingParameters(grape=GrapeParameters(covering=True))
Traceback (most recent call last):
ValueError: grape: covering is a parameter of the tree, not of grape

Source: Jaeger, Parzyjegla, Mühl and Herrmann, "Self-Organizing Broker Topologies for
Publish/Subscribe Systems" (SAC 2007), sections 4 and 5.
"""

from __future__ import annotations

import enum

import msgspec

from shoal.model import BrokerId
from shoal.overlays.publisher_relocation.grape.parameters import GrapeParameters

Pair = tuple[BrokerId, BrokerId]

# A broadcast's path, and the brokers of a cycle: one broker more than this.
MAX_HOPS = 16
MAX_CACHE_ENTRIES = 1_000_000
# A filter is in every broadcast; 1 MB.
MAX_FILTER_BITS = 8_388_608
MAX_FILTER_HASHES = 32
# A day.
MAX_INTERVAL_US = 86_400_000_000
MAX_COUNT = 1_000_000
MAX_INTERVALS = 1_000


class Heuristic(enum.Enum):
    """The criterion of decisions (5): costs and interest, or one of the two alone."""

    COST_AND_INTEREST = "ci"
    COST = "mst"
    INTEREST = "mit"


class Mode(enum.Enum):
    """Effect of a decision: links are exchanged, or it is only recorded."""

    EXCHANGE = "exchange"
    ADVICE = "advice"


class InterestMeasure(enum.Enum):
    """The notifications that count as interest: those of local clients, or all that pass."""

    LOCAL = "local"
    PASSING = "passing"


class PublisherPolicy(enum.Enum):
    """Whether publishers stay at their edge brokers, or move over the tree as in `grape`."""

    STAY = "stay"
    GRAPE = "grape"


class ThreeWay(enum.Enum):
    """Estimate of the interest that three brokers share: by Eq. 6, or counted in two filters."""

    MEAN = "mean"
    COUNTED = "counted"


class Consensus(enum.Enum):
    """Estimate of a cycle's cost without each link: by Eq. 8 to 10, or counted."""

    ESTIMATED = "estimated"
    COUNTED = "counted"


class SelfOrganisingParameters(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """Parameters of brokers that choose their links; ValueError names one that is out of bounds.

    heuristic             costs and interest (ci), or costs (mst) or interest (mit) alone (5): ci
    mode                  exchange links, or record what would be exchanged (ours): advice
    neighbourhood_hops    how far broadcasts go (5, eta): 4
    interval_us           between two broadcasts (5, 250 ticks): 25 s
    rest_intervals        the most intervals between two broadcasts of a broker around which nothing
                          changes (ours): 8; 1 is the paper, which broadcasts in each
    interest              notifications that count as a broker's interest: those that its clients
                          publish and get (4.1: local), or all that pass it (ours): passing, as
                          trees of many brokers become cheaper by it for any link costs
    cache_entries         notifications that a broker remembers (5): 8192
    filter_bits           size of the Bloom filter in a broadcast (5): 100,000
    filter_hashes         hash functions of the filter (5): 5
    exact_when_smaller    send identifiers instead of the filter when they are fewer bytes (ours):
                          yes; the paper never does
    three_way             the interest of three brokers: the mean (4.1, Eq. 6), or counted in two
                          filters (ours): mean
    consensus             a cycle's cost without each of its links: estimated, pair by pair (4.2,
                          Eq. 8 to 10), or counted, notification by notification (ours; with ci):
                          estimated
    least_gain_percent    least saving of the cycle (ours): 2; 0 is the paper, which exchanges for
                          any gain
    returns_any_time      an exchange is undone whenever that pays, as in the paper; else only after
                          a change of costs or traffic beyond noise (ours): no
    pinned                links that stay (ours): none
    forbidden             pairs that are never linked (ours): none
    max_degree            links that a broker may have (ours): 0, any number
    exchanges_per_hour    exchanges that a broker may take part in (ours): 0, any number
    frozen                nothing is proposed or agreed to (ours): no
    covering              neighbours get no subscription that another covers (PADRES): no
    publishers            stay, or move as in the system grape (ours): stay
    grape                 parameters of their moves, as in that system
    """

    heuristic: Heuristic = Heuristic.COST_AND_INTEREST
    mode: Mode = Mode.ADVICE
    neighbourhood_hops: int = 4
    interval_us: int = 25_000_000
    rest_intervals: int = 8
    interest: InterestMeasure = InterestMeasure.PASSING
    cache_entries: int = 8_192
    filter_bits: int = 100_000
    filter_hashes: int = 5
    exact_when_smaller: bool = True
    three_way: ThreeWay = ThreeWay.MEAN
    consensus: Consensus = Consensus.ESTIMATED
    least_gain_percent: int = 2
    returns_any_time: bool = False
    pinned: tuple[Pair, ...] = ()
    forbidden: tuple[Pair, ...] = ()
    max_degree: int = 0
    exchanges_per_hour: int = 0
    frozen: bool = False
    covering: bool = False
    publishers: PublisherPolicy = PublisherPolicy.STAY
    grape: GrapeParameters = GrapeParameters()

    @property
    def renewed_us(self) -> int:
        """Interval at which a stable broker repeats its advice."""
        return (self.rest_intervals + 1) * self.interval_us

    def __post_init__(self) -> None:
        _check("neighbourhood_hops", self.neighbourhood_hops, 1, MAX_HOPS)
        _check("interval_us", self.interval_us, 1, MAX_INTERVAL_US)
        _check("rest_intervals", self.rest_intervals, 1, MAX_INTERVALS)
        _check("cache_entries", self.cache_entries, 1, MAX_CACHE_ENTRIES)
        _check("filter_bits", self.filter_bits, 1, MAX_FILTER_BITS)
        _check("filter_hashes", self.filter_hashes, 1, MAX_FILTER_HASHES)
        _check("least_gain_percent", self.least_gain_percent, 0, 100)
        _check("max_degree", self.max_degree, 0, MAX_COUNT)
        _check("exchanges_per_hour", self.exchanges_per_hour, 0, MAX_COUNT)
        if self.grape.covering:
            raise ValueError("grape: covering is a parameter of the tree, not of grape")
        pinned = {frozenset(pair) for pair in self.pinned}
        for left, right in self.forbidden:
            if {left, right} in pinned:
                raise ValueError(f"forbidden: {left} - {right} is pinned")


def _check(key: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise ValueError(f"{key}: {value} is not between {least} and {most}")
