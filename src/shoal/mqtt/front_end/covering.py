"""Subscription covering: the subscriptions that the front end requests from its machine.

The front end does not request a subscription that another of its subscriptions covers, once every
broker knows the covering one: publishers send the matching publications here already. The covering
subscription therefore stays while a covered one is in use. When no client uses it any more, the
front end requests the covered ones, some at a time, and takes the covering one back, some at a
time, when every broker knows the covered ones. So no broker ever knows neither.

A topic filter covers another by their levels; a content filter covers an equal one, and the empty
one covers all: the front end looks for no other coverings. A wildcard does not match a leading `$`.
A filter with a pace covers only filters with the same pace: publications may be held for it.

>>> asking = SubscriptionCovering(lambda *key: 1, lambda *key: None)
>>> asking.added("a/#", EVERYTHING)
True
>>> asking.known = 1
>>> asking.added("a/b", EVERYTHING), asking.added("b", EVERYTHING)
(False, True)
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import islice

from shoal.matching.topics.filters import ALL_LEVELS, ONE_LEVEL
from shoal.model import EVERYTHING, Filter, Pace

# A topic filter, a content filter, and the pace of its subscribers.
Key = tuple[str, Filter, Pace | None]
# The bound of a search for a covering filter: clients choose the topic filters.
MOST_PLACES = 64
# The number of covered filters requested at a time after their covering filter, or of those taken
# back.
MOST_AT_ONCE = 100


class CoveredFilter:
    """A filter with the number of its clients.

    `number` is the count of the front end's requests at the request of this filter; 0 while
    `coverer` stands for it. `leaving` is a growing number for a filter without clients that covers
    others; 0 otherwise.
    """

    __slots__ = ("count", "coverer", "key", "leaving", "number", "under")

    def __init__(self, key: Key) -> None:
        self.key = key
        self.count = 1
        self.number = 0
        self.leaving = 0
        self.coverer: CoveredFilter | None = None
        self.under: dict[CoveredFilter, None] = {}


class SubscriptionCovering:
    """The covering relation of one front end, by topic filter and content filter.

    `ask` requests a subscription from the machine and returns the count of requests; `take_back`
    removes the subscription.
    """

    def __init__(
        self,
        ask: Callable[[str, Filter, Pace | None], int],
        take_back: Callable[[str, Filter, Pace | None], None],
    ) -> None:
        self._ask = ask
        self._take_back = take_back
        self._wanted: dict[Key, CoveredFilter] = {}
        self._coverers = _Coverers()
        # Filters without clients: those that still cover others, and those that do not but may be
        # the only ones that some broker knows; each in the order of their `leaving`.
        self._leaving: OrderedDict[CoveredFilter, None] = OrderedDict()
        self._bare: OrderedDict[CoveredFilter, None] = OrderedDict()
        self._leavings = 0
        # For `leaving` numbers up to this, every broker knows the filters that were covered.
        self._heard = 0
        # Every broker knows the requests up to this number.
        self.known = 0
        # Called when `release_covering` is due.
        self.at_leaving: Callable[[], None] | None = None
        self._is_covering = True

    def __iter__(self) -> Iterator[Key]:
        return iter(self._wanted)

    def __contains__(self, key: object) -> bool:
        return key in self._wanted

    def added(self, topics: str, content: Filter, pace: Pace | None = None) -> bool:
        """Add a client of a filter; returns whether the machine was asked."""
        key = (topics, content, pace)
        wanted = self._wanted.get(key)
        if wanted is not None:
            wanted.count += 1
            wanted.leaving = 0
            self._leaving.pop(wanted, None)
            self._bare.pop(wanted, None)
            return False
        wanted = self._wanted[key] = CoveredFilter(key)
        return self._place(wanted)

    def removed(self, topics: str, content: Filter, pace: Pace | None = None) -> None:
        """Remove a client of a filter."""
        wanted = self._wanted[topics, content, pace]
        wanted.count -= 1
        if wanted.count:
            return
        if wanted.coverer is not None:
            del wanted.coverer.under[wanted]
            del self._wanted[wanted.key]
        elif wanted.under and self.at_leaving is not None:
            self._leavings += 1
            wanted.leaving = self._leavings
            self._leaving[wanted] = None
            self.at_leaving()
        else:
            self._forget_coverer(wanted)

    def ask_for_all(self) -> None:
        """Stop covering: the system counts subscriptions, and needs each of them."""
        self._is_covering = False
        for wanted in tuple(self._wanted.values()):
            for each in tuple(wanted.under):
                self._place(each)

    def ask_again(self) -> None:
        """Request all again: the machine has lost its requests."""
        for wanted in self._wanted.values():
            if wanted.coverer is None:
                wanted.number = self._ask(*wanted.key)

    def release_covering(self) -> int | None:
        """Request some covered filters of covering ones without clients; None while more are left.

        The caller calls `left` with the returned number when every broker knows all requests; not
        if the number is 0.
        """
        most = self._take_back_some()
        while self._leaving and most > 0:
            wanted = next(iter(self._leaving))
            for each in tuple(islice(wanted.under, most)):
                self._place(each)
                most -= 1
            if wanted.under:
                break
            del self._leaving[wanted]
            self._bare[wanted] = None
            most -= 1
        if self._leaving or self._next_to_go() is not None:
            return None
        return self._leavings if self._bare else 0

    def left(self, number: int) -> None:
        """Take back the covering filters up to this number; `release_covering` handles those left
        over."""
        self._heard = max(self._heard, number)
        self._take_back_some()
        if self._next_to_go() is not None and self.at_leaving is not None:
            self.at_leaving()

    def _take_back_some(self) -> int:
        """Take some back; returns how many more requests this call may make."""
        most = MOST_AT_ONCE
        while most and (wanted := self._next_to_go()) is not None:
            most -= 1
            wanted.leaving = 0
            del self._bare[wanted]
            self._forget_coverer(wanted)
        return most

    def _next_to_go(self) -> CoveredFilter | None:
        wanted = next(iter(self._bare), None)
        return wanted if wanted is not None and wanted.leaving <= self._heard else None

    def _place(self, wanted: CoveredFilter) -> bool:
        """Place a filter under a covering one, or request it."""
        if wanted.coverer is not None:
            del wanted.coverer.under[wanted]
        wanted.coverer = self._coverer(*wanted.key)
        if wanted.coverer is not None:
            wanted.coverer.under[wanted] = None
            return False
        wanted.number = self._ask(*wanted.key)
        self._coverers.add(wanted)
        return True

    def _coverer(self, topics: str, content: Filter, pace: Pace | None) -> CoveredFilter | None:
        if not self._is_covering:
            return None
        for key in _covering(content, pace):
            if key != (content, pace):
                found = self._wanted.get((topics, *key))
                if found is not None and self._can_cover(found):
                    return found
        return next(
            filter(self._can_cover, self._coverers.coverers_of(topics, content, pace)), None
        )

    def _can_cover(self, wanted: CoveredFilter) -> bool:
        return wanted.count > 0 and 0 < wanted.number <= self.known

    def _forget_coverer(self, wanted: CoveredFilter) -> None:
        del self._wanted[wanted.key]
        self._coverers.remove(wanted)
        self._take_back(*wanted.key)


class _FilterNode:
    __slots__ = ("below", "here")

    def __init__(self) -> None:
        self.below: dict[str, _FilterNode] = {}
        self.here: dict[tuple[Filter, Pace | None], CoveredFilter] = {}


class _Coverers:
    """Requested filters with wildcards, in a tree of topic levels."""

    def __init__(self) -> None:
        self._root = _FilterNode()

    def add(self, wanted: CoveredFilter) -> None:
        topics = wanted.key[0]
        levels = topics.split("/")
        if ONE_LEVEL not in levels and levels[-1] != ALL_LEVELS:
            return
        node = self._root
        for level in levels:
            node = node.below.setdefault(level, _FilterNode())
        node.here[wanted.key[1:]] = wanted

    def remove(self, wanted: CoveredFilter) -> None:
        topics = wanted.key[0]
        path, node = [], self._root
        for level in topics.split("/"):
            below = node.below.get(level)
            if below is None:
                return
            path.append((node, level))
            node = below
        node.here.pop(wanted.key[1:], None)
        for above, level in reversed(path):
            below = above.below[level]
            if below.here or below.below:
                return
            del above.below[level]

    def coverers_of(
        self, topics: str, content: Filter, pace: Pace | None
    ) -> Iterator[CoveredFilter]:
        """The filters that cover this one, within the bound of the search."""
        keys = _covering(content, pace)
        levels = topics.split("/")
        places, looked_at = [(self._root, 0)], 0
        while places and looked_at < MOST_PLACES:
            node, depth = places.pop()
            looked_at += 1
            is_reserved = not depth and levels[0].startswith("$")
            rest = node.below.get(ALL_LEVELS)
            if rest is not None and not is_reserved:
                yield from _any_of(rest, keys)
            if depth == len(levels):
                yield from _any_of(node, keys)
                continue
            level = levels[depth]
            if level == ALL_LEVELS:
                continue
            names = (level,) if is_reserved else tuple(dict.fromkeys((ONE_LEVEL, level)))
            places += ((node.below[name], depth + 1) for name in names if name in node.below)


def _covering(content: Filter, pace: Pace | None) -> tuple[tuple[Filter, Pace | None], ...]:
    """The content filters and paces that cover these, on the same topics."""
    contents = (EVERYTHING,) if content == EVERYTHING else (EVERYTHING, content)
    return tuple([(each, of) for of in dict.fromkeys((None, pace)) for each in contents])


def _any_of(
    node: _FilterNode, keys: tuple[tuple[Filter, Pace | None], ...]
) -> Iterator[CoveredFilter]:
    for key in keys:
        if key in node.here:
            yield node.here[key]
