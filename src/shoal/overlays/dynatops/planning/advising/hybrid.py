"""Outlook: figures of a network with clusters behind gateways, of which only these are on the ring.

The system `hybrid` is that network. Positions determine the clusters and their gateways
(`structures/gateways.py`), so that swaps find clusters with the same topics, too.

Source: ours, as DYNATOPS sketches it for future work (section 7).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from shoal.model import BrokerId
from shoal.overlays.dynatops.planning.advising.prices import no_prices
from shoal.overlays.dynatops.planning.advising.swapping import SwapRules, after, handled, swaps
from shoal.overlays.dynatops.planning.costs import MappingCounts, standing
from shoal.overlays.dynatops.planning.problem import Mapping, PlacementProblem, inverse, trees_of
from shoal.overlays.dynatops.structures.gateways import Gateways


class Outlook(msgspec.Struct, frozen=True):
    """Figures of clusters behind gateways.

    clusters           their brokers, each with its gateway first
    messages, relays   of a publication on average, from its topic's root on
    busiest            the most messages that one broker handles of a publication on average
    busiest_without    the same of the plan without clusters
    """

    clusters: Sequence[Sequence[BrokerId]]
    messages: float
    relays: float
    busiest: float
    busiest_without: float


def with_gateways(
    problem: PlacementProblem,
    mapping: Mapping,
    per_gateway: int,
    keys: Sequence[str],
    names: Sequence[BrokerId],
) -> Outlook:
    """Figures with clusters of this size, after swaps from the present places.

    `keys` are the topics', `names` the brokers'.
    """
    structure = Gateways(problem.brokers, per_gateway)
    roots = [structure.root(key) for key in keys]
    hybrid = problem._replace(trees=trees_of(structure, roots))
    stand = after(mapping, list(swaps(hybrid, mapping, no_prices(mapping), SwapRules("next"))))
    found = standing(hybrid, stand)
    per = 1 / (float(problem.publications.sum()) or 1.0)
    return Outlook(
        clusters=clusters([names[each] for each in inverse(stand)], per_gateway),
        messages=messages(hybrid, found) * per,
        relays=found.relays * per,
        busiest=float(handled(hybrid, found).max()) * per,
        busiest_without=float(handled(problem, standing(problem, mapping)).max()) * per,
    )


def clusters(members: Sequence[BrokerId], per_gateway: int) -> Sequence[Sequence[BrokerId]]:
    """Those of brokers in the order in which they stand.

    >>> clusters("ABCDE", 2)
    [['A', 'B'], ['C', 'D'], ['E']]
    """
    starts = range(0, len(members), per_gateway)
    return [list(members[start : start + per_gateway]) for start in starts]


def messages(problem: PlacementProblem, found: MappingCounts) -> float:
    """All of the period's publications, from the roots on."""
    roots = problem.trees.roots[problem.trees.of]
    is_in = found.below > 0
    edges = is_in.sum(axis=1) - is_in[range(len(roots)), roots]
    return float(problem.publications @ edges)
