"""GRAPE's broker selection: the best broker for a publisher, given one trace session.

Each broker that got some of the session's publications reports the delivered ones (a bit vector),
the number of subscribers, and the delay of a message inside it. From that the planner computes, for
every candidate broker, the broker messages and the delays of the session, had the publisher been
there. The prioritised figure is normalised to 0..100 over the candidates, those above `100 -
weight` are dropped, and of the rest the one with the least of the other figure wins.

Selection has two steps because only the delay needs the publisher's ping times: `shortlist` gives
the candidates whose ping times are needed, `choose` decides. Both are linear in the number of
brokers: figures for one root are corrected along each link (re-rooting) instead of computed anew
for each root.

>>> def trace(broker, neighbours, bits):
...     return BrokerTrace(broker=broker, neighbours=neighbours, bits=bits,
...         deliveries=bits.bit_count(), input_queue_us=0, matching_us=100, client_output_us=0,
...         output_queue_us=tuple((neighbour, 5_000) for neighbour in neighbours))
>>> snapshot = Snapshot(current="A", traces=(
...     trace("A", ("B",), 0b0001), trace("B", ("A", "C"), 0b0000), trace("C", ("B",), 0b1111)))
>>> message_rates(snapshot.traces)
{'A': 12, 'B': 9, 'C': 6}
>>> remaining = shortlist(snapshot, Priority.LOAD, 100)
>>> remaining.candidates, remaining.needs_pings
(('C',), False)
>>> choose(snapshot, remaining, {}).path
('A', 'B', 'C')

Source: Cheung and Jacobsen, "Publisher Relocation Algorithms for Minimizing Average Delivery Delay
and System Load", sections 4.1 (the payload) and 4.2 (algorithms 1 to 3). Deviations: linear instead
of quadratic time; exact integers instead of floating point until a figure is reported; the
publisher's current broker is always a candidate, so that staying can win; ties, which the paper
leaves open, go to the broker nearest to the current one (itself first), then to the smaller
identifier; a gain too small to be worth a move is not taken; a broker that the publisher would make
too busy is no candidate (`RoomTerms`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from shoal.model import BrokerId
from shoal.overlays.publisher_relocation.capacity import without_room
from shoal.overlays.publisher_relocation.choosing import (
    FULL_WEIGHT,
    Priority,
    weigh,
    weight_of,
    within,
)
from shoal.overlays.publisher_relocation.traces import BrokerTrace, TraceTree


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One publisher's trace session: its broker and every answer, that broker's own too."""

    current: BrokerId
    traces: tuple[BrokerTrace, ...]


class RoomTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The load that a broker must have room for: the publisher makes `per_s` publications a second.

    `traced` is the number of publications in the session, `most_busy` the part of its time for
    which a broker may be busy, 0 to 1. The `refused` had no room when they were asked.
    """

    per_s: float
    traced: int
    most_busy: float
    refused: Collection[BrokerId] = ()


class Shortlist(msgspec.Struct, frozen=True, kw_only=True):
    """The candidates that `choose` weighs, nearest first, and the rates of all."""

    priority: Priority
    weight: int
    candidates: tuple[BrokerId, ...]
    rates: dict[BrokerId, int]

    @property
    def needs_pings(self) -> bool:
        """False when one candidate is left: there is nothing to choose."""
        return len(self.candidates) > 1


class GrapeDecision(msgspec.Struct, frozen=True, kw_only=True):
    """The chosen broker, with its figures.

    `path` runs from the current broker to the target, both included (one broker: stay). Rates are
    broker messages per trace session, system wide; delays are averages in microseconds, None when
    no ping time was known for that broker. `weight` is the one of LOAD that leads there, if KNEE
    has found it.
    """

    target: BrokerId
    path: tuple[BrokerId, ...]
    candidates: int
    rate_now: int
    rate_target: int
    delay_now_us: float | None
    delay_target_us: float | None
    weight: int | None = None

    @property
    def staying(self) -> GrapeDecision:
        """The same figures, if the publisher stays where it is."""
        return msgspec.structs.replace(
            self,
            target=self.path[0],
            path=self.path[:1],
            rate_target=self.rate_now,
            delay_target_us=self.delay_now_us,
        )


def message_rates(traces: Sequence[BrokerTrace]) -> dict[BrokerId, int]:
    """For each broker: publication messages all brokers would handle, were the publisher there.

    A broker handles the publications that it, or anything behind it, delivers.
    """
    return _message_rates(TraceTree(traces, traces[0].broker)) if traces else {}


def average_delays(
    traces: Sequence[BrokerTrace], ping_us: Mapping[BrokerId, int]
) -> dict[BrokerId, float]:
    """For each broker in `ping_us`: mean delivery delay in microseconds, were the publisher there.

    `ping_us` is the publisher's one-way delay to the broker.  ValueError for an unknown broker.
    """
    if not traces:
        return {}
    tree = TraceTree(traces, traces[0].broker)
    _check_pings(tree, ping_us)
    totals = _total_delays(tree)
    return {broker: _average(tree, totals, broker, ping) for broker, ping in ping_us.items()}


def shortlist(
    snapshot: Snapshot, priority: Priority, weight: int, room: RoomTerms | None = None
) -> Shortlist:
    """The candidates whose ping times `choose` needs: under DELAY all, under LOAD the light ones.

    With `room`, those among the brokers that have it. ValueError when the traces are no tree around
    the current broker or `weight` is not 0..100.
    """
    return _shortlist(TraceTree(snapshot.traces, snapshot.current), priority, weight, room)


def passing(snapshot: Snapshot, traced: int) -> dict[BrokerId, float]:
    """For each broker: the part of `traced` publications that it handles at present."""
    tree = TraceTree(snapshot.traces, snapshot.current)
    return {broker: min(1.0, many / traced) for broker, many in _handled(tree).items()}


def choose(
    snapshot: Snapshot,
    remaining: Shortlist,
    ping_us: Mapping[BrokerId, int],
    least_gain_percent: int = 0,
) -> GrapeDecision:
    """The broker the publisher should be at.

    The publisher stays unless the target's rate or delay is at least `least_gain_percent` below
    the current broker's; 0 moves it for any gain at all, as the paper does.

    A candidate without ping time could not be reached by the publisher and is left out; when
    more than one candidate remains and none has a ping time, ValueError.  Ping times of other
    brokers only add to the decision's figures.
    """
    tree = TraceTree(snapshot.traces, snapshot.current)
    return _choose(tree, remaining, ping_us, least_gain_percent)


def select(
    snapshot: Snapshot, priority: Priority, weight: int, ping_us: Mapping[BrokerId, int]
) -> GrapeDecision:
    """Both steps at once, for callers that know every ping time beforehand."""
    tree = TraceTree(snapshot.traces, snapshot.current)
    return _choose(tree, _shortlist(tree, priority, weight), ping_us, 0)


def _shortlist(
    tree: TraceTree, priority: Priority, weight: int, room: RoomTerms | None = None
) -> Shortlist:
    if not 0 <= weight <= FULL_WEIGHT:
        raise ValueError(f"weight: {weight} is not between 0 and {FULL_WEIGHT}")
    rates = _message_rates(tree)
    candidates = list(rates)
    if room is not None:
        full = {*room.refused}
        full.update(without_room(tree, _handled(tree), room.traced, room.per_s, room.most_busy))
        candidates = [broker for broker in candidates if broker not in full]
    if priority is Priority.LOAD:
        candidates = within(candidates, rates, weight)
    return Shortlist(priority=priority, weight=weight, candidates=tuple(candidates), rates=rates)


def _choose(
    tree: TraceTree, remaining: Shortlist, ping_us: Mapping[BrokerId, int], least_gain_percent: int
) -> GrapeDecision:
    _check_pings(tree, ping_us)
    rates = remaining.rates
    totals = _total_delays(tree) if ping_us else {}
    delays = {
        broker: totals[broker] + tree.deliveries * ping if tree.deliveries else ping
        for broker, ping in ping_us.items()
    }
    candidates = list(remaining.candidates)
    if remaining.needs_pings:
        candidates = [broker for broker in candidates if broker in delays]
        if not candidates:
            raise ValueError("no ping time for any of the candidate brokers")
    weighed = candidates
    if len(candidates) > 1:
        candidates = weigh(candidates, rates, delays, remaining.priority, remaining.weight)
    weight = None
    if remaining.priority is Priority.KNEE:
        weight = weight_of(candidates[0], weighed, rates)
    target, current = tree.nearest(candidates), tree.root
    if not any(_is_gain(known, current, target, least_gain_percent) for known in (rates, delays)):
        target = current
    return GrapeDecision(
        target=target,
        path=tree.path_to(target),
        candidates=len(tree.traces),
        rate_now=rates[current],
        rate_target=rates[target],
        delay_now_us=_known_average(tree, totals, current, ping_us),
        delay_target_us=_known_average(tree, totals, target, ping_us),
        weight=weight,
    )


def _is_gain(
    figures: Mapping[BrokerId, int], current: BrokerId, target: BrokerId, least_percent: int
) -> bool:
    """Whether the figure is known at both brokers and sufficiently lower at the target."""
    if current not in figures or target not in figures:
        return False
    saved = figures[current] - figures[target]
    return FULL_WEIGHT * saved >= least_percent * figures[current]


def _handled(tree: TraceTree) -> dict[BrokerId, int]:
    """For each broker: the publications that it, or a broker behind it, delivers."""
    below = [trace.bits for trace in tree.traces]
    for number in range(len(below) - 1, 0, -1):
        below[tree.parent[number]] |= below[number]
    return {broker: bits.bit_count() for broker, bits in zip(tree.numbers, below, strict=True)}


def _message_rates(tree: TraceTree) -> dict[BrokerId, int]:
    """A move of the publisher over one link changes the messages of two brokers, at its two ends.

    Seen from the parent the child handles the publications for brokers below it; seen from the
    child the parent handles those for brokers outside: its own bits, those outside of it, and the
    other children's. An OR cannot be taken back, so the other children are gathered from both ends,
    later ones on the way up and earlier ones on the way down; this keeps a star linear.
    """
    own = [trace.bits for trace in tree.traces]
    below, later, earlier, outside = own[:], [0] * len(own), [0] * len(own), [0] * len(own)
    beside = [0] * len(own)
    parent = tree.parent
    for number in range(len(own) - 1, 0, -1):
        above = parent[number]
        beside[number] = later[above]
        later[above] |= below[number]
        below[above] |= below[number]
    rates = [sum(bits.bit_count() for bits in below)]
    for number in range(1, len(own)):
        above = parent[number]
        outside[number] = own[above] | outside[above] | beside[number] | earlier[above]
        earlier[above] |= below[number]
        change = outside[number].bit_count() - below[number].bit_count()
        rates.append(rates[above] + change)
    return dict(zip(tree.numbers, rates, strict=True))


def _total_delays(tree: TraceTree) -> dict[BrokerId, int]:
    """For each broker: delays of all deliveries added up, from that broker's input queue on.

    Moving the publisher from parent to child spares the deliveries below the child the way down
    the link, and costs all others the way up.
    """
    down_us, up_us = tree.link_delays()
    parent = tree.parent
    below = [trace.deliveries for trace in tree.traces]
    total = sum(
        trace.deliveries * (trace.input_queue_us + trace.matching_us + trace.client_output_us)
        for trace in tree.traces
    )
    for number in range(len(below) - 1, 0, -1):
        below[parent[number]] += below[number]
        total += below[number] * down_us[number]
    totals = [total]
    for number in range(1, len(below)):
        spared = below[number] * down_us[number]
        added = (tree.deliveries - below[number]) * up_us[number]
        totals.append(totals[parent[number]] - spared + added)
    return dict(zip(tree.numbers, totals, strict=True))


def _check_pings(tree: TraceTree, ping_us: Mapping[BrokerId, int]) -> None:
    for broker in ping_us:
        if broker not in tree.numbers:
            raise ValueError(f"a ping time for {broker!r}, which is not among the traces")


def _average(tree: TraceTree, totals: Mapping[BrokerId, int], broker: BrokerId, ping: int) -> float:
    # Without deliveries there is nothing to average but the publisher's own way.
    return ping + totals[broker] / tree.deliveries if tree.deliveries else float(ping)


def _known_average(
    tree: TraceTree,
    totals: Mapping[BrokerId, int],
    broker: BrokerId,
    ping_us: Mapping[BrokerId, int],
) -> float | None:
    return _average(tree, totals, broker, ping_us[broker]) if broker in ping_us else None
