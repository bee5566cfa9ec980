"""Systems' parts on the command line, by system: a line for each part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shoal.cli.systems.dynatops.decisions import decided
from shoal.cli.systems.dynatops.places import RINGS, places
from shoal.cli.systems.kinds import Advising, Places, Planning, Shows
from shoal.cli.systems.publisher_relocation.selections import selected
from shoal.cli.systems.self_organising.advising import ADVISING as LINKS
from shoal.cli.systems.self_organising.proposals import proposed

# Systems whose brokers recommend links.
ADVISING: Mapping[str, Advising] = {"self_organising": LINKS}
# Systems with places on a ring.
PLACES: Mapping[str, Places] = dict.fromkeys(RINGS, places)
# The tables of `shoal status` behind those of all systems, in this order.
SHOWN: Sequence[Shows] = (selected, proposed, decided)
# The reason why a system has no planner, if a user may expect one.
NOT_PLANNED: Mapping[str, str] = {"tco": "its links follow from its clients' topics"}


def planning() -> Mapping[str, Planning]:
    """Return the planner of each system; this loads all of them."""
    from shoal.cli.systems import by_round_trips
    from shoal.cli.systems.dynatops.planning import PLANNING as TOPIC_TREES
    from shoal.overlays.registry import SYSTEMS

    planned = {name: each for name, each in SYSTEMS.items() if each.planner is not None}
    return {**dict.fromkeys(planned, by_round_trips.PLANNING), **TOPIC_TREES}
