"""Parameters for tests of every built-in system: eager to rearrange, calm, or random."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from random import Random
from typing import Any

import msgspec

from shoal.matching.segments import Dimension
from shoal.overlays.bluedove.parameters import BlueDoveParameters
from shoal.overlays.dynatops.parameters import (
    DynatopsParameters,
    EarthParameters,
    HybridParameters,
    Managed,
)
from shoal.overlays.octopia.parameters import OctopiaParameters
from shoal.overlays.publisher_relocation.capacity import UNLIMITED
from shoal.overlays.publisher_relocation.choosing import Priority
from shoal.overlays.publisher_relocation.grape.parameters import GrapeParameters
from shoal.overlays.publisher_relocation.pop.parameters import PopParameters
from shoal.overlays.registry import MODULES, SYSTEMS
from shoal.overlays.self_organising.parameters import (
    Mode,
    PublisherPolicy,
    SelfOrganisingParameters,
)
from shoal.overlays.shapes import TREE, Link, TopologyError
from shoal.overlays.tco.parameters import TcoParameters
from shoal.overlays.tid.parameters import TidParameters
from tests.examples import at_length

SECOND_US = 1_000_000
# Built-in systems whose brokers route by last hops over a tree of links; a system of
# `SHOAL_SYSTEMS` on a tree has other tables.
TREES = tuple(name for name in MODULES if SYSTEMS[name].shape is TREE)

# A system of each protocol of routing and membership: grape and pop are trees, too; bayeux, geops
# and hybrid are rings as dynatops is.
PROTOCOLS = ("tree", "self_organising", "bluedove", "octopia", "tid", "dynatops", "tco")


def each_protocol(*more: str) -> list[Any]:
    """A system of each protocol, and these; in the soak all systems."""
    named = (*PROTOCOLS, *more)
    return [*named, *at_length(each for each in SYSTEMS if each not in named)]


def with_cycles(system: str, brokers: Sequence[str], links: Iterable[Link]) -> list[Link]:
    """The links, with further ones where the system's shape allows cycles."""
    if SYSTEMS[system].links is not None:
        return list(SYSTEMS[system].make_links(eager(system, 3, tuple(brokers)), brokers))
    found, shape = list(links), SYSTEMS[system].shape
    for pair in () if shape.opens_links else zip(brokers, brokers[2:], strict=False):
        with suppress(TopologyError):
            shape.check(brokers, [*found, pair])
            found.append(pair)
    return found


def eager(
    system: str, publications: int = 3, brokers: tuple[str, ...] = ()
) -> msgspec.Struct | None:
    """Parameters with which a system decides after so few publications; None if it never decides.

    In a cluster every broker has all roles. A system of `SHOAL_SYSTEMS` gets its defaults, for
    these brokers.
    """
    match system:
        case "bluedove":
            return BlueDoveParameters(
                dimensions=(
                    Dimension(attribute="x", low=0, high=100),
                    Dimension(attribute="class", low="a", high="z"),
                ),
                dispatchers=brokers,
                matchers=brokers,
            )
        case "grape":
            return _grape(publications)
        case "octopia":
            return OctopiaParameters().for_brokers(brokers) if brokers else None
        case "tid":
            return TidParameters(renew_us=20_000, most_hops=len(brokers))
        case "dynatops" | "bayeux" | "geops" | "hybrid":
            kind = EarthParameters if system in ("bayeux", "geops") else DynatopsParameters
            ring = kind(topic="class", reconfigure_us=publications * SECOND_US, price_percent=0)
            if system == "geops" and brokers:  # those that join them have no coordinates
                points = {each: (7.0 * at % 90, 19.0 * at % 180) for at, each in enumerate(brokers)}
                return EarthParameters(topic="class", coordinates=points).for_brokers(brokers)
            if system == "hybrid":  # few brokers shall have several gateways
                ring = HybridParameters(per_gateway=2, **msgspec.structs.asdict(ring))
            return ring.for_brokers(brokers)
        case "tco":
            return TcoParameters(topic="class", linger_us=SECOND_US).for_brokers(brokers)
        case "pop":
            return PopParameters(
                threshold=publications,
                window_publications=publications,
                most_busy_percent=UNLIMITED,
            )
        case "self_organising":
            return SelfOrganisingParameters(
                mode=Mode.EXCHANGE,
                interval_us=publications * SECOND_US,
                neighbourhood_hops=8,
                least_gain_percent=0,
                publishers=PublisherPolicy.GRAPE,
                grape=_grape(publications),
            )
    if system not in MODULES and brokers:
        return SYSTEMS[system].complete(SYSTEMS[system].parameters(), brokers)
    return None


def _grape(publications: int) -> GrapeParameters:
    """As eager as can be: publishers move to any broker, however busy that is."""
    return GrapeParameters(
        trace_session_length=publications, priority=Priority.DELAY, most_busy_percent=UNLIMITED
    )


def covers(system: str) -> bool:
    """Whether the system's brokers can leave covered subscriptions unforwarded."""
    return "covering" in SYSTEMS[system].parameters.__struct_fields__


def covering(
    system: str, parameters: msgspec.Struct | None, *, merging: bool = False
) -> msgspec.Struct | None:
    """The same parameters with covering, and with merging, where the system can."""
    if not covers(system):
        return parameters
    changed = parameters or SYSTEMS[system].parameters()
    merges = {"merging": merging} if "merging" in changed.__struct_fields__ else {}
    return msgspec.structs.replace(changed, covering=True, **merges)


def to_rest(system: str, until_us: int) -> int | None:
    """How long a world runs to completion; brokers with periodic messages never rest."""
    return None if SYSTEMS[system].is_quiet else until_us


def in_place(parameters: msgspec.Struct | None) -> msgspec.Struct | None:
    """The same parameters, with links that stay as given."""
    if isinstance(parameters, SelfOrganisingParameters):
        return msgspec.structs.replace(parameters, mode=Mode.ADVICE)
    return parameters


def calm(system: str) -> msgspec.Struct | None:
    """Parameters with which a system decides nothing in any test."""
    return eager(system, 65_536)


def drawn(system: str, random: Random, brokers: tuple[str, ...] = ()) -> msgspec.Struct | None:
    """Random eager parameters, each within its bounds; equally many draws for every system."""
    publications, weight = random.randint(3, 25), random.randint(0, 100)
    priority = random.choice((Priority.LOAD, Priority.DELAY))
    match system:
        case "grape":
            return GrapeParameters(
                trace_session_length=publications,
                priority=priority,
                weight=weight,
                most_busy_percent=UNLIMITED,
            )
    parameters = eager(system, publications, brokers)
    if isinstance(parameters, SelfOrganisingParameters) and publications % 2:
        return msgspec.structs.replace(parameters, publishers=PublisherPolicy.STAY)
    if isinstance(parameters, DynatopsParameters) and publications % 2:
        return msgspec.structs.replace(parameters, manager=Managed.PAIRWISE)
    return parameters
