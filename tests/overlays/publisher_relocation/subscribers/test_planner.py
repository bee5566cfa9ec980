"""The best broker of a subscriber: a worked example, and a twin by single publications."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.overlays.publisher_relocation.choosing import Priority
from shoal.overlays.publisher_relocation.subscribers.planner import (
    PlannedSession,
    SubscriberShare,
    choose,
    figures_of,
    share_of,
    shortlist,
)
from shoal.overlays.publisher_relocation.traces import BrokerTrace
from tests.examples import examples
from tests.overlays.publisher_relocation.grape.sessions import random_session

# A - B - C - D     one publisher enters at A, one at B; the subscriber is at D
LINE = {"A": "B", "B": "A C", "C": "B D", "D": "C"}


def trace(broker: str, bits: int, link_us: int = 1_000) -> BrokerTrace:
    known = tuple(LINE[broker].split())
    return BrokerTrace(
        broker=broker,
        neighbours=known,
        bits=bits,
        deliveries=bits.bit_count(),
        input_queue_us=10,
        matching_us=20,
        output_queue_us=tuple((neighbour, link_us) for neighbour in known),
        client_output_us=5,
    )


def line(entry: str, **bits: int) -> PlannedSession:
    """A session that entered there; `bits` are the brokers' deliveries."""
    return PlannedSession(
        entry, tuple(trace(name, bits.get(name, 0)) for name in LINE if name >= entry)
    )


def test_load_and_delay_of_a_worked_example() -> None:
    # Of A's four publications C delivers two to others; of B's two only the subscriber gets any.
    shares = [
        share_of(line("A", C=0b0011, D=0b1111), "D", 0b1111, 0b1111),
        share_of(line("B", D=0b11), "D", 0b11, 0b11),
    ]
    figures = figures_of(shares, "D")
    # At D: of A's, two pass B, C, D for it alone and two only D; B's both pass C and D.
    assert figures.loads == {"D": 2 * 3 + 2 * 1 + 2 * 2, "C": 2 * 2 + 2, "B": 2, "A": 2}
    assert figures.delays["D"] == 4 * (3 * 1_030 + 30) + 2 * (2 * 1_030 + 30)
    assert figures.delays["A"] == 4 * 30 + 2 * (1_030 + 30)
    assert shortlist(figures, Priority.LOAD, 100) == ("B", "A")
    pings = {"A": 100, "B": 100, "D": 100}
    assert choose(figures, ("B", "A"), pings, Priority.LOAD, 100).target == "A"
    decision = choose(figures, tuple("DCBA"), pings, Priority.DELAY, 100)
    assert (decision.target, decision.rate_now, decision.rate_target) == ("A", 2.0, 2 / 6)
    assert decision.delay_target_us == pytest.approx((4 * 30 + 2 * 1_060) / 6 + 100)
    # A subscriber far away does not go there for the delay.
    far = {"A": 90_000, "B": 90_000, "C": 90_000, "D": 0}
    assert choose(figures, tuple("DCBA"), far, Priority.DELAY, 100).target == "D"
    assert choose(figures, tuple("DCBA"), far, Priority.KNEE, 100).target in "DA"


def test_publications_that_others_receive_cost_nothing() -> None:
    figures = figures_of([share_of(line("A", D=0b1111), "D", 0b1111, 0b0000)], "D")
    assert figures.loads == dict.fromkeys("DCBA", 0)
    pings = dict.fromkeys("ABCD", 100)
    assert choose(figures, tuple("DCBA"), pings, Priority.LOAD, 100).target == "A"  # it is nearer
    near = {**pings, "D": 0}
    assert choose(figures, ("D",), near, Priority.LOAD, 100).target == "D"


def test_several_sessions_of_a_publisher_add_up() -> None:
    first = share_of(line("A", D=0b11), "D", 0b11, 0b11)
    first.add(share_of(line("A", B=0b1, D=0b1), "D", 0b1, 0b1))
    assert (first.count, first.handled) == (3, {"A": 3, "B": 1})


def test_a_small_gain_is_no_reason_to_move() -> None:
    figures = figures_of([share_of(line("B", D=0b11), "D", 0b11, 0b00)], "D")
    pings = {"D": 10_000, "B": 11_900, "C": 50_000}
    both = ("D", "B", "C")
    assert choose(figures, both, pings, Priority.DELAY, 100, 1).target == "B"
    assert choose(figures, both, pings, Priority.DELAY, 100, 2).target == "D"


