"""The state of a compiled run, as named tuples of arrays.

Brokers and types of notifications are numbers; a place is a broker's in a cycle.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.experiments.self_organising.modelling.model import COUNTS, KINDS
from shoal.overlays.self_organising.parameters import Heuristic

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

# An array's entry for a broker that another does not know, or that is at no place.
UNKNOWN = -1
NOTIFICATIONS, BROADCASTS, REQUESTS, EXCHANGES = range(len(KINDS))
HEARD, PROPOSALS, EXCHANGED, KEPT, REFUSED, FILTER, IDS = range(len(COUNTS))
CI, MST, MIT = range(3)
CODES = {
    Heuristic.COST_AND_INTEREST: CI,
    Heuristic.COST: MST,
    Heuristic.INTEREST: MIT,
}


class Rules(NamedTuple):
    """The setting of a run."""

    heuristic: int
    hops: int
    is_passing: bool
    least_gain: int


class Events(NamedTuple):
    """All events in the order of time: a move of a subscription (type, old broker, new broker), a
    change of costs (its number), the end of a window, and a broker's broadcast (the broker).
    """

    at: Floats
    kind: Counts
    first: Counts
    second: Counts
    third: Counts


class Prices(NamedTuple):
    """Costs of a message at each broker (brokers), and over each link (brokers, brokers)."""

    processing: Floats
    links: Floats


class TreeArrays(NamedTuple):
    """The neighbours of broker n, in order, are `neighbours[first[n]:first[n + 1]]`; `above` has
    each broker's predecessor on the route from the first, or -1.
    """

    first: Counts
    neighbours: Counts
    above: Counts


class TypeArrays(NamedTuple):
    """Of all types, one after the other: `times` of publications, from `begins` on; and by type:

    published  so far
    settled    those with costs that are added up
    units      a notification's cost
    members    (types, brokers): publisher's and subscribers' brokers
    passed     (types, brokers): brokers that a notification passes
    """

    times: Floats
    begins: Counts
    published: Counts
    settled: Counts
    units: Floats
    members: Flags
    passed: Flags


class PairArrays(NamedTuple):
    """Notifications in which each two brokers were interested so far (`SharingPairs`)."""

    is_wanted: Counts
    counted: Counts
    sums: Counts
    told: Counts


class Knowledge(NamedTuple):
    """The brokers' knowledge of each other, and a broadcast's way.

    shared    (brokers, brokers): what the row's broker shares with the column's
    is_fresh  (brokers, brokers): that one's broadcast came since the row's interval began
    sums      (brokers): of the shared interest with known brokers
    known     (brokers): number of known brokers
    proposed  (brokers, brokers): when the row's broker proposed a link to the column's last
    reached   (brokers): brokers that a broadcast reaches, in order
    before    (brokers): the places of their predecessors in that order
    over      (brokers): what each shares with its predecessor
    pays      (brokers): whether a link to the origin pays
    """

    shared: Counts
    is_fresh: Flags
    sums: Counts
    known: Counts
    proposed: Floats
    reached: Counts
    before: Counts
    over: Counts
    pays: Flags


class ProposalArrays(NamedTuple):
    """A broadcast's proposals, by number; cycles have at most eta + 1 brokers.

    size       brokers of the cycle
    brokers    (proposals, places)
    costs      (proposals, places): of the cycle's links, the new one last
    shared     (proposals, places): interest over the cycle's links
    judged     (proposals, places, places): each broker's vector (Eq. 8)
    is_judged  (proposals, places): whether that broker knows enough
    vector     (proposals, places): the sum so far (Eq. 9)
    time       when it arrives at the broker at `place`, in links that a message passes
    turn       the order of arrivals at one time
    is_going   it is on its way
    """

    size: Counts
    brokers: Counts
    costs: Floats
    shared: Floats
    judged: Floats
    is_judged: Flags
    vector: Floats
    time: Counts
    turn: Counts
    place: Counts
    is_going: Flags


class ExchangeArrays(NamedTuple):
    """The exchange that is going on (`_Ring`); its `brokers` are those of a cycle.

    state   number of brokers, link to remove, time of the decision, of its end, 1 if it is done
    place   (brokers of the network): of each in the cycle
    since   (places): from when on each takes part
    until   (places): until when
    """

    state: Counts
    brokers: Counts
    place: Counts
    since: Counts
    until: Counts


# Of `ExchangeArrays.state`.
SIZE, REMOVE, BEGUN, DECIDED, IS_DONE = range(5)


class Swaps(NamedTuple):
    """Exchanges so far: times, sizes of cycles, removed links, cycles (swaps, places)."""

    at: Floats
    size: Counts
    remove: Counts
    cycle: Counts


class Totals(NamedTuple):
    """Results: costs by kind in this window, and by window; the counts of `ModelOutcome`."""

    sums: Floats
    windows: Floats
    counts: Counts


class RunArrays(NamedTuple):
    """All that a run changes, and its rules."""

    rules: Rules
    tree: TreeArrays
    types: TypeArrays
    pairs: PairArrays
    knowledge: Knowledge
    proposals: ProposalArrays
    exchange: ExchangeArrays
    totals: Totals
