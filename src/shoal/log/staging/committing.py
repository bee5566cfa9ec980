"""The commit of a batch over all brokers that have a part of it, and the query's home.

Pure but for the calls of the brokers: any call may fail and be made again, by this driver or a
later one, with the same attempts or others. `shoal.log.staging` has the steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple, Protocol

from shoal.log.errors import LogError
from shoal.log.staging.parts import Attempt


class KeptList(NamedTuple):
    """The list that a home keeps: of the batch that was asked about, or of a later one."""

    batch: int
    attempts: tuple[Attempt, ...]


class StagingBroker(Protocol):
    """One broker's staging area."""

    def offer(self, query: str, batch: int, names: Sequence[str]) -> KeptList | None:
        """Keep these attempts; the list that the broker keeps, if any."""

    def decide(self, query: str, batch: int, attempts: Sequence[Attempt]) -> KeptList:
        """Keep this list, unless there is one; the list that stands."""

    def publish(self, query: str, batch: int, attempts: Sequence[Attempt]) -> bool:
        """Publish the broker's part of a whole list; whether that is published and settled."""


def home_of(query: str, brokers: Sequence[str]) -> str:
    """The home of a query that has none yet."""

    def weight(broker: str) -> bytes:
        return blake2b(f"{query}\0{broker}".encode(), digest_size=8).digest()

    return max(sorted(brokers), key=weight)


def decide_batch(
    brokers: Mapping[str, StagingBroker], query: str, batch: int, attempts: Sequence[Attempt]
) -> Sequence[Attempt]:
    """The list of a batch that stands; empty if the batch is published, as a later one has begun.

    Every broker is asked, since brokers that joined may have made another one the home. LogError if
    an attempt is at a broker that is not there: no list may name it.
    """
    kept: KeptList | None = None
    for name, broker in sorted(brokers.items()):
        offered = [each.name for each in attempts if each.broker == name]
        found = broker.offer(query, batch, offered)
        if found is not None and (kept is None or found.batch > kept.batch):
            kept = found
    if kept is None:
        if gone := sorted({each.broker for each in attempts} - brokers.keys()):
            raise LogError(f"{gone[0]} has left with rows of batch {batch} of query {query}")
        kept = brokers[home_of(query, list(brokers))].decide(query, batch, attempts)
    return kept.attempts if kept.batch == batch else ()


def brokers_of(attempts: Sequence[Attempt]) -> list[str]:
    """The brokers that have a part of a list."""
    return sorted({each.broker for each in attempts})
