"""BlueDove's constants, with the section of the paper each comes from.

One set of parameters serves every node of a cluster: it names the dispatchers and the matchers
that are expected at first; a broker that is neither is a matcher that joins later.  With neither
named, or the same brokers as both, every broker is both, also one that joins later; scenarios then
name all of theirs.

>>> BlueDoveParameters(dispatchers=("D1",), matchers=("M1", "M2")).role("M3")
Role(dispatches=False, matches=True)
>>> BlueDoveParameters().role("B1")
Role(dispatches=True, matches=True)
>>> BlueDoveParameters(dispatchers=("B1", "B2"), matchers=("B1", "B2")).role("B3")
Role(dispatches=True, matches=True)
>>> peer_to_peer(Dimension(attribute="x"), dispatchers=("D1",), matchers=("M1",)).policy
<Policy.RANDOM: 'random'>
>>> BlueDoveParameters(rate_window_us=0)
Traceback (most recent call last):
ValueError: rate_window_us: 0 is not at least 1

Source: Li et al., BlueDove, sections III and IV.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from shoal.matching.segments import Dimension
from shoal.model import BrokerId
from shoal.overlays.bluedove.cluster.forwarding import Policy
from shoal.overlays.bluedove.cluster.planner import Elasticity

_AT_LEAST_ONE = (
    "cores", "publications_per_job", "rate_window_us", "load_interval_us", "gossip_interval_us",
    "pull_interval_us", "tick_us", "answer_timeout_us", "failure_us", "search_prior_ns",
)  # fmt: skip


class DeliveryOrder(enum.Enum):
    """Whether a publisher's publications reach each subscriber in their order."""

    PUBLISHER = "publisher"
    FREE = "free"


class Role(NamedTuple):
    """A broker's role; it may have both."""

    dispatches: bool
    matches: bool


class BlueDoveParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of a cluster; ValueError names the one that is out of bounds.

    dimensions             the searchable dimensions (III-A), k of them; the paper's have a
                           length of 1,000 (IV-B)
    dispatchers            brokers that clients connect to (II-B)
    matchers               brokers that match, in the order of their first segments (III-A)
    replicated             every matcher has everything: the baseline of IV-B
    policy                 choice of a candidate (III-B): adaptive
    order                  publisher: results go to subscribers' dispatchers by the publisher's
                           dispatcher, which keeps its publications in their order (ours); free:
                           they go there at once, as in the paper (II-B)
    cores                  publications matched at a time, as many as the server has cores (IV-B): 4
    publications_per_job   batch of one queue that is matched in one piece of work (ours): 8
    rate_window_us         w, over which rates are averaged (III-B; the paper has no figure): 5 s
    load_interval_us       load is looked at, and reported if it changed (IV-C): 1 s
    load_change_percent    by more than this (IV-C): 10 %
    gossip_interval_us     a matcher exchanges tables (IV-C): 1 s
    pull_interval_us       a dispatcher pulls one (IV-C): 10 s
    answer_timeout_us      a matcher without an answer for this time is skipped (ours): 3 s
    failure_us             a matcher without news for this time is declared dead (ours; the paper
                           measured 17.5 s until loss ended), and so is a dispatcher whose link is
                           down for this time: 10 s
    tick_us                interval of checks for timeouts (ours): 0.5 s
    search_prior_ns        assumed per subscription searched, until a rate is measured (ours)
    elastic                matchers are added and taken away as load asks for it (IV-E); if not,
                           joiners are admitted as they come
    elasticity             conditions for that, and matchers whose processes it starts
    """

    dimensions: tuple[Dimension, ...] = (Dimension(attribute="x"),)
    dispatchers: tuple[BrokerId, ...] = ()
    matchers: tuple[BrokerId, ...] = ()
    replicated: bool = False
    policy: Policy = Policy.ADAPTIVE
    order: DeliveryOrder = DeliveryOrder.PUBLISHER
    cores: int = 4
    publications_per_job: int = 8
    rate_window_us: int = 5_000_000
    load_interval_us: int = 1_000_000
    load_change_percent: int = 10
    gossip_interval_us: int = 1_000_000
    pull_interval_us: int = 10_000_000
    answer_timeout_us: int = 3_000_000
    failure_us: int = 10_000_000
    tick_us: int = 500_000
    search_prior_ns: int = 100
    elastic: bool = False
    elasticity: Elasticity = Elasticity()

    def __post_init__(self) -> None:
        for key in _AT_LEAST_ONE:
            if getattr(self, key) < 1:
                raise ValueError(f"{key}: {getattr(self, key)} is not at least 1")
        if not 0 <= self.load_change_percent <= 100:
            raise ValueError(f"load_change_percent: {self.load_change_percent} is not a share")
        if not self.dimensions:
            raise ValueError("dimensions: at least one is needed")
        names = [dimension.attribute for dimension in self.dimensions]
        if len(set(names)) < len(names):
            raise ValueError(f"dimensions: {names} has an attribute twice")
        if bool(self.dispatchers) != bool(self.matchers):
            raise ValueError("dispatchers and matchers: both or neither must be named")
        for key, brokers in (("dispatchers", self.dispatchers), ("matchers", self.matchers)):
            if len(set(brokers)) < len(brokers):
                raise ValueError(f"{key}: {list(brokers)} has a broker twice")
        self._check_spares()
        if self.matchers and not self.replicated:
            for dimension in self.dimensions:
                dimension.cuts(len(self.matchers))  # ValueError if its boundaries do not fit

    def _check_spares(self) -> None:
        spares = self.elasticity.spares
        if spares and not (self.elastic and self.matchers):
            raise ValueError(
                "elasticity.spares: need elastic = true, and dispatchers and matchers with names"
            )
        if named := {*spares} & {*self.dispatchers, *self.matchers}:
            raise ValueError(
                f"elasticity.spares: {', '.join(sorted(named))} must not be named elsewhere"
            )

    def for_brokers(self, brokers: Sequence[BrokerId]) -> BlueDoveParameters:
        """These, with all brokers as dispatchers and matchers if none are named."""
        if self.dispatchers:
            return self
        everybody = tuple(brokers)
        return msgspec.structs.replace(self, dispatchers=everybody, matchers=everybody)

    @property
    def all_do_both(self) -> bool:
        """Whether every broker dispatches and matches."""
        return set(self.dispatchers) == set(self.matchers)

    def role(self, broker: BrokerId) -> Role:
        """The role of this broker."""
        if self.all_do_both:
            return Role(dispatches=True, matches=True)
        dispatches = broker in self.dispatchers
        return Role(dispatches, not dispatches or broker in self.matchers)


def peer_to_peer(dimension: Dimension, **options: Any) -> BlueDoveParameters:
    """The first baseline (IV-B): one dimension, hence one matcher for each publication."""
    return BlueDoveParameters(dimensions=(dimension,), policy=Policy.RANDOM, **options)


def full_replication(dimension: Dimension, **options: Any) -> BlueDoveParameters:
    """The second (IV-B): everything everywhere, and any matcher at random."""
    return BlueDoveParameters(
        dimensions=(dimension,), policy=Policy.RANDOM, replicated=True, **options
    )
