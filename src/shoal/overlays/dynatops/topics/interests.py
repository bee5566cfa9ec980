"""Subscriptions of a home's clients, the brokers that know them, and those of all homes known here.

A filter with topics is known at their roots; one for any topic is known everywhere, since any
broker may be a root, or take in publications without a topic. In a new view a home announces all
its filters anew, and a root sends nothing before all homes have: no publication of the view misses
a subscription, wherever its root was before.

Source: DYNATOPS, section 3: a broker joins a topic with the first of its users that wants it, and
leaves it with the last.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable

from shoal.broker.effects import Effect, Key, Settled, Unsettled
from shoal.matching import MatchIndex
from shoal.model import Attributes, BrokerId, Filter
from shoal.overlays.dynatops.members.membership import ViewMembership
from shoal.overlays.dynatops.messages import KnownTopics, TopicInterest, TopicRow

# Rows in one message; more travel in several.
ROWS_PER_MESSAGE = 500


class _Wanted:
    """A filter of local clients: its number of subscriptions, and the brokers yet to confirm it.

    `waiting` are the inputs that are settled when all have, `number` that of its announcement.
    """

    __slots__ = ("count", "is_known", "keys", "missing", "number", "row", "waiting")

    def __init__(self, row: TopicRow, keys: frozenset[str] | None) -> None:
        self.row = row
        self.keys = keys
        self.number = row.id
        self.count = 0
        self.is_known = False
        self.missing: set[BrokerId] = set()
        self.waiting: list[Key] = []


class Interests:
    """The interests at one broker.

    `topics_of` gives the topics at whose roots a filter is to be known, None: everywhere; `spread`
    sends a `TopicInterest` to other brokers, its targets, along the paths of the view. `heard` is
    called with each row that is added (True) or removed, but not for those that a new view drops.
    """

    def __init__(
        self,
        membership: ViewMembership,
        topics_of: Callable[[Filter], frozenset[str] | None],
        spread: Callable[[TopicInterest, tuple[BrokerId, ...], list[Effect]], None],
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
        # For each of the others, filters without its confirmation, in the order of announcement.
        self._awaited: dict[BrokerId, deque[_Wanted]] = {}
        # Rows of all homes, by home and number.
        self.rows: dict[tuple[BrokerId, int], Filter] = {}
        self._index = MatchIndex()
        self._heard: set[BrokerId] = set()

    def __len__(self) -> int:
        """Number of different filters of local clients."""
        return len(self._wanted)

    @property
    def missing(self) -> Collection[BrokerId]:
        """The members that have not announced their filters yet."""
        return [each for each in self._membership.others if each not in self._heard]

    @property
    def is_complete(self) -> bool:
        """Whether all have announced their filters."""
        view = self._membership.view
        return view is not None and len(self._heard) >= len(view.members) - 1

    def homes(self, attributes: Attributes) -> list[BrokerId]:
        """The homes of a publication, by name."""
        return sorted(self._index.match_destinations(attributes))

    @property
    def most_candidates(self) -> int:
        """Bound on that number, for any publication."""
        return self._index.most_candidates

    def work_of(self, attributes: Attributes) -> int:
        """Bound on the work to find a publication's homes."""
        return self._index.work_of(attributes)

    def prepare(self, attributes: Attributes, work_us: float) -> bool:
        """Scan a publication's texts for this time; returns whether the scan is complete."""
        return self._index.prepare(attributes, work_us)

    # --- filters of local clients -------------------------------------------------------------

    def add(self, filter: Filter, out: list[Effect]) -> None:
        """One more subscription; it is settled when no publication can miss it any more."""
        wanted = self._wanted.get(filter)
        if wanted is None:
            self._number += 1
            row = TopicRow(self._number, filter)
            wanted = self._wanted[filter] = _Wanted(row, self._topics_of(filter))
            self._await(wanted)
            self._announce(wanted, out, added=(wanted.row,))
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
            self._announce(wanted, out, removed=(wanted.row.id,))
            wanted.missing.clear()
            self._look(wanted, out)

    def _await(self, wanted: _Wanted) -> None:
        """Note the brokers that have yet to confirm it."""
        wanted.missing = {each for each in self._targets(wanted) if each != self._broker}
        for target in wanted.missing:
            self._awaited.setdefault(target, deque()).append(wanted)

    def _look(self, wanted: _Wanted, out: list[Effect]) -> None:
        """Settle the inputs that wait for it, if all have confirmed."""
        if wanted.missing or self._membership.view is None:
            return
        wanted.is_known = True
        out.extend(Settled(key) for key in wanted.waiting)
        wanted.waiting.clear()

    def _targets(self, wanted: _Wanted) -> Collection[BrokerId]:
        """The brokers that must know it, this one included."""
        places = self._membership.places
        if places is None:
            return ()
        if wanted.keys is None:
            return places.members
        return sorted({places.root(key) for key in wanted.keys})

    def _announce(
        self,
        wanted: _Wanted,
        out: list[Effect],
        added: tuple[TopicRow, ...] = (),
        removed: tuple[int, ...] = (),
    ) -> None:
        view, targets = self._membership.view, self._targets(wanted)
        if view is None:
            return
        if self._broker in targets:
            self._take(self._broker, added, removed)
        others = tuple(each for each in targets if each != self._broker)
        if others:
            change = TopicInterest(view.age, self._broker, others, self._number, added, removed)
            self._spread(change, others, out)

    # --- a new view ---------------------------------------------------------------------------

    def begin(self, out: list[Effect]) -> None:
        """Announce everything: no broker knows any filter in a new view."""
        others = self._membership.others
        self._awaited.clear()
        self._heard.clear()
        self.rows.clear()
        self._index = MatchIndex()
        everywhere: list[TopicRow] = []
        at_roots: dict[BrokerId, list[TopicRow]] = {}
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
                self._send_rows((root,), part, out)
        if others:
            *parts, last = _parts(everywhere)
            for part in parts:
                self._send_rows(others, part, out)
            self._send_rows(others, last, out, is_all=True)

    def _send_rows(
        self,
        targets: tuple[BrokerId, ...],
        rows: tuple[TopicRow, ...],
        out: list[Effect],
        *,
        is_all: bool = False,
    ) -> None:
        view = self._membership.view
        assert view is not None
        asks = is_all and any(self._awaited.values())
        said = TopicInterest(view.age, self._broker, targets, self._number, rows, (), is_all, asks)
        self._spread(said, targets, out)

    # --- announcements of homes ---------------------------------------------------------------

    def on_interest(self, message: TopicInterest) -> KnownTopics | None:
        """A home has announced filters; returns the confirmation, if it asks for one."""
        self._take(message.home, message.added, message.removed)
        if message.is_all:
            self._heard.add(message.home)
        if not message.asks:
            return None
        return KnownTopics(message.age, message.home, self._broker, message.number)

    def known(self, message: KnownTopics, out: list[Effect]) -> None:
        """Another broker knows this home's filters, up to a number."""
        awaited = self._awaited.get(message.broker)
        while awaited and awaited[0].number <= message.number:
            wanted = awaited.popleft()
            wanted.missing.discard(message.broker)
            self._look(wanted, out)

    def _take(self, home: BrokerId, added: Iterable[TopicRow], removed: Iterable[int]) -> None:
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


def _parts(rows: list[TopicRow]) -> list[tuple[TopicRow, ...]]:
    """Parts of bounded size; one at least."""
    starts = range(0, max(1, len(rows)), ROWS_PER_MESSAGE)
    return [tuple(rows[start : start + ROWS_PER_MESSAGE]) for start in starts]
