"""The events of publications, as the machines of a cluster handle them.

Each function is one machine's input, with its draws, its arithmetic and the order of its effects:
`Dispatcher.request`, `forwarding.choose`, `Matcher.match`, `Matcher.work_done`,
`SubscriberEdge.matched`, `DispatchOutbox.on_answer` and `receipt`. A broker takes one message at a
time, so a message is handled when its turn comes (`BrokerNode.receive`).
"""

from __future__ import annotations

import numpy as np

from shoal.experiments.bluedove.testbed.compiled.arrays import (
    ANSWER,
    ASK,
    CELLS,
    DONE,
    EVENTS,
    FIRST_RESULT,
    FREE_SLOT,
    KINDS,
    LATENCY,
    MATCH,
    MATCHED,
    NO_SLOT,
    NOW,
    POLICY,
    PROCESSING,
    RECEIPT,
    REQUEST,
    SECONDS,
    SEND,
    SENT,
    WORDS_FOR_CHOICE,
    ClusterArrays,
    Floats,
    SetArrays,
)
from shoal.experiments.bluedove.testbed.compiled.heap import drop_first, push
from shoal.matching.compiled.kernels.compiler import kernel

# Reasons to stop: no event is left before the time; more slots or events are needed; a dispatcher
# needs random words; a publication has no candidate.
REACHED, FULL, NO_WORDS, STRANDED = range(4)
RANDOM, SUBSCRIPTIONS, RESPONSE_TIME, ADAPTIVE = range(4)


@kernel
def _served_us(state: ClusterArrays, broker: int, now_us: int) -> int:
    """When a broker has processed a message that comes now."""
    free_us = state.brokers.free_us
    done_us: int = max(free_us[broker], now_us) + state.clock[PROCESSING]
    free_us[broker] = done_us
    return done_us


@kernel
def _drawn(state: ClusterArrays, dispatcher: int, count: int) -> int:
    """`Random.choice` among so many, by a dispatcher's next words."""
    bits = 0
    while count >> bits:
        bits += 1
    words, used = state.dispatchers.words[dispatcher], state.dispatchers.used
    while True:
        drawn: int = words[used[dispatcher]] >> np.uint32(32 - bits)
        used[dispatcher] += 1
        if drawn < count:
            return drawn


@kernel
def _cost(
    state: ClusterArrays, dispatcher: int, matcher: int, dimension: int, now_us: int
) -> float:
    """A candidate's cost by the policy; -1 of an unknown load."""
    known = state.dispatchers
    if not known.is_known[dispatcher, matcher, dimension]:
        return -1.0
    policy = state.clock[POLICY]
    if policy == SUBSCRIPTIONS:
        size: float = known.subscriptions[dispatcher, matcher, dimension]
        return size
    queue: float = known.queue[dispatcher, matcher, dimension]
    matching: float = known.matching[dispatcher, matcher, dimension]
    if policy == RESPONSE_TIME:
        return (queue + 1) / matching
    passed_us = now_us - known.reported_us[dispatcher, matcher, dimension]
    arrival: float = known.arrival[dispatcher, matcher, dimension]
    grown: float = (arrival - matching) * passed_us / 1e6
    return (max(0.0, queue + grown) + 1) / matching


@kernel
def _candidate(state: ClusterArrays, slot: int, at: int) -> tuple[int, int, int]:
    """The number of a publication's candidates; the one at a place among them, if any."""
    sets, slots = state.sets, state.slots
    usable = state.dispatchers.usable[slots.dispatcher[slot]]
    count, found, number = 0, -1, -1
    for dimension in range(slots.places.shape[1]):
        interval = slots.places[slot, dimension]
        for place in range(sets.first[interval], sets.first[interval + 1]):
            matcher = sets.owners[place]
            if usable[matcher]:
                if count == at:
                    found, number = matcher, dimension
                count += 1
    return count, found, number


