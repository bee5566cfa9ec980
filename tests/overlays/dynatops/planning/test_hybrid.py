"""Clusters behind gateways: predicted messages equal those sent, route by route."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pytest

from shoal.overlays.dynatops.planning.advising.hybrid import with_gateways
from shoal.overlays.dynatops.structures.chord import Chord
from shoal.overlays.dynatops.structures.gateways import Gateways
from shoal.overlays.dynatops.structures.structure import route
from tests.overlays.dynatops.planning.drawing import draw_mapping, draw_problem

NAMES = [f"B{number}" for number in range(20)]


def test_predicted_messages_equal_those_sent() -> None:
    for seed in range(8):
        random = Random(seed)
        problem, together = draw_problem(Chord(20), random), random.randint(2, 6)
        problem = problem._replace(publications=problem.publications + 1)
        keys = [f"topic {number}" for number in range(problem.topics)]
        found = with_gateways(problem, draw_mapping(20, random), together, keys, NAMES)
        members = [name for row in found.clusters for name in row]
        assert sorted(members) == sorted(NAMES)
        assert all(len(row) == together for row in found.clusters[:-1])
        structure = Gateways(20, together)
        messages = relays = 0.0
        handled = dict.fromkeys(NAMES, 0.0)
        for topic, key in enumerate(keys):
            weight, root = float(problem.publications[topic]), structure.root(key)
            hops = set()
            for broker in np.flatnonzero(problem.wanted[:, topic]).tolist():
                way = route(structure, root, members.index(NAMES[broker]))
                hops |= set(pairwise(way))
            handled[members[root]] += weight
            for each in hops:
                for position in each:
                    handled[members[position]] += weight
            messages += weight * len(hops)
            wants = {NAMES[each] for each in np.flatnonzero(problem.wanted[:, topic])}
            relays += weight * sum(members[other] not in wants for _, other in hops)
        total = float(problem.publications.sum())
        sums = messages / total, relays / total, max(handled.values()) / total
        assert (found.messages, found.relays, found.busiest) == pytest.approx(sums)


def test_swaps_bring_brokers_with_equal_topics_together() -> None:
    """Three kinds of brokers with topics of their own; four of a kind."""
    wanted = np.array([[kind == broker % 3 for kind in range(3)] for broker in range(12)])
    problem = draw_problem(Chord(12), Random(1))
    problem = problem._replace(wanted=np.repeat(wanted, 4, axis=1), publications=np.ones(12))
    problem = problem._replace(delay_weight=1.0)
    keys = [f"topic {number}" for number in range(12)]
    found = with_gateways(problem, range(12), 4, keys, NAMES[:12])
    kinds = [{int(name[1:]) % 3 for name in row} for row in found.clusters]
    assert sorted(kinds, key=min) == [{0}, {1}, {2}]
