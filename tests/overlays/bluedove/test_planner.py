"""Decisions from snapshots: segments, copies, halves, donors, heirs, number of matchers."""

from __future__ import annotations

import math

import pytest
from hypothesis import given

from shoal.language import parse
from shoal.matching.segments import LOWEST, Dimension
from shoal.matching.semantics import matches
from shoal.model import Filter
from shoal.overlays.bluedove.cluster.forwarding import Load
from shoal.overlays.bluedove.cluster.members import NOTHING, WHOLE, Member, MemberTable, Segment
from shoal.overlays.bluedove.cluster.planner import (
    Controller,
    Elasticity,
    ScaleOrder,
    copies,
    donors,
    halves,
    heirs,
    initial_segments,
    is_successor,
    ranges_of,
)
from tests.strategies import attributes, expressions, predicates

A = Dimension(attribute="a", low=0, high=10)
B = Dimension(attribute="b", low="a", high="z")
C = Dimension(attribute="c", boundaries=(3, 7, 9))
ALL = (A, B, C)


def table(names: str = "KLMN", dimensions: tuple[Dimension, ...] = ALL) -> MemberTable:
    made = MemberTable(len(dimensions))
    segments = initial_segments(dimensions, tuple(names))
    made.merge(
        [Member(broker=name, generation=1, version=1, segments=segments[name]) for name in names],
        0,
    )
    return made


@given(expressions(predicates()).map(Filter), attributes())
def test_each_candidate_of_a_publication_has_all_matching_subscriptions(
    filter: Filter, values: dict[str, object]
) -> None:
    """So one hop is enough (III-A1): on every dimension, whichever matcher serves the place."""
    members = table()
    planned = copies(members, ranges_of(ALL, filter))
    if matches(filter, values):  # type: ignore[arg-type]
        for number, dimension in enumerate(ALL):
            (owner,) = members.owners(number, dimension.place(values))  # type: ignore[arg-type]
            assert number in planned.searched[owner]


def test_segments_are_assigned_in_order_and_cover_each_dimension() -> None:
    segments = initial_segments(ALL, tuple("KLMN"))
    assert segments["K"][2] == Segment(LOWEST, 3.0)
    assert segments["N"][2] == Segment(9.0, math.inf)
    for dimension in range(3):
        rows = [segments[name][dimension] for name in "KLMN"]
        assert [low for low, _ in rows[1:]] == [high for _, high in rows[:-1]]
    assert initial_segments(ALL, ("K",), replicated=True) == {"K": (WHOLE, WHOLE, WHOLE)}


def test_halves_of_outer_and_odd_segments() -> None:
    assert halves(A, Segment(2.0, 4.0)) == Segment(3.0, 4.0)
    assert halves(A, Segment(LOWEST, 4.0)) == Segment(2.0, 4.0)
    assert halves(A, Segment(8.0, math.inf)) == Segment(9.0, math.inf)
    assert halves(A, WHOLE) == Segment(5.0, math.inf)
    assert halves(A, Segment(40.0, 60.0)) == Segment(50.0, 60.0)
    for segment in (NOTHING, Segment(20.0, math.inf), Segment(LOWEST, -5.0)):
        assert not halves(A, segment)
    tiny = Segment(1.0, math.nextafter(1.0, 2.0))
    assert not halves(A, tiny)


def test_the_donor_has_the_most_work_on_its_dimension() -> None:
    def load(rate: float, size: int) -> Load:
        return Load(queue=0, arrival_per_s=rate, matching_per_s=1, subscriptions=size)

    loads = {
        ("K", 0): load(10, 100),
        ("L", 0): load(200, 10),
        ("K", 1): load(0, 4),
        ("M", 1): load(0, 9),
    }
    assert donors(table(), loads, (0, 1), "N") == {0: "L", 1: "M"}
    assert donors(table(), loads, (0,), "L") == {0: "K"}
    assert donors(MemberTable(1), {}, (0,), "K") == {}


def test_heirs_and_successors_are_adjacent() -> None:
    members = table()
    assert heirs(members, 0, "L") == ["K", "M"]
    assert heirs(members, 0, "K") == ["L"]
    hole = members.members["L"].segments[0]
    assert [is_successor(members, 0, hole, name) for name in "KMN"] == [True, False, False]
    first = members.members["K"].segments[0]
    assert [is_successor(members, 0, first, name) for name in "LMN"] == [True, False, False]


def test_the_controller_waits_and_does_not_oscillate() -> None:
    controller = Controller(Elasticity(saturated=0.8, idle=0.4, patience_us=3, settle_us=20))

    def run(utilisation: float, times: range) -> list[ScaleOrder]:
        decisions = [controller.decide({"K": utilisation, "L": utilisation}, t) for t in times]
        return [decision for decision in decisions if decision is not None]

    assert run(0.9, range(3)) == []
    assert run(0.5, range(3, 4)) == []
    assert run(0.9, range(4, 7)) == []
    assert run(0.9, range(7, 8)) == [ScaleOrder.ADD]
    assert run(0.9, range(8, 27)) == []
    assert run(0.3, range(27, 60)) == []  # one alone would be at 0.6
    assert run(0.15, range(60, 64)) == [ScaleOrder.REMOVE]
    assert controller.decide({}, 100) is None


def test_the_minimum_of_matchers_stays() -> None:
    controller = Controller(Elasticity(patience_us=0, settle_us=0, least=2))
    assert controller.decide({"K": 0.0, "L": 0.0}, 1) is None
    assert controller.decide({"K": 0.0, "L": 0.0, "M": 0.0}, 2) is ScaleOrder.REMOVE


def test_a_wrong_elasticity_is_an_error() -> None:
    with pytest.raises(ValueError, match="are not 0 < idle < saturated"):
        Elasticity(saturated=0.8, idle=0.9)
    with pytest.raises(ValueError, match="negative"):
        Elasticity(settle_us=-1)
    with pytest.raises(ValueError, match="least"):
        Elasticity(least=0)


def test_a_contradictory_subscription_is_stored_nowhere() -> None:
    planned = copies(table(), ranges_of(ALL, parse("a < 1 AND a > 2")))
    assert (planned.searched, planned.replicas) == ({}, {})