@kernel
def _choose(state: ClusterArrays, slot: int, now_us: int) -> None:
    """Choose a publication's candidate, of at least one."""
    sets, slots = state.sets, state.slots
    dispatcher = slots.dispatcher[slot]
    count, matcher, number = _candidate(state, slot, 0)
    if count > 1 and state.clock[POLICY] == RANDOM:
        count, matcher, number = _candidate(state, slot, _drawn(state, dispatcher, count))
    elif count > 1:
        least, equals = np.inf, 0
        for dimension in range(slots.places.shape[1]):
            interval = slots.places[slot, dimension]
            for place in range(sets.first[interval], sets.first[interval + 1]):
                each = sets.owners[place]
                if state.dispatchers.usable[dispatcher, each]:
                    cost = _cost(state, dispatcher, each, dimension, now_us)
                    if cost < least:
                        least, equals, matcher, number = cost, 1, each, dimension
                    elif cost == least:
                        equals += 1
        if equals > 1:
            left = _drawn(state, dispatcher, equals)
            for dimension in range(slots.places.shape[1]):
                interval = slots.places[slot, dimension]
                for place in range(sets.first[interval], sets.first[interval + 1]):
                    each = sets.owners[place]
                    if (
                        state.dispatchers.usable[dispatcher, each]
                        and _cost(state, dispatcher, each, dimension, now_us) == least
                    ):
                        if left == 0:
                            matcher, number = each, dimension
                        left -= 1
    slots.matcher[slot] = matcher
    slots.dimension[slot] = number


@kernel
def _start_work(state: ClusterArrays, matcher: int, now_us: int) -> None:
    """Start work on free cores, with an equal share of time for each queue."""
    matchers = state.matchers
    cores = matchers.job_slot.shape[1]
    dimensions = matchers.size.shape[1]
    while True:
        core = -1
        for each in range(cores):
            if matchers.job_slot[matcher, each] == NO_SLOT:
                core = each
                break
        if core < 0:
            return
        chosen = -1
        for dimension in range(dimensions):
            if matchers.waiting[matcher, dimension] and (
                chosen < 0 or matchers.turn[matcher, dimension] < matchers.turn[matcher, chosen]
            ):
                chosen = dimension
        if chosen < 0:
            return
        matchers.level[matcher] = matchers.turn[matcher, chosen]
        slot = matchers.head[matcher, chosen]
        matchers.head[matcher, chosen] = state.slots.next[slot]
        matchers.waiting[matcher, chosen] -= 1
        matchers.turn[matcher, chosen] += matchers.size[matcher, chosen] + 1
        matchers.job_slot[matcher, core] = slot
        matchers.job_dimension[matcher, core] = chosen
        matchers.job_since_us[matcher, core] = now_us
        matchers.job_searched[matcher, core] = matchers.size[matcher, chosen]
        work_us = matchers.work_us[matcher, chosen]
        state.brokers.worked_us[state.dispatchers.number.shape[0] + matcher] += work_us
        push(state.events, state.clock, now_us + work_us, DONE, matcher, core)


@kernel
def _cell(sets: SetArrays, attribute: int, value: float) -> int:
    """The cell of a value; never lower for the greater of two."""
    place = (value - sets.lowest[attribute]) * sets.per_cell[attribute]
    if not place > 0.0:
        return 0
    return int(place) if place < CELLS else CELLS - 1


