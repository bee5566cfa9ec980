"""The constants of DYNATOPS and its baselines.

>>> Parameters().for_brokers(["B1", "B2"]).brokers
('B1', 'B2')
>>> Parameters(brokers=("B1", "B1"))
Traceback (most recent call last):
ValueError: brokers: ['B1', 'B1'] has a broker twice
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Self

import msgspec

from shoal.model import BrokerId
from shoal.overlays.dynatops.structures.structure import hash_of

PER_GATEWAY = 5
_NOT_NEGATIVE = (
    "reconfigure_us", "delay_weight", "threshold_percent", "price_percent", "cluster",
    "load_weight", "least_gain_percent",
)  # fmt: skip


class Order(enum.Enum):
    """Whose publications reach each subscriber in their order."""

    PUBLISHER = "publisher"
    TOPIC = "topic"


class Search(enum.Enum):
    """Whose swaps the manager looks at.

    worst  the costliest broker's, as Algorithm 3 has it: it ends with the first that none helps
    next   then the next costliest one's: it ends where no swap of any two helps (ours)
    """

    WORST = "worst"
    NEXT = "next"


class Managed(enum.Enum):
    """Who says which brokers should change places.

    central   the manager, which is told of all topics (5.1)
    pairwise  brokers that cost more than those they know, in pairs; each is told of topics that it
              wants (ours; future work in 7)
    """

    CENTRAL = "central"
    PAIRWISE = "pairwise"


class Placement(enum.Enum):
    """At which broker a user should be.

    similarity  of its cluster, where others want the same (4)
    hash        of all, by consistent hashing of its name, whatever it wants (ours, to compare)
    """

    SIMILARITY = "similarity"
    HASH = "hash"


class ViewParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What all systems whose brokers agree on views have; ValueError names what is out of bounds.

    brokers             who stands at which position at first, in the order of positions; those of
                        a network that names none stand by the hash of their names
    topic               the attribute whose text is a publication's topic; MQTT's by default
    keys                a filter that names more topics than this is one for any topic (ours)
    gather_us           who comes, goes and is lost within this is seen to together (ours)
    patience_us         who has not been there since this broker started is waited for so long
                        (ours)
    linger_us           links that nobody needs any more end after this (ours): 30 s
    """

    brokers: tuple[BrokerId, ...] = ()
    topic: str = "$topic"
    keys: int = 16
    gather_us: int = 50_000
    patience_us: int = 10_000_000
    linger_us: int = 30_000_000

    def __post_init__(self) -> None:
        if len(set(self.brokers)) < len(self.brokers):
            raise ValueError(f"brokers: {list(self.brokers)} has a broker twice")
        if not self.topic:
            raise ValueError("topic: an attribute has a name")
        for name in ("keys", "gather_us", "patience_us", "linger_us"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: {getattr(self, name)} is not at least 1")

    @property
    def per_gateway(self) -> int:
        """So many brokers have one that stands on the structure for them; 1: each does itself."""
        return 1

    def for_brokers(self, brokers: Sequence[BrokerId]) -> Self:
        """These, with all brokers by the hash of their names if none are named."""
        if self.brokers:
            return self
        return msgspec.structs.replace(self, brokers=tuple(sorted(brokers, key=place_of)))


class Parameters(ViewParameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of topic trees on a structured overlay; ValueError names what is out of bounds.

    order               publisher: all that one publishes keeps its order, so what goes over
                        several roots waits at its homes for its turn; topic: what it publishes to
                        one topic does, and nothing waits for other topics
    reconfigure_us      T_free, after which it is looked whether brokers should change places (5.1;
                        the paper has 10 h); 0: they stay where they are
    manager             who says which: central or pairwise
    search              whose swaps are looked at: next; worst is the paper's
    pinned              brokers that stay where they stand, but for others that come and go (ours)
    regions             brokers change places only with others of their row, those of none with
                        each other (ours)
    delay_weight        w_d, how much a hop to a broker that wants a topic weighs beside a relay
                        (5)
    rate_percent        alpha, how much of the expected rate is the last one (Eq. 8): 30
    threshold_percent   beta: nothing is computed unless so much of the highest price is at stake
                        (5.1): 10
    price_percent       how much of its price a change has to save (ours): 100
    placement           by what users are placed: similarity or hash
    cluster             so many brokers, by name, see each other's users, and send theirs to where
                        others want the same (4; the paper has 10); 0: none do; who is placed by
                        hash has no cluster
    load_weight         w_l, how much a broker's share of the load weighs against that (4)
    least_gain_percent  by how much similarity less load must be higher there (ours)
    update_us           T_update, how often brokers tell each other what users want, if that has
                        changed (4; the paper has no figure): 10 s
    """

    order: Order = Order.PUBLISHER
    reconfigure_us: int = 0
    manager: Managed = Managed.CENTRAL
    search: Search = Search.NEXT
    pinned: tuple[BrokerId, ...] = ()
    regions: tuple[tuple[BrokerId, ...], ...] = ()
    delay_weight: float = 1.0
    rate_percent: int = 30
    threshold_percent: int = 10
    price_percent: int = 100
    placement: Placement = Placement.SIMILARITY
    cluster: int = 0
    load_weight: float = 1.0
    least_gain_percent: int = 5
    update_us: int = 10_000_000

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.update_us < 1:
            raise ValueError(f"update_us: {self.update_us} is not at least 1")
        for name in _NOT_NEGATIVE:
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: {getattr(self, name)} is negative")
        if self.cluster and self.placement is Placement.HASH:
            raise ValueError(f"cluster: {self.cluster}; users placed by hash have no clusters")
        if not 0 < self.rate_percent <= 100:
            raise ValueError(f"rate_percent: {self.rate_percent} is not a share")

    @property
    def places_users(self) -> bool:
        return self.cluster > 0 or self.placement is Placement.HASH


class HybridParameters(Parameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of clusters behind gateways; ValueError names what is out of bounds.

    per_gateway  so many brokers, a gateway among them, are a cluster, of which only the gateway
                 stands on the ring (7; the paper has no figure)
    """

    per_gateway: int = PER_GATEWAY

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.per_gateway < 1:
            raise ValueError(f"per_gateway: {self.per_gateway} is not at least 1")


def place_of(broker: BrokerId) -> tuple[int, BrokerId]:
    """Where a broker stands by its name: consistent hashing."""
    return hash_of(broker), broker
