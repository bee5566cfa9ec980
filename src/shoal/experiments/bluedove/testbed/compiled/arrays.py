"""State of a loaded cluster as arrays: events, publications in transit, queues, loads, sets.

Indices: dispatchers and matchers have one each, and as brokers first all dispatchers, then all
matchers. A publication in transit has a *slot*. Sets of dispatchers are bits of a whole number.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Whole: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Words: TypeAlias = npt.NDArray[np.uint32]
Flags: TypeAlias = npt.NDArray[np.bool_]

# Cells of an attribute's values.
CELLS = 64
# A dispatcher is a bit of a number.
MOST_DISPATCHERS = 60
FIRST_SLOTS = 1_024
# Random words that a dispatcher has at hand, and how many one choice may take.
WORDS, WORDS_FOR_CHOICE = 512, 64
NO_SLOT = -1

# Kinds of events: the arguments are a slot and a dispatcher, or a matcher and a core.
SEND, ASK, REQUEST, MATCH, DONE, MATCHED, ANSWER, RECEIPT = range(8)
# An event's kind and arguments are one number: bounds of the kind and the second one.
KINDS, SECONDS = 8, 1 << 16
# Places in `clock`.
NOW, MADE, EVENTS, FREE_SLOT, PROCESSING, LATENCY, POLICY, SENT, FIRST_RESULT = range(9)


class EventArrays(NamedTuple):
    """A heap of events by time and order of making; `what` has a kind and two arguments."""

    at_us: Whole
    made: Whole
    what: Whole


class SlotArrays(NamedTuple):
    """Publications in transit.

    result      index of its response
    dispatcher  that accepted it
    values      by attribute
    places      by dimension: index of an interval between two cuts
    dimension, matcher    that it is sent to
    since_us    when it was sent there
    number      of its message ID
    found       dispatchers whose subscriptions match, but for its own
    answered_us when its match was answered; 0 before
    awaited     dispatchers that have yet to confirm, then
    receipts    those that have confirmed
    next        the next slot in a queue, or of the free ones
    is_used     whether it has a publication that its dispatcher has accepted
    """

    result: Whole
    dispatcher: Whole
    values: Floats
    places: Whole
    dimension: Whole
    matcher: Whole
    since_us: Whole
    number: Whole
    found: Whole
    answered_us: Whole
    awaited: Whole
    receipts: Whole
    next: Whole
    is_used: Flags


class DispatcherArrays(NamedTuple):
    """Dispatchers; loads and other figures of a matcher by dispatcher, matcher and dimension."""

    number: Whole
    pending: Whole
    heard_us: Whole
    usable: Flags
    words: Words
    used: Whole
    is_known: Flags
    queue: Floats
    arrival: Floats
    matching: Floats
    subscriptions: Floats
    reported_us: Whole


class MatcherArrays(NamedTuple):
    """Matchers: queues by matcher and dimension, jobs by matcher and core.

    size        subscriptions of a set
    work_us     a core's time for a publication there
    turn        the work so far, by which the next queue is chosen; `level` of the last choice
    head, tail  of the queue's slots; `waiting` of them, `present` with those in jobs
    arrived, matched, worked_us    since the start
    total_us, searched    of the matcher, since the start
    job_slot    or `NO_SLOT`; `job_dimension`; `job_since_us` it began; `job_searched`
                subscriptions, as there were then
    """

    size: Whole
    work_us: Whole
    turn: Whole
    level: Whole
    head: Whole
    tail: Whole
    waiting: Whole
    present: Whole
    arrived: Whole
    matched: Whole
    worked_us: Whole
    total_us: Whole
    searched: Whole
    job_slot: Whole
    job_dimension: Whole
    job_since_us: Whole
    job_searched: Whole


class SetArrays(NamedTuple):
    """Subscriptions and sets.

    bounds      of the boxes of all sets: the lowest value on each attribute, then the
                highest, both included
    home        the subscriber's dispatcher
    start, rows  where a set begins, and how many boxes it has, by matcher and dimension
    lowest, per_cell    an attribute's values are in `CELLS` cells: of the lowest value, and cells
                for a unit
    bits        rows of a set that may match in a cell, a bit each; by attribute and cell, in whole
                words, from `first_word` of the set on
    owners      matchers that serve intervals between cuts; one's begin at `first`
    """

    bounds: Floats
    home: Whole
    start: Whole
    rows: Whole
    lowest: Floats
    per_cell: Floats
    bits: npt.NDArray[np.uint64]
    first_word: Whole
    owners: Whole
    first: Whole


class BrokerArrays(NamedTuple):
    """Input queues: when each is empty; messages and publications that came; work begun (µs)."""

    free_us: Whole
    controls: Whole
    carriers: Whole
    worked_us: Whole


class TrafficArrays(NamedTuple):
    """Publications to come, and the responses of all that came; -1 for none yet."""

    at_us: Whole
    values: Floats
    places: Whole
    answered_us: Whole


class ClusterArrays(NamedTuple):
    """All state of the kernel."""

    clock: Whole
    events: EventArrays
    slots: SlotArrays
    dispatchers: DispatcherArrays
    matchers: MatcherArrays
    sets: SetArrays
    brokers: BrokerArrays
    traffic: TrafficArrays


def empty_slots(count: int, attributes: int, dimensions: int) -> SlotArrays:
    """Free slots, each of which names the next one."""
    plain: dict[str, Any] = {name: np.zeros(count, np.int64) for name in SlotArrays._fields}
    plain["next"] = np.arange(1, count + 1)
    plain["next"][-1] = NO_SLOT
    return SlotArrays(
        **plain
        | {
            "values": np.zeros((count, attributes)),
            "places": np.zeros((count, dimensions), np.int64),
            "is_used": np.zeros(count, np.bool_),
        }
    )


def empty_events(count: int) -> EventArrays:
    """Room for so many events."""
    return EventArrays(*(np.zeros(count, np.int64) for _ in EventArrays._fields))


def with_more_room(state: ClusterArrays) -> ClusterArrays:
    """The same state with twice the slots and events."""
    count = len(state.slots.next)
    slots = SlotArrays(*map(_doubled, state.slots))
    slots.next[count:] = np.arange(count + 1, 2 * count + 1)
    slots.next[-1] = state.clock[FREE_SLOT]
    slots.is_used[count:] = False
    state.clock[FREE_SLOT] = count
    return state._replace(slots=slots, events=EventArrays(*map(_doubled, state.events)))


def _doubled(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.concatenate([values, np.zeros_like(values)])


def coded(kind: int, first: int, second: int = 0) -> int:
    """A kind of event and its arguments in one number."""
    return kind + KINDS * (second + SECONDS * first)


def decoded(what: int) -> tuple[int, int, int]:
    """The kind of an event and its arguments.

    >>> decoded(coded(MATCHED, 70_000, 59)) == (MATCHED, 70_000, 59)
    True
    """
    return what % KINDS, what // KINDS // SECONDS, what // KINDS % SECONDS
