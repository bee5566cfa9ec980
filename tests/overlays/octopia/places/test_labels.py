"""The overlay: labels, links and their numbers (OctopiA paper, III, IV; figures 1 and 3)."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.overlays.octopia.parameters import OctopiaParameters, links
from shoal.overlays.octopia.places.labels import Product, most_clusters, rows_of
from shoal.overlays.shapes import TopologyError, check_connected
from tests.overlays.octopia.stages import SIX, rows


def product(regions: int, clusters: int, parents: tuple[int, ...] = ()) -> Product:
    return Product(rows_of([f"B{n}" for n in range(regions * clusters)], clusters), parents)


@st.composite
def products(draw: st.DrawFn, most_regions: int = 6, most_clusters: int = 4) -> Product:
    regions, clusters = draw(st.integers(1, most_regions)), draw(st.integers(1, most_clusters))
    parents = tuple(draw(st.integers(0, region - 1)) for region in range(1, regions))
    return product(regions, clusters, parents)


def test_figure_1_has_seven_links() -> None:
    """Two clusters of a path of three: seven links."""
    found = Product((("1", "4"), ("2", "5"), ("3", "6")), (0, 1)).links
    assert {frozenset(link) for link in found} == {
        frozenset(link) for link in ("12", "23", "45", "56", "14", "25", "36")
    }


def test_figure_3_has_18_brokers_15_alinks_and_18_ilinks() -> None:
    """18 brokers, 15 aLinks, 18 iLinks."""
    regions, parents = SIX
    found = Product(rows(regions, 3), parents)
    inner = [link for link in found.links if link[0][1] == link[1][1]]
    assert (len(found.brokers), len(inner), len(found.links) - len(inner)) == (18, 15, 18)


@given(products())
def test_numbers_of_links_equal_the_papers_formulas(found: Product) -> None:
    regions, clusters = found.regions, found.clusters
    inner = [
        link for link in found.links if len({found.position(end).cluster for end in link}) == 1
    ]
    assert len(inner) == clusters * (regions - 1)
    assert len(found.links) - len(inner) == regions * clusters * (clusters - 1) // 2
    check_connected(found.brokers, found.links)


@given(products(most_regions=4, most_clusters=3))
def test_any_fewer_than_k_failures_leave_it_connected(found: Product) -> None:
    for dead in combinations(found.brokers, found.clusters - 1):
        living = [broker for broker in found.brokers if broker not in dead]
        check_connected(living, [link for link in found.links if not {*link} & {*dead}])


@given(products(most_clusters=1), st.sets(st.integers(0, 5)))
def test_living_brokers_that_link_up_are_one_tree(found: Product, dead: set[int]) -> None:
    living = [region for region in range(found.regions) if region not in dead]
    for region in range(found.regions):
        assert found.best_above(region, 0) == next(iter(found.above(region, 0)), None)
    ups = {
        region: next((above for above in found.above(region, 0) if above not in dead), None)
        for region in living
    }
    assert [region for region, up in ups.items() if up is None] == living[:1]
    assert all(up is None or up < region for region, up in ups.items())


def test_entries_begin_with_the_region_itself_and_name_every_other() -> None:
    found = product(4, 2, (0, 1, 1))
    assert found.entries(3, 1) == [3, 1, 0, 2]
    assert found.entries(0, 1) == [0, 1, 2, 3]


@pytest.mark.parametrize(("brokers", "clusters"), [(12, 3), (8, 2), (7, 1), (2, 2), (9, 3)])
def test_the_default_number_of_clusters(brokers: int, clusters: int) -> None:
    assert most_clusters(brokers) == clusters


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"clusters": 2}, "3 brokers do not make regions of 2"),
        ({"rows": (("A", "B"), ("C",))}, r"rows\[1\]: has 1 brokers, rows\[0\] has 2"),
        ({"rows": (("A", "B"),)}, "broker 'C' is in none"),
        ({"rows": (("A",), ("B",), ("C",), ("D",))}, "no broker 'D'"),
        ({"rows": (("A",), ("B",), ("A",))}, "'A' is listed twice"),
        ({"rows": (("A",), ("B",), ("C",)), "parents": (0,)}, "1 for 3 rows"),
        ({"rows": (("A",), ("B",), ("C",)), "parents": (0, 2)}, r"parents\[1\]: 2 is no row"),
        ({"rows": (("A",), ("B",), ("C",)), "clusters": 3}, "clusters: 3, but rows have 1"),
    ],
)
def test_impossible_overlays_are_refused(parameters: dict[str, object], problem: str) -> None:
    with pytest.raises((TopologyError, ValueError), match=problem):
        links(OctopiaParameters(**parameters), ["A", "B", "C"])  # type: ignore[arg-type]
