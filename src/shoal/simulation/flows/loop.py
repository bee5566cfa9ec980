"""The compiled loop: it takes publications from broker to broker, until a machine is due.

It does what `BrokerNode.receive_one`, `TreeForwarding.forward`, `SimulatedLink.send_one` and
`BrokerNode._deliver` do for a publication by itself, on the figures of `places`. Without numba it
runs interpreted.
"""

from __future__ import annotations

from typing import Any

from shoal.matching.compiled.kernels.compiler import kernel
from shoal.simulation.flows.places import (
    CLIENT_FREE_US,
    CLIENT_OUTPUT_US,
    CLIENT_TRANSMISSION_US,
    DELIVERED,
    DELIVERIES,
    EVENT_HOPS,
    EVENT_LINK,
    EVENT_ROW,
    EVENT_TABLE,
    EVENT_US,
    FREE_US,
    HEAP_SIZE,
    HERE,
    INPUT_QUEUE_US,
    IS_MONITORED,
    IS_SHUT,
    LATENCY_US,
    LIMIT_MADE,
    LIMIT_US,
    LINK_FREE_US,
    MADE,
    NEXT_US,
    NOTES,
    NOTING,
    NOW_US,
    ONE_US,
    ONES_IN,
    PENDING,
    PUBLICATIONS_OUT,
    SEARCH_NS,
    SEARCHED_US,
    SENT,
    SOURCE_SLOT,
    STALE,
    TABLE_ROWS,
    TARGET,
    TRANSMISSION_US,
    UNORDERED,
    WAITED_US,
    WINDOW_END_US,
)

# Outcomes of a call of the loop: the limit is reached; an event for a machine; a table to be read;
# more space is needed.
LIMIT, GIVEN_BACK, TABLE, SPACE = 0, 1, 2, 3
# A tracer's work for a traced publication: nothing, a note, or more.
NO_NOTES, NOTED, HANDLED = 0, 1, 2
NEVER_US = 2**62
# An event's link, publication and hops in one integer.
HOPS_BITS, ROW_BITS = 12, 26


@kernel
def sift_up(heap: Any, at: int) -> None:
    """Move an event of a heap of (time, number, what) towards the top."""
    time, number, what = heap[at, 0], heap[at, 1], heap[at, 2]
    while at > 0:
        above = (at - 1) >> 1
        above_us = heap[above, 0]
        if above_us < time or (above_us == time and heap[above, 1] < number):
            break
        heap[at, 0], heap[at, 1], heap[at, 2] = above_us, heap[above, 1], heap[above, 2]
        at = above
    heap[at, 0], heap[at, 1], heap[at, 2] = time, number, what


@kernel
def pop_first(heap: Any, size: int) -> None:
    """Remove the first of `size` events."""
    size -= 1
    time, number, what = heap[size, 0], heap[size, 1], heap[size, 2]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        other = below + 1
        if other < size and (
            heap[other, 0] < heap[below, 0]
            or (heap[other, 0] == heap[below, 0] and heap[other, 1] < heap[below, 1])
        ):
            below = other
        below_us = heap[below, 0]
        if time < below_us or (time == below_us and number < heap[below, 1]):
            break
        heap[at, 0], heap[at, 1], heap[at, 2] = below_us, heap[below, 1], heap[below, 2]
        at = below
    heap[at, 0], heap[at, 1], heap[at, 2] = time, number, what


