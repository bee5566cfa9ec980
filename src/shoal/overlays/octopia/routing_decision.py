"""The next hops of a publication at a broker at its place (`Strategy.routing_decision`)."""

from __future__ import annotations

import msgspec

from shoal.broker.routing_decision import Hop, RoutingDecision, RoutingQuery, read_told, write_told
from shoal.model import BrokerId
from shoal.overlays.octopia.known.hosted import Hosted
from shoal.overlays.octopia.known.tables import Tables
from shoal.overlays.octopia.places.labels import Product
from shoal.overlays.octopia.routing import OctopiaRouting
from shoal.overlays.octopia.ways.copies import bits_of, clusters_of


class OctopiaHop(msgspec.Struct, frozen=True, omit_defaults=True):
    """Details of a copy: the clusters that it owes, and its regions, if it is not for all."""

    owed: int = 0
    only: tuple[int, ...] | None = None


def routing_decision(
    asked: RoutingQuery,
    broker: BrokerId,
    product: Product,
    tables: Tables,
    hosted: Hosted,
    routing: OctopiaRouting,
) -> RoutingDecision:
    """The routing of a publication, as links and outputs are now."""
    cluster = product.position(broker).cluster
    match = tables.matches.of(asked.attributes)
    if asked.source is None:
        told = OctopiaHop(hosted.owed(asked.publisher, asked.attributes))
    else:
        told = read_told(asked.told, OctopiaHop)
    if asked.source is not None and asked.source not in product:
        return RoutingDecision(problem=f"it knows no place of {asked.source}")
    owed = told.owed & ~(1 << cluster)
    regions = None if told.only is None else frozenset(told.only)
    reach = routing.reaching.reach(match.regions, asked.source, regions)
    entries, missing = routing.reaching.entries(owed)
    found = routing.copies_to(reach, entries, missing, is_host=asked.source is None)
    hops = []
    for neighbour, bits in found.items():
        only = None
        is_entered = neighbour in entries.values()
        if not is_entered and (regions is not None or neighbour not in reach.inner):
            only = reach.inner.get(neighbour, ())
        hops.append(
            Hop(neighbour, write_told(OctopiaHop(bits, only)), _why(product, neighbour, bits))
        )
    carried = bits_of(each for bits in found.values() for each in clusters_of(bits))
    kept = [f"cluster {each}" for each in clusters_of(missing & ~carried)]
    kept += [f"region {each} of its own cluster" for each in reach.unreached]
    problem = f"it is kept until a link leads to {', '.join(kept)}" if kept else ""
    return RoutingDecision(tuple(hops), reach.is_local, problem)


def _why(product: Product, neighbour: BrokerId, bits: int) -> str:
    region, cluster = product.position(neighbour)
    words = f"region {region} of cluster {cluster}"
    carried = ", ".join(map(str, clusters_of(bits)))
    return f"{words}, carries it to cluster {carried}" if bits else words
