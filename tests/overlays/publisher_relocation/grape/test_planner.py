"""Broker selection: the paper's worked figures, its quadratic form as a twin, and its limits."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.overlays.publisher_relocation.choosing import Priority
from shoal.overlays.publisher_relocation.grape.planner import (
    Snapshot,
    average_delays,
    choose,
    message_rates,
    select,
    shortlist,
)
from shoal.overlays.publisher_relocation.traces import BrokerTrace
from tests.examples import examples
from tests.overlays.publisher_relocation.grape.naive_planner import (
    naive_delay,
    naive_rate,
    naive_select,
)
from tests.overlays.publisher_relocation.grape.sessions import random_session


def trace(
    broker: str, neighbours: str, bits: int, deliveries: int, link_us: int = 10_000
) -> BrokerTrace:
    known = tuple(neighbours.split())
    return BrokerTrace(
        broker=broker,
        neighbours=known,
        bits=bits,
        deliveries=deliveries,
        input_queue_us=500,
        matching_us=500,
        output_queue_us=tuple((neighbour, link_us) for neighbour in known),
        client_output_us=200,
    )


def first_figure() -> Snapshot:
    """The shape of the paper's figure 1 from B1, where the publisher is: B7 and B8 behind B6.

    One subscriber of everything sits at B6, ten of every tenth publication at B8.
    """
    every, tenth = (1 << 100) - 1, sum(1 << place for place in range(0, 100, 10))
    return Snapshot(
        current="B1",
        traces=(
            trace("B1", "B5", 0, 0),
            trace("B5", "B1 B6", 0, 0),
            trace("B6", "B5 B7 B8", every, 100),
            trace("B7", "B6", 0, 0),
            trace("B8", "B6", tenth, 10 * 10),
        ),
    )


def test_message_rates_of_the_worked_example() -> None:
    # At B1: B1, B5 and B6 handle all 100, B8 ten. At B6 only B6 handles all.
    expected = {"B1": 310, "B5": 210, "B6": 110, "B7": 210, "B8": 200}
    assert message_rates(first_figure().traces) == expected


def test_average_delays_of_the_worked_example() -> None:
    # 200 deliveries; each broker passed costs 1,000, each link 10,000, the client 200.
    delays = average_delays(first_figure().traces, {"B6": 3_000, "B1": 0})
    assert delays["B1"] == (100 * (3 * 1_000 + 20_200) + 100 * (4 * 1_000 + 30_200)) / 200
    assert delays["B6"] == 3_000 + (100 * 1_200 + 100 * (2 * 1_000 + 10_200)) / 200


def test_load_first_moves_to_the_subscriber_of_everything_without_asking_for_pings() -> None:
    snapshot = first_figure()
    remaining = shortlist(snapshot, Priority.LOAD, 100)
    assert remaining.candidates == ("B6",)
    assert not remaining.needs_pings
    decision = choose(snapshot, remaining, {})
    assert decision.path == ("B1", "B5", "B6")
    assert (decision.rate_now, decision.rate_target, decision.candidates) == (310, 110, 5)
    assert decision.delay_now_us is None
    assert decision.delay_target_us is None


def test_delay_first_weighs_the_publishers_own_way() -> None:
    snapshot = first_figure()
    pings = {"B1": 50_000, "B5": 50_000, "B6": 50_000, "B7": 50_000, "B8": 1_000}
    decision = select(snapshot, Priority.DELAY, 100, pings)
    assert decision.target == "B8"
    # 1,000 to B8, and then 100 deliveries on the spot and 100 a link away.
    assert decision.delay_target_us == 1_000 + (1_200 + 12_200) / 2


def test_weight_zero_leaves_the_decision_to_the_other_figure() -> None:
    snapshot, pings = random_session(random.Random(3), 40, "random")
    light = select(snapshot, Priority.LOAD, 100, pings)
    fast_only = select(snapshot, Priority.LOAD, 0, pings)
    assert fast_only.target == select(snapshot, Priority.DELAY, 100, pings).target
    assert light.rate_target == min(message_rates(snapshot.traces).values())


def test_a_half_weight_keeps_candidates_up_to_the_middle() -> None:
    # Rates 310, 210, 110, 210, 200: the middle of 110..310 is 210, and the limit is included.
    half = {"B5", "B6", "B7", "B8"}
    assert set(shortlist(first_figure(), Priority.LOAD, 50).candidates) == half
    assert set(shortlist(first_figure(), Priority.LOAD, 51).candidates) == {"B6", "B8"}
    # 200 is (200 - 110) / 200 = 45 % above the least.
    assert set(shortlist(first_figure(), Priority.LOAD, 55).candidates) == {"B6", "B8"}
    assert set(shortlist(first_figure(), Priority.LOAD, 56).candidates) == {"B6"}


def test_ties_stay_then_go_near_then_to_the_smaller_identifier() -> None:
    even = dict.fromkeys("ABCD", 1000)

    def line(current: str, bits: dict[str, int]) -> Snapshot:
        links = {"A": "B", "B": "A C", "C": "B D", "D": "C"}
        return Snapshot(
            current=current,
            traces=tuple(trace(name, links[name], bits[name], 0) for name in "DCBA"),
        )

    nothing = line("C", dict.fromkeys("ABCD", 0))
    assert select(nothing, Priority.LOAD, 100, even).target == "C"
    assert select(nothing, Priority.DELAY, 100, even).target == "C"
    both_ends = line("C", {"A": 1, "B": 0, "C": 0, "D": 1})
    assert select(both_ends, Priority.LOAD, 100, even).target == "C"
    around = line("C", {"A": 0, "B": 1, "C": 0, "D": 1})
    unreachable_current = {"B": 1_000, "D": 1_000}
    assert select(around, Priority.LOAD, 100, unreachable_current).target == "B"


def test_the_knee_gives_up_least_and_names_its_weight_of_load() -> None:
    # Rates 310, 210, 110, 210, 200; 210 at B5 saves half of B6's saving, and nearly all the delay.
    snapshot = first_figure()
    pings = {"B1": 0, "B5": 1_000, "B6": 90_000, "B7": 90_000, "B8": 90_000}
    decision = select(snapshot, Priority.KNEE, 0, pings)
    assert (decision.target, decision.weight) == ("B5", 50)
    assert select(snapshot, Priority.LOAD, 50, pings).target == "B5"
    assert select(snapshot, Priority.LOAD, 51, pings).target == "B6"
    # If one broker is best in both figures there is nothing to give up.
    near = {**pings, "B6": 0}
    assert (select(snapshot, Priority.KNEE, 0, near).target) == "B6"
    assert select(snapshot, Priority.KNEE, 0, near).weight == 100
    assert select(snapshot, Priority.LOAD, 100, near).weight is None


@settings(max_examples=examples(60))
@given(
    seed=st.integers(0, 2**32),
    brokers=st.integers(1, 60),
    shape=st.sampled_from(["random", "random", "random", "line", "star"]),
    priority=st.sampled_from(Priority),
    weight=st.integers(0, 100),
)
def test_equals_the_quadratic_form(
    seed: int, brokers: int, shape: str, priority: Priority, weight: int
) -> None:
    # Few bits and coarse delays make ties likely.
    snapshot, pings = random_session(random.Random(seed), brokers, shape, bits=seed % 12 + 1)
    if seed % 3 == 0:
        pings = {broker: ping // 50_000 for broker, ping in pings.items()}
    traces = {trace.broker: trace for trace in snapshot.traces}
    rates = message_rates(snapshot.traces)
    delays = average_delays(snapshot.traces, pings)
    assert rates == {broker: naive_rate(traces, broker) for broker in traces}
    for broker in traces:
        assert delays[broker] == pytest.approx(
            float(naive_delay(traces, broker, pings[broker])), rel=1e-12
        )
    decision = select(snapshot, priority, weight, pings)
    assert decision.target == naive_select(snapshot, priority, weight, pings)
    # The decision is the same if ping times are known for the shortlist only, as at a broker.
    remaining = shortlist(snapshot, priority, weight)
    asked = {broker: pings[broker] for broker in remaining.candidates}
    assert choose(snapshot, remaining, asked).target == decision.target
    assert decision.path[0] == snapshot.current
    assert decision.path[-1] == decision.target
    for left, right in zip(decision.path, decision.path[1:], strict=False):
        assert right in traces[left].neighbours


@pytest.mark.parametrize("shape", ["line", "star"])
def test_ten_thousand_brokers_are_planned(shape: str) -> None:
    snapshot, pings = random_session(random.Random(5), 10_000, shape)
    rates = message_rates(snapshot.traces)
    decision = select(snapshot, Priority.LOAD, 100, pings)
    assert decision.rate_target == rates[decision.target] == min(rates.values())
    assert len(decision.path) <= (10_000 if shape == "line" else 3)


def test_the_order_of_the_answers_does_not_matter() -> None:
    snapshot, pings = random_session(random.Random(11), 50, "random")
    shuffled = list(snapshot.traces)
    random.Random(12).shuffle(shuffled)
    other = Snapshot(current=snapshot.current, traces=tuple(shuffled))
    for priority in Priority:
        assert select(snapshot, priority, 40, pings) == select(other, priority, 40, pings)


def test_candidates_without_ping_time_are_left_out() -> None:
    snapshot = first_figure()
    remaining = shortlist(snapshot, Priority.DELAY, 100)
    assert choose(snapshot, remaining, {"B1": 9_000_000, "B7": 9_000_000}).target == "B7"
    with pytest.raises(ValueError, match="no ping time for any"):
        choose(snapshot, remaining, {})
    with pytest.raises(ValueError, match="'B99', which is not among the traces"):
        choose(snapshot, remaining, {"B99": 1})


@pytest.mark.parametrize(
    ("traces", "message"),
    [
        ((trace("B", "", 1, 1),), "current broker 'A' is not among"),
        ((), "current broker 'A' is not among"),
        ((trace("A", "", 1, 1), trace("B", "", 1, 1)), "not connected: no path from 'A' to 'B'"),
        ((trace("A", "", 1, 1), trace("A", "", 1, 1)), "answered twice"),
        ((trace("A", "B", 1, 1), trace("B", "", 1, 1)), "'A' has the neighbour 'B'"),
        (
            (trace("A", "B C", 1, 1), trace("B", "A C", 1, 1), trace("C", "A B", 1, 1)),
            "not a tree",
        ),
    ],
)
def test_answers_that_form_no_tree_are_errors(
    traces: tuple[BrokerTrace, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        shortlist(Snapshot(current="A", traces=traces), Priority.LOAD, 100)


def test_wrong_figures_are_errors() -> None:
    with pytest.raises(ValueError, match="weight: 101"):
        shortlist(first_figure(), Priority.LOAD, 101)
    with pytest.raises(ValueError, match="'A' has a negative figure"):
        trace("A", "B", 1, 1, link_us=-1)
    one_way = BrokerTrace(
        broker="B",
        neighbours=("A",),
        bits=0,
        deliveries=0,
        input_queue_us=0,
        matching_us=0,
        output_queue_us=(),
        client_output_us=0,
    )
    with pytest.raises(ValueError, match="no output delay both ways between 'A' and 'B'"):
        average_delays((trace("A", "B", 1, 1), one_way), {"A": 0})
    assert message_rates(()) == {}
    assert average_delays((), {}) == {}


@given(st.integers(0, 10**6), st.sampled_from(Priority), st.integers(0, 100), st.integers(0, 100))
def test_a_publisher_moves_only_for_the_least_gain(
    seed: int, priority: Priority, weight: int, least: int
) -> None:
    snapshot, pings = random_session(random.Random(seed), 12, "random")
    remaining = shortlist(snapshot, priority, weight)
    free = choose(snapshot, remaining, pings)
    bound = choose(snapshot, remaining, pings, least)
    delays = average_delays(snapshot.traces, pings)
    figures = ((free.rate_now, free.rate_target), (delays[snapshot.current], delays[free.target]))
    worth_it = any(now - target >= least / 100 * now for now, target in figures)
    assert bound.target == (free.target if worth_it else snapshot.current)
    assert bound.path[-1] == bound.target


def test_a_publisher_does_not_oscillate_between_equal_brokers() -> None:
    """Two brokers with the same deliveries: a small difference is no reason to move."""
    ends = [trace("A", "B", 0b11, 2), trace("B", "A", 0b11, 2)]
    snapshot = Snapshot(current="A", traces=tuple(ends))
    pings = {"A": 1_010, "B": 1_000}
    remaining = shortlist(snapshot, Priority.DELAY, 100)
    assert choose(snapshot, remaining, pings).target == "B"
    assert choose(snapshot, remaining, pings, least_gain_percent=2).target == "A"
