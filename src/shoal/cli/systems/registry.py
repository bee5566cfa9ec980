"""What systems bring to the command line, by their names: a line for each thing that one has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shoal.cli.systems.dynatops.decisions import decided
from shoal.cli.systems.dynatops.places import RINGS, places
from shoal.cli.systems.kinds import Advising, Places, Planning, Shows
from shoal.cli.systems.publisher_relocation.selections import selected
from shoal.cli.systems.self_organising.advising import ADVISING as LINKS
from shoal.cli.systems.self_organising.proposals import proposed

# Who says which links brokers recommend.
ADVISING: Mapping[str, Advising] = {"self_organising": LINKS}
# Who says who stands where.
PLACES: Mapping[str, Places] = dict.fromkeys(RINGS, places)
# The tables of `shoal status` behind those of all systems, in this order.
SHOWN: Sequence[Shows] = (selected, proposed, decided)
# Why nobody plans for a system that one might plan for.
NOT_PLANNED: Mapping[str, str] = {"tco": "its links follow from who wants what"}


def planning() -> Mapping[str, Planning]:
    """Who plans for which system; to know it, all of them are loaded."""
    from shoal.cli.systems import by_round_trips
    from shoal.cli.systems.dynatops.planning import PLANNING as TOPIC_TREES
    from shoal.overlays.registry import SYSTEMS

    planned = {name: each for name, each in SYSTEMS.items() if each.planner is not None}
    return {**dict.fromkeys(planned, by_round_trips.PLANNING), **TOPIC_TREES}
