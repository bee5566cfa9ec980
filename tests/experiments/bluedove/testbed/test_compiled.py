"""Publications in compiled code have the times and the figures that the machines give them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from shoal.experiments.bluedove.testbed.saturation import expected_rate
from shoal.experiments.bluedove.testbed.testbed import BlueDoveSetting, LoadedCluster
from shoal.overlays.bluedove.cluster.forwarding import Policy
from shoal.overlays.bluedove.records import DeathRecord, ScaleRecord

# Half of the limit, nearly all of it, and too much.
SHARES = (0.5, 0.95, 1.2)


class Observed(NamedTuple):
    """What a cluster did: responses, and figures of its machines."""

    published_us: list[float]
    took_us: list[float]
    figures: list[Any]


def observe(cluster: LoadedCluster) -> Observed:
    figures: list[Any] = [cluster.now_us, cluster.backlog, sorted(cluster.work_us().items())]
    for strategy in cluster.strategies.values():
        if strategy.matcher is not None:
            for queue in strategy.matcher.queues:
                tally = queue.tally
                figures.append((tally.waiting, tally.arrived, tally.matched, tally.worked_us))
        if strategy.dispatcher is not None:
            figures.append(strategy.dispatcher.outbox.loads)
        table = strategy.node.table
        figures.append((table.revision, sorted(table.ages.items())))
    records = cluster.world.trace.records
    figures += [row for row in records if isinstance(row, DeathRecord | ScaleRecord)]
    responses = cluster.responses()
    return Observed(responses.published_us.tolist(), responses.took_us.tolist(), figures)


def loaded(setting: BlueDoveSetting, *, is_whole: bool) -> tuple[LoadedCluster, list[Observed]]:
    """A cluster, and all that was seen under three loads."""
    cluster = LoadedCluster(setting, is_whole=is_whole)
    rate, seen = expected_rate(cluster), []
    for share in SHARES:
        cluster.publish(share * rate, 4.0)
        seen.append(observe(cluster))
        cluster.publish(share * rate, 2.0)
        cluster.drain()
        seen.append(observe(cluster))
    return cluster, seen


SMALL = {"matchers": 4, "slowdown": 200, "subscriptions": 300, "stands_for": 130}


@pytest.mark.parametrize(
    "options",
    [
        {"policy": Policy.ADAPTIVE},
        {"policy": Policy.RESPONSE_TIME, "adverse": 3, "costs": "engine", "slowdown": 8_000},
        {"policy": Policy.SUBSCRIPTIONS, "drawing": "single", "slowdown": 500, "dispatchers": 4},
        {"policy": Policy.RANDOM, "report_s": 3},
        {"system": "full replication"},
        {"drawing": "ring", "fixed": 1_000},
        {"system": "peer-to-peer", "peers_by": 1, "drawing": "cut"},
    ],
)
def test_every_response_is_as_the_machines_have_it(options: dict[str, Any]) -> None:
    setting = BlueDoveSetting(**SMALL | options)
    cluster, seen = loaded(setting, is_whole=False)
    assert cluster.is_compiled
    _, expected = loaded(setting, is_whole=True)
    assert seen == expected
    assert sum(len(each.took_us) for each in seen) > 100


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(12))
def test_larger_clusters_are_as_the_machines_have_them(seed: int) -> None:
    setting = BlueDoveSetting(
        matchers=(5, 10, 20)[seed % 3], slowdown=100, subscriptions=2_000, stands_for=20,
        policy=tuple(Policy)[seed % 4], drawing=("moved", "cut", "single")[seed % 3],
        dispatchers=(2, 5)[seed % 2], seed=seed,
    )  # fmt: skip
    assert loaded(setting, is_whole=False)[1] == loaded(setting, is_whole=True)[1]


def changed(
    change: Callable[[LoadedCluster], None], seconds: float, share: float, **options: Any
) -> tuple[Observed, Observed]:
    """What compiled code and machines have, with a change while messages are under way."""
    found = []
    for is_whole in (False, True):
        cluster = LoadedCluster(BlueDoveSetting(**SMALL | options), is_whole=is_whole)
        rate = share * expected_rate(cluster)
        cluster.publish(rate, 5.0)
        change(cluster)
        cluster.publish(rate, seconds)
        assert cluster.is_compiled is not is_whole
        cluster.drain()
        found.append(observe(cluster))
    return found[0], found[1]


def test_a_matcher_dies_with_messages() -> None:
    def kill(cluster: LoadedCluster) -> None:
        cluster.world.crash(cluster.now_us + 1_500_000, "M002")

    seen, expected = changed(kill, 30.0, 0.6)
    assert seen == expected
    assert np.isfinite(seen.took_us).all()
    assert any(isinstance(row, DeathRecord) for row in seen.figures)


def test_a_dead_matcher_keeps_its_figures() -> None:
    """Its segments have no other owner yet."""

    def kill(cluster: LoadedCluster) -> None:
        cluster.world.crash(cluster.now_us + 500_000, "M002")

    seen, expected = changed(kill, 8.0, 0.4, cores=1)
    assert seen == expected
    assert not any(isinstance(row, DeathRecord) for row in seen.figures)


def test_matchers_are_added_under_load() -> None:
    def nothing(cluster: LoadedCluster) -> None:
        """The load alone makes the cluster grow."""

    seen, expected = changed(nothing, 60.0, 1.05, spares=2)
    assert seen == expected
    assert any(isinstance(row, ScaleRecord) for row in seen.figures)


def test_subscriptions_are_stored_between_loads() -> None:
    """Compiled code files the sets anew."""
    seen, expected = changed(lambda cluster: cluster.store(200), 5.0, 0.9)
    assert seen == expected


@pytest.mark.parametrize("share", [0.8, 2.0])
def test_all_state_goes_to_the_machines_and_comes_back(share: float) -> None:
    """Ten times, with queues, jobs and messages of every kind under way."""

    def cross(cluster: LoadedCluster) -> None:
        for _ in range(10):
            cluster.publish(share * rate_of(cluster), 0.37)
            cluster.give_to_machines()

    rates: dict[int, float] = {}

    def rate_of(cluster: LoadedCluster) -> float:
        return rates.setdefault(id(cluster), 150.0)

    seen, expected = changed(cross, 3.0, share, slowdown=100, dispatchers=3)
    assert seen == expected
