"""Compiled loops over topic trees: cost of a mapping, and savings of a broker's swaps.

A topic's tree is counted by `below`: the number of subscribing brokers at a position or behind it.
A position is in the tree if that is not zero, and a relay if in addition it does not subscribe, nor
is the root. The best swap is found by counting, for each topic on which two brokers differ, the
change when one of them leaves the tree and the other joins it: all positions at once, from the root
outwards, so that a topic costs as many steps as there are positions.

Source: DYNATOPS, section 5, Eq. 3 to 5 and 10 to 12.
"""

from __future__ import annotations

import numpy as np

from shoal.matching.compiled.kernels.compiler import kernel
from shoal.overlays.dynatops.planning.problem import Amounts, Flags, Numbers


@kernel
def count_below(of: Numbers, parents: Numbers, order: Numbers, is_member: Flags) -> Numbers:
    """(topics, positions): number of members at each position or behind it."""
    below = is_member.astype(np.int32)
    for topic in range(len(of)):
        row = of[topic]
        for index in range(order.shape[1] - 1, 0, -1):
            position = order[row, index]
            below[topic, parents[row, position]] += below[topic, position]
    return below


@kernel
def relay_costs(
    of: Numbers, roots: Numbers, below: Numbers, is_member: Flags, publications: Amounts
) -> Amounts:
    """(positions): messages that each relays for others, z of Eq. 10."""
    found = np.zeros(below.shape[1])
    for topic in range(len(of)):
        root = roots[of[topic]]
        for position in range(below.shape[1]):
            if below[topic, position] and not is_member[topic, position] and position != root:
                found[position] += publications[topic]
    return found


@kernel
def distances(parents: Numbers, order: Numbers, round_trips: Amounts, brokers: Numbers) -> Amounts:
    """(rows, positions): distance of each from its root, Eq. 11; by the `brokers` there."""
    found = np.zeros(parents.shape)
    for row in range(len(parents)):
        for index in range(1, order.shape[1]):
            position = order[row, index]
            parent = parents[row, position]
            hop = round_trips[brokers[parent], brokers[position]]
            found[row, position] = found[row, parent] + hop
    return found


@kernel
def delay_costs(of: Numbers, apart: Amounts, is_member: Flags, publications: Amounts) -> Amounts:
    """(positions): cost of delay of each that subscribes, Eq. 11."""
    found = np.zeros(apart.shape[1])
    for topic in range(len(of)):
        for position in range(apart.shape[1]):
            if is_member[topic, position]:
                found[position] += publications[topic] * apart[of[topic], position]
    return found


@kernel
def delay_cost_at(
    of: Numbers, apart: Amounts, is_member: Flags, publications: Amounts, position: int
) -> float:
    """Cost of delay of the broker at one position."""
    found = 0.0
    for topic in range(len(of)):
        if is_member[topic, position]:
            found += publications[topic] * apart[of[topic], position]
    return found


@kernel
def members_of(is_member: Flags) -> tuple[Numbers, Numbers]:
    """(topics, most of any) where each topic's members stand, ascending; (topics) how many."""
    counts = np.zeros(len(is_member), np.int32)
    for topic in range(len(is_member)):
        for position in range(is_member.shape[1]):
            counts[topic] += is_member[topic, position]
    found = np.zeros((len(is_member), max(1, counts.max()) if len(counts) else 1), np.int32)
    for topic in range(len(is_member)):
        number = 0
        for position in range(is_member.shape[1]):
            if is_member[topic, position]:
                found[topic, number] = position
                number += 1
    return found, counts


