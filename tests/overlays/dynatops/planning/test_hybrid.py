"""Clusters behind gateways: who is with whom, and what is sent, way by way."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pytest

from shoal.overlays.dynatops.planning.costs import standing
from shoal.overlays.dynatops.planning.hybrid import cluster, flat_totals, on_ring, totals
from shoal.overlays.dynatops.planning.problem import inverse
from shoal.overlays.dynatops.structures.chord import Chord
from shoal.overlays.dynatops.structures.structure import route
from tests.overlays.dynatops.planning.drawing import draw_mapping, draw_problem


def test_likes_are_together() -> None:
    wanted = np.array([[kind == broker % 3 for kind in range(3)] for broker in range(12)])
    found = cluster(wanted, np.array([3.0, 2.0, 1.0]), 4)
    assert found.gateways.tolist() == [0, 1, 2]
    assert found.of.tolist() == [broker % 3 for broker in range(12)]
    assert len(cluster(wanted, np.ones(3), 5).gateways) == 3


@pytest.mark.parametrize("is_measured", [False, True])
def test_what_is_sent(is_measured: bool) -> None:
    for seed in range(8):
        random = Random(seed)
        problem = draw_problem(Chord(20), random, is_measured=is_measured)
        clusters = cluster(problem.wanted, problem.publications, random.randint(2, 5))
        size = len(clusters.gateways)
        ring = Chord(size)
        roots = [random.randrange(size) for _ in range(problem.topics)]
        mapping = draw_mapping(size, random)
        gateways = on_ring(ring, roots, problem, clusters)
        at = [int(clusters.gateways[each]) for each in inverse(mapping)]

        def hop(one: int, other: int) -> float:
            return 1.0 if problem.round_trips is None else float(problem.round_trips[one, other])  # noqa: B023

        messages = relays = delay = 0.0
        handled = [0.0] * 20
        for topic, root in enumerate(roots):
            weight = float(problem.publications[topic])
            hops = set()
            for broker in np.flatnonzero(problem.wanted[:, topic]).tolist():
                gateway = mapping[clusters.of[broker]]
                way = [at[position] for position in route(ring, root, gateway)]
                way += [broker] if broker != way[-1] else []
                hops |= set(pairwise(way))
                delay += weight * sum(hop(one, other) for one, other in pairwise(way))
            handled[at[root]] += weight
            for one, other in hops:
                handled[one] += weight
                handled[other] += weight
            messages += weight * len(hops)
            relays += weight * sum(not problem.wanted[other, topic] for _, other in hops)
        found = totals(problem, gateways, clusters, mapping)
        assert found == pytest.approx((messages, relays, delay, max(handled)))


def test_a_ring_of_all_is_as_standing_says() -> None:
    random = Random(5)
    problem, mapping = draw_problem(Chord(13), random), draw_mapping(13, random)
    counted, found = standing(problem, mapping), flat_totals(problem, mapping)
    assert (found.relays, found.delay) == pytest.approx((counted.relays, counted.delay))
