"""Clusters of brokers that want the same, of which only one each stands on the ring, its gateway.

A topic's tree leads to the gateways of clusters in which somebody wants it.  A gateway sends what
comes to those of its cluster, directly.  It is the broker of its cluster that wants most topics,
weighed by how much is published to them.  The ring is smaller, so plans are quicker and ways are
shorter; but gateways relay for their clusters.

Source: ours, as DYNATOPS sketches it for future work (section 7).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from shoal.model import BrokerId
from shoal.overlays.dynatops.planning.advising.prices import no_prices
from shoal.overlays.dynatops.planning.advising.swapping import Rules, after, swaps
from shoal.overlays.dynatops.planning.costs import distances, standing
from shoal.overlays.dynatops.planning.problem import (
    Amounts,
    Flags,
    Mapping,
    Numbers,
    Problem,
    trees_of,
)
from shoal.overlays.dynatops.structures.chord import Chord
from shoal.overlays.dynatops.structures.structure import Structure


class Clusters(NamedTuple):
    """of (brokers): the cluster of each.  gateways (clusters): the broker that is on the ring."""

    of: Numbers
    gateways: Numbers


class Totals(NamedTuple):
    """What a period's publications come to, from the roots on.

    messages  of all
    relays    of these, to brokers that do not subscribe
    delay     of all subscribing brokers
    busiest   the most that come to one broker, or go from it
    """

    messages: float
    relays: float
    delay: float
    busiest: float


class Gateways(msgspec.Struct, frozen=True):
    """What would be if of clusters of brokers that want the same only one each stood on the ring.

    clusters           their brokers, each with its gateway first
    messages, relays   of a publication on average, from its topic's root on
    busiest            the most messages that one broker handles of a publication on average
    busiest_without    the same of the plan, where all stand on the ring
    """

    clusters: Sequence[Sequence[BrokerId]]
    messages: float
    relays: float
    busiest: float
    busiest_without: float


def with_gateways(
    problem: Problem,
    mapping: Mapping,
    size: int,
    keys: Sequence[str],
    names: Sequence[BrokerId],
    make_structure: Callable[[int], Structure] = Chord,
) -> Gateways:
    """What would be with clusters of so many, whose gateways stand as well as they can.

    `keys` are the topics', `names` the brokers'; `mapping` is where these stand without.  Gateways
    stand on a new ring by their number first, then change places until no swap of any two helps.
    """
    clusters = cluster(problem.wanted, problem.publications, size)
    structure = make_structure(len(clusters.gateways))
    ring = on_ring(structure, [structure.root(key) for key in keys], problem, clusters)
    start: Mapping = range(len(clusters.gateways))
    stand = after(start, list(swaps(ring, start, no_prices(start), Rules("next"))))
    found, publications = totals(problem, ring, clusters, stand), float(problem.publications.sum())
    rows = [[names[each]] for each in clusters.gateways.tolist()]
    for number, name in enumerate(names):
        row = rows[clusters.of[number]]
        if name != row[0]:
            row.append(name)
    per = 1 / (publications or 1.0)
    return Gateways(
        clusters=rows,
        messages=found.messages * per,
        relays=found.relays * per,
        busiest=found.busiest * per,
        busiest_without=flat_totals(problem, mapping).busiest * per,
    )


def cluster(wanted: Flags, publications: Amounts, size: int) -> Clusters:
    """Brokers that have most in common, `size` together; who wants most begins a cluster.

    One after the other those join that add least to what the cluster's brokers want together, by
    how much of it they want themselves.
    """
    free = np.ones(len(wanted), np.bool_)
    weighed = wanted @ publications
    of = np.empty(len(wanted), np.int32)
    gateways: list[int] = []
    while free.any():
        first = int(np.where(free, weighed, -1.0).argmax())
        free[first] = False
        of[first] = len(gateways)
        together = wanted[first].copy()
        for _ in range(size - 1):
            if not free.any():
                break
            common = (wanted & together) @ publications
            # Of what either wants, how much both do.
            shares = common / np.maximum(weighed + together @ publications - common, 1e-12)
            joining = int(np.where(free, shares, -1.0).argmax())
            free[joining] = False
            of[joining] = len(gateways)
            together |= wanted[joining]
        gateways.append(first)
    return Clusters(of, np.array(gateways, np.int32))


def on_ring(
    structure: Structure, roots: list[int], problem: Problem, clusters: Clusters
) -> Problem:
    """The gateways' problem: each wants what its cluster does; the cost is Eq. 5 for the ring."""
    count = len(clusters.gateways)
    wanted = np.zeros((count, problem.topics), np.bool_)
    np.logical_or.at(wanted, clusters.of, problem.wanted)
    trips = problem.round_trips
    return Problem(
        trees=trees_of(structure, roots),
        wanted=wanted,
        publications=problem.publications,
        round_trips=None if trips is None else trips[np.ix_(clusters.gateways, clusters.gateways)],
        delay_weight=problem.delay_weight,
    )


def flat_totals(problem: Problem, mapping: Mapping) -> Totals:
    """Of a ring of all brokers."""
    everybody = np.arange(problem.brokers, dtype=np.int32)
    return totals(problem, problem, Clusters(everybody, everybody), mapping)


def totals(problem: Problem, ring: Problem, clusters: Clusters, mapping: Mapping) -> Totals:
    """Of gateways that stand so on the ring, and their clusters; hops are 1 if not measured."""
    found = standing(ring, mapping)
    weights, roots = problem.publications, ring.trees.roots[ring.trees.of]
    topics = np.arange(problem.topics)
    is_in = found.below > 0
    edges = is_in.copy()
    edges[topics, roots] = False
    parents = ring.trees.parents[ring.trees.of]
    at = np.array(mapping)
    # (topics, clusters): whether the gateway subscribes itself, and how many behind it do.
    is_own = problem.wanted[clusters.gateways].T
    behind = np.zeros((problem.topics, len(clusters.gateways)))
    np.add.at(behind.T, clusters.of, problem.wanted.astype(float))
    behind -= is_own
    handled = np.zeros(len(mapping))
    np.add.at(handled, roots, weights)
    for topic in topics:
        handled += weights[topic] * edges[topic]
        np.add.at(handled, parents[topic][edges[topic]], weights[topic])
    busiest = (handled[at] + weights @ behind).max()
    by_gateway = edges[:, at]
    relays = float(weights @ (by_gateway & ~is_own).sum(axis=1))
    messages = float(weights @ (edges.sum(axis=1) + behind.sum(axis=1)))
    apart = distances(ring, found.brokers)[ring.trees.of][:, at]
    within = np.ones(problem.brokers)
    if problem.round_trips is not None:
        within = problem.round_trips[clusters.gateways[clusters.of], np.arange(problem.brokers)]
    within[clusters.gateways] = 0.0
    delays = problem.wanted.T * (apart[:, clusters.of] + within)
    return Totals(messages, relays, float(weights @ delays.sum(axis=1)), float(busiest))
