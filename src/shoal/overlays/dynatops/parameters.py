"""The constants of DYNATOPS and its baselines.

>>> DynatopsParameters().for_brokers(["B1", "B2"]).brokers
('B1', 'B2')
>>> DynatopsParameters(brokers=("B1", "B1"))
Traceback (most recent call last):
ValueError: brokers: ['B1', 'B1'] has a broker twice
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Self

import msgspec

from shoal.model import BrokerId
from shoal.overlays.dynatops.structures.geography import Coordinates, is_on_earth
from shoal.overlays.dynatops.structures.structure import hash_of

PER_GATEWAY = 5
_NOT_NEGATIVE = (
    "reconfigure_us", "delay_weight", "threshold_percent", "price_percent", "cluster",
    "load_weight", "least_gain_percent",
)  # fmt: skip


class TopicOrder(enum.Enum):
    """The streams that keep their order at each subscriber."""

    PUBLISHER = "publisher"
    TOPIC = "topic"


class SearchParameters(enum.Enum):
    """The brokers whose swaps the manager searches.

    worst  the costliest broker's, as Algorithm 3 has it: it ends with the first without a useful
           swap
    next   then the next costliest one's: it ends when no swap of any two is useful (ours)
    """

    WORST = "worst"
    NEXT = "next"


class Managed(enum.Enum):
    """The planner of brokers' places.

    central   the manager, which gets the counts of all topics (5.1)
    pairwise  brokers that cost more than those they know, in pairs; each gets the counts of its own
              topics (ours; future work in 7)
    """

    CENTRAL = "central"
    PAIRWISE = "pairwise"


class PriceParameters(enum.Enum):
    """The price of a change, in messages.

    sent   those that brokers send here, as far as it was learned from earlier changes (ours)
    bound  the paper's bound for its own protocol (Eq. 7)
    """

    SENT = "sent"
    BOUND = "bound"


class PlacementParameters(enum.Enum):
    """At which broker a user should be.

    similarity  of its cluster, where others want the same (4)
    hash        of all, by consistent hashing of its name, whatever it wants (ours, to compare)
    """

    SIMILARITY = "similarity"
    HASH = "hash"


class ViewParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of all systems whose brokers agree on views.

    ValueError names what is out of bounds.

    brokers             the initial order of brokers by position; those of a network that names
                        none are placed by the hash of their names
    topic               the attribute whose text is a publication's topic; MQTT's by default
    keys                a filter that names more topics than this is one for any topic (ours)
    gather_us           joins, leaves and losses within this time make one view (ours)
    patience_us         the longest wait for a member that has not connected since this broker
                        started (ours)
    linger_us           links that are not needed any more end after this (ours): 30 s
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
        """Size of a cluster, which one broker represents on the structure; 1: each does itself."""
        return 1

    @property
    def places_on_earth(self) -> Mapping[BrokerId, Coordinates]:
        """The brokers' coordinates, where the structure goes by them."""
        return {}

    def for_brokers(self, brokers: Sequence[BrokerId]) -> Self:
        """These, with all brokers by the hash of their names if none are named."""
        if self.brokers:
            return self
        return msgspec.structs.replace(self, brokers=tuple(sorted(brokers, key=place_of)))


class DynatopsParameters(ViewParameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of topic trees on a structured overlay; ValueError names what is out of bounds.

    order               publisher: each publisher's publications keep their order, so those over
                        several roots wait at their homes until their turn; topic: those to one
                        topic do, and nothing waits for other topics
    reconfigure_us      T_free, the interval of planning (5.1; the paper has 10 h); 0: brokers stay
                        at their places
    manager             the planner of places: central or pairwise
    search              the brokers whose swaps are searched: next; worst is the paper's
    pinned              brokers that keep their places, except when others join or leave (ours)
    regions             brokers change places only with others of their row, those of none with
                        each other (ours)
    delay_weight        w_d, weight of a hop to a broker that wants a topic relative to a relay (5)
    rate_percent        alpha, weight of the last rate in the expected rate (Eq. 8): 30
    threshold_percent   beta: nothing is computed unless so much of the highest price is at stake
                        (5.1): 10
    price               what a change costs: the messages that are sent for it, or the paper's bound
    price_percent       the part of its price that a change has to save (ours): 100
    placement           placement of users: by similarity or hash
    cluster             this many brokers, by name, see each other's users, and send theirs to
                        brokers with the same topics (4; the paper has 10); 0: none do; placement
                        by hash has no cluster
    load_weight         w_l, weight of a broker's share of the load against that (4)
    least_gain_percent  by how much similarity less load must be higher there (ours)
    update_us           T_update, interval at which brokers send each other their users' topics, if
                        these have changed (4; the paper has no figure): 10 s
    """

    order: TopicOrder = TopicOrder.PUBLISHER
    reconfigure_us: int = 0
    manager: Managed = Managed.CENTRAL
    search: SearchParameters = SearchParameters.NEXT
    pinned: tuple[BrokerId, ...] = ()
    regions: tuple[tuple[BrokerId, ...], ...] = ()
    delay_weight: float = 1.0
    rate_percent: int = 30
    threshold_percent: int = 10
    price: PriceParameters = PriceParameters.SENT
    price_percent: int = 100
    placement: PlacementParameters = PlacementParameters.SIMILARITY
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
        if self.cluster and self.placement is PlacementParameters.HASH:
            raise ValueError(f"cluster: {self.cluster}; users placed by hash have no clusters")
        if not 0 < self.rate_percent <= 100:
            raise ValueError(f"rate_percent: {self.rate_percent} is not a share")

    @property
    def places_users(self) -> bool:
        return self.cluster > 0 or self.placement is PlacementParameters.HASH


class HybridParameters(DynatopsParameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of clusters behind gateways; ValueError names what is out of bounds.

    per_gateway  this many brokers, a gateway among them, are a cluster, of which only the gateway
                 stands on the ring (7; the paper has no figure)
    """

    per_gateway: int = PER_GATEWAY

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.per_gateway < 1:
            raise ValueError(f"per_gateway: {self.per_gateway} is not at least 1")


class EarthParameters(DynatopsParameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of topic trees by geography; ValueError names what is out of bounds.

    coordinates  brokers' latitude and longitude in degrees; a network file has them as `place` of
                 each broker. With those of all brokers paths go by distance, and brokers keep their
                 places (6.2); without, by names
    """

    coordinates: dict[BrokerId, Coordinates] = {}

    def __post_init__(self) -> None:
        super().__post_init__()
        for broker, coordinates in self.coordinates.items():
            if not is_on_earth(coordinates):
                raise ValueError(f"coordinates: {broker} is at {list(coordinates)}, not on earth")
        if self.coordinates and self.reconfigure_us:
            raise ValueError(
                f"reconfigure_us: {self.reconfigure_us}; brokers with coordinates keep their "
                "places: leave it out, or the brokers' `place`"
            )

    @property
    def places_on_earth(self) -> Mapping[BrokerId, Coordinates]:
        return self.coordinates


def place_of(broker: BrokerId) -> tuple[int, BrokerId]:
    """A broker's place by its name: consistent hashing."""
    return hash_of(broker), broker
