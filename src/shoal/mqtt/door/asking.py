"""What a broker's door asks its machine for, in the place of its clients.

What another subscription of the door covers, of which every broker has heard, is not asked for:
whoever publishes sends it here already.  So it stays as long as the covered one is wanted.  When no
client wants the coverer any more, those under it are asked for, some at a time, and only when every
broker has heard of these it is taken back, some at a time, too: there is no moment at which a
broker knows of neither.

A topic filter covers another by their levels; content covers the same content, and any if it asks
for none: more is not looked for.  `$` at the beginning of a topic is behind no wildcard.

>>> asking = Asking(lambda topics, content: 1, lambda topics, content: None)
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
from shoal.model import EVERYTHING, Filter

# A topic filter, and what is asked of content.
Key = tuple[str, Filter]
# How many places are looked at for a coverer: strangers write topic filters.
MOST_PLACES = 64
# So many are asked for at a time when what covered them is not wanted any more, or taken back.
MOST_AT_ONCE = 100


class Wanted:
    """What so many clients ask for.

    `number` is the count of what the door had asked for when it asked for this; 0 while `coverer`
    stands for it.  `leaving` tells apart the times that nobody wanted it while others were `under`
    it, and grows; 0 otherwise.
    """

    __slots__ = ("count", "coverer", "key", "leaving", "number", "under")

    def __init__(self, key: Key) -> None:
        self.key = key
        self.count = 1
        self.number = 0
        self.leaving = 0
        self.coverer: Wanted | None = None
        self.under: dict[Wanted, None] = {}


class Asking:
    """By topics and content.

    `ask` asks the machine and returns how much the door has asked for by then; `take_back` takes
    that back.
    """

    def __init__(
        self, ask: Callable[[str, Filter], int], take_back: Callable[[str, Filter], None]
    ) -> None:
        self._ask = ask
        self._take_back = take_back
        self._wanted: dict[Key, Wanted] = {}
        self._coverers = _Coverers()
        # What nobody wants: what covers others still, and what does not but may be all that some
        # broker has heard of; each in the order of their `leaving`.
        self._leaving: OrderedDict[Wanted, None] = OrderedDict()
        self._bare: OrderedDict[Wanted, None] = OrderedDict()
        self._leavings = 0
        # Up to this number every broker has heard of what had been under them.
        self._heard = 0
        # What the door had asked for up to this number is known to every broker.
        self.known = 0
        # Hears that `take_leave` is to be called.
        self.at_leaving: Callable[[], None] | None = None
        self._is_covering = True

    def __iter__(self) -> Iterator[Key]:
        return iter(self._wanted)

    def __contains__(self, key: object) -> bool:
        return key in self._wanted

    def added(self, topics: str, content: Filter) -> bool:
        """A client wants this; whether the machine was asked for it."""
        key = (topics, content)
        wanted = self._wanted.get(key)
        if wanted is not None:
            wanted.count += 1
            wanted.leaving = 0
            self._leaving.pop(wanted, None)
            self._bare.pop(wanted, None)
            return False
        wanted = self._wanted[key] = Wanted(key)
        return self._place(wanted)

    def removed(self, topics: str, content: Filter) -> None:
        """A client wants it no more."""
        wanted = self._wanted[topics, content]
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
            self._forget(wanted)

    def ask_for_all(self) -> None:
        """From now on nothing covers anything: somebody counts what is asked for."""
        self._is_covering = False
        for wanted in tuple(self._wanted.values()):
            for each in tuple(wanted.under):
                self._place(each)

    def ask_again(self) -> None:
        """The machine has forgotten what it was asked for."""
        for wanted in self._wanted.values():
            if wanted.coverer is None:
                wanted.number = self._ask(*wanted.key)

    def take_leave(self) -> int | None:
        """Ask for some of what those cover that nobody wants; None while there is more of it.

        When every broker has heard of all that was asked for, `left` is to be called with the
        number; with none if that is 0.
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
        """Take back those that nobody has wanted since; what is more than some, by `take_leave`."""
        self._heard = max(self._heard, number)
        self._take_back_some()
        if self._next_to_go() is not None and self.at_leaving is not None:
            self.at_leaving()

    def _take_back_some(self) -> int:
        """How many more may be asked for or taken back at this time."""
        most = MOST_AT_ONCE
        while most and (wanted := self._next_to_go()) is not None:
            most -= 1
            wanted.leaving = 0
            del self._bare[wanted]
            self._forget(wanted)
        return most

    def _next_to_go(self) -> Wanted | None:
        wanted = next(iter(self._bare), None)
        return wanted if wanted is not None and wanted.leaving <= self._heard else None

    def _place(self, wanted: Wanted) -> bool:
        """Put it under one that covers it, or ask for it."""
        if wanted.coverer is not None:
            del wanted.coverer.under[wanted]
        wanted.coverer = self._coverer(*wanted.key)
        if wanted.coverer is not None:
            wanted.coverer.under[wanted] = None
            return False
        wanted.number = self._ask(*wanted.key)
        self._coverers.add(wanted)
        return True

    def _coverer(self, topics: str, content: Filter) -> Wanted | None:
        if not self._is_covering:
            return None
        if content != EVERYTHING:
            found = self._wanted.get((topics, EVERYTHING))
            if found is not None and self._can_cover(found):
                return found
        return next(filter(self._can_cover, self._coverers.of(topics, content)), None)

    def _can_cover(self, wanted: Wanted) -> bool:
        return wanted.count > 0 and 0 < wanted.number <= self.known

    def _forget(self, wanted: Wanted) -> None:
        del self._wanted[wanted.key]
        self._coverers.remove(wanted)
        self._take_back(*wanted.key)


