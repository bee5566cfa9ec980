"""Deliveries that faults excuse, and no others.

A publication that its publisher hands to broker *b* at time *t* must reach a subscriber at broker
*s*, unless

1. a broker or a link on the way from *b* to *s*, or from the publisher's broker within `settle_us`
   before, is down within `settle_us` of *t*: messages in a failed link or broker are lost, and a
   subscription that such a failure removed needs that long to come again;
2. the publisher's own broker has crashed, the publisher continues at another or at the same one
   after its restart, and *t* is within `settle_us` of that: its advertisements spread anew.

A failure elsewhere excuses nothing, even if it affects a relocating publisher: that is the meaning
of "aborted without loss".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from shoal.clients.records import MigrationRecord, ReturnRecord
from shoal.model import BrokerId, ClientId
from shoal.overlays.tree.oracle import next_hops


class Outage(msgspec.Struct, frozen=True, kw_only=True):
    """A broker (one name) or a link (its two ends) was down from then until then, in µs."""

    parts: tuple[BrokerId, ...]
    from_us: int
    until_us: int


class PublisherAttachments:
    """Each publisher's brokers over time, from its start and the records of its moves."""

    def __init__(
        self,
        starts: Iterable[tuple[ClientId, BrokerId]],
        records: Iterable[msgspec.Struct],
    ) -> None:
        self._homes: dict[ClientId, list[tuple[int, BrokerId]]] = defaultdict(list)
        self._waits: dict[ClientId, list[tuple[int, int]]] = defaultdict(list)
        for publisher, broker in starts:
            self._homes[publisher].append((0, broker))
        for record in records:
            if isinstance(record, MigrationRecord):
                self._homes[record.publisher].append((record.resumed_us, record.target))
            if isinstance(record, MigrationRecord | ReturnRecord):
                self._waits[record.publisher].append((record.paused_us, record.resumed_us))

    def homes(self, publisher: ClientId, from_us: int, until_us: int) -> set[BrokerId]:
        """The brokers it was attached to at some time of the interval."""
        found: set[BrokerId] = set()
        for at_us, broker in self._homes[publisher]:
            if at_us <= from_us:
                found = {broker}
            elif at_us <= until_us:
                found.add(broker)
        return found

    def settled_us(self, publisher: ClientId, at_us: int) -> int:
        """Return when it published again, if it was on its way at that time."""
        for paused_us, resumed_us in self._waits[publisher]:
            if paused_us <= at_us <= resumed_us:
                return resumed_us
        return at_us


class Excuses:
    """Deliveries that outages of a tree excuse."""

    def __init__(
        self,
        links: Iterable[tuple[BrokerId, BrokerId]],
        outages: Sequence[Outage],
        whereabouts: PublisherAttachments,
        settle_us: int,
    ) -> None:
        self._neighbours: dict[BrokerId, list[BrokerId]] = defaultdict(list)
        for left, right in links:
            self._neighbours[left].append(right)
            self._neighbours[right].append(left)
        self._outages = outages
        self._whereabouts = whereabouts
        self._settle_us = settle_us
        self._ways: dict[tuple[BrokerId, BrokerId], tuple[BrokerId, ...]] = {}

    def excuse(
        self, publisher: ClientId, broker: BrokerId, at_us: int, subscriber_broker: BrokerId
    ) -> bool:
        """Return whether a publication of that time and broker may miss a subscriber there."""
        settle_us = self._settle_us
        homes = self._whereabouts.homes(publisher, at_us - settle_us, at_us) | {broker}
        ways = [self._way(home, subscriber_broker) for home in sorted(homes)]
        for outage in self._outages:
            if outage.from_us > at_us + settle_us:
                continue
            near = at_us <= outage.until_us + settle_us
            if near and any(_touches(way, outage.parts) for way in ways):
                return True
            if len(outage.parts) == 1 and self._was_homeless(publisher, at_us, outage):
                return True
        return False

    def _was_homeless(self, publisher: ClientId, at_us: int, outage: Outage) -> bool:
        where, crash_us = self._whereabouts, outage.from_us
        if outage.parts[0] not in where.homes(publisher, crash_us, crash_us):
            return False
        again_us = max(outage.until_us, where.settled_us(publisher, crash_us))
        return crash_us <= at_us <= again_us + self._settle_us

    def _way(self, source: BrokerId, target: BrokerId) -> tuple[BrokerId, ...]:
        key = source, target
        if key not in self._ways:
            hops = next_hops(target, self._neighbours)
            way = [source]
            while (following := hops[way[-1]]) is not None:
                way.append(following)
            self._ways[key] = tuple(way)
        return self._ways[key]


def _touches(way: tuple[BrokerId, ...], parts: tuple[BrokerId, ...]) -> bool:
    return all(part in way for part in parts)
