"""What a home's clients want, at whom it is known, and what this broker knows of all homes.

A filter that names topics is known at their roots; one for any topic is known everywhere, so that
whoever is a root, and whoever takes in what has no topic, can tell.  In a new view a home says all
that it wants anew, and a root sends nothing before all homes have: no publication of the view
misses a subscription, wherever its root was before.

Source: DYNATOPS, section 3: a broker joins a topic with the first of its users that wants it, and
leaves it with the last.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable

from shoal.broker.effects import Effect, Key, Settled, Unsettled
from shoal.matching import MatchIndex
from shoal.model import Attributes, BrokerId, Filter
from shoal.overlays.dynatops.members.membership import Membership
from shoal.overlays.dynatops.messages import Interest, Known, Row

# Rows in one message; more travel in several.
ROWS_PER_MESSAGE = 500


class _Wanted:
    """A filter that local clients have: how many subscriptions, who has yet to know it.

    `waiting` are the inputs that are settled when everybody does, `number` when it was said.
    """

    __slots__ = ("count", "is_known", "keys", "missing", "number", "row", "waiting")

    def __init__(self, row: Row, keys: frozenset[str] | None) -> None:
        self.row = row
        self.keys = keys
        self.number = row.id
        self.count = 0
        self.is_known = False
        self.missing: set[BrokerId] = set()
        self.waiting: list[Key] = []


class Interests:
    """At one broker.

    `topics_of` says at whose roots a filter is to be known, None: everywhere; `spread` sends an
    `Interest` to its targets, others, along the ways of the view.  `heard` is told
    of each row that comes, True, or goes, but not of those that a new view forgets.
    """

    def __init__(
        self,
        membership: Membership,
        topics_of: Callable[[Filter], frozenset[str] | None],
        spread: Callable[[Interest, tuple[BrokerId, ...], list[Effect]], None],
        heard: Callable[[BrokerId, Filter, bool], None] | None = None,
    ) -> None:
        self._membership = membership
        self._topics_of = topics_of
        self._tell = heard
        self._spread = spread
        self._broker = membership.broker
        self._wanted: dict[Filter, _Wanted] = {}
        self._number = 0
        self._waits = 0
        # What each of the others has yet to know, in the order in which it was said.
        self._awaited: dict[BrokerId, deque[_Wanted]] = {}
        # Of all homes, by home and number.
        self.rows: dict[tuple[BrokerId, int], Filter] = {}
        self._index = MatchIndex()
        self._heard: set[BrokerId] = set()

    def __len__(self) -> int:
        """How many different filters local clients have."""
        return len(self._wanted)

    @property
    def missing(self) -> Collection[BrokerId]:
        """The members that have not said yet what they want."""
        return [each for each in self._membership.others if each not in self._heard]

    @property
    def is_complete(self) -> bool:
        """Whether all have said what they want."""
        view = self._membership.view
        return view is not None and len(self._heard) >= len(view.members) - 1

    def homes(self, attributes: Attributes) -> list[BrokerId]:
        """Who wants this publication, by name."""
        return sorted(self._index.match_destinations(attributes))

    @property
    def most_candidates(self) -> int:
        """How much that may be, whatever the publication says."""
        return self._index.most_candidates

    def work_of(self, attributes: Attributes) -> int:
        """How much it may be to find out who wants a publication."""
        return self._index.work_of(attributes)

    def prepare(self, attributes: Attributes, work_us: float) -> bool:
        """Look through a publication's texts for so long; whether that is all."""
        return self._index.prepare(attributes, work_us)

    # --- what local clients want --------------------------------------------------------------

    def add(self, filter: Filter, out: list[Effect]) -> None:
        """One more subscription; it is settled when no publication can miss it any more."""
        wanted = self._wanted.get(filter)
        if wanted is None:
            self._number += 1
            row = Row(self._number, filter)
            wanted = self._wanted[filter] = _Wanted(row, self._topics_of(filter))
            self._await(wanted)
            self._say(wanted, out, added=(wanted.row,))
        wanted.count += 1
        if not wanted.is_known:
            self._waits += 1
            key = "interest", str(self._waits)
            wanted.waiting.append(key)
            out.append(Unsettled(key))
            self._look(wanted, out)

    def remove(self, filter: Filter, out: list[Effect]) -> None:
        wanted = self._wanted[filter]
        wanted.count -= 1
        if not wanted.count:
            del self._wanted[filter]
            self._number += 1
            self._say(wanted, out, removed=(wanted.row.id,))
            wanted.missing.clear()
            self._look(wanted, out)

    def _await(self, wanted: _Wanted) -> None:
        """Note who has yet to know it."""
        wanted.missing = {each for each in self._targets(wanted) if each != self._broker}
        for target in wanted.missing:
            self._awaited.setdefault(target, deque()).append(wanted)

    def _look(self, wanted: _Wanted, out: list[Effect]) -> None:
        """Settle those that wait for it, if everybody knows it."""
        if wanted.missing or self._membership.view is None:
            return
        wanted.is_known = True
        out.extend(Settled(key) for key in wanted.waiting)
        wanted.waiting.clear()

    def _targets(self, wanted: _Wanted) -> Collection[BrokerId]:
        """Who must know it, this broker included."""
        places = self._membership.places
        if places is None:
            return ()
        if wanted.keys is None:
            return places.members
        return sorted({places.root(key) for key in wanted.keys})

    def _say(
        self,
        wanted: _Wanted,
        out: list[Effect],
        added: tuple[Row, ...] = (),
        removed: tuple[int, ...] = (),
    ) -> None:
        view, targets = self._membership.view, self._targets(wanted)
        if view is None:
            return
        if self._broker in targets:
            self._take(self._broker, added, removed)
        others = tuple(each for each in targets if each != self._broker)
        if others:
            change = Interest(view.age, self._broker, others, self._number, added, removed)
            self._spread(change, others, out)

    # --- a new view ---------------------------------------------------------------------------

    def begin(self, out: list[Effect]) -> None:
        """Nobody knows anything in a new view: say everything."""
        others = self._membership.others
        self._awaited.clear()
        self._heard.clear()
        self.rows.clear()
        self._index = MatchIndex()
        everywhere: list[Row] = []
        at_roots: dict[BrokerId, list[Row]] = {}
        for wanted in self._wanted.values():
            targets = self._targets(wanted)
            if not wanted.is_known:
                self._await(wanted)
                self._look(wanted, out)
            if self._broker in targets:
                self._take(self._broker, (wanted.row,), ())
            if wanted.keys is None:
                everywhere.append(wanted.row)
                continue
            for root in targets:
                if root != self._broker:
                    at_roots.setdefault(root, []).append(wanted.row)
        for root, rows in at_roots.items():
            for part in _parts(rows):
                self._say_rows((root,), part, out)
        if others:
            *parts, last = _parts(everywhere)
            for part in parts:
                self._say_rows(others, part, out)
            self._say_rows(others, last, out, is_all=True)

    def _say_rows(
        self,
        targets: tuple[BrokerId, ...],
        rows: tuple[Row, ...],
        out: list[Effect],
        *,
        is_all: bool = False,
    ) -> None:
        view = self._membership.view
        assert view is not None
        asks = is_all and any(self._awaited.values())
        said = Interest(view.age, self._broker, targets, self._number, rows, (), is_all, asks)
        self._spread(said, targets, out)

    # --- what homes say -----------------------------------------------------------------------

    def hear(self, message: Interest) -> Known | None:
        """A home has said what it wants: the answer, if it asks for one."""
        self._take(message.home, message.added, message.removed)
        if message.is_all:
            self._heard.add(message.home)
        if not message.asks:
            return None
        return Known(message.age, message.home, self._broker, message.number)

    def known(self, message: Known, out: list[Effect]) -> None:
        """Another broker knows what this home wants, up to a number."""
        awaited = self._awaited.get(message.broker)
        while awaited and awaited[0].number <= message.number:
            wanted = awaited.popleft()
            wanted.missing.discard(message.broker)
            self._look(wanted, out)

    def _take(self, home: BrokerId, added: Iterable[Row], removed: Iterable[int]) -> None:
        for row in added:
            if (home, row.id) not in self.rows:
                self.rows[home, row.id] = row.filter
                self._index.add((home, row.id), row.filter, home)
                if self._tell is not None:
                    self._tell(home, row.filter, True)
        for id in removed:
            filter = self.rows.pop((home, id), None)
            if filter is not None:
                self._index.remove((home, id))
                if self._tell is not None:
                    self._tell(home, filter, False)


def _parts(rows: list[Row]) -> list[tuple[Row, ...]]:
    """Parts of bounded size; one at least."""
    starts = range(0, max(1, len(rows)), ROWS_PER_MESSAGE)
    return [tuple(rows[start : start + ROWS_PER_MESSAGE]) for start in starts]
