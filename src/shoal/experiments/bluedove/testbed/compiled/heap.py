"""The kernel's events: a heap by time and order of making."""

from __future__ import annotations

from shoal.experiments.bluedove.testbed.compiled.arrays import (
    EVENTS,
    KINDS,
    MADE,
    SECONDS,
    EventArrays,
    Whole,
)
from shoal.matching.compiled.kernels.compiler import kernel


@kernel
def push(events: EventArrays, clock: Whole, at_us: int, kind: int, first: int, second: int) -> None:
    """Make an event, the last of its time."""
    clock[MADE] += 1
    put(events, clock, at_us, clock[MADE], kind + KINDS * (second + SECONDS * first))


@kernel
def put(events: EventArrays, clock: Whole, at_us: int, made: int, what: int) -> None:
    """Put an event that has its number."""
    place = clock[EVENTS]
    clock[EVENTS] += 1
    while place > 0:
        parent = (place - 1) >> 1
        above_us = events.at_us[parent]
        if above_us < at_us or (above_us == at_us and events.made[parent] < made):
            break
        events.at_us[place] = above_us
        events.made[place] = events.made[parent]
        events.what[place] = events.what[parent]
        place = parent
    events.at_us[place] = at_us
    events.made[place] = made
    events.what[place] = what


@kernel
def drop_first(events: EventArrays, clock: Whole) -> None:
    """Remove the first event."""
    clock[EVENTS] -= 1
    last = clock[EVENTS]
    at_us, made, what = events.at_us[last], events.made[last], events.what[last]
    place = 0
    while True:
        child = 2 * place + 1
        if child >= last:
            break
        other = child + 1
        if other < last and (
            events.at_us[other] < events.at_us[child]
            or (
                events.at_us[other] == events.at_us[child]
                and events.made[other] < events.made[child]
            )
        ):
            child = other
        if at_us < events.at_us[child] or (
            at_us == events.at_us[child] and made < events.made[child]
        ):
            break
        events.at_us[place] = events.at_us[child]
        events.made[place] = events.made[child]
        events.what[place] = events.what[child]
        place = child
    events.at_us[place] = at_us
    events.made[place] = made
    events.what[place] = what
