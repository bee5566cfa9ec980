"""A matcher's set and queue for one dimension, and their measured rates.

Every dimension has its own set with its own index, and its own queue: a publication waits only
behind those that are matched against the same set. Rates are averages over the past window; the
matching rate counts only the time that cores spent on matching there, so that its reciprocal is the
time to match, as in the paper, under any load and any other work.

Waiting queues get equal shares of the cores' time (`QueueTurns`), as threads of a stage per
dimension would. One publication from each in turn would give nearly all of the time to the largest
set, and a message for a small one would wait as long as for a large one.

Source: Li et al., BlueDove, sections III-A and III-B.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple, Protocol

from shoal.broker.messages import RoutedPublication
from shoal.matching import MatchIndex
from shoal.matching.filed.search_costs import SHORT, longest_text
from shoal.model import Attributes, BrokerId, Filter, MessageId, SubscriptionId
from shoal.overlays.bluedove.cluster.forwarding import Load
from shoal.overlays.bluedove.cluster.members import Segment
from shoal.overlays.bluedove.cluster.planner import Ranges
from shoal.overlays.bluedove.messages import MatcherRow

# A time slice of matching. A test of one filter takes a microsecond or less, besides texts, of
# which SHORT bytes are searched in that time, and costly expressions.
SLICE_US = 10_000
LONGEST_TEXT = 65_536


class Index(Protocol):
    """Interface of an index of filters, such as `shoal.matching.MatchIndex`."""

    def add(self, id: SubscriptionId, filter: Filter) -> None: ...

    def remove(self, id: SubscriptionId) -> None: ...

    def match(self, attributes: Attributes) -> list[Any]: ...

    @property
    def most_candidates(self) -> int:
        """As `MatchIndex.most_candidates`."""

    def prepare(self, attributes: Attributes, work_us: float) -> bool:
        """As `MatchIndex.prepare`."""


class SubscriptionSet:
    """The subscriptions whose range meets a matcher's segment of one dimension, given by number.

    They have their ranges of all dimensions, for when a segment of another one moves.
    """

    def __init__(self, dimension: int = 0, index: Index | None = None) -> None:
        self._dimension = dimension
        self.rows: dict[SubscriptionId, MatcherRow] = {}
        # Kept for others, not searched.
        self.replicas: dict[SubscriptionId, MatcherRow] = {}
        # Of both.
        self._ranges: dict[SubscriptionId, Ranges] = {}
        self._index: Index = MatchIndex() if index is None else index

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def index(self) -> Index:
        """The index of the searched subscriptions."""
        return self._index

    def lacks(self, row: MatcherRow) -> bool:
        """Whether neither this version nor a later one is searched."""
        known = self.rows.get(row.subscription.id)
        return known is None or known.version < row.version

    def add(self, row: MatcherRow, ranges: Ranges) -> None:
        """Store, unless the same version or a later one is there."""
        if not self.lacks(row):
            return
        id = row.subscription.id
        self.replicas.pop(id, None)
        self.rows[id] = row
        self._ranges[id] = ranges
        self._index.add(id, row.subscription.filter)

    def add_replica(self, row: MatcherRow, ranges: Ranges) -> None:
        """Keep aside, unless it is searched here anyway."""
        id = row.subscription.id
        if id not in self.rows:
            self.replicas[id] = row
            self._ranges[id] = ranges

    def remove(self, id: SubscriptionId, version: int) -> None:
        """Forget a subscription, unless it is of a later version."""
        row, replica = self.rows.get(id), self.replicas.get(id)
        if row is not None and row.version <= version:
            self._drop_row(id)
        if replica is not None and replica.version <= version:
            del self.replicas[id], self._ranges[id]

    def match(self, attributes: Attributes) -> list[MatcherRow]:
        rows = self.rows
        return [rows[id] for id in self._index.match(attributes)]

    def is_long(self, attributes: Attributes) -> bool:
        """Whether a match may search long texts, or evaluate costly expressions, for more than a
        time slice.
        """
        most = self._index.most_candidates
        # Most sets are small, and most publications have no long text.
        is_large = most > SLICE_US and not self._index.prepare(attributes, 0)
        return is_large or (
            most * LONGEST_TEXT > SLICE_US * SHORT
            and most * longest_text(attributes) > SLICE_US * SHORT
        )

    def prepare(self, attributes: Attributes) -> bool:
        """Search and evaluate for one time slice; whether a match then finds all results.

        The results of one publication are kept: another one's take their place.
        """
        return self._index.prepare(attributes, SLICE_US)

    def meeting(self, segment: Segment) -> list[MatcherRow]:
        """Those searched here that meet a segment of this dimension."""
        ranges = self._ranges
        return [row for id, row in self.rows.items() if segment.meets(ranges[id][self._dimension])]

    def with_ranges(self) -> Iterator[tuple[MatcherRow, Ranges]]:
        """All rows, and replicas."""
        for id, row in chain(self.rows.items(), self.replicas.items()):
            yield row, self._ranges[id]

    def keep(self, *segments: Segment) -> None:
        """Remove subscriptions outside the segments."""
        for id in list(self.rows):
            ranges = self._ranges[id][self._dimension]
            if not any(segment.meets(ranges) for segment in segments):
                self._drop_row(id)

    def clear(self) -> None:
        """Remove everything."""
        self.keep()
        self.replicas.clear()
        self._ranges.clear()

    def _drop_row(self, id: SubscriptionId) -> None:
        del self.rows[id], self._ranges[id]
        self._index.remove(id)


class QueuedMatch(NamedTuple):
    """A publication, and the dispatcher that gets its result."""

    dispatcher: BrokerId
    routed: RoutedPublication


def _key(waiting: QueuedMatch) -> tuple[BrokerId, MessageId]:
    return waiting.dispatcher, waiting.routed.message_id


class QueueTurns:
    """Fair scheduling of queues: next is the one with the least work so far.

    A queue that was empty starts level with the others, without credit for the time it was empty.

    >>> turns, order = QueueTurns(2), []
    >>> for _ in range(6):
    ...     order.append(turns.next([0, 1]))
    ...     turns.worked(order[-1], (1, 4)[order[-1]])
    >>> order
    [0, 1, 0, 0, 0, 0]
    """

    def __init__(self, queues: int) -> None:
        self._done = [0] * queues
        self._level = 0

    def wake(self, queue: int) -> None:
        """A queue that was empty has something now."""
        self._done[queue] = max(self._done[queue], self._level)

    def next(self, waiting: Iterable[int]) -> int:
        """Of the queues that wait, at least one; the first of equals."""
        chosen = min(waiting, key=self._done.__getitem__)
        self._level = self._done[chosen]
        return chosen

    def worked(self, queue: int, work: int) -> None:
        """So much work was begun for a queue."""
        self._done[queue] += work


class _Sample(NamedTuple):
    until_us: int
    arrived: int
    matched: int
    worked_us: int


class QueueTally:
    """Counts of one queue, all but the first since it was made.

    waiting     publications that wait
    arrived     those that came
    matched     those that were matched
    worked_us   time of cores for these
    """

    __slots__ = ("arrived", "matched", "waiting", "worked_us")

    def __init__(self) -> None:
        self.waiting = self.arrived = self.matched = self.worked_us = 0


class DimensionQueue:
    """Publications that wait for one dimension, and the rates of the past window."""

    def __init__(self, window_us: int, cores: int = 1) -> None:
        self.tally = QueueTally()
        self.waiting: deque[QueuedMatch] = deque()
        self._here: set[tuple[BrokerId, MessageId]] = set()
        self._window_us = window_us
        self._cores = cores
        self._samples: deque[_Sample] = deque([_Sample(0, 0, 0, 0)])

    def __len__(self) -> int:
        return len(self._here)

    def put(self, waiting: QueuedMatch) -> bool:
        """Accept a publication; False for a duplicate that its dispatcher sent after a timeout.

        A duplicate would be matched for nothing, and if queues are longer than dispatchers'
        timeouts, duplicates would come faster than they are matched.
        """
        key = _key(waiting)
        if key in self._here:
            return False
        self._here.add(key)
        self.waiting.append(waiting)
        self.tally.waiting += 1
        self.tally.arrived += 1
        return True

    def restore(self, each: QueuedMatch, *, is_taken: bool = False) -> None:
        """Put a publication back that its tally counts, by a driver that had the queue's contents
        elsewhere.
        """
        self._here.add(_key(each))
        if not is_taken:
            self.waiting.append(each)

    def take(self, most: int) -> list[QueuedMatch]:
        """The next ones, to be matched."""
        count = min(most, len(self.waiting))
        self.tally.waiting -= count
        return [self.waiting.popleft() for _ in range(count)]

    def done(self, taken: Sequence[QueuedMatch], worked_us: int) -> None:
        """These are matched, after this time of a core."""
        self._here.difference_update(map(_key, taken))
        self.tally.matched += len(taken)
        self.tally.worked_us += worked_us

    def clear(self) -> list[QueuedMatch]:
        """Remove all; returns the waiting publications."""
        waiting = self.take(len(self.waiting))
        self._here.clear()
        return waiting

    def load(self, subscriptions: int, search_ns: float, now_us: int) -> Load:
        """The load now; `search_ns` per subscription stands in for a rate not yet measured."""
        samples, tally = self._samples, self.tally
        samples.append(_Sample(now_us, tally.arrived, tally.matched, tally.worked_us))
        while len(samples) > 2 and samples[1].until_us <= now_us - self._window_us:
            samples.popleft()
        first, last = samples[0], samples[-1]
        matched, worked_us = last.matched - first.matched, last.worked_us - first.worked_us
        if matched and worked_us:
            rate = self._cores * matched * 1e6 / worked_us
        else:
            rate = self._cores * 1e9 / (search_ns * max(1, subscriptions))
        return Load(
            queue=tally.waiting,
            arrival_per_s=(last.arrived - first.arrived) * 1e6 / max(1, now_us - first.until_us),
            matching_per_s=rate,
            subscriptions=subscriptions,
        )