@kernel
def changes_by_swaps(
    of: Numbers,
    roots: Numbers,
    parents: Numbers,
    order: Numbers,
    depths: Amounts,
    below: Numbers,
    is_member: Flags,
    members: Numbers,
    counts: Numbers,
    publications: Amounts,
    hop_weight: float,
    swapped: int,
) -> Amounts:
    """(positions): change of the cost if the brokers at `swapped` and there change places.

    A hop of a publication to a subscriber costs `hop_weight`, one to a relay 1.
    """
    found = np.zeros(below.shape[1])
    joining = np.zeros(below.shape[1], np.int32)
    for topic in range(len(of)):
        row = of[topic]
        root, up, deep = roots[row], parents[row], depths[row]
        reached, wanting, weight = below[topic], is_member[topic], publications[topic]
        if weight == 0.0:
            continue
        # Leaves the tree, or joins it, and is put back behind.
        change = _turn(root, up, reached, wanting, swapped)
        if not wanting[swapped]:
            # The number of positions that join the tree with each, itself included.
            for position in order[row]:
                is_in = reached[position] > 0 or position == root
                joining[position] = 0 if is_in else 1 + joining[up[position]]
            joining[root] = 1
            for position in range(len(found)):
                relays = change + joining[position] - 1
                hops = deep[position] - deep[swapped]
                more = weight * (relays + hop_weight * hops)
                found[position] += 0.0 if wanting[position] else more
        else:
            for number in range(counts[topic]):
                position = members[topic, number]
                relays = change
                if position != root:
                    relays += _left_behind(root, up, reached, wanting, position)
                hops = deep[swapped] - deep[position]
                found[position] += weight * (relays + hop_weight * hops)
        _turn(root, up, reached, wanting, swapped)
    found[swapped] = 0.0
    return found


@kernel
def _turn(root: int, parents: Numbers, below: Numbers, is_member: Flags, position: int) -> int:
    """The broker at a position subscribes or unsubscribes.

    Returns the change of the number of relays.
    """
    step = -1 if is_member[position] else 1
    change = 0
    at = position
    while at != root:
        was_in = below[at] > 0
        below[at] += step
        is_in = below[at] > 0
        if at == position:
            # A relay becomes a member, or the reverse.
            change -= int(was_in and step == 1) - int(is_in and step == -1)
        else:
            # A position on the path to it becomes a relay, unless its broker subscribes.
            change += int(is_in) - int(was_in)  # NumPy's flags have no difference
        at = parents[at]
    below[root] += step
    is_member[position] = step == 1
    return change


@kernel
def _left_behind(
    root: int, parents: Numbers, below: Numbers, is_member: Flags, position: int
) -> int:
    """Change of the number of relays when the member at this position, not the root, leaves."""
    if below[position] > 1:
        return 1
    change = 0
    at = parents[position]
    while at != root and not is_member[at] and below[at] == 1:
        change -= 1
        at = parents[at]
    return change


@kernel
def swap(
    of: Numbers,
    roots: Numbers,
    parents: Numbers,
    below: Numbers,
    is_member: Flags,
    members: Numbers,
    counts: Numbers,
    relaying: Amounts,
    publications: Amounts,
    left: int,
    right: int,
) -> None:
    """The brokers at the two positions change places; all counts follow."""
    for topic in range(len(of)):
        if is_member[topic, left] == is_member[topic, right]:
            continue
        row = of[topic]
        root = roots[row]
        here, there = (left, right) if is_member[topic, left] else (right, left)
        _replace(members[topic], counts[topic], here, there)
        for sign in (-1, 1):
            if sign == 1:
                _turn(root, parents[row], below[topic], is_member[topic], left)
                _turn(root, parents[row], below[topic], is_member[topic], right)
            # No other path changes; the paths of both may have a part in common.
            for start in (left, right):
                at = start
                while at != root:
                    is_shared = start == right and _is_on_way(root, parents[row], left, at)
                    if below[topic, at] and not is_member[topic, at] and not is_shared:
                        relaying[at] += sign * publications[topic]
                    at = parents[row, at]


@kernel
def _replace(members: Numbers, count: int, here: int, there: int) -> None:
    """Replace a number among ascending ones, and keep their order: memory is read in
    its order.
    """
    number = 0
    while members[number] != here:
        number += 1
    while number > 0 and members[number - 1] > there:
        members[number] = members[number - 1]
        number -= 1
    while number + 1 < count and members[number + 1] < there:
        members[number] = members[number + 1]
        number += 1
    members[number] = there


@kernel
def _is_on_way(root: int, parents: Numbers, start: int, position: int) -> bool:
    at = start
    while at != root:
        if at == position:
            return True
        at = parents[at]
    return False


@kernel
def turn(
    of: Numbers,
    roots: Numbers,
    parents: Numbers,
    below: Numbers,
    is_member: Flags,
    topic: int,
    position: int,
) -> int:
    """The broker there subscribes to a topic, or unsubscribes.

    Returns the change of its tree's hops.
    """
    root = roots[of[topic]]
    change = _turn(root, parents[of[topic]], below[topic], is_member[topic], position)
    if position == root:
        return change
    # A tree has a hop to each of its positions but the root: to relays, and to subscribers.
    return change + (1 if is_member[topic, position] else -1)


