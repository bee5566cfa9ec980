"""OctopiA's constants, with the section of the paper each comes from.

>>> OctopiaParameters(clusters=2).for_brokers(["A", "B", "C", "D"]).rows
(('A', 'B'), ('C', 'D'))
>>> OctopiaParameters(window_us=0)
Traceback (most recent call last):
ValueError: window_us: 0 is not at least 1
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

import msgspec

from shoal.model import BrokerId
from shoal.overlays.merging import check_merging
from shoal.overlays.octopia.places.labels import Product, most_clusters, rows_of
from shoal.overlays.shapes import Link, TopologyError

_AT_LEAST_ONE = ("window_us", "return_us", "order_us", "doubt_us", "patience_us", "retry_us")
# A host takes a bit with more filters for a plain one.
MOST_FILTERS = 256


class Dynamic(enum.Enum):
    """Conditions for a publication to leave its shortest path.

    ORDERED   as FREE, within the publisher's region; each cluster is entered in its order (ours)
    FREE      whenever outputs are congested: IDR (VII-B)
    SPREAD    as FREE; a host with congested outputs sends each publication along one cluster's
              tree, which enters the others region by region (ours: the paper's future work)
    STATIC    never: SNR (VII-A)
    """

    ORDERED = "ordered"
    FREE = "free"
    SPREAD = "spread"
    STATIC = "static"


# Publications of one publisher may overtake each other.
UNORDERED = (Dynamic.FREE, Dynamic.SPREAD)


class Congestion(enum.Enum):
    """Congestion of an output, from its input and output in the last window, and its queue.

    STEADY    the present queue, own sends of this window included; free again below half of the
              threshold (ours)
    PAPER     (entered / left) * (1 + waiting): Eq. 10, read so that an empty output is free
    PRODUCT   (entered / left) * waiting: Eq. 10, read as it stands
    """

    STEADY = "steady"
    PAPER = "paper"
    PRODUCT = "product"


class OctopiaParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of an overlay; ValueError names the one that is out of bounds.

    clusters      k, the number of clusters (IV); 0: 3, 2 or 1, as the brokers allow
    rows          the brokers by region, each with one of every cluster, "" for a free place;
                  without, in their order
    parents       the tree: the row above each row but the first; without, balanced (fan-out 2)
    dynamic       when publications leave their shortest paths (VII)
    congestion    measure of an output's congestion (VII-B)
    threshold     tau: above this it is congested (VIII): 10
    window_us     t_w: interval between two looks at loads (VIII): 50 ms
    return_us     ordered: publications are numbered until their shortest path has been free for
                  this time (ours): 2 s
    order_us      ordered: the longest wait of a publication for one before it (ours): 30 s
    doubt_us      the same if the link to the earlier one's broker was lost, or the cluster has
                  another entry since, without word that all earlier ones have come (ours): 3 s
    patience_us   the longest wait of a publication for a path, or a quarter more (ours): 10 s
    retry_us      a broker that was not connected is asked again after this (ours): 2 s
    covering      a broker sends its cluster no subscription that another of its own covers (ours;
                  PADRES does so on trees): no
    merging       with covering: it sends its cluster unions of its own (ours, as PADRES): no
    sharp_bits    the most filters that come with a cluster's bit, and only publications that match
                  one of them are sent there (ours); 0: all that is advertised (VI)
    """

    clusters: int = 0
    rows: tuple[tuple[BrokerId, ...], ...] = ()
    parents: tuple[int, ...] = ()
    dynamic: Dynamic = Dynamic.ORDERED
    congestion: Congestion = Congestion.STEADY
    threshold: float = 10.0
    window_us: int = 50_000
    return_us: int = 2_000_000
    order_us: int = 30_000_000
    doubt_us: int = 3_000_000
    patience_us: int = 10_000_000
    retry_us: int = 2_000_000
    covering: bool = False
    merging: bool = False
    sharp_bits: int = 0

    def __post_init__(self) -> None:
        check_merging(covering=self.covering, merging=self.merging)
        for name in _AT_LEAST_ONE:
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: {getattr(self, name)} is not at least 1")
        if self.clusters < 0:
            raise ValueError(f"clusters: {self.clusters} is negative")
        if not 0 <= self.sharp_bits <= MOST_FILTERS:
            raise ValueError(f"sharp_bits: {self.sharp_bits} is not between 0 and {MOST_FILTERS}")
        if self.threshold < 0:
            raise ValueError(f"threshold: {self.threshold} is negative")
        if self.rows:
            self.product()
            if self.clusters not in (0, len(self.rows[0])):
                raise ValueError(f"clusters: {self.clusters}, but rows have {len(self.rows[0])}")

    def product(self) -> Product:
        """The overlay that the rows are; TopologyError when they are none."""
        return Product(self.rows, self.parents)

    def for_brokers(self, brokers: Sequence[BrokerId]) -> OctopiaParameters:
        """With the rows that these brokers make, if there are none; TopologyError if they do not.

        Without clusters or rows as many brokers as there may be have a cluster of their own.
        """
        if self.rows:
            return self
        clusters = self.clusters or most_clusters(len(brokers))
        return msgspec.structs.replace(self, rows=rows_of(brokers, clusters))


def links(parameters: OctopiaParameters, brokers: Sequence[BrokerId]) -> Sequence[Link]:
    """The links of just these brokers; TopologyError when the rows have others."""
    product = parameters.for_brokers(brokers).product()
    for broker in product.brokers:
        if broker not in brokers:
            raise TopologyError(f"rows: no broker {broker!r}")
    for broker in brokers:
        if broker not in product:
            raise TopologyError(f"rows: broker {broker!r} is in none")
    return product.links