class _Node:
    __slots__ = ("below", "here")

    def __init__(self) -> None:
        self.below: dict[str, _Node] = {}
        self.here: dict[Filter, Wanted] = {}


class _Coverers:
    """What is asked for with wildcards, by the levels of topics."""

    def __init__(self) -> None:
        self._root = _Node()

    def add(self, wanted: Wanted) -> None:
        topics, content = wanted.key
        levels = topics.split("/")
        if ONE_LEVEL not in levels and levels[-1] != ALL_LEVELS:
            return
        node = self._root
        for level in levels:
            node = node.below.setdefault(level, _Node())
        node.here[content] = wanted

    def remove(self, wanted: Wanted) -> None:
        topics, content = wanted.key
        path, node = [], self._root
        for level in topics.split("/"):
            below = node.below.get(level)
            if below is None:
                return
            path.append((node, level))
            node = below
        node.here.pop(content, None)
        for above, level in reversed(path):
            below = above.below[level]
            if below.here or below.below:
                return
            del above.below[level]

    def of(self, topics: str, content: Filter) -> Iterator[Wanted]:
        """Those that cover this, as far as they are found soon."""
        levels = topics.split("/")
        places, looked_at = [(self._root, 0)], 0
        while places and looked_at < MOST_PLACES:
            node, depth = places.pop()
            looked_at += 1
            is_reserved = not depth and levels[0].startswith("$")
            rest = node.below.get(ALL_LEVELS)
            if rest is not None and not is_reserved:
                yield from _any_of(rest, content)
            if depth == len(levels):
                yield from _any_of(node, content)
                continue
            level = levels[depth]
            if level == ALL_LEVELS:
                continue
            names = (level,) if is_reserved else tuple(dict.fromkeys((ONE_LEVEL, level)))
            places += ((node.below[name], depth + 1) for name in names if name in node.below)


def _any_of(node: _Node, content: Filter) -> Iterator[Wanted]:
    for each in dict.fromkeys((EVERYTHING, content)):
        if each in node.here:
            yield node.here[each]
