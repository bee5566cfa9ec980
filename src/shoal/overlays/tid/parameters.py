"""The constants of routing by tree identifiers.

>>> TidParameters().for_brokers(["A", "B", "C"]).most_hops
3
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

import msgspec

from shoal.model import BrokerId


class Matching(enum.Enum):
    """The brokers that match a publication: its publisher's and subscribers' brokers, or all."""

    ENDS = "ends"
    EVERYWHERE = "everywhere"


class TidParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """ValueError names the one that is out of bounds.

    dynamic     a publication takes another tree to a subscription if the next link there carried
                less in the last window
    matching    the brokers that match publications; with ends, each broker with a subscription on a
                publication's tree gets a copy (VIII)
    window_us   that window
    most_hops   after so many links a publication changes trees no more; 0: as many as brokers
    renew_us    after a change of links trees are made anew, after this and once more this they are
                used
    remembered  size of the deduplication window at delivery, in publications
    """

    dynamic: bool = False
    matching: Matching = Matching.ENDS
    window_us: int = 1_000_000
    most_hops: int = 0
    renew_us: int = 500_000
    remembered: int = 100_000

    def __post_init__(self) -> None:
        for name in ("window_us", "renew_us", "remembered"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: {getattr(self, name)} is not at least 1")
        if self.most_hops < 0:
            raise ValueError(f"most_hops: {self.most_hops} is negative")

    def for_brokers(self, brokers: Sequence[BrokerId]) -> TidParameters:
        """The parameters with as many hops as there are brokers, unless the number is set."""
        if self.most_hops:
            return self
        return msgspec.structs.replace(self, most_hops=len(brokers))
