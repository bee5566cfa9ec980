"""The compiled choice of a user's broker against the brokers' own."""

from __future__ import annotations

import random

import numpy as np

from shoal.experiments.dynatops.placing import KnownArrays, best_of_cluster
from shoal.overlays.dynatops.planning.placement import Served, best_broker


def test_the_compiled_choice_is_the_brokers_own() -> None:
    generator = random.Random(1)
    stayed = 0
    for _ in range(400):
        brokers, topics = generator.randint(1, 8), generator.randint(1, 6)
        before, now = (_users(generator, brokers, topics) for _ in range(2))
        loads = before.sum(axis=1).astype(np.int64)
        known = KnownArrays(before > 0, loads)
        cluster = generator.sample(range(brokers), generator.randint(1, brokers))
        wanted = frozenset(generator.sample(range(topics), generator.randint(0, topics)))
        present, asked = generator.randrange(brokers), generator.choice([-1, *cluster])
        least, weight = generator.choice([1, 2]), generator.choice([0.0, 0.5, 4.0])

        visible = {each: _served(before, each, 1) for each in cluster}
        if asked >= 0:
            seen = _served(now, asked, least)
            own = len(wanted) if least == 2 else 0
            visible[asked] = seen._replace(subscriptions=seen.subscriptions - own)
        found = best_of_cluster(
            np.array(sorted(wanted), np.int64),
            np.array(cluster, np.int64),
            known,
            now,
            now.sum(axis=1).astype(np.int64),
            present,
            asked,
            least,
            weight,
        )
        assert found == best_broker(wanted, visible, weight, present)
        stayed += found == present
    assert 50 < stayed < 350


def _users(generator: random.Random, brokers: int, topics: int) -> np.ndarray:
    counts = [[generator.choice([0, 0, 1, 2]) for _ in range(topics)] for _ in range(brokers)]
    return np.array(counts, np.int32)


def _served(users: np.ndarray, broker: int, least: int) -> Served:
    topics = frozenset(np.flatnonzero(users[broker] >= least).tolist())
    return Served(topics, int(users[broker].sum()))
