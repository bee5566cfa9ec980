"""Links with a bandwidth: times as of a naive queue, loads, ends, and whole networks."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.broker.effects import LinkLoad, Received
from shoal.broker.messages import Unsubscribe
from shoal.broker.wire import COMMON, Codec
from shoal.overlays.registry import strategy_factory
from shoal.simulation.event_queue import EventQueue
from shoal.simulation.faults import LinkFaults
from shoal.simulation.limited_link import Bandwidths, LimitedLink
from shoal.simulation.links.shared_outputs import SharedOutputs
from shoal.simulation.links.underlay import ConstantUnderlay
from shoal.simulation.service import ServiceCosts
from shoal.simulation.sizes import message_sizes
from shoal.simulation.world import World
from tests.broker.transcript import advertisement, publish, subscription

LATENCY_US = 1_000
TRANSMISSION_US = 50


class Sending(NamedTuple):
    """A message of so many bytes is ready at a time."""

    ready_us: int
    size: int


class Bench:
    """One direction of a link; a message's subscription is its size, and its name."""

    def __init__(self, bytes_per_second: int, *, is_shared: bool = False, **faults: Any) -> None:
        self.queue = EventQueue()
        self.arrived: list[tuple[int, int]] = []
        self.link = LimitedLink(
            self.queue,
            self._arrive,
            LATENCY_US,
            TRANSMISSION_US,
            bytes_per_second,
            lambda message: int(message.subscription_id),  # type: ignore[attr-defined]
            LinkFaults(**faults),
        )
        if is_shared:
            self.link.turn = SharedOutputs(self.queue).turn()

    def _arrive(self, now_us: int, input: Received) -> None:
        self.arrived.append((now_us, int(input.message.subscription_id)))  # type: ignore[attr-defined]

    def send(self, *sendings: Sending) -> None:
        for each in sendings:
            self.link.send_one(Received("B1", Unsubscribe(str(each.size))), each.ready_us)


def naive(sendings: list[Sending], bytes_per_second: int) -> list[tuple[int, int]]:
    """Arrivals by exact fractions: first the output's queue, then the wire's, then the way."""
    output_us, wire_us, found = 0, Fraction(0), []
    for each in sendings:
        output_us = max(output_us, each.ready_us) + TRANSMISSION_US
        wire_us = max(wire_us, Fraction(output_us)) + Fraction(
            each.size * 1_000_000, bytes_per_second
        )
        found.append((ceil(wire_us) + LATENCY_US, each.size))
    return found


SENDINGS = st.lists(
    st.builds(Sending, st.integers(0, 3_000), st.integers(0, 2_000)), min_size=1, max_size=30
).map(sorted)


@given(SENDINGS, st.integers(1_000, 3_000_000_000), st.booleans())
def test_messages_arrive_as_of_a_naive_queue(
    sendings: list[Sending], bytes_per_second: int, is_shared: bool
) -> None:
    bench = Bench(bytes_per_second, is_shared=is_shared)
    bench.send(*sendings)
    bench.queue.run_until(10**12)
    assert bench.arrived == naive(sendings, bytes_per_second)


def test_the_load_counts_a_message_until_the_wire_has_sent_it() -> None:
    """1,000 bytes a second and 100 bytes each: one leaves in 100 ms."""
    bench = Bench(1_000)
    bench.link.watch_loads(lambda: None)
    bench.send(*[Sending(0, 100)] * 5)
    bench.queue.run_until(250_000)
    assert bench.link.load(250_000) == LinkLoad(5, 2, 3)
    bench.queue.run_until(450_000)
    assert bench.link.has_traffic
    assert bench.link.load(450_000) == LinkLoad(0, 2, 1)
    bench.queue.run_until(1_000_000)
    assert bench.link.load(1_000_000) == LinkLoad(0, 1, 0)
    assert not bench.link.has_traffic


