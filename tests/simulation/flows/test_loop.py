"""The loop's heap of events, beside `heapq`."""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shoal.simulation.flows.loop import pop_first, sift_up


@given(st.lists(st.integers(0, 9) | st.none(), max_size=60))
def test_events_come_by_time_and_number(steps: list[int | None]) -> None:
    """An integer is a new event at that time; None takes the first event."""
    heap, size = np.zeros((64, 3), np.int64), 0
    twin: list[tuple[int, int, int]] = []
    for number, at_us in enumerate(steps):
        if at_us is not None:
            heap[size] = at_us, number, 7 * number
            sift_up(heap, size)
            size += 1
            heappush(twin, (at_us, number, 7 * number))
        elif twin:
            assert tuple(heap[0].tolist()) == heappop(twin)
            pop_first(heap, size)
            size -= 1
