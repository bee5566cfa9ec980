"""The routing decision: the paper's cases, and its invariant (VII-B)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.overlays.octopia.ways.copies import bits_of, clusters_of, copies, shortest

COSTS = st.dictionaries(st.sampled_from("abcvwxyz"), st.floats(0, 40))


@pytest.mark.parametrize(
    ("inner", "costs", "expected"),
    [
        # No iLink is congested: a copy for each.
        ("ab", {"a": 90}, {"a": 0, "b": 0, "x": 0, "y": 0, "z": 0}),
        # (i) the free iLink that costs least carries the others; |A| + |F| copies.
        ("ab", {"x": 20}, {"a": 0, "b": 0, "y": 0b001, "z": 0}),
        ("ab", {"x": 20, "y": 1}, {"a": 0, "b": 0, "y": 0, "z": 0b001}),
        # (ii) none is free: the aLink that costs least, if it is free; |A| copies.
        ("ab", {"x": 20, "y": 30, "z": 40, "a": 1}, {"a": 0, "b": 0b111}),
        # (iv) nothing is free: the iLink that costs least carries the others; |A| + 1 copies.
        (
            "ab",
            {"x": 20, "y": 15, "z": 40, "a": 11, "b": 12},
            {"a": 0, "b": 0, "y": 0b101},
        ),
        ("", {"x": 20, "y": 30, "z": 40}, {"x": 0b110}),
    ],
)
def test_the_papers_cases_give_the_papers_copies(
    inner: str, costs: dict[str, float], expected: dict[str, int]
) -> None:
    entries = {0: "x", 1: "y", 2: "z"}
    assert copies(tuple(inner), entries, costs.get, 10) == expected


@given(
    st.lists(st.sampled_from("abc"), unique=True),
    st.sets(st.integers(0, 4)),
    st.sets(st.integers(5, 7)),
    COSTS,
)
def test_every_owed_cluster_is_entered_or_carried_once(
    inner: list[str], owed: set[int], missing: set[int], costs: dict[str, float]
) -> None:
    entries = {cluster: "vwxyz"[cluster] for cluster in owed}
    found = copies(inner, entries, costs.get, 10, bits_of(missing))
    entered = [cluster for cluster, neighbour in entries.items() if neighbour in found]
    carried = [cluster for bits in found.values() for cluster in clusters_of(bits)]
    all_owed = sorted(owed | missing)
    assert set(inner) <= found.keys() <= {*inner, *entries.values()}
    if found:
        assert sorted(entered + carried) == all_owed
    else:
        assert (owed, inner) == (set(), [])


@given(st.lists(st.sampled_from("abc"), unique=True), st.sets(st.integers(0, 4)))
def test_without_congestion_routes_are_the_shortest(inner: list[str], owed: set[int]) -> None:
    entries = {cluster: "vwxyz"[cluster] for cluster in owed}
    assert copies(inner, entries, {}.get, 10) == shortest(inner, entries)
