"""Oracle: OctopiA's tables, computed from the global picture of places, clients and overlaps.

It shares no code with the propagation of tables. On a stable network with every broker of the
product connected, each cluster's subscriptions are at all its brokers, each advertisement is at its
host and at the host's entry broker in each other cluster, and a bit is on exactly where a
subscription of that cluster overlaps; sharp bits have filters that cover just those. With covering
a broker may lack a subscription exactly when it has one of the same edge broker that covers it;
with merging an edge broker's unions are subscriptions like those. All know the same places, and the
same tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations

from shoal.matching import covers, overlaps
from shoal.model import Advertisement, BrokerId, Filter, Subscription
from shoal.overlays.merging import unions
from shoal.overlays.octopia.places.labels import Product
from shoal.overlays.octopia.protocol import Octopia
from shoal.overlays.octopia.ways.copies import bits_of
from shoal.overlays.system import Picture


def problems(picture: Picture, brokers: Mapping[BrokerId, Octopia]) -> list[str]:
    """One line for each row, bit or path of `brokers` that differs from the expected one."""
    found = []
    advertised, subscribed = list(picture.advertisements), list(picture.subscriptions)
    for name, broker in sorted(brokers.items()):
        product = broker.product
        said = list(subscribed)
        if broker.parameters.merging:
            said += [each for each in unions(subscribed) if each[1] != name]
        wanted = sorted(
            (product.position(home).region, subscription.id)
            for subscription, home in said
            if product.position(home).cluster == broker.cluster
        )
        have = sorted((each.region, each.subscription.id) for each in broker.tables.subscriptions)
        if broker.parameters.covering:
            wanted = [row for row in wanted if row in have or not _is_covered(broker, row, said)]
            found += _needless(broker)
        found += _differences(f"{name}: subscriptions", wanted, have)
        rows = sorted(
            (home, advertisement.id)
            for advertisement, home in advertised
            if name in _entries(product, home)
        )
        found += _differences(f"{name}: secondary", rows, sorted(broker.tables.secondary))
        bits = sorted(
            (advertisement.id, _bits(broker, advertisement, subscribed))
            for advertisement, home in advertised
            if home == name
        )
        own = sorted((id, broker.hosted.bits(row)) for id, row in broker.hosted.rows.items())
        found += _differences(f"{name}: bits", bits, own)
        for advertisement, home in advertised:
            if home == name:
                found += _blunt(broker, advertisement, subscribed)
        regions = product.regions_of(broker.cluster)
        ups = [(each, _up(product, broker.cluster, each, brokers)) for each in regions]
        actual = [(each, broker.tables.homes[each].up) for each in regions]
        found += _differences(f"{name}: tree", ups, actual)
        top, *others = [up for _, up in actual]
        if top is not None or None in others:
            found.append(f"{name}: {actual} is no tree")
        found += [
            f"{name}: {region} is above {up}"
            for region, up in actual
            if up is not None
            and (up not in regions or not product.is_above(up, region, broker.cluster))
        ]
    return found


def _entries(product: Product, host: BrokerId) -> list[BrokerId]:
    """The entry brokers of a host in the other clusters."""
    region, own = product.position(host)
    others = [each for each in range(product.clusters) if each != own]
    there = [(each, found[0]) for each in others if (found := product.entries(region, each))]
    return [product.broker(entry, cluster) for cluster, entry in there]


def _up(
    product: Product, cluster: int, region: int, brokers: Mapping[BrokerId, Octopia]
) -> int | None:
    """The region of a broker's parent, by its own table."""
    broker = brokers.get(product.broker(region, cluster))
    return None if broker is None else broker.tables.own.up


def _is_covered(
    broker: Octopia, row: tuple[int, str], subscribed: list[tuple[Subscription, BrokerId]]
) -> bool:
    """Whether the broker has a row of the same edge broker that covers this one."""
    region, id = row
    (filter,) = (each.filter for each, _ in subscribed if each.id == id)
    others = broker.tables.homes[region].subscriptions
    return region != broker.region and any(covers(each.filter, filter) for each in others)


def _needless(broker: Octopia) -> list[str]:
    """One line for each remote row that another one of its edge broker covers."""
    return [
        f"{broker.broker}: {one.id} covers {other.id}, both of region {region}"
        for region, home in broker.tables.homes.items()
        for one, other in permutations(home.subscriptions, 2)
        if region != broker.region and covers(one.filter, other.filter)
    ]


def _bits(
    broker: Octopia, advertisement: Advertisement, subscribed: list[tuple[Subscription, BrokerId]]
) -> int:
    clusters = {
        broker.product.position(home).cluster
        for subscription, home in subscribed
        if overlaps(subscription.filter, advertisement.filter)
    }
    return bits_of(clusters - {broker.cluster})


def _blunt(
    broker: Octopia, advertisement: Advertisement, subscribed: list[tuple[Subscription, BrokerId]]
) -> list[str]:
    """One line for each bit whose filters are not its cluster's subscriptions, or unions of
    them.
    """
    found, most = [], broker.parameters.sharp_bits
    row = broker.hosted.rows.get(advertisement.id)
    for cluster in range(broker.product.clusters):
        is_there = cluster != broker.cluster and broker.product.regions_of(cluster)
        if row is None or not is_there:
            continue
        there = [each for each in subscribed if broker.product.position(each[1]).cluster == cluster]
        filters = (each.filter for each, _ in there)
        wanted = {each for each in filters if overlaps(each, advertisement.filter)}
        sayable = [*wanted, *(each.filter for each, _ in unions(there))]
        said = broker.hosted.wanted(cluster, row)
        where = f"{broker.broker}: {advertisement.id} in cluster {cluster}"
        if said is None:
            is_all = any(covers(each, advertisement.filter) for each in wanted)
            is_few = len(wanted) <= most and not broker.parameters.covering
            if is_few and not is_all:
                found.append(f"{where}: a plain bit, should have {wanted}")
            continue
        if said and len(said) > most:
            found.append(f"{where}: {len(said)} filters, {most} at most")
        found += [
            f"{where}: {each} is not announced"
            for each in wanted
            if not any(covers(one, each) for one in said)
        ]
        # If the filters have become too many to announce, the earlier ones stay.
        if len(_least([each for each in sayable if overlaps(each, advertisement.filter)])) > most:
            continue
        found += [
            f"{where}: {each} is not wanted"
            for each in said
            if not any(covers(one, each) for one in sayable)
        ]
    return found


def _least(filters: list[Filter]) -> list[Filter]:
    """Those of these that no other one covers."""
    found: list[Filter] = []
    for each in filters:
        if not any(covers(one, each) for one in found):
            found = [one for one in found if not covers(each, one)] + [each]
    return found


def _differences(where: str, want: Sequence[object], have: Sequence[object]) -> list[str]:
    return [] if want == have else [f"{where}: {have}, should be {want}"]
