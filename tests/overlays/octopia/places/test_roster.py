"""The roster of places, as brokers learn it from each other."""

from __future__ import annotations

from itertools import permutations

from shoal.overlays.octopia.places.labels import Product
from shoal.overlays.octopia.places.roster import PlaceStage, Roster, RosterPlace

FOUNDERS = (("A0", "A1"), ("B0", "B1"), ("C0", "C1"))


def test_parents_of_regions_do_not_depend_on_the_order_of_entries() -> None:
    """A joiner in region 4 may be known before the founders in region 2, and region 3 is empty."""
    founder = Roster(Product(FOUNDERS, parents=(0, 1)))
    joiner = RosterPlace("J", 5, PlaceStage.THERE, 5, region=4, cluster=1, parent=2)
    founder.merge([joiner])
    for order in permutations(founder.places.values(), 7):
        later = Product((("K",),))
        later.remove("K")
        roster = Roster(later)
        roster.merge(order)
        assert later.parents == founder.product.parents == (0, 1, 0, 2)
