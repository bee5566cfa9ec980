"""Capacity of brokers: how much more one can take, and places promised to publishers on their way.

A broker that gets a publisher gets those of its publications that did not pass it before, and more
work for all of them: as their first broker, and with the subscriptions of the whole network for
them in its tables. It can take a publisher while it is busy for at most `most_busy_percent` of its
time, by the monitor's figures.

Publishers that were promised a place count before they come: decisions are made at many brokers at
once, and 20 publishers that find the same broker best would otherwise all move there, and saturate
it. At 100 per cent there is no limit, which is the paper's way.

>>> capacity = Capacity(80)
>>> capacity.measured(MeasuredDelays(0, 2_000, {}, 0, busy=0.55, served_us=2_000))
>>> capacity.admit("P1", PublisherLoad(100.0, 0.0))  # 100 a second take 0.2 s
True
>>> capacity.admit("P2", PublisherLoad(100.0, 0.0))
False
>>> capacity.admit("P3", PublisherLoad(100.0, 1.0))  # all of its publications pass here anyway
True
>>> capacity.admit("P4", PublisherLoad(100.0, 1.0))
False

Source: ours; Cheung and Jacobsen, publisher relocation, knows no capacity (4.2 weighs the load of
all brokers together).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from shoal.broker.effects import MeasuredDelays
from shoal.model import BrokerId, ClientId
from shoal.overlays.publisher_relocation.traces import TraceTree

# No limit: a publisher may move to any broker.
UNLIMITED = 100
# The newest report's part of the average, which so is about seven seconds long.
_WEIGHT = 0.25
# A publisher's cost at its first broker beyond publications that pass there anyway, as a part of
# their work.  With 400 subscriptions that come into the tables with 20 publishers, a publication
# takes 23 % longer in the simulator.
_EDGE_SHARE = 0.25
# Reports, of about a second each, for which a promise lasts.  A move takes a few round trips; then
# its publications are in the measured figures.
_PROMISED_REPORTS = 30
# No publisher makes as many publications per second.
_MOST_PER_S = 1e9
_US_PER_S = 1_000_000


class PublisherLoad(NamedTuple):
    """A publisher's publications per second, and the part of them that pass a broker already."""

    per_s: float
    passing: float

    @property
    def is_possible(self) -> bool:
        """Whether a publisher can have it: false for NaN too."""
        return 0 <= self.per_s <= _MOST_PER_S and 0 <= self.passing <= 1

    def added(self, served_us: float) -> float:
        """The part of its time for which a broker becomes busier if it gets the publisher."""
        share = max(_EDGE_SHARE, 1 - self.passing)
        return self.per_s * share * served_us / _US_PER_S


def rate_per_s(publications: int, passed_us: int) -> float:
    """Publications per second; of a burst, those of a whole second."""
    return max(0, publications - 1) * _US_PER_S / max(passed_us, _US_PER_S)


class Capacity:
    """One broker's capacity; `served_us` is its work for a publication, 0 until it is measured."""

    def __init__(self, most_busy_percent: int) -> None:
        self.most_busy = most_busy_percent / 100
        self.served_us = 0.0
        self._busy: float | None = None
        self._promised: dict[ClientId, tuple[float, int]] = {}

    def measured(self, measured: MeasuredDelays) -> None:
        """Add the monitor's report to the averages; promises get older."""
        self._promised = {
            name: (added, reports - 1)
            for name, (added, reports) in self._promised.items()
            if reports > 1
        }
        if measured.busy is not None:
            known = measured.busy if self._busy is None else self._busy
            self._busy = known + _WEIGHT * (measured.busy - known)
        if measured.served_us is not None:
            known = self.served_us or measured.served_us
            self.served_us = known + _WEIGHT * (measured.served_us - known)

    @property
    def busy_percent(self) -> int:
        """The busy part of the last seconds, without promised publishers; 0 before any report."""
        return round(100 * (self._busy or 0.0))

    @property
    def promised_percent(self) -> int:
        """The same with promised publishers, as if these were here."""
        return round(100 * self._with_promised)

    def admit(self, publisher: ClientId, load: PublisherLoad) -> bool:
        """Whether there is room for a publisher; then its place is promised for a while."""
        self._promised.pop(publisher, None)
        added = load.added(self.served_us)
        if self.most_busy < 1 and added and self._with_promised + added > self.most_busy:
            return False
        if added:
            self._promised[publisher] = added, _PROMISED_REPORTS
        return True

    @property
    def _with_promised(self) -> float:
        return (self._busy or 0.0) + sum(added for added, _ in self._promised.values())


def without_room(
    tree: TraceTree, handled: Mapping[BrokerId, int], traced: int, per_s: float, most_busy: float
) -> Collection[BrokerId]:
    """The brokers of a trace tree that the publisher at its root would make too busy.

    `handled` has the number of traced publications that each handles with the publisher at its
    present broker, of `traced` in total.
    """
    full = []
    for trace in tree.traces[1:]:
        load = PublisherLoad(per_s, min(1.0, handled[trace.broker] / traced) if traced else 1.0)
        added = load.added(trace.served_us)
        if added and trace.busy_percent / 100 + added > most_busy:
            full.append(trace.broker)
    return full
