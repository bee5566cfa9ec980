"""Matches of a workload, beside the naive ones."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from shoal.language import parse
from shoal.matching import matches
from shoal.simulation.flows.matches import Matches

PUBLICATIONS = st.tuples(st.sampled_from("PQ"), st.integers(0, 9)).map(
    lambda drawn: (drawn[0], {"symbol": drawn[0], "price": drawn[1]})
)
TEXTS = st.tuples(st.sampled_from("PQR"), st.integers(0, 9)).map(
    lambda drawn: f"symbol = '{drawn[0]}' AND price > {drawn[1]}"
)


@given(st.lists(PUBLICATIONS, max_size=20), st.lists(TEXTS, max_size=12))
def test_matches_are_those_of_each_pair(
    publications: list[tuple[str, dict[str, Any]]], texts: list[str]
) -> None:
    filters = {f"s{number}": parse(text) for number, text in enumerate(texts)}
    found = Matches.of(publications, filters)
    assert found is not None
    for number, (publisher, attributes) in enumerate(publications):
        group = found.groups[found.group[number]]
        assert found.publishers[found.group[number]] == publisher
        wanted = {name for name, filter in filters.items() if matches(filter, attributes)}
        members = zip(group, found.member[number], strict=False)
        assert {name for name, is_member in members if is_member} == wanted
        assert {group[place] for place in found.matching[number]} == wanted
    assert found.total == sum(map(len, found.matching))


def test_subscriptions_to_several_publishers_have_no_group() -> None:
    publications = [("P", {"price": 1}), ("Q", {"price": 5})]
    assert Matches.of(publications, {"s": parse("price > 3")}) is not None
    assert Matches.of(publications, {"s": parse("price > 0")}) is None
