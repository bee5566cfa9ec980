"""The tree of a cluster from its brokers' announcements, some of which contradict others."""

from __future__ import annotations

import pytest

from shoal.overlays.octopia.known.tables import Tables
from shoal.overlays.octopia.places.labels import Position, Product

PRODUCT = Product((("A", "B"), ("C", "D"), ("E", "F"), ("G", "H")), (0, 0, 2))


@pytest.mark.parametrize("own", range(4))
def test_contradicting_announcements_end_in_no_endless_search(own: int) -> None:
    """A new broker at a known place links up to one whose new way is not announced yet.

    The search for their way to the root must end.
    """
    tables = Tables(own, 0, PRODUCT, {})
    tables.link_up(0, 1)
    for region in range(4):
        tables.next_region(region)
        tables.is_below(region)
    if own > 1:
        assert tables.next_region(0) == tables.next_region(1) == tables.own.up
        assert not tables.is_below(0)
    tables.link_up(1, None)
    tables.link_up(0, 1)
    assert tables.is_below(3)


def test_a_later_broker_keeps_its_place_when_another_comes() -> None:
    """Otherwise its next announcement would be taken for its successor's, and its table dropped."""
    product = Product((("A",), ("B",)))
    product.place("N", Position(2, 0), 5, parent=1)
    tables = Tables(1, 0, product, {})
    tables.link_up(2, 0)
    tables.add_home(2, product.best_above(2, 0), 5)
    assert tables.homes[2].up == 0