def test_the_delay_has_the_wait_for_the_wire() -> None:
    bench = Bench(1_000)
    bench.send(Sending(0, 100), Sending(0, 300))
    bench.queue.run_until(1_000_000)
    # From its place at the output's end: 100,000 us and 399,950 us; in the output 25 us on average.
    assert bench.link.measure_us() == 25 + TRANSMISSION_US + 249_975 + LATENCY_US
    assert bench.link.measure_us() == TRANSMISSION_US + LATENCY_US


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_link_is_not_empty_before_the_last_arrival(is_shared: bool) -> None:
    bench = Bench(1_000, is_shared=is_shared)
    bench.send(Sending(0, 100), Sending(0, 300))
    looks = 0
    while bench.link.empty_us > bench.queue.now_us:
        at_us = bench.link.empty_us
        bench.queue.push(at_us, lambda now_us, _: None, None)
        bench.queue.run_until(at_us)
        looks += 1
        # In the output a shared link asks again each microsecond, on the wire once.
        assert looks < 2 * TRANSMISSION_US + 5
    assert [size for _, size in bench.arrived] == [100, 300]


def test_a_closed_link_delivers_nothing_of_its_output() -> None:
    bench = Bench(1_000)
    bench.send(Sending(0, 100), Sending(500, 100))
    bench.queue.run_until(400)
    bench.link.close()
    bench.queue.run_until(1_000_000)
    assert [size for _, size in bench.arrived] == [100]  # the wiring drops arrivals under way


def test_a_lossy_link_with_a_bandwidth_loses_and_delays() -> None:
    bench = Bench(1_000_000, loss=0.3, jitter_us=500)
    bench.send(*[Sending(1_000 * number, 10) for number in range(1_000)])
    bench.queue.run_until(10**9)
    assert 620 < len(bench.arrived) < 780
    late_us = [(at_us - TRANSMISSION_US - LATENCY_US - 10) % 1_000 for at_us, _ in bench.arrived]
    assert 0 <= min(late_us) < 20
    assert 480 < max(late_us) <= 500


def world(**options: Any) -> World:
    """P at B1 publishes to C at B3 over B2; the times of brokers' work are nothing."""
    made = World(
        (("B1", "B2"), ("B2", "B3")),
        strategy_factory("tree"),
        ConstantUnderlay(1_000),
        costs=ServiceCosts(),
        **{"sizes": message_sizes(Codec(COMMON)), **options},
    )
    made.add_publisher("P", "B1", "B1")
    made.add_subscriber("C", "B3")
    made.advertise(0, advertisement("a"))
    made.subscribe(1_000_000, "B3", subscription("s"))
    for number in range(50):
        made.request(5_000_000, "P", publish(number))
    return made


def test_a_narrow_link_stretches_a_burst_to_its_rate() -> None:
    """All is published at one time, and arrives at the rate of the narrow link."""
    sizes = message_sizes(Codec(COMMON))
    narrow = Bandwidths(own={frozenset(("B2", "B3")): 10_000})
    made = world(bandwidths=narrow)
    sent: list[Any] = []
    node, send_one = made.brokers["B2"], made.brokers["B2"].links["B3"].send_one
    node.links["B3"].send_one = lambda input, ready_us: (  # type: ignore[method-assign]
        sent.append(input.message),
        send_one(input, ready_us),
    )
    made.run()
    arrived_us = [row.delivered_us for row in made.trace.deliveries]
    assert [row.publication.sequence for row in made.trace.deliveries] == list(range(50))
    bytes_after_first = sum(sizes(message) for message in sent[1:])
    assert abs((arrived_us[-1] - arrived_us[0]) - bytes_after_first * 100) <= 2
    wide = world()
    wide.run()
    assert len({row.delivered_us for row in wide.trace.deliveries}) == 1


def test_narrow_lossy_links_lose_no_delivery() -> None:
    made = world(
        bandwidths=Bandwidths(bytes_per_second=20_000),
        link_faults=LinkFaults(loss=0.1, jitter_us=20_000),
    )
    made.run()
    assert [row.publication.sequence for row in made.trace.deliveries] == list(range(50))


def test_bandwidths_need_sizes() -> None:
    with pytest.raises(ValueError, match="needs the sizes of messages"):
        World(
            (),
            strategy_factory("tree"),
            ConstantUnderlay(1),
            bandwidths=Bandwidths(bytes_per_second=1),
        )
