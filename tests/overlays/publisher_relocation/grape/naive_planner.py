"""The quadratic form of broker selection (relocation paper, algorithms 1 to 3): the tests' twin.

Each candidate's value is a recursive walk over the whole tree, with exact fractions.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from shoal.model import BrokerId
from shoal.overlays.publisher_relocation.choosing import Priority
from shoal.overlays.publisher_relocation.grape.planner import Snapshot
from shoal.overlays.publisher_relocation.traces import BrokerTrace

Traces = Mapping[BrokerId, BrokerTrace]


def _routing_decision(
    traces: Traces, broker: BrokerId, came_from: BrokerId | None
) -> list[BrokerId]:
    return [
        neighbour
        for neighbour in traces[broker].neighbours
        if neighbour in traces and neighbour != came_from
    ]


def naive_delay(traces: Traces, root: BrokerId, ping_us: int) -> Fraction:
    """Mean delay of all deliveries with the publisher at `root` (algorithm 1)."""
    waits: list[tuple[int, int]] = []

    def visit(broker: BrokerId, came_from: BrokerId | None, so_far_us: int) -> None:
        trace = traces[broker]
        matched_us = so_far_us + trace.input_queue_us + trace.matching_us
        waits.append((trace.deliveries, matched_us + trace.client_output_us))
        for neighbour in _routing_decision(traces, broker, came_from):
            visit(neighbour, broker, matched_us + dict(trace.output_queue_us)[neighbour])

    visit(root, None, ping_us)
    deliveries = sum(count for count, _ in waits)
    if deliveries == 0:
        return Fraction(ping_us)
    return Fraction(sum(count * wait for count, wait in waits), deliveries)


def naive_rate(traces: Traces, root: BrokerId) -> int:
    """Messages handled by all brokers with the publisher at `root` (algorithms 2 and 3)."""

    def visit(broker: BrokerId, came_from: BrokerId | None) -> tuple[int, int]:
        bits, rate = traces[broker].bits, 0
        for neighbour in _routing_decision(traces, broker, came_from):
            behind_bits, behind_rate = visit(neighbour, broker)
            bits |= behind_bits
            rate += behind_rate
        return bits, rate + bits.bit_count()

    return visit(root, None)[1]


def naive_hops(traces: Traces, root: BrokerId) -> dict[BrokerId, int]:
    hops: dict[BrokerId, int] = {}

    def visit(broker: BrokerId, came_from: BrokerId | None, so_far: int) -> None:
        hops[broker] = so_far
        for neighbour in _routing_decision(traces, broker, came_from):
            visit(neighbour, broker, so_far + 1)

    visit(root, None, 0)
    return hops


def _keep(figures: Mapping[BrokerId, int | Fraction], weight: int) -> list[BrokerId]:
    least, most = min(figures.values()), max(figures.values())
    spread = most - least
    return [
        broker
        for broker, figure in figures.items()
        if spread == 0 or Fraction(figure - least) / spread * 100 <= 100 - weight
    ]


def naive_select(
    snapshot: Snapshot, priority: Priority, weight: int, ping_us: Mapping[BrokerId, int]
) -> BrokerId:
    traces = {trace.broker: trace for trace in snapshot.traces}
    rates = {broker: naive_rate(traces, broker) for broker in traces}
    delays = {broker: naive_delay(traces, broker, ping_us[broker]) for broker in traces}
    first, second = (rates, delays) if priority is Priority.LOAD else (delays, rates)
    hops = naive_hops(traces, snapshot.current)
    if priority is Priority.KNEE:
        points = {broker: (Fraction(rates[broker]), Fraction(delays[broker])) for broker in traces}
        given_up = naive_knee(points)
        return min(given_up, key=lambda broker: (given_up[broker], hops[broker], broker))
    return min(_keep(first, weight), key=lambda broker: (second[broker], hops[broker], broker))


def naive_knee(points: Mapping[BrokerId, tuple[Fraction, Fraction]]) -> dict[BrokerId, Fraction]:
    """The candidate with the smallest sum of both figures' excess over the best, each scaled to
    0..1.
    """
    front = {
        broker: point
        for broker, point in points.items()
        if not any(
            other != point and other[0] <= point[0] and other[1] <= point[1]
            for other in points.values()
        )
    }
    shares = []
    for figure in (0, 1):
        least = min(point[figure] for point in front.values())
        spread = max(point[figure] for point in front.values()) - least
        shares.append({name: (at[figure] - least) / (spread or 1) for name, at in front.items()})
    return {broker: shares[0][broker] + shares[1][broker] for broker in front}