@kernel
def fill_cells(sets: SetArrays) -> None:
    """Set the bits of all rows in the cells that they meet."""
    attributes = sets.lowest.shape[0]
    starts, sizes = sets.start.ravel(), sets.rows.ravel()
    for number in range(sizes.shape[0]):
        words = (sizes[number] + 63) // 64
        for row in range(sizes[number]):
            bit = np.uint64(1) << np.uint64(row % 64)
            for attribute in range(attributes):
                low = sets.bounds[starts[number] + row, attribute]
                high = sets.bounds[starts[number] + row, attributes + attribute]
                for cell in range(_cell(sets, attribute, low), _cell(sets, attribute, high) + 1):
                    word = sets.first_word[number] + (attribute * CELLS + cell) * words
                    sets.bits[word + row // 64] |= bit


@kernel
def _holds(sets: SetArrays, row: int, values: Floats) -> bool:
    """Whether a row's ranges hold all values."""
    attributes = values.shape[0]
    for attribute in range(attributes):
        low, high = sets.bounds[row, attribute], sets.bounds[row, attributes + attribute]
        if not low <= values[attribute] <= high:
            return False
    return True


@kernel
def _send_matches(
    state: ClusterArrays, slot: int, matcher: int, dimension: int, arrives_us: int
) -> int:
    """Send a publication's matches to dispatchers, in the order of their first subscriptions;
    returns these dispatchers as bits.
    """
    sets, values = state.sets, state.slots.values[slot]
    words = (sets.rows[matcher, dimension] + 63) // 64
    number = matcher * state.matchers.size.shape[1] + dimension
    dispatchers = state.dispatchers.number.shape[0]
    columns = np.empty(values.shape[0], np.int64)
    for attribute in range(values.shape[0]):
        cell = attribute * CELLS + _cell(sets, attribute, values[attribute])
        columns[attribute] = sets.first_word[number] + cell * words
    count = 0
    found: int = 0
    for word in range(words):
        candidates = sets.bits[columns[0] + word]
        for attribute in range(1, values.shape[0]):
            candidates &= sets.bits[columns[attribute] + word]
        place = word * 64
        while candidates:
            if candidates & np.uint64(1):
                row = sets.start[matcher, dimension] + place
                home = sets.home[row]
                if not found >> home & 1 and _holds(sets, row, values):
                    found |= 1 << home
                    count += 1
                    push(state.events, state.clock, arrives_us, MATCHED, slot, home)
                    if count == dispatchers:
                        return found
            candidates >>= np.uint64(1)
            place += 1
    return found


@kernel
def _matched_at(state: ClusterArrays, matcher: int, core: int, now_us: int) -> None:
    """A core is done: send the results, and start the next work."""
    matchers, slots, clock = state.matchers, state.slots, state.clock
    slot = matchers.job_slot[matcher, core]
    dimension = matchers.job_dimension[matcher, core]
    dispatchers = state.dispatchers.number.shape[0]
    # A message cannot be handled before the ones that the broker has taken.
    now_us = max(now_us, state.brokers.free_us[dispatchers + matcher])
    worked_us = now_us - matchers.job_since_us[matcher, core]
    matchers.job_slot[matcher, core] = NO_SLOT
    matchers.total_us[matcher] += worked_us
    matchers.searched[matcher] += matchers.job_searched[matcher, core]
    found = _send_matches(state, slot, matcher, dimension, now_us + clock[LATENCY])
    slots.found[slot] = found & ~(1 << slots.dispatcher[slot])
    push(state.events, clock, now_us + clock[LATENCY], ANSWER, slot, 0)
    matchers.present[matcher, dimension] -= 1
    matchers.matched[matcher, dimension] += 1
    matchers.worked_us[matcher, dimension] += worked_us
    _start_work(state, matcher, now_us)


@kernel
def _queue(state: ClusterArrays, slot: int, now_us: int) -> None:
    """A matcher accepts a publication."""
    matchers, slots = state.matchers, state.slots
    matcher, dimension = slots.matcher[slot], slots.dimension[slot]
    if matchers.present[matcher, dimension] == 0:
        level = matchers.level[matcher]
        matchers.turn[matcher, dimension] = max(matchers.turn[matcher, dimension], level)
    append(state, slot)
    matchers.present[matcher, dimension] += 1
    matchers.arrived[matcher, dimension] += 1
    _start_work(state, matcher, now_us)


@kernel
def append(state: ClusterArrays, slot: int) -> None:
    """Put a publication last in its matcher's queue."""
    matchers, slots = state.matchers, state.slots
    matcher, dimension = slots.matcher[slot], slots.dimension[slot]
    slots.next[slot] = NO_SLOT
    if matchers.waiting[matcher, dimension]:
        slots.next[matchers.tail[matcher, dimension]] = slot
    else:
        matchers.head[matcher, dimension] = slot
    matchers.tail[matcher, dimension] = slot
    matchers.waiting[matcher, dimension] += 1


@kernel
def take_slot(state: ClusterArrays) -> int:
    """A free slot, of at least one."""
    slot: int = state.clock[FREE_SLOT]
    slots = state.slots
    state.clock[FREE_SLOT] = slots.next[slot]
    slots.receipts[slot] = slots.awaited[slot] = slots.answered_us[slot] = 0
    slots.is_used[slot] = False
    return slot


@kernel
def _settle(state: ClusterArrays, slot: int) -> None:
    """A publication is done."""
    state.dispatchers.pending[state.slots.dispatcher[slot]] -= 1
    state.slots.is_used[slot] = False
    state.slots.next[slot] = state.clock[FREE_SLOT]
    state.clock[FREE_SLOT] = slot


@kernel
def _send(state: ClusterArrays, number: int, now_us: int) -> None:
    """A publisher has its next publication; the one after it is another dispatcher's."""
    slots, traffic, clock = state.slots, state.traffic, state.clock
    slot = take_slot(state)
    slots.result[slot] = clock[FIRST_RESULT] + number
    slots.dispatcher[slot] = number % state.dispatchers.number.shape[0]
    slots.values[slot] = traffic.values[number]
    slots.places[slot] = traffic.places[number]
    push(state.events, clock, now_us, ASK, slot, 0)
    clock[SENT] = number + 1
    if number + 1 < traffic.at_us.shape[0]:
        push(state.events, clock, traffic.at_us[number + 1], SEND, number + 1, 0)


@kernel
def _request(state: ClusterArrays, slot: int, now_us: int) -> None:
    """A dispatcher accepts a publication and sends it to a matcher."""
    slots, dispatchers = state.slots, state.dispatchers
    own = slots.dispatcher[slot]
    state.brokers.carriers[own] += 1
    done_us = _served_us(state, own, now_us)
    slots.number[slot] = max(dispatchers.number[own], done_us)
    dispatchers.number[own] = slots.number[slot] + 1
    dispatchers.pending[own] += 1
    slots.is_used[slot] = True
    slots.since_us[slot] = done_us
    _choose(state, slot, done_us)
    push(state.events, state.clock, done_us + state.clock[LATENCY], MATCH, slot, 0)


@kernel
def _message(state: ClusterArrays, kind: int, slot: int, home: int, now_us: int) -> None:
    """A message about a publication comes to a broker."""
    slots, dispatchers, clock = state.slots, state.dispatchers, state.clock
    own, matcher = slots.dispatcher[slot], slots.matcher[slot]
    if kind == MATCH:
        broker = dispatchers.number.shape[0] + matcher
    else:
        broker = home if kind == MATCHED else own
    state.brokers.controls[broker] += 1
    done_us = _served_us(state, broker, now_us)
    if kind == MATCH:
        _queue(state, slot, done_us)
    elif kind == MATCHED:
        dispatchers.heard_us[home, matcher] = done_us
        if home != own:
            push(state.events, clock, done_us + clock[LATENCY], RECEIPT, slot, home)
    elif kind == ANSWER:
        dispatchers.heard_us[own, matcher] = done_us
        result = slots.result[slot]
        if result >= 0 and state.traffic.answered_us[result] < 0:
            state.traffic.answered_us[result] = done_us
        slots.answered_us[slot] = done_us
        slots.awaited[slot] = slots.found[slot] & ~slots.receipts[slot]
        if slots.awaited[slot] == 0:
            _settle(state, slot)
    else:
        slots.receipts[slot] |= 1 << home
        if slots.answered_us[slot]:
            slots.awaited[slot] &= ~(1 << home)
            if slots.awaited[slot] == 0:
                _settle(state, slot)


@kernel
def run_events(state: ClusterArrays, until_us: int, before_us: int, before_made: int) -> int:
    """Handle the events up to a time, and before one of the machines; returns why it stopped."""
    clock, events, slots = state.clock, state.events, state.slots
    room = events.at_us.shape[0] - state.dispatchers.number.shape[0]
    room -= state.matchers.job_slot.shape[1] + 4
    while clock[EVENTS]:
        at_us = events.at_us[0]
        if at_us > until_us or at_us > before_us:
            return REACHED
        if at_us == before_us and events.made[0] > before_made:
            return REACHED
        what = events.what[0]
        kind, second = what % KINDS, what // KINDS % SECONDS
        first = what // KINDS // SECONDS
        if clock[EVENTS] > room or (kind == SEND and clock[FREE_SLOT] == NO_SLOT):
            return FULL
        if kind == REQUEST:
            used = state.dispatchers.used[slots.dispatcher[first]]
            if used + WORDS_FOR_CHOICE > state.dispatchers.words.shape[1]:
                return NO_WORDS
            if _candidate(state, first, 0)[0] == 0:
                return STRANDED
        drop_first(events, clock)
        clock[NOW] = at_us
        if kind == SEND:
            _send(state, first, at_us)
        elif kind == ASK:
            push(events, clock, at_us + clock[LATENCY], REQUEST, first, 0)
        elif kind == REQUEST:
            _request(state, first, at_us)
        elif kind == DONE:
            _matched_at(state, first, second, at_us)
        else:
            _message(state, kind, first, second, at_us)
    return REACHED


@kernel
def is_overdue(state: ClusterArrays, dispatcher: int, now_us: int, timeout_us: int) -> bool:
    """Whether a dispatcher would send a publication again (`DispatchOutbox.tick`)."""
    slots, dispatchers = state.slots, state.dispatchers
    oldest_us = np.full(dispatchers.usable.shape[1], now_us)
    for slot in range(slots.next.shape[0]):
        if slots.is_used[slot] and slots.dispatcher[slot] == dispatcher:
            since_us = slots.since_us[slot]
            answered_us = slots.answered_us[slot]
            if answered_us and now_us - answered_us > 2 * timeout_us:
                return True
            matcher = slots.matcher[slot]
            oldest_us[matcher] = min(oldest_us[matcher], since_us)
    for matcher in range(oldest_us.shape[0]):
        heard_us = max(dispatchers.heard_us[dispatcher, matcher], oldest_us[matcher])
        if now_us - heard_us > timeout_us:
            return True
    return False
