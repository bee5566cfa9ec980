"""Room for publishers: promises, against a sum by hand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shoal.broker.effects import MeasuredDelays
from shoal.overlays.publisher_relocation.capacity import (
    Capacity,
    PublisherLoad,
    rate_per_s,
    without_room,
)
from shoal.overlays.publisher_relocation.traces import BrokerTrace, TraceTree


def measured(busy: float, served_us: int = 1_000) -> MeasuredDelays:
    return MeasuredDelays(0, served_us, {}, 0, busy=busy, served_us=served_us)


LOADS = st.tuples(st.sampled_from("PQRST"), st.floats(0, 400), st.floats(0, 1))


@given(st.floats(0, 1), st.integers(1, 100), st.lists(LOADS, max_size=12))
def test_the_promised_work_stays_below_the_limit(
    busy: float, most: int, asked: list[tuple[str, float, float]]
) -> None:
    capacity = Capacity(most)
    capacity.measured(measured(busy))
    promised: dict[str, float] = {}
    for publisher, per_s, passing in asked:
        promised.pop(publisher, None)
        added = per_s * max(0.25, 1 - passing) * 1_000 / 1_000_000
        fits = most == 100 or not added or busy + sum(promised.values()) + added <= most / 100
        assert capacity.admit(publisher, PublisherLoad(per_s, passing)) == fits
        if fits:
            promised[publisher] = added
    assert capacity.promised_percent == round(100 * (busy + sum(promised.values())))


def test_a_promise_ends_when_the_publisher_is_in_the_figures() -> None:
    capacity = Capacity(80)
    capacity.measured(measured(0.5))
    assert capacity.admit("P", PublisherLoad(250.0, 0.0))
    assert not capacity.admit("Q", PublisherLoad(250.0, 0.0))
    for _ in range(30):
        capacity.measured(measured(0.5))
    assert capacity.promised_percent == 50
    assert capacity.admit("Q", PublisherLoad(250.0, 0.0))


def test_without_measurements_there_is_room() -> None:
    capacity = Capacity(1)
    assert capacity.admit("P", PublisherLoad(1e9, 0.0))
    assert (capacity.busy_percent, capacity.promised_percent) == (0, 0)


def test_a_burst_counts_for_a_second() -> None:
    assert rate_per_s(101, 50_000_000) == 2.0
    assert rate_per_s(101, 3) == 100.0
    assert rate_per_s(0, 0) == 0.0


def test_averages_follow_the_reports() -> None:
    capacity = Capacity(80)
    capacity.measured(measured(0.4))
    capacity.measured(MeasuredDelays(None, None, {}, None))
    assert (capacity.busy_percent, capacity.served_us) == (40, 1_000)
    capacity.measured(measured(0.8, 3_000))
    assert (capacity.busy_percent, capacity.served_us) == (50, 1_500)


def test_brokers_that_would_be_too_busy() -> None:
    def trace(broker: str, neighbours: tuple[str, ...], busy: int) -> BrokerTrace:
        return BrokerTrace(
            broker=broker,
            neighbours=neighbours,
            bits=0,
            deliveries=0,
            input_queue_us=0,
            matching_us=0,
            output_queue_us=(),
            client_output_us=0,
            busy_percent=busy,
            served_us=1_000,
        )

    rows = (trace("A", ("B", "C"), 99), trace("B", ("A",), 75), trace("C", ("A",), 75))
    tree = TraceTree(rows, "A")
    # At 100 a second B gets 50 more, and 25 at least; C all.
    assert list(without_room(tree, {"B": 50, "C": 0}, 100, 100.0, 0.8)) == ["C"]
    assert list(without_room(tree, {"B": 50, "C": 50}, 100, 100.0, 0.79)) == ["B", "C"]
    assert list(without_room(tree, {"B": 100, "C": 100}, 100, 100.0, 0.8)) == []
