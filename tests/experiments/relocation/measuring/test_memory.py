"""Memory of tracing: only systems that trace are counted, and the peak is kept."""

from __future__ import annotations

from shoal.experiments.relocation.measuring.memory import (
    LOOK_EVERY,
    PeakMemory,
    routing_bytes,
    tracing_bytes,
)
from shoal.language import parse
from shoal.model import Advertisement, Subscription
from shoal.overlays.tree.routing_table import RoutingTable


class Tracer:
    def __init__(self, held: int) -> None:
        self.tracing_bytes = held
        self.tables = RoutingTable()


def test_only_systems_that_trace_are_counted() -> None:
    assert tracing_bytes([object(), object()]) is None
    assert tracing_bytes([object(), Tracer(3), Tracer(4)]) == 7
    assert tracing_bytes([Tracer(0)]) == 0


def test_the_peak_is_kept() -> None:
    memory = PeakMemory()
    for held in (0, 5, 2):
        for _ in range(LOOK_EVERY):
            memory.observe([Tracer(held), Tracer(1)])
    assert memory.peak_bytes == 6
    assert memory.routing_bytes == 0


def test_routing_tables_are_counted_alike() -> None:
    tables = RoutingTable()
    assert routing_bytes(tables) == 0
    advertisement = Advertisement(id="a1", publisher="P", filter=parse("x > 1"))
    tables.add_advertisement(advertisement, "B2")
    assert routing_bytes(tables) == len("a1" + "B2" + "x > 1")
    tables.add_subscription(Subscription(id="s1", client="C", filter=parse("x > 2")), None)
    # Each row also names the other, which it overlaps.
    assert routing_bytes(tables) == len("a1B2x > 1" + "s1" + "s1Cx > 2" + "a1")
