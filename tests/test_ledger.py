"""Caches level off: past clients with filters of their own leave a bounded amount of memory."""

from __future__ import annotations

import gc

from shoal.ledger import Ledger
from shoal.matching import covers, overlaps
from shoal.matching.filed import places
from shoal.matching.filed.places import places_of
from shoal.matching.relations import decisions
from shoal.matching.relations.overlap_candidates import _bounds_of
from shoal.model import And, Filter, Operator, predicate

FRONT_END = Filter(predicate("$to", Operator.EQ, "*"))


def ask(name: str, tests: int) -> None:
    """Process a filter as a broker does when a client brings it."""
    filter = Filter(
        And(tuple(predicate(f"a{at}", Operator.EQ, f"{name} {at}") for at in range(tests)))
    )
    covers(FRONT_END, filter)
    overlaps(filter, FRONT_END)
    places_of(filter)
    _bounds_of(filter)


def filters_alive() -> int:
    gc.collect()
    return sum(type(each) is Filter for each in gc.get_objects())


def test_memory_of_past_filters_levels_off() -> None:
    most = max(decisions.CACHED_FILTERS, decisions.CACHED_PAIRS, places.REMEMBERED)
    for number in range(most + 100):
        ask(f"first {number}", 2)
    before = filters_alive()
    for number in range(1_000):
        ask(f"second {number}", 2)
    assert filters_alive() <= before
    for row in Ledger().rows():
        assert row.most_entries is not None
        assert row.entries <= row.most_entries


def test_past_large_filters_leave_nothing() -> None:
    before = filters_alive()
    for number in range(20):
        ask(f"large {number}", decisions.CACHED_SIZE + 8)
    assert filters_alive() <= before


def test_a_ledger_row_has_its_owners_count() -> None:
    names = [row.name for row in Ledger().rows()]
    assert len(names) == len(set(names))
    assert {"regions of filters", "pairs that overlap", "places of filters"} < set(names)
