"""Overlay shapes: each is one tree; others are refused with the reason."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.experiments.networks.topologies import (
    build_links,
    line,
    minimum_spanning_tree,
    random_tree,
    read_links,
    scenario_links,
    star,
    uniform_tree,
)
from shoal.experiments.run_files import BrokerRow, RunEvents, WorkloadFiles
from shoal.experiments.scenarios import scenario
from shoal.overlays.registry import SYSTEMS
from shoal.overlays.shapes import Link, TopologyError, balanced_tree, check_tree
from shoal.overlays.trace_rows import OverlayLink
from shoal.simulation.links.underlay import Coordinates, great_circle_km


def names(count: int) -> list[str]:
    return [f"B{number}" for number in range(count)]


def places(count: int, seed: int) -> dict[str, Coordinates]:
    generator = random.Random(seed)
    return {
        name: (generator.uniform(25, 49), generator.uniform(-124, -67)) for name in names(count)
    }


def length_km(links: list[Link], where: dict[str, Coordinates]) -> float:
    return sum(great_circle_km(where[left], where[right]) for left, right in links)


def degrees(links: list[Link]) -> Counter[str]:
    return Counter(end for link in links for end in link)


@given(count=st.integers(1, 40), fan_out=st.integers(1, 5), seed=st.integers(0, 1_000))
def test_every_shape_is_a_tree(count: int, fan_out: int, seed: int) -> None:
    brokers, where = names(count), places(count, seed)
    for links in (
        balanced_tree(brokers, fan_out),
        line(brokers),
        star(brokers, brokers[-1]),
        random_tree(brokers, seed),
        uniform_tree(brokers, seed),
        minimum_spanning_tree(where),
        minimum_spanning_tree(where, max_degree=2),
        minimum_spanning_tree(where, max_degree=3),
    ):
        check_tree(brokers, links)


def test_balanced_tree_has_its_fan_out() -> None:
    links = balanced_tree(names(63), 2)
    children = Counter(above for above, _ in links)
    assert len(children) == 31
    assert set(children.values()) == {2}


def test_lines_and_stars_have_their_shape() -> None:
    brokers = names(4)
    assert line(brokers) == list(pairwise(brokers))
    assert star(brokers) == [("B0", "B1"), ("B0", "B2"), ("B0", "B3")]
    assert star(brokers, "B2") == [("B2", "B0"), ("B2", "B1"), ("B2", "B3")]


def test_random_trees_replay_by_seed() -> None:
    assert random_tree(names(20), 7) == random_tree(names(20), 7)
    assert random_tree(names(20), 7) != random_tree(names(20), 8)


@pytest.mark.parametrize("seed", range(5))
def test_minimum_spanning_tree_equals_kruskal(seed: int) -> None:
    where = places(30, seed)
    group = {name: name for name in where}
    kruskal = []
    pairs = [(left, right) for left in where for right in where if left < right]
    for left, right in sorted(pairs, key=lambda pair: length_km([pair], where)):
        if group[left] != group[right]:
            kruskal.append((left, right))
            old = group[left]
            group = {name: group[right] if top == old else top for name, top in group.items()}
    links = minimum_spanning_tree(where)
    assert {frozenset(link) for link in links} == {frozenset(link) for link in kruskal}


def test_a_degree_bound_costs_length() -> None:
    where = places(40, 3)
    free, bounded = minimum_spanning_tree(where), minimum_spanning_tree(where, max_degree=2)
    assert max(degrees(free).values()) > 2
    assert max(degrees(bounded).values()) == 2
    assert length_km(free, where) < length_km(bounded, where)


def test_a_scenario_sets_the_topology(tmp_path: Path) -> None:
    where = places(9, 4)
    rows = [BrokerRow(broker=n, latitude=a, longitude=b) for n, (a, b) in where.items()]
    brokers = list(where)
    for section, expected in (
        (scenario.BalancedTree(fan_out=3), balanced_tree(brokers, 3)),
        (scenario.LineSection(), line(brokers)),
        (scenario.StarSection(), star(brokers)),
        (scenario.StarSection(centre="B4"), star(brokers, "B4")),
        (scenario.RandomTree(), random_tree(brokers, 6)),
        (scenario.MinimumSpanningTree(), minimum_spanning_tree(where)),
        (scenario.MinimumSpanningTree(max_degree=2), minimum_spanning_tree(where, 2)),
    ):
        assert build_links(section, rows, None, 6) == expected
    shuffled = build_links(scenario.LineSection(order="shuffled"), rows, None, 6)
    assert shuffled != line(brokers)
    assert shuffled == build_links(scenario.LineSection(order="shuffled"), rows, None, 6)
    pq.write_table(pa.Table.from_pylist([{"left": "B0", "right": "B1"}]), tmp_path / "l.parquet")
    from_file = scenario.LinksFile(path=str(tmp_path / "l.parquet"))
    assert build_links(from_file, rows[:2], None, 6) == [("B0", "B1")]
    own = [OverlayLink(left="B1", right="B0")]
    assert build_links(scenario.LinksFile(), rows[:2], own, 6) == [("B1", "B0")]
    with pytest.raises(TopologyError, match="workload has no links"):
        build_links(scenario.LinksFile(), rows, None, 6)
    assert build_links(scenario.RingSection(), rows, None, 6) == [
        *line(brokers),
        (brokers[-1], brokers[0]),
    ]


NO_EVENTS = RunEvents(pa.table({"replay_us": [], "publisher": [], "sequence": []}))


GRAPHML = """<?xml version="1.0"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="undirected">
<node id="B0"/><node id="B1"/><node id="B2"/>
<edge source="B0" target="B1"/><edge id="e2" source="B2" target="B1"><data key="d">4</data></edge>
</graph></graphml>
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("l.csv", "left,right,weight\nB0,B1,3\nB2,B1,4\n"),
        ("l.csv", "source,target\nB0,B1\nB2,B1\n"),
        ("l.graphml", GRAPHML),
    ],
)
def test_links_are_read_from_edge_lists_and_graphml(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert read_links(path) == [("B0", "B1"), ("B2", "B1")]


def test_a_csv_file_of_links_keeps_names_that_look_like_numbers(tmp_path: Path) -> None:
    path = tmp_path / "links.csv"
    path.write_text("left,right\n01,1\n1.0,NULL\n")
    assert read_links(path) == [("01", "1"), ("1.0", "NULL")]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("l.csv", "a,b\n1,2\n", "column 'left' is missing; found: a, b"),
        ("l.graphml", "<graphml>", "not GraphML"),
        ("l.graphml", "<graphml/>", "no edge"),
        ("l.graphml", "<graphml><edge source='B0'/></graphml>", "an edge without source or target"),
        ("l.graphml", None, "no such file"),
    ],
)
def test_files_without_links_are_named(
    tmp_path: Path, name: str, text: str | None, said: str
) -> None:
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    with pytest.raises(ValueError, match=said):
        read_links(path)


