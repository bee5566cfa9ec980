"""Destinations that match, and whether anything does, against naive matching."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.language import parse
from shoal.matching import MatchIndex, matches
from shoal.matching.index import BATCH_MINIMUM
from shoal.model import EVERYTHING, Filter
from tests.examples import examples
from tests.matching.test_batches import Publication, columns_of
from tests.matching.test_index import CHANGES, is_small
from tests.strategies import attributes

DESTINATIONS = st.sampled_from([None, "north", "south", ("east", 1)])


@given(
    st.lists(
        st.tuples(CHANGES.filter(lambda change: is_small(change[1])), DESTINATIONS), max_size=30
    ),
    st.lists(attributes(), min_size=1, max_size=6),
)
@settings(max_examples=examples(60))
def test_destinations_equal_naive_matching_through_churn(
    changes: list[tuple[tuple[int, Filter | None], object]], publications: list[Publication]
) -> None:
    index, truth = MatchIndex(), dict[int, tuple[Filter, object]]()
    for number, ((id, filter), destination) in enumerate(changes):
        if filter is not None:
            index.add(id, filter, destination)
            truth[id] = filter, id if destination is None else destination
        elif truth.pop(id, None) is not None:
            index.remove(id)
        if number % 7 == 0:
            index.match_destinations_batch(columns_of(publications))
    expected = [
        {destination for filter, destination in truth.values() if matches(filter, publication)}
        for publication in publications
    ]
    for publication, wanted in zip(publications, expected, strict=True):
        found = index.match_destinations(publication)
        assert len(found) == len(set(found))
        assert set(found) == wanted
        assert index.matches_any(publication) == bool(wanted)
    for batch in (publications, publications * BATCH_MINIMUM, columns_of(publications)):
        offsets, names = index.match_destinations_batch(batch)
        runs = [names[begin:end].tolist() for begin, end in itertools.pairwise(offsets)]
        assert [sorted(run, key=str) for run in runs] == [
            sorted(wanted, key=str) for wanted in expected
        ] * (len(runs) // len(expected))


def test_the_search_ends_when_every_destination_is_known() -> None:
    index = MatchIndex()
    index.add(1, EVERYTHING, "north")
    index.add(2, parse("a LIKE '%x'"), "north")

    class CountedAttributes(dict[str, object]):
        reads = 0

        def get(self, *key: object) -> object:
            self.reads += 1
            return super().get(*key)

    watched = CountedAttributes(a="ax")
    assert index.match_destinations(watched) == ["north"]
    assert index.matches_any(watched)
    assert watched.reads == 0
    index.add(3, parse("a = 'q'"), "south")
    assert index.match_destinations(watched) == ["north"]
    assert watched.reads > 0


def test_loaded_filters_are_destinations_of_their_own() -> None:
    index = MatchIndex()
    index.add_ranges([5, 6], ("a",), [[1.0], [2.0]], [[2.0], [3.0]])
    index.add("x", parse("a > 2"), 5)
    assert index.match_destinations({"a": 2}) == [5, 6]
    assert sorted(index.match_destinations({"a": 2.5})) == [5, 6]
    assert index.match_destinations_batch({"a": [2.5, 1]})[1].tolist() == [6, 5, 5]
    assert index.matches_any({"a": 1})
    assert not index.matches_any({"a": 0})
    index.remove(5)
    assert index.match_destinations_batch({"a": [1, 2]})[1].tolist() == [6]


def test_unused_destinations_are_dropped() -> None:
    index = MatchIndex()
    for round in range(3):
        for id in range(10):
            index.add(id, parse("a = 1"), f"{round} {id}")
    for id in range(10):
        index.remove(id)
    assert not index._destinations
    assert not index._destination_sizes
    with pytest.raises(KeyError):
        index.remove(1)