def test_inconsistent_sessions_are_errors() -> None:
    with pytest.raises(ValueError, match="'D' is not among the traces"):
        share_of(PlannedSession("B", (trace("B", 1), trace("C", 1))), "D", 1, 1)
    figures = figures_of([share_of(line("B", D=0b1), "D", 1, 1)], "D")
    for pings in ({}, {"B": 1}, {"D": 1}):
        with pytest.raises(ValueError, match="no ping time"):
            choose(figures, ("B", "C"), pings, Priority.LOAD, 100)


@settings(max_examples=examples(60))
@given(
    seed=st.integers(0, 2**32),
    brokers=st.integers(1, 25),
    shape=st.sampled_from(["random", "random", "line", "star"]),
    priority=st.sampled_from(Priority),
    weight=st.integers(0, 100),
)
def test_equals_the_figures_of_each_publication(
    seed: int, brokers: int, shape: str, priority: Priority, weight: int
) -> None:
    generator = random.Random(seed)
    bits = seed % 12 + 1
    # One tree; each publisher's sessions have other deliveries.
    snapshot, pings = random_session(generator, brokers, shape, bits)
    names = [each.broker for each in snapshot.traces]
    current = generator.choice(names)
    links = {each.broker: tuple(set(each.neighbours) & set(names)) for each in snapshot.traces}
    shares: list[SubscriberShare] = []
    naive_load = dict.fromkeys(names, 0)
    naive_delay = dict.fromkeys(names, Fraction(0))
    count = 0
    for _ in range(generator.randrange(1, 4)):
        entry = generator.choice(names)
        got = generator.getrandbits(bits) or 1
        others = {name: generator.getrandbits(bits) & generator.getrandbits(bits) for name in names}
        alone = got & ~others[current]
        traces = [
            _with_bits(each, others[each.broker] | (got if each.broker == current else 0))
            for each in snapshot.traces
        ]
        shares.append(share_of(PlannedSession(entry, tuple(traces)), current, got, alone))
        count += got.bit_count()
        for place in (place for place in range(bits) if got >> place & 1):
            wanted = [name for name in names if others[name] >> place & 1]
            passed = {each for name in wanted for each in _path(links, entry, name)} | {entry}
            for name in names:
                way = _path(links, entry, name)
                naive_load[name] += len(set(way) - passed)
                naive_delay[name] += _wait(snapshot.traces, way) + pings[name]
    figures = figures_of(shares, current)
    assert figures.loads == naive_load
    candidates = shortlist(figures, priority, weight)
    decision = choose(figures, candidates, pings, priority, weight)
    assert decision.rate_target == pytest.approx(naive_load[decision.target] / count)
    assert decision.delay_target_us == pytest.approx(float(naive_delay[decision.target] / count))
    if priority is Priority.LOAD and weight == 100:
        assert naive_load[decision.target] == min(naive_load.values())
    if priority is Priority.DELAY and weight == 100:
        assert naive_delay[decision.target] == min(naive_delay.values())


def _with_bits(trace: BrokerTrace, bits: int) -> BrokerTrace:
    return BrokerTrace(
        broker=trace.broker,
        neighbours=trace.neighbours,
        bits=bits,
        deliveries=bits.bit_count(),
        input_queue_us=trace.input_queue_us,
        matching_us=trace.matching_us,
        output_queue_us=trace.output_queue_us,
        client_output_us=trace.client_output_us,
    )


def _path(links: Mapping[str, Sequence[str]], start: str, end: str) -> list[str]:
    ways = [[start]]
    for way in ways:
        if way[-1] == end:
            return way
        ways += [[*way, other] for other in links[way[-1]] if other not in way]
    raise AssertionError(f"no way from {start} to {end}")


def _wait(traces: Sequence[BrokerTrace], way: Sequence[str]) -> int:
    known = {each.broker: each for each in traces}
    inside_us = sum(known[name].input_queue_us + known[name].matching_us for name in way)
    outputs_us = sum(dict(known[left].output_queue_us)[right] for left, right in pairwise(way))
    return inside_us + outputs_us
