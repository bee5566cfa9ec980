"""The event queue: by time, then by order of insertion; no events in the past."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest

from shoal.simulation.event_queue import EventQueue


class Log:
    def __init__(self) -> None:
        self.queue = EventQueue()
        self.seen: list[tuple[int, Any]] = []

    def note(self, now_us: int, argument: Any) -> None:
        assert self.queue.now_us == now_us
        self.seen.append((now_us, argument))

    def run(self) -> list[tuple[int, Any]]:
        self.queue.run_until(math.inf)
        return self.seen


def test_equal_times_keep_the_order_of_insertion() -> None:
    log = Log()
    for at_us, name in ((5, "b"), (3, "a"), (5, "c"), (5, {"no": "order"}), (3, "z")):
        log.queue.push(at_us, log.note, name)
    assert log.run() == [(3, "a"), (3, "z"), (5, "b"), (5, "c"), (5, {"no": "order"})]


def test_events_may_make_events_now_but_not_in_the_past() -> None:
    log = Log()

    def again(now_us: int, argument: Any) -> None:
        log.queue.push(now_us, log.note, argument)
        with pytest.raises(ValueError, match="event at 6 us, but it is 7 us already"):
            log.queue.push(now_us - 1, log.note, argument)

    log.queue.push(7, again, "x")
    assert log.run() == [(7, "x")]


def test_dropped_events_do_not_change_the_order_of_others() -> None:
    log = Log()
    log.queue.run_until(3)
    for number in range(50):
        log.queue.push(number % 7, log.note, number)
    heap = log.queue.heap
    assert heap
    assert log.queue.drop(lambda action, argument: argument % 3 == 0) == 17
    assert log.queue.heap is heap  # a loop may still refer to it
    kept = [number for number in range(50) if number % 3]
    assert log.run() == sorted((number % 7, number) for number in kept)


@pytest.mark.parametrize("seed", range(5))
def test_several_runs_equal_one(seed: int) -> None:
    """Events make others, soon and late, also at the same time."""
    random = Random(seed)
    ends = [*sorted(random.sample(range(1, 60), 8)), math.inf]

    def seen(ends: list[float]) -> list[tuple[int, Any]]:
        random, log = Random(seed), Log()

        def again(now_us: int, number: int) -> None:
            log.note(now_us, number)
            for _ in range(random.choice((0, 0, 1, 2))):
                log.queue.push(now_us + random.choice((0, 1, 3, 20)), again, number + 1)

        for _ in range(20):
            log.queue.push(random.randrange(40), again, 0)
        for end_us in ends:
            log.queue.run_until(end_us)
            assert log.queue.next_us is None or log.queue.next_us > end_us
        return log.seen

    assert seen(ends) == seen([math.inf])
    assert len(seen(ends)) > 20


def test_the_queue_knows_its_last_and_next_event() -> None:
    log = Log()
    assert (log.queue.last_us, log.queue.next_us) == (0, None)
    log.queue.push(40, log.note, "x")
    log.queue.push(9, log.note, "y")
    assert (log.queue.last_us, log.queue.next_us) == (40, 9)
    log.queue.run_until(9)
    assert (log.queue.last_us, log.queue.next_us) == (40, 40)
    log.run()
    assert (log.queue.last_us, log.queue.next_us) == (40, None)
