"""The fast model against definitions with caches, filters and delivery trees."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
import pytest

from shoal.experiments.self_organising.data import prepare_departures
from shoal.experiments.self_organising.modelling.compiled.run import run_compiled
from shoal.experiments.self_organising.modelling.delivery import DeliveryTree
from shoal.experiments.self_organising.modelling.departures import departures
from shoal.experiments.self_organising.modelling.model import KINDS, SelfOrganisingModel
from shoal.experiments.self_organising.modelling.setting import (
    HEURISTICS,
    SelfOrganisingSetting,
    What,
)
from shoal.experiments.self_organising.modelling.sharing import (
    Interested,
    SharingTriples,
)
from shoal.experiments.self_organising.modelling.workload import ModelLinkCosts, ModelWorkload, draw
from shoal.experiments.self_organising.runs import broadcast_times, first_links
from shoal.overlays.self_organising.deciding.interest import Cache, bloom_filter, notification_id
from tests.experiments.self_organising.test_optimum import is_tree, random_problem
from tests.experiments.self_organising.test_optimum import random_tree as any_tree

SMALL = SelfOrganisingSetting(
    what="ci",
    seed=3,
    brokers=14,
    types=12,
    subscribers=3,
    ticks=3_000,
    changes_at=(1_000, 2_000),
    end_rate=0.002,
)


def apart(brokers: int, seed: int = 1) -> np.ndarray:
    places = np.random.default_rng(seed).uniform(0, 1, (2 * brokers, 2))
    return np.hypot(*(places[:, None] - places[None, :]).transpose(2, 0, 1))


def workload_of(setting: SelfOrganisingSetting) -> ModelWorkload:
    return draw(setting, apart(setting.brokers))


def model_of(setting: SelfOrganisingSetting, workload: ModelWorkload) -> SelfOrganisingModel:
    return SelfOrganisingModel(setting, workload, first_links(setting), broadcast_times(setting))


@pytest.mark.parametrize("seed", range(5))
def test_a_delivery_costs_its_subtree(seed: int) -> None:
    generator = random.Random(seed)
    problem, demands = random_problem(generator, 12)
    costs = ModelLinkCosts(problem.processing.tolist(), problem.links.tolist())
    links = any_tree(generator, 12)
    tree = DeliveryTree(12, links)
    assert sorted(map(sorted, tree.links)) == sorted(map(sorted, links))
    each = [tree.delivery(frozenset(members), costs)[1] * count for members, count in demands]
    assert sum(each) == pytest.approx(problem.cost(links))


@pytest.mark.parametrize("passing", [False, True])
def test_shared_interest_equals_caches_and_filters(passing: bool) -> None:
    setting = msgspec.structs.replace(SMALL, what="static", changes_at=(), passing=passing)
    workload = workload_of(setting)
    model = model_of(setting, workload)
    model._recount(0.0, range(setting.types))
    tree = DeliveryTree(setting.brokers, first_links(setting))
    events: list[tuple[float, int, tuple[int, ...]]] = [
        (move.at, 0, move[1:]) for move in workload.moves
    ]
    events += [
        (at, 1, (type, number))
        for type, times in enumerate(workload.publications)
        for number, at in enumerate(times)
    ]
    caches = [Cache(8_192) for _ in range(setting.brokers)]
    members = [set(each) for each in workload.members]
    compared = 0
    for until in (250.0, 500.0, 750.0, 1_000.0):
        for at, kind, what in sorted(events):
            if not until - 250 < at <= until:
                continue
            if kind:
                inside = frozenset(members[what[0]])
                passed, _ = tree.delivery(inside, workload.costs[0])
                for broker in passed if passing else inside:
                    caches[broker].add(notification_id(f"P{what[0]}", what[1]))
            else:
                type, old, new = what
                members[type] ^= {old, new}
                model._move_member(at, type, old, new)
        for origin in range(0, setting.brokers, 3):
            interval = model._interval(origin, until)
            summary = bloom_filter(caches[origin].turn(), 100_000, 5)
            for broker, cache in enumerate(caches):
                assert interval.shared[broker] == cache.common(summary)
                compared += bool(cache.common(summary))
        for origin, cache in enumerate(caches):
            if origin % 3:
                cache.turn()
    assert compared > 50


@pytest.mark.parametrize("what", HEURISTICS)
@pytest.mark.parametrize("shape", ["recursive", "uniform"])
def test_there_is_always_one_tree_and_all_notifications_are_counted(what: str, shape: str) -> None:
    setting = msgspec.structs.replace(SMALL, what=what, shape=shape)
    workload = workload_of(setting)
    outcome = model_of(setting, workload).run()
    assert is_tree(outcome.links, setting.brokers)
    assert outcome.counts["exchanges"] == len(outcome.swaps) > 0
    assert set(outcome.costs) == set(KINDS)
    assert all(len(windows) == 3 for windows in outcome.costs.values())
    decided = outcome.counts["exchanges"] + outcome.counts["kept"] + outcome.counts["refused"]
    assert decided == outcome.counts["proposals"]
    # Once more, link by link: the swaps lead from the first tree to the last.
    tree = DeliveryTree(setting.brokers, first_links(setting))
    for _, cycle, remove in outcome.swaps:
        for one, other in pairwise(cycle):
            assert other in tree.neighbours[one]
        tree.exchange((cycle[remove], cycle[remove + 1]), (cycle[0], cycle[-1]))
    assert sorted(map(sorted, tree.links)) == sorted(map(sorted, outcome.links))


def test_static_costs_are_every_notifications_delivery() -> None:
    setting = msgspec.structs.replace(SMALL, what="static")
    workload = workload_of(setting)
    tree = DeliveryTree(setting.brokers, first_links(setting))
    expected = [0.0] * 3
    members = list(workload.members)
    events: list[tuple[float, int, tuple[int, ...]]] = [
        (move.at, 0, move[1:]) for move in workload.moves
    ]
    events += [(at, 1, (type,)) for type, times in enumerate(workload.publications) for at in times]
    for at, is_publication, what in sorted(events):
        if is_publication:
            era = int(at // 1_000)
            expected[era] += tree.delivery(members[what[0]], workload.costs[era])[1]
        else:
            type, old, new = what
            members[type] = members[type] - {old} | {new}
    outcome = model_of(setting, workload).run()
    assert outcome.costs["notifications"] == pytest.approx(expected)
    assert outcome.swaps == []


def test_nothing_is_proposed_to_neighbours_nor_at_equal_costs() -> None:
    """At eta 1 brokers know only neighbours; at alpha 1 no link is dearer (exact)."""
    for changes, what in (({"hops": 1}, "ci"), ({"alpha": 1.0}, "mst")):
        setting = msgspec.structs.replace(SMALL, what=what, **changes)
        outcome = model_of(setting, workload_of(setting)).run()
        assert outcome.counts["proposals"] == 0
        assert outcome.counts["heard"] > 0


def test_costs_change_for_links_first_and_then_for_brokers() -> None:
    first, second, third = workload_of(SMALL).costs
    assert first.brokers == second.brokers != third.brokers
    assert first.links != second.links == third.links
    both = workload_of(msgspec.structs.replace(SMALL, changes="both")).costs
    assert both[0].brokers != both[1].brokers
    assert max(map(max, first.links)) == pytest.approx(10)
    whole = workload_of(msgspec.structs.replace(SMALL, alpha=1.0)).costs[0]
    assert max(map(max, whole.links)) == 0
    assert max(whole.brokers) > 10


def test_all_subscriptions_begin_elsewhere_when_loads_change() -> None:
    """Each type's subscriptions move once at each change; its publisher's broker stays."""
    setting = msgspec.structs.replace(SMALL, changes="costs and loads")
    workload = workload_of(setting)
    assert workload.costs[0].brokers != workload.costs[1].brokers
    members = [set(each) for each in workload.members]
    for at, type, old, new in workload.moves:
        assert old in members[type] - {workload.publishers[type]}
        assert new not in members[type]
        members[type] ^= {old, new}
        assert at < setting.ticks
    for change in setting.changes_at:
        moved = [move for move in workload.moves if move.at == change]
        assert len(moved) == setting.types * setting.subscribers
    costs_alone = workload_of(msgspec.structs.replace(SMALL, changes="both"))
    assert not {move.at for move in costs_alone.moves} & set(setting.changes_at)


def test_local_subscribers_are_at_the_nearest_brokers() -> None:
    """At first and after each move, whatever links cost later."""
    setting = msgspec.structs.replace(SMALL, near=5)
    workload = workload_of(setting)
    for type, publisher in enumerate(workload.publishers):
        costs = workload.costs[0].links[publisher]
        others = [each for each in range(setting.brokers) if each != publisher]
        nearest = {publisher, *sorted(others, key=costs.__getitem__)[:5]}
        assert workload.members[type] <= nearest
        assert {move.new for move in workload.moves if move.type == type} <= nearest
    assert workload_of(msgspec.structs.replace(SMALL, near=0)) == workload_of(SMALL)


def test_drawn_link_costs_change_nothing_else() -> None:
    ways = workload_of(SMALL)
    drawn = workload_of(msgspec.structs.replace(SMALL, links="drawn"))
    assert drawn[:-1] == ways[:-1]
    assert [costs.brokers for costs in drawn.costs] == [costs.brokers for costs in ways.costs]
    first, second, third = (np.array(costs.links) for costs in drawn.costs)
    assert (first == first.T).all()
    assert not first.diagonal().any()
    assert first.max() < 10
    assert (first != second).any()
    assert (second == third).all()
    assert not np.allclose(first, np.array(ways.costs[0].links))


def test_flights_depart_at_the_publishers_rate(tmp_path: Path) -> None:
    file = prepare_departures(tmp_path)
    setting = msgspec.structs.replace(SMALL, types=50, ticks=30_000, departures=str(file))
    found = departures(file, setting)
    assert sum(map(len, found)) == pytest.approx(50 * 0.2 * 30_000, rel=0.05)
    assert all(times == sorted(times) and times[-1] < 30_000 for times in found)
    # The year begins again.
    assert len(found[0]) > 15_000 > 4 * len(found[-1])
    assert prepare_departures(tmp_path) == file
    few = msgspec.structs.replace(setting, types=12, ticks=3_000)
    assert workload_of(few).publications == departures(file, few)


def test_subscriptions_have_the_given_number_and_duration() -> None:
    setting = msgspec.structs.replace(SMALL, ticks=20_000, changes_at=())
    workload = workload_of(setting)
    expected = setting.types * setting.subscribers * setting.end_rate * setting.ticks
    assert len(workload.moves) == pytest.approx(expected, rel=0.1)
    published = sum(map(len, workload.publications))
    assert published == pytest.approx(setting.types * 0.2 * setting.ticks, rel=0.05)
    members = list(workload.members)
    for _, type, old, new in workload.moves:
        assert old in members[type]
        assert old != workload.publishers[type]
        assert new not in members[type]
        members[type] = members[type] - {old} | {new}
        assert len(members[type]) == setting.subscribers + 1


@pytest.mark.parametrize("passing", [False, True])
@pytest.mark.parametrize("what", ["static", *HEURISTICS])
def test_a_compiled_run_does_as_neighbourhoods_do(what: What, passing: bool) -> None:
    changes = 0
    for seed in range(3):
        setting = msgspec.structs.replace(
            SMALL, what=what, seed=seed, passing=passing, brokers=40, hops=6, least_gain=seed
        )
        workload = workload_of(setting)
        found = run_compiled(setting, workload, first_links(setting), broadcast_times(setting))
        assert found == model_of(setting, workload).run()
        changes += len(found.swaps)
    assert changes > 20 or what == "static"


def test_interest_of_three_is_counted_as_by_a_list_of_spans() -> None:
    generator, kept = random.Random(1), 20.0
    types = [Interested(sorted(generator.uniform(0, 100) for _ in range(40))) for _ in range(5)]
    triples = SharingTriples(6, types, kept)
    # Of each type: since when which brokers are interested.
    spans: list[list[tuple[float, frozenset[int]]]] = [[] for _ in types]
    found = 0
    for at in sorted(generator.uniform(0, 100) for _ in range(300)):
        number = generator.randrange(5)
        brokers = frozenset(generator.sample(range(6), generator.randint(0, 5)))
        triples.become(at, number, brokers)
        spans[number].append((at, brokers))
        since = generator.uniform(max(0, at - kept), at)
        until = generator.uniform(since, at)
        wanted = generator.sample(range(6), 3)
        expected = 0
        for publications, changes in zip((one.publications for one in types), spans, strict=True):
            for time in publications:
                if since < time <= until:
                    now = [each for began, each in changes if began < time]
                    expected += bool(now) and now[-1] >= set(wanted)
        assert triples.count(since, until, *wanted) == expected
        found += expected
    assert found > 100
