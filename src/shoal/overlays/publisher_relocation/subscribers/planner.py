"""The best broker for a subscriber, given trace sessions of its publishers.

GRAPE places a publisher, with its subscribers at their brokers; this places a subscriber. Two
figures for each broker, added up over all traced publications that the subscriber got:

- load: number of brokers that would handle a publication for it alone. A publication reaches the
  brokers on its path from its entry to other subscribers anyway; from the nearest of these on, each
  broker up to the subscriber's handles it for that one alone;
- delay: the path from the entry to that broker, the wait there, and the subscriber's own.

The priority of the two is GRAPE's (`choosing.py`). Everything is linear in brokers, for each
publisher.

A `SubscriberShare` has the figures of one publisher: for each broker, the number of publications
that it handles for others. The load of a broker far from all of them is counted from the trees of
all publishers together, so a subscriber may go to any publisher's entry.

>>> def trace(broker, neighbours, bits):
...     return BrokerTrace(broker=broker, neighbours=neighbours, bits=bits,
...         deliveries=bits.bit_count(), input_queue_us=0, matching_us=100, client_output_us=0,
...         output_queue_us=tuple((neighbour, 5_000) for neighbour in neighbours))
>>> traces = trace("A", ("B",), 0b0011), trace("B", ("A", "C"), 0b0000), trace("C", ("B",), 0b1111)
>>> shares = [share_of(PlannedSession("A", traces), "C", bits=0b1111, alone=0b1111)]
>>> figures = figures_of(shares, "C")
>>> figures.loads
{'C': 8, 'B': 4, 'A': 0}
>>> remaining = shortlist(figures, Priority.LOAD, 100)
>>> remaining
('A',)
>>> choose(figures, remaining, {"A": 20, "C": 10}, Priority.LOAD, 100).target
'A'

None of the papers has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from shoal.model import BrokerId
from shoal.overlays.publisher_relocation.choosing import (
    FULL_WEIGHT,
    Priority,
    weigh,
    weight_of,
    within,
)
from shoal.overlays.publisher_relocation.traces import BrokerTrace, TraceTree


class PlannedSession(msgspec.Struct, frozen=True):
    """A publisher's trace session: its entry broker, and the brokers' traces."""

    entry: BrokerId
    traces: tuple[BrokerTrace, ...]


class SubscriberShare(msgspec.Struct):
    """A subscriber's deliveries from one publisher: `count` publications.

    Each broker handles this number of them without the subscriber, too; a missing one handles none.
    The session is the last of several.
    """

    session: PlannedSession
    count: int
    handled: dict[BrokerId, int]

    def add(self, other: SubscriberShare) -> None:
        """Add a later session of the same publisher, from the same entry."""
        self.session = other.session
        self.count += other.count
        for broker, handled in other.handled.items():
            self.handled[broker] = self.handled.get(broker, 0) + handled


class SubscriberFigures(msgspec.Struct, frozen=True):
    """For each broker load and delay, of `count` publications, were the subscriber there.

    Loads are messages, delays µs from where publications enter until the broker has matched them;
    both added up.  The tree is rooted where the subscriber is.
    """

    tree: TraceTree
    count: int
    loads: dict[BrokerId, int]
    delays: dict[BrokerId, int]


class SubscriberDecision(msgspec.Struct, frozen=True, kw_only=True):
    """The chosen broker, with its figures: messages per publication, and mean delays in µs.

    `weight` is as in GRAPE's decisions.
    """

    target: BrokerId
    candidates: int
    rate_now: float
    rate_target: float
    delay_now_us: float
    delay_target_us: float
    weight: int | None = None


def share_of(
    session: PlannedSession, broker: BrokerId, bits: int, alone: int, times: int = 1
) -> SubscriberShare:
    """A subscriber's share of one session at this broker: the publications of the bits.

    `alone` are those without another subscriber at the broker; the session stands for `times` as
    many. ValueError when the traces are no tree around the entry that has the broker.
    """
    tree = TraceTree(session.traces, session.entry)
    if broker not in tree.numbers:
        raise ValueError(f"{broker!r} is not among the traces")
    below = [trace.bits for trace in tree.traces]
    below[tree.numbers[broker]] &= ~(bits & alone)
    for number in range(len(below) - 1, 0, -1):
        below[tree.parent[number]] |= below[number]
    below[0] = bits  # all enter there
    handled = {
        name: times * (bits & below[number]).bit_count()
        for name, number in tree.numbers.items()
        if bits & below[number]
    }
    return SubscriberShare(session, times * bits.bit_count(), handled)


def figures_of(shares: Sequence[SubscriberShare], current: BrokerId) -> SubscriberFigures:
    """All brokers that any of the sessions passed; ValueError when together they are no tree."""
    known = {trace.broker: trace for share in shares for trace in share.session.traces}
    tree = TraceTree(tuple(known.values()), current)
    loads, delays = dict.fromkeys(tree.numbers, 0), dict.fromkeys(tree.numbers, 0)
    for share in shares:
        from_entry = TraceTree(tree.traces, share.session.entry)
        down_us, _ = from_entry.link_delays()
        alone, way_us = [0] * len(down_us), [0] * len(down_us)
        for number, (broker, trace) in enumerate(
            zip(from_entry.numbers, from_entry.traces, strict=True)
        ):
            if number:
                above = from_entry.parent[number]
                alone[number] = alone[above] + share.count - share.handled.get(broker, 0)
                way_us[number] = way_us[above] + down_us[number]
            inside_us = trace.input_queue_us + trace.matching_us
            loads[broker] += alone[number]
            delays[broker] += share.count * (way_us[number] + inside_us)
    return SubscriberFigures(tree, sum(share.count for share in shares), loads, delays)


def shortlist(figures: SubscriberFigures, priority: Priority, weight: int) -> tuple[BrokerId, ...]:
    """The candidates whose ping times `choose` needs, nearest first."""
    candidates = list(figures.loads)
    if priority is Priority.LOAD:
        candidates = within(candidates, figures.loads, weight)
    return tuple(candidates)


def choose(
    figures: SubscriberFigures,
    remaining: Sequence[BrokerId],
    ping_us: Mapping[BrokerId, int],
    priority: Priority,
    weight: int,
    least_gain_percent: int = 0,
) -> SubscriberDecision:
    """The broker the subscriber should be at; `ping_us` are its one-way delays.

    It stays unless load or delay is lower at the target, by this percentage at least.  ValueError
    unless there are ping times of one of the remaining candidates and of the current broker.
    """
    current = figures.tree.root
    delays = {
        broker: figures.delays[broker] + figures.count * ping
        for broker, ping in ping_us.items()
        if broker in figures.delays
    }
    candidates = [broker for broker in remaining if broker in delays]
    if not candidates or current not in delays:
        raise ValueError("no ping time for any of the candidates, or none for the current broker")
    best = candidates
    if len(candidates) > 1:
        best = weigh(candidates, figures.loads, delays, priority, weight)
    found = None
    if priority is Priority.KNEE:
        found = weight_of(best[0], candidates, figures.loads)
    target = figures.tree.nearest(best)
    if not any(
        _gains(known[current], known[target], least_gain_percent)
        for known in (figures.loads, delays)
    ):
        target = current
    return SubscriberDecision(
        target=target,
        candidates=len(figures.loads),
        rate_now=figures.loads[current] / figures.count,
        rate_target=figures.loads[target] / figures.count,
        delay_now_us=delays[current] / figures.count,
        delay_target_us=delays[target] / figures.count,
        weight=found,
    )


def _gains(now: int, there: int, least_percent: int) -> bool:
    """Unlike a publisher's, a subscriber's load may be 0 where it is: that is no gain elsewhere."""
    return there < now and FULL_WEIGHT * (now - there) >= least_percent * now
