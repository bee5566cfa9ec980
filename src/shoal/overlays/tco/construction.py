"""A topic-connected overlay: links such that the subscribers of each topic reach each other.

Links are taken one by one until each topic's subscribers are one part. The goal "fan-out" (few
neighbours) takes, of the links that raise the highest number of neighbours least, the one that
joins most topics' parts; the goal "links" (few links) takes it of all links.

When brokers' subscriptions change, links between the others stay, and the merge goes on with those
of the changed ones only, which is equivalent to divide and conquer of the change. A topic's
publications go along a tree of shortest paths from the first of its subscribers.

>>> import numpy as np
>>> wanted = np.ones((6, 10), np.bool_)
>>> TopicConnected(wanted, "fan-out").linked.sum(axis=1).tolist()
[2, 2, 2, 1, 2, 1]
>>> TopicConnected(wanted, "links").linked.sum(axis=1).tolist()
[5, 1, 1, 1, 1, 1]

Source: DYNATOPS, section 6.2, for which TCO is DCB-M of Chen et al., "Scaling construction of low
fan-out overlays"; the greedy choices are those of Onus and Richa ("fan-out") and of Chockler et al.
("links"). Bulk and lightweight brokers are not distinguished, which would save time only.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Literal

import numpy as np

from shoal.matching.compiled.kernels.compiler import kernel
from shoal.overlays.dynatops.planning.problem import Amounts, Flags, Numbers

# The objective: few neighbours of the broker that has most, or few links.
Goal = Literal["fan-out", "links"]
# Subscriptions examined in one step; and links between unchanged brokers, likewise.
MOST_AT_ONCE = 1_000_000
ROWS_AT_ONCE = 50


class TopicConnected:
    """The links between some brokers, as their subscriptions change."""

    def __init__(self, wanted: Flags, goal: Goal = "fan-out") -> None:
        self._wanted = wanted.copy()
        self._goal = goal
        # (brokers, brokers): whether they have a link.
        nothing = np.zeros((len(wanted), len(wanted)), np.bool_)
        self.linked = relinked(wanted, nothing, np.ones(len(wanted), np.bool_), goal)

    def change(self, wanted: Flags) -> int:
        """Set new subscriptions; returns the number of links opened or closed for them."""
        changed = (wanted != self._wanted).any(axis=1)
        before = self.linked
        self._wanted = wanted.copy()
        self.linked = relinked(wanted, before, changed, self._goal)
        return int((before != self.linked).sum()) // 2

    def distances(self) -> Amounts:
        """(topics, brokers): hops to each subscriber from the first of its topic, by its links."""
        return _trees(self._wanted, self.linked)[0]

    def parents(self) -> Numbers:
        """(topics, brokers): the previous hop of its publications.

        It is -1 at the first subscriber, and for brokers that do not subscribe.
        """
        return _trees(self._wanted, self.linked)[1]


def relinked(wanted: Flags, linked: Flags, changed: Flags, goal: Goal) -> Flags:
    """The links after the subscriptions of some brokers changed: theirs made anew, others stay."""
    relinking = TcoRelinking(wanted, linked, changed, goal)
    while relinking.made is None:
        relinking.step()
    return relinking.made


class TcoRelinking:
    """The same in steps: call `step` until it is `made`."""

    def __init__(self, wanted: Flags, linked: Flags, changed: Flags, goal: Goal) -> None:
        self.made: Flags | None = None
        self._work = _merge(wanted, linked.copy(), changed, goal == "fan-out")

    def step(self) -> None:
        """Continue for some `MOST_AT_ONCE` subscriptions, which takes about 10 ms."""
        try:
            next(self._work)
        except StopIteration as end:
            self.made = end.value


def _merge(
    wanted: Flags, linked: Flags, changed: Flags, is_fan_out: bool
) -> Generator[None, None, Flags]:
    """Add links until each topic's subscribers are in one part; some end of each has changed.

    Gains only fall as links are added, so the best of the last count is looked at anew only.
    """
    linked[changed] = False
    linked[:, changed] = False
    brokers, topics = wanted.shape
    parts = np.tile(np.arange(brokers, dtype=np.int32), (topics, 1))
    for one, other in np.argwhere(np.tril(linked)).tolist():
        _join(wanted, parts, one, other)
        if one % ROWS_AT_ONCE == 0:
            yield
    neighbours = linked.sum(axis=1).astype(np.int32)
    gains = np.tril(np.full((brokers, brokers), topics, np.int32), -1)
    # Limit on a broker's neighbours, raised only when no useful link is left.
    most = max(1, int(neighbours.max(initial=0))) if is_fan_out else brokers
    # If parts are left that only the others could join, these are allowed after all.
    for is_bound in (True, False):
        while True:
            row = highest = 0
            while row < brokers:
                row, found = _look_again(wanted, parts, gains, changed, is_bound, row)
                highest = max(highest, found)
                yield
            if not highest:
                break
            work = 0
            for goal in range(highest, 0, -1):
                row = 0
                while row < brokers:
                    row, work = _add_links(
                        wanted, linked, parts, gains, neighbours, changed, is_bound, goal, most,
                        row, work,
                    )  # fmt: skip
                    if work >= MOST_AT_ONCE:
                        work = 0
                        yield
            most += 1
    return linked


@kernel
def _find(parts: Numbers, broker: int) -> int:
    while parts[broker] != broker:
        parts[broker] = parts[parts[broker]]
        broker = parts[broker]
    return broker


@kernel
def _look_again(
    wanted: Flags, parts: Numbers, gains: Numbers, may_link: Flags, is_bound: bool, row: int
) -> tuple[int, int]:
    """From a row on, the highest gain there is now, of links that may be; and the next row."""
    highest = work = 0
    while row < len(wanted) and work < MOST_AT_ONCE:
        for other in range(row):
            if gains[row, other] > 0 and (not is_bound or may_link[row] or may_link[other]):
                gains[row, other] = _gain(wanted, parts, row, other)
                highest = max(highest, gains[row, other])
                work += wanted.shape[1]
        row += 1
    return row, highest


@kernel
def _add_links(
    wanted: Flags,
    linked: Flags,
    parts: Numbers,
    gains: Numbers,
    neighbours: Numbers,
    may_link: Flags,
    is_bound: bool,
    goal: int,
    most: int,
    row: int,
    work: int,
) -> tuple[int, int]:
    """From a row on, all that join so many parts, between brokers that may have more neighbours.

    The next row, and the work that was done, with that before.
    """
    while row < len(wanted) and work < MOST_AT_ONCE:
        for other in range(row):
            if neighbours[row] >= most:
                break
            work += 1
            if gains[row, other] < goal or neighbours[other] >= most:
                continue
            if is_bound and not (may_link[row] or may_link[other]):
                continue
            gains[row, other] = _gain(wanted, parts, row, other)
            work += wanted.shape[1]
            if gains[row, other] >= goal:
                _join(wanted, parts, row, other)
                linked[row, other] = linked[other, row] = True
                neighbours[row] += 1
                neighbours[other] += 1
                gains[row, other] = 0
        row += 1
    return row, work


@kernel
def _gain(wanted: Flags, parts: Numbers, one: int, other: int) -> int:
    found = 0
    for topic in range(wanted.shape[1]):
        if wanted[one, topic] and wanted[other, topic]:
            found += _find(parts[topic], one) != _find(parts[topic], other)
    return found


@kernel
def _join(wanted: Flags, parts: Numbers, one: int, other: int) -> None:
    for topic in range(wanted.shape[1]):
        if wanted[one, topic] and wanted[other, topic]:
            parts[topic, _find(parts[topic], one)] = _find(parts[topic], other)


@kernel
def _trees(wanted: Flags, linked: Flags) -> tuple[Amounts, Numbers]:
    """(topics, brokers): hops from each topic's first subscriber, and the previous hop of each."""
    brokers, topics = wanted.shape
    found = np.zeros((topics, brokers))
    parents = np.full((topics, brokers), -1, np.int32)
    queue = np.zeros(brokers, np.int32)
    for topic in range(topics):
        seen = np.zeros(brokers, np.bool_)
        head, tail = 0, 0
        for broker in range(brokers):
            if wanted[broker, topic]:
                queue[0] = broker
                seen[broker] = True
                tail = 1
                break
        while head < tail:
            here = queue[head]
            head += 1
            for there in range(brokers):
                if linked[here, there] and wanted[there, topic] and not seen[there]:
                    seen[there] = True
                    found[topic, there] = found[topic, here] + 1
                    parents[topic, there] = here
                    queue[tail] = there
                    tail += 1
    return found, parents