@pytest.mark.parametrize(
    ("system", "links", "problem"),
    [
        ("tree", [("B0", "B1")], "1 of 3 brokers cannot be reached"),
        ("tree", [("B0", "B1"), ("B1", "B2"), ("B2", "B0")], "closes a cycle"),
        ("flooding", [("B0", "B1"), ("B1", "B2"), ("B2", "B0")], ""),
        ("flooding", [("B0", "B1")], "1 of 3 brokers cannot be reached"),
        ("flooding", [("B0", "B1"), ("B1", "B2"), ("B2", "B1")], "is listed twice"),
        ("flooding", [("B0", "B1"), ("B1", "B2"), ("B2", "B2")], "to itself"),
    ],
)
def test_a_system_has_links_of_its_shape(
    tmp_path: Path, system: str, links: list[tuple[str, str]], problem: str
) -> None:
    rows = [BrokerRow(broker=f"B{number}") for number in range(3)]
    own = [OverlayLink(left=one, right=two) for one, two in links]
    workload = WorkloadFiles(rows, [], [], NO_EVENTS, own)
    chosen = scenario.parse_scenario(
        {
            "name": "n",
            "system": system,
            "workload": {"path": str(tmp_path)},
            "topology": {"kind": "links"},
        }
    )
    with pytest.raises(TopologyError, match=problem) if problem else nullcontext():
        assert scenario_links(chosen, workload) == links


def test_a_systems_own_links_have_its_shape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for links of a network file: no broker has a link to itself."""
    system = msgspec.structs.replace(
        SYSTEMS["flooding"],
        links=lambda parameters, brokers: [(brokers[0], broker) for broker in brokers],
    )
    monkeypatch.setitem(SYSTEMS, "flooding", system)
    rows = [BrokerRow(broker=f"B{number}") for number in range(3)]
    data = {"name": "n", "system": "flooding", "workload": {"path": str(tmp_path)}}
    with pytest.raises(TopologyError, match="link B0 - B0 joins a broker to itself"):
        scenario_links(scenario.parse_scenario(data), WorkloadFiles(rows, [], [], NO_EVENTS, None))


def test_parameters_of_unknown_brokers_are_errors(tmp_path: Path) -> None:
    workload = WorkloadFiles(
        [BrokerRow(broker="B1"), BrokerRow(broker="B2")], [], [], NO_EVENTS, []
    )
    data = {"name": "n", "system": "self_organising", "workload": {"path": str(tmp_path)}}
    chosen = scenario.parse_scenario(data | {"self_organising": {"pinned": [["B1", "X"]]}})
    with pytest.raises(TopologyError, match=r"self_organising.pinned: no broker 'X'; there are B1"):
        scenario_links(chosen, workload)


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ([("A", "B")], "1 of 3 brokers cannot be reached from A, the first is C"),
        ([("A", "B"), ("B", "C"), ("C", "A")], "link C - A closes a cycle"),
        ([("A", "A")], "link A - A closes a cycle"),
        ([("A", "B"), ("B", "X")], "link B - X: no broker 'X'"),
    ],
)
def test_links_that_are_no_tree_are_refused(links: list[Link], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        check_tree(["A", "B", "C"], links)


def test_wrong_parameters_are_errors() -> None:
    with pytest.raises(TopologyError, match="no brokers"):
        line([])
    with pytest.raises(TopologyError, match="'A' is listed twice"):
        line(["A", "A"])
    with pytest.raises(TopologyError, match="fan_out: 0"):
        balanced_tree(["A"], 0)
    with pytest.raises(TopologyError, match="max_degree: 1"):
        minimum_spanning_tree({"A": (0.0, 0.0)}, max_degree=1)
    with pytest.raises(TopologyError, match="centre: no broker 'X'"):
        star(["A"], "X")


def test_each_tree_is_as_likely_as_any_other() -> None:
    """Four brokers have 16 trees; of 4,800 drawn each is about 300, and never 60 off (4 sigma)."""
    drawn = Counter(
        frozenset(frozenset(link) for link in uniform_tree(names(4), seed)) for seed in range(4_800)
    )
    assert len(drawn) == 16
    assert max(abs(count - 300) for count in drawn.values()) < 68
    # A random tree in which brokers join one after the other prefers those with a broad centre.
    paths = {tree for tree in drawn if max(degrees([tuple(link) for link in tree]).values()) == 2}
    assert len(paths) == 12
