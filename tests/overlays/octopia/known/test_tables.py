"""The tree of a cluster as its brokers have said it, also where their words do not fit together."""

from __future__ import annotations

import pytest

from shoal.overlays.octopia.known.tables import Tables
from shoal.overlays.octopia.places.labels import Position, Product

PRODUCT = Product((("A", "B"), ("C", "D"), ("E", "F"), ("G", "H")), (0, 0, 2))


@pytest.mark.parametrize("own", range(4))
def test_a_circle_of_words_ends(own: int) -> None:
    """A place that was taken anew links up to one whose broker has yet to say its new way: a
    broker that looked for the way to them never came to an end."""
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


def test_who_came_later_is_known_by_who_comes_after_it() -> None:
    """Its next word was taken for one of who came to its place: its table was forgotten."""
    product = Product((("A",), ("B",)))
    product.place("N", Position(2, 0), 5, parent=1)
    tables = Tables(1, 0, product, {})
    tables.link_up(2, 0)
    tables.add_home(2, product.above(2, 0), 5)
    assert tables.homes[2].up == 0
