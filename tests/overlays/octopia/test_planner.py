"""Plans of products: optimal for small ones, and within the operator's bounds."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, permutations, product
from random import Random

import pytest

from shoal.overlays.octopia.parameters import OctopiaParameters
from shoal.overlays.octopia.planner import PlannerSearch, ProductLayout, most_links, plan
from shoal.overlays.planning import OverlaySurvey, PlanError, PlannedInterests


def drawn(seed: int, brokers: int) -> OverlaySurvey:
    """Brokers in a plane, of which some publish much."""
    random = Random(seed)
    names = tuple(f"B{number}" for number in range(brokers))
    place = {name: (random.uniform(0, 100), random.uniform(0, 100)) for name in names}
    trips = {
        (one, other): abs(complex(*place[one]) - complex(*place[other]))
        for one in names
        for other in names
        if one < other
    }
    rates = {
        (one, other): random.choice([0.0, 1.0, 50.0])
        for one in names
        for other in names
        if one != other
    }
    rates[names[0], names[1]] = 1.0
    return OverlaySurvey(names, trips, rates)


def all_layouts(survey: OverlaySurvey, clusters: int) -> Iterator[ProductLayout]:
    regions = len(survey.brokers) // clusters
    trees = list(product(*(range(region) for region in range(1, regions))))
    for order in permutations(survey.brokers):
        rows = tuple(order[first : first + clusters] for first in range(0, len(order), clusters))
        for parents in trees:
            yield ProductLayout(rows, parents)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("brokers", "clusters"), [(4, 2), (6, 2), (6, 3), (4, 1)])
def test_no_layout_is_better_than_the_plan(seed: int, brokers: int, clusters: int) -> None:
    survey, wishes = drawn(seed, brokers), PlannedInterests(most_links=4)
    search = PlannerSearch(survey, wishes, clusters)
    found = search.run(100_000)
    assert found is not None
    allowed = (each for each in all_layouts(survey, clusters) if most_links(each) <= 4)
    best = min(search.mean_ms(each) for each in allowed)
    assert found[0] == pytest.approx(best)
    assert search.mean_ms(found[1]) == found[0]


def walked_ms(survey: OverlaySurvey, layout: ProductLayout, hop_ms: float) -> float:
    """The mean delay of shortest ways over the links of these parameters."""
    parameters = OctopiaParameters(rows=layout.rows, parents=layout.parents)
    overlay = parameters.product()
    total = weight = 0.0
    for source in survey.brokers:
        for target in survey.brokers:
            (region, own), (there, cluster) = overlay.position(source), overlay.position(target)
            here, way = source, 0.0
            if own != cluster:
                here = overlay.broker(region, cluster)
                way = survey.one_way_ms(source, here) + hop_ms
            above = [region, *overlay.ancestors(region)]
            down = [there, *overlay.ancestors(there)]
            top = next(each for each in above if each in down)
            regions = [*above[: above.index(top) + 1], *down[: down.index(top)][::-1]]
            for one, other in pairwise(regions):
                ends = overlay.broker(one, cluster), overlay.broker(other, cluster)
                way += survey.one_way_ms(*ends) + hop_ms
            rate = survey.rate(source, target) if source != target else 0.0
            total, weight = total + rate * way, weight + rate
    return total / weight


@pytest.mark.parametrize("seed", range(5))
def test_the_planned_delay_is_that_of_the_overlays_routes(seed: int) -> None:
    survey = drawn(seed, 12)
    wishes = PlannedInterests(hop_ms=2.5, most_links=6)
    found = plan(survey, wishes, 100_000)
    parameters = found.parameters
    assert isinstance(parameters, OctopiaParameters)
    layout = ProductLayout(parameters.rows, parameters.parents)
    assert found.mean_ms == pytest.approx(walked_ms(survey, layout, 2.5))
    assert most_links(layout) <= 6
    in_order = plan_in_order(survey, len(parameters.rows[0]))
    assert found.mean_ms <= walked_ms(survey, in_order, 2.5)
    assert plan(survey, wishes, 100_000) == found


def plan_in_order(survey: OverlaySurvey, clusters: int) -> ProductLayout:
    parameters = OctopiaParameters(clusters=clusters).for_brokers(survey.brokers)
    return ProductLayout(parameters.rows, parameters.product().parents)


def test_a_region_has_one_broker_of_each_site_or_near_ones() -> None:
    """Two sites far from each other: a region has one broker of each, or both are near."""
    names = tuple(f"B{number}" for number in range(8))
    sites = {name: "east" if number % 2 else "west" for number, name in enumerate(names)}
    trips = {
        (one, other): 1.0 if sites[one] == sites[other] else 80.0
        for one in names
        for other in names
        if one < other
    }
    survey = OverlaySurvey(names, trips, {}, sites)
    apart = plan(survey, PlannedInterests(is_apart=True, most_links=5), 200_000).parameters
    assert isinstance(apart, OctopiaParameters)
    assert len(apart.rows[0]) == 2
    assert all({sites[name] for name in row} == {"east", "west"} for row in apart.rows)
    columns = zip(*apart.rows, strict=True)
    assert all(len({sites[name] for name in column}) == 1 for column in columns)


def test_fewer_links_take_fewer_clusters_and_more_deaths_take_more() -> None:
    survey = drawn(1, 12)

    def clusters(survive: int, links: int) -> int:
        found = plan(survey, PlannedInterests(survive=survive, most_links=links), 50_000).parameters
        assert isinstance(found, OctopiaParameters)
        return len(found.rows[0])

    assert clusters(1, 11) == 12
    assert clusters(1, 4) < 6
    assert clusters(3, 8) >= 4


@pytest.mark.parametrize(
    ("wishes", "problem"),
    [
        (PlannedInterests(survive=12), "12 brokers make no full rows of 13 or more"),
        (PlannedInterests(survive=2, most_links=2), "3 clusters of 4: more than 2 links a broker"),
    ],
)
def test_impossible_plans_have_a_reason(wishes: PlannedInterests, problem: str) -> None:
    with pytest.raises(PlanError, match=problem):
        plan(drawn(1, 12), wishes)