@kernel
def handled(
    of: Numbers, roots: Numbers, parents: Numbers, below: Numbers, publications: Amounts
) -> Amounts:
    """(positions): number of messages to and from each."""
    found = np.zeros(below.shape[1])
    for topic in range(len(of)):
        row = of[topic]
        found[roots[row]] += publications[topic]
        for position in range(below.shape[1]):
            if below[topic, position] and position != roots[row]:
                found[position] += publications[topic]
                found[parents[row, position]] += publications[topic]
    return found


@kernel
def flows(of: Numbers, parents: Numbers, below: Numbers, publications: Amounts) -> Amounts:
    """(positions, positions): delayed publications that pass from one to the other."""
    found = np.zeros((parents.shape[1], parents.shape[1]))
    for topic in range(len(of)):
        for position in range(parents.shape[1]):
            if below[topic, position]:
                amount = publications[topic] * below[topic, position]
                found[parents[of[topic], position], position] += amount
    return found


@kernel
def delays_after_swaps(
    of: Numbers,
    roots: Numbers,
    parents: Numbers,
    apart: Amounts,
    passing: Amounts,
    is_member: Flags,
    publications: Amounts,
    round_trips: Amounts,
    brokers: Numbers,
    swapped: int,
) -> Amounts:
    """(positions): change of the delays by a swap, from the `distances` and `flows` before it.

    The subscribers change by topic; and all flows of one position go over another broker.
    """
    hops = np.empty(passing.shape)
    for position in range(len(brokers)):
        for beside in range(len(brokers)):
            hops[position, beside] = round_trips[brokers[position], brokers[beside]]
    found = _delays_of_flows(passing, hops, swapped)
    after = brokers.copy()
    is_above = np.zeros(len(brokers), np.bool_)
    for topic in range(len(of)):
        weight, wanting, here = publications[topic], is_member[topic], is_member[topic, swapped]
        if weight == 0.0:
            continue
        row = of[topic]
        root, up, far = roots[row], parents[row], apart[row]
        has_children = False
        for position in range(len(brokers)):
            has_children |= up[position] == swapped
        at = swapped
        while at != root:
            at = up[at]
            is_above[at] = True
        for position in range(len(brokers)):
            if wanting[position] == here or position == swapped:
                continue
            if has_children or is_above[position]:
                after[swapped], after[position] = brokers[position], brokers[swapped]
                farther = _distance(up, root, round_trips, after, position)
                farther -= _distance(up, root, round_trips, after, swapped)
                after[swapped], after[position] = brokers[swapped], brokers[position]
            else:
                # Neither is on the other's way: of each way only the last hop changes.
                farther = far[position] - far[swapped]
                farther += hops[up[position], swapped] - hops[up[position], position]
                farther += hops[up[swapped], swapped] - hops[up[swapped], position]
            found[position] += weight * (farther if here else -farther)
        at = swapped
        while at != root:
            at = up[at]
            is_above[at] = False
    return found


@kernel
def _delays_of_flows(passing: Amounts, hops: Amounts, swapped: int) -> Amounts:
    """(positions): change of the delays by a swap, if the same subscribers stay at each position.

    `hops` has the distance from each position to each other.
    """
    found = np.zeros(len(passing))
    for position in range(len(found)):
        if position == swapped:
            continue
        change = 0.0
        for beside in range(len(found)):
            if beside not in (swapped, position):
                nearer = hops[position, beside] - hops[swapped, beside]
                change += (passing[swapped, beside] - passing[position, beside]) * nearer
        turned = hops[position, swapped] - hops[swapped, position]
        change += (passing[swapped, position] - passing[position, swapped]) * turned
        found[position] = change
    for beside in range(len(found)):
        if beside == swapped:
            continue
        own = found[beside]
        # Arrays are read in the order of memory.
        passing_here, hops_here = passing[beside], hops[beside]
        for position in range(len(found)):
            nearer = hops_here[position] - hops_here[swapped]
            found[position] += (passing_here[swapped] - passing_here[position]) * nearer
        found[beside] = own
    found[swapped] = 0.0
    return found


@kernel
def _distance(
    parents: Numbers, root: int, round_trips: Amounts, brokers: Numbers, position: int
) -> float:
    apart = 0.0
    while position != root:
        parent = parents[position]
        apart += round_trips[brokers[parent], brokers[position]]
        position = parent
    return apart
