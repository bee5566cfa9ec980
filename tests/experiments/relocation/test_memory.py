"""Memory of tracing: only what traces is counted, and its peak is kept."""

from __future__ import annotations

from shoal.experiments.relocation.memory import LOOK_EVERY, PeakMemory, tracing_bytes


class Tracer:
    def __init__(self, held: int) -> None:
        self.tracing_bytes = held


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