@kernel
def advance(
    loop: Any,
    heap: Any,
    pending: Any,
    brokers: Any,
    links: Any,
    counts: Any,
    order: Any,
    hop_of: Any,
    member: Any,
    group: Any,
    marked: Any,
    slots: Any,
    subscription_of: Any,
    client_latency_us: Any,
    deliveries: Any,
    notes: Any,
) -> int:
    """Handle events up to the limit, or until one is not for the loop; returns the outcome.

    heap, pending       (events, 3): time, number, what; in heap order, or new
    brokers, links      (brokers or links, figures), see `places`
    counts              (brokers * groups): rows of a broker's table for a publisher's publications
    order, hop_of       (brokers * groups, width): these rows in the order of an answer: the
                        subscription's number in its group, and the neighbour or `HERE`
    member              (publications, width): whether a subscription of the group matches
    group, marked       (publications): its publisher's number; whether it is traced
    slots               (brokers, most neighbours): the link to each neighbour
    subscription_of     (groups, width): the number of a subscription of the group
    client_latency_us   (subscriptions): from its broker to its client
    deliveries          (space, 4): publication, subscription, time, hops
    notes               (space, 5): broker, publication, neighbour, neighbours as bits, deliveries
    """
    size, made = loop[HEAP_SIZE], loop[MADE]
    for at in range(loop[PENDING]):
        for column in range(3):
            heap[size, column] = pending[at, column]
        sift_up(heap, size)
        size += 1
    loop[PENDING] = 0
    limit_us, limit_made = loop[LIMIT_US], loop[LIMIT_MADE]
    delivered, noted, noting = loop[DELIVERIES], loop[NOTES], loop[NOTING]
    groups, degree = subscription_of.shape[0], slots.shape[1]
    # New events wait in `pending`, too: there must be space for all.
    heap_space = heap.shape[0] - pending.shape[0] - degree
    deliveries_space = deliveries.shape[0] - order.shape[1]
    outcome = LIMIT
    while size > 0:
        at_us = heap[0, 0]
        if at_us > limit_us or (at_us == limit_us and heap[0, 1] > limit_made):
            break
        what = heap[0, 2]
        hops = what & ((1 << HOPS_BITS) - 1)
        row = (what >> HOPS_BITS) & ((1 << ROW_BITS) - 1)
        link = what >> (HOPS_BITS + ROW_BITS)
        broker = links[link, TARGET]
        table = broker * groups + group[row]
        count = counts[table]
        start_us = max(brokers[broker, FREE_US], at_us)
        is_noted = noting == NOTED and marked[row]
        if (
            brokers[broker, IS_SHUT]
            or count == UNORDERED
            or start_us >= brokers[broker, WINDOW_END_US]
            or (noting == HANDLED and marked[row])
        ):
            pop_first(heap, size)
            size -= 1
            loop[EVENT_US], loop[EVENT_LINK] = at_us, link
            loop[EVENT_ROW], loop[EVENT_HOPS] = row, hops
            outcome = GIVEN_BACK
            break
        if count == STALE:
            loop[EVENT_TABLE] = table
            outcome = TABLE
            break
        if (
            size > heap_space
            or delivered > deliveries_space
            or (is_noted and noted >= notes.shape[0])
        ):
            outcome = SPACE
            break
        pop_first(heap, size)
        size -= 1
        loop[NOW_US] = at_us
        # The broker's input queue.
        is_monitored = brokers[broker, IS_MONITORED]
        if is_monitored:
            brokers[broker, INPUT_QUEUE_US] += start_us - at_us
        brokers[broker, ONES_IN] += 1
        searched_us = brokers[broker, SEARCH_NS] * brokers[broker, TABLE_ROWS] // 1_000
        brokers[broker, SEARCHED_US] += searched_us
        done_us = start_us + brokers[broker, ONE_US] + searched_us
        brokers[broker, FREE_US] = done_us
        # Its local clients, and the neighbours in the order of their first rows.
        source = links[link, SOURCE_SLOT]
        seen, here, sent = 0, 0, 0
        for position in range(count):
            subscription = order[table, position]
            if not member[row, subscription]:
                continue
            hop = hop_of[table, position]
            if hop != HERE:
                seen |= 1 << hop
                continue
            here += 1
            number = subscription_of[group[row], subscription]
            end_us = max(brokers[broker, CLIENT_FREE_US], done_us)
            end_us += brokers[broker, CLIENT_TRANSMISSION_US]
            brokers[broker, CLIENT_FREE_US] = end_us
            end_us += client_latency_us[number]
            if is_monitored:
                brokers[broker, CLIENT_OUTPUT_US] += end_us - done_us
            deliveries[delivered, 0], deliveries[delivered, 1] = row, number
            deliveries[delivered, 2], deliveries[delivered, 3] = end_us, hops
            delivered += 1
        brokers[broker, DELIVERED] += here
        left = seen & ~(1 << source)
        position = 0
        while left:
            hop = hop_of[table, position]
            if hop != HERE and left >> hop & 1 and member[row, order[table, position]]:
                left &= ~(1 << hop)
                sent += 1
                out = slots[broker, hop]
                out_us = links[out, LINK_FREE_US]
                if out_us > done_us:
                    links[out, WAITED_US] += out_us - done_us
                else:
                    out_us = done_us
                links[out, SENT] += 1
                out_us += links[out, TRANSMISSION_US]
                links[out, LINK_FREE_US] = out_us
                made += 1
                heap[size, 0], heap[size, 1] = out_us + links[out, LATENCY_US], made
                heap[size, 2] = (out << (HOPS_BITS + ROW_BITS)) | (row << HOPS_BITS) | (hops + 1)
                sift_up(heap, size)
                size += 1
            position += 1
        brokers[broker, PUBLICATIONS_OUT] += sent
        if is_noted:
            notes[noted, 0], notes[noted, 1], notes[noted, 2] = broker, row, source
            notes[noted, 3], notes[noted, 4] = seen, here
            noted += 1
    loop[HEAP_SIZE], loop[MADE] = size, made
    loop[DELIVERIES], loop[NOTES] = delivered, noted
    loop[NEXT_US] = heap[0, 0] if size else NEVER_US
    return outcome
