"""Spreading: publications take another cluster's tree while outputs are congested (intra-cluster).

Inter-cluster routing relieves a host's outputs to other clusters; but every link of every cluster's
tree that leads to a subscriber takes a copy of each publication, so a burst lasts as long as one
output takes to send it. Here each publication of a burst chooses one tree for all clusters: at each
region its broker forwards copies to those of the other clusters, over links that are idle
otherwise. So all links of a region share the burst, and every broker gets one copy.

Brokers do not know other clusters' subscriptions, so those on the path send to all of them. If its
tree is broken, a publication enters the other clusters there, for all regions beyond. Publications
that a lost link may have lost are sent again the usual way, marked: front ends have deduplication
windows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from shoal.broker.effects import Effect, Send
from shoal.model import BrokerId
from shoal.overlays.octopia.known.tables import Tables
from shoal.overlays.octopia.messages import Notification, SpreadCopy
from shoal.overlays.octopia.places.labels import Position, Product
from shoal.overlays.octopia.ways.copies import clusters_of
from shoal.overlays.octopia.ways.keeping import Publications, again
from shoal.overlays.octopia.ways.outputs import OutputLoads
from shoal.overlays.octopia.ways.reaching import Reach, Reaching

# (publications, hops, owed, regions of this cluster, now_us, out): sends these the usual way.
GoOn = Callable[[Publications, int, int, frozenset[int], int, list[Effect]], None]


class ClusterSpreading:
    """At one broker; `is_usable` as `OctopiaRouting` has it."""

    def __init__(
        self,
        product: Product,
        broker: BrokerId,
        tables: Tables,
        reaching: Reaching,
        outputs: OutputLoads,
        threshold: float,
        is_usable: Callable[[BrokerId], bool],
        deliver_inside: GoOn,
    ) -> None:
        self._product = product
        self._broker = broker
        self._region, self._cluster = product.position(broker)
        self._tables = tables
        self._reaching = reaching
        self._outputs = outputs
        self._threshold = threshold
        self._is_usable = is_usable
        self._deliver_inside = deliver_inside

    def begin(
        self,
        publications: Publications,
        owed: int,
        reach: Reach,
        now_us: int,
        out: list[Effect],
    ) -> bool:
        """Spread a client's publications, if an output that they need is congested.

        Not if they are for this cluster alone, or a broker on the path is missing.
        """
        cost, limit = self._outputs.cost, self._threshold
        entries, missing = self._reaching.entries(owed)
        if not owed or missing or reach.unreached:
            return False
        if not any(cost(each) > limit for each in (*reach.inner, *entries.values())):
            return False
        regions = tuple(self._tables.homes)
        ways = self._routing_decision(regions, None)
        near = all(self._product.position(each).region == self._region for each in entries.values())
        if None in ways or not near or not self._is_whole(regions):
            return False
        clusters = owed | 1 << self._cluster
        aside = min(entries.values(), key=cost)
        if max((cost(each) for each in ways if each is not None), default=0.0) <= cost(aside):
            self._pass_on(publications, 0, None, clusters, regions, now_us, out)
            return True
        self._deliver_inside(publications, 0, 0, frozenset((self._region,)), now_us, out)
        self._send_spread(aside, SpreadCopy(publications, 1, clusters, regions), out)
        return True

    def _is_whole(self, regions: Collection[int]) -> bool:
        """Whether every cluster has a broker in each of these regions, and none elsewhere."""
        product = self._product
        places = [Position(region, each) for region in regions for each in range(product.clusters)]
        are_there = all(product.at(each) is not None for each in places)
        return are_there and len(product.brokers) == len(places)

    def receive(
        self, neighbour: BrokerId, message: SpreadCopy, now_us: int, out: list[Effect]
    ) -> None:
        """Route spread copies from a neighbour."""
        publications, hops = message.publications, message.hops
        clusters, regions = message.clusters, message.regions
        if publications:
            self._pass_on(publications, hops, neighbour, clusters, regions, now_us, out)

    def _pass_on(
        self,
        publications: Publications,
        hops: int,
        source: BrokerId | None,
        clusters: int,
        regions: Iterable[int],
        now_us: int,
        out: list[Effect],
    ) -> None:
        """Serve these regions of these clusters, but for the broker that this comes from."""
        own = 1 << self._cluster
        ways = self._routing_decision(regions, source)
        # Beyond the links of this cluster, brokers of each cluster here have paths of their own.
        here = (*(each for each in regions if each == self._region), *ways.pop(None, ()))
        unserved = 0
        if clusters & own:
            self._deliver_inside(publications, hops, 0, frozenset(here), now_us, out)
        for cluster in clusters_of(clusters & ~own):
            other = self._product.at(Position(self._region, cluster))
            its = here if other != source else tuple(each for each in here if each != self._region)
            if other is None or not self._is_usable(other):
                # No broker stands here, but beyond it are others: by their entry.
                other = self._reaching.entries(1 << cluster)[0].get(cluster)
            if other is None:
                unserved |= 1 << cluster
            elif its:
                self._send_spread(other, Notification(publications, hops + 1, 0, its), out)
        for neighbour, beyond in ways.items():
            assert neighbour is not None
            self._send_spread(neighbour, SpreadCopy(publications, hops + 1, clusters, beyond), out)
        if unserved:
            self.recover(publications, hops, unserved, frozenset(), now_us, out)

    def recover(
        self,
        publications: Publications,
        hops: int,
        clusters: int,
        regions: frozenset[int],
        now_us: int,
        out: list[Effect],
    ) -> None:
        """Retransmit the usual way copies that may have been lost: to all of other clusters.

        Publications without assurance are sent at most once.
        """
        own = 1 << self._cluster
        assured = tuple(again(each) for each in publications if each.publication.assured)
        if assured:
            here = regions if clusters & own else frozenset[int]()
            self._deliver_inside(assured, hops, clusters & ~own, here, now_us, out)

    def _routing_decision(
        self, regions: Iterable[int], source: BrokerId | None
    ) -> dict[BrokerId | None, tuple[int, ...]]:
        """The regions beyond each neighbour of this cluster; None: those to which no link leads."""
        found: dict[BrokerId | None, tuple[int, ...]] = {}
        for region in regions:
            if region == self._region:
                continue
            following = self._tables.next_region(region) if region in self._tables.homes else None
            way = (
                None if following is None else self._product.at(Position(following, self._cluster))
            )
            if way is None or way == source or not self._is_usable(way):
                way = None
            found[way] = (*found.get(way, ()), region)
        return found

    def _send_spread(
        self, to: BrokerId, message: Notification | SpreadCopy, out: list[Effect]
    ) -> None:
        self._outputs.sent(to, len(message.publications))
        out.append(Send(to, message))
