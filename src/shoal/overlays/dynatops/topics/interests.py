"""Subscriptions of a home's clients, the brokers that know them, and those of all homes known here.

A filter with topics is known at their roots; one for any topic is known everywhere, since any
broker may be a root, or take in publications without a topic. In a new view a home announces all
its filters anew, and a root sends nothing before all homes have: no publication of the view misses
a subscription, wherever its root was before.

If only brokers' positions have changed (`View.base`), homes and roots continue: a broker hands the
rows of the topics that it was the root of over to the broker that now is where it was, and homes
announce only what was not confirmed before. So a swap costs messages of the brokers that moved, and
no others. A root whose rows are handed over sends nothing before it has them. A broker that has
not been in the view before, or did not know all filters in it, asks all homes for theirs, as in any
other view.

Why no publication misses a settled subscription: it is settled when its roots have confirmed it, so
the broker at a root's position had its row before it entered the next view, and hands it over, or
keeps it. Removed rows do not return: homes repeat removals that were not confirmed, and a root that
waits for rows leaves out those removed meanwhile.

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
from shoal.overlays.dynatops.messages import (
    HandedRow,
    KnownTopics,
    RowsHandedOver,
    RowsWanted,
    TopicInterest,
    TopicRow,
)
from shoal.overlays.dynatops.topics.ways import Ways
from shoal.overlays.dynatops.view import ViewPlaces

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


class _RemovedRow:
    """A removed filter, and the brokers yet to confirm that."""

    __slots__ = ("id", "keys", "missing", "number")

    def __init__(self, id: int, number: int, keys: frozenset[str] | None) -> None:
        self.id = id
        self.number = number
        self.keys = keys
        self.missing: set[BrokerId] = set()


class Interests:
    """The interests at one broker.

    `topics_of` gives the topics at whose roots a filter is to be known, None: everywhere; messages
    take `ways`, the paths of the view. `heard` is called with each row that is added (True) or
    removed, but not for those that a new view drops.
    """

    def __init__(
        self,
        membership: ViewMembership,
        topics_of: Callable[[Filter], frozenset[str] | None],
        ways: Ways,
        heard: Callable[[BrokerId, Filter, bool], None] | None = None,
    ) -> None:
        self._membership = membership
        self._topics_of = topics_of
        self._tell = heard
        self._spread = ways.spread
        self._ask = ways.spread_question
        self._hand_on = ways.hand_over
        self._broker = membership.broker
        self._wanted: dict[Filter, _Wanted] = {}
        self._number = 0
        self._waits = 0
        # For each of the others, filters without its confirmation, in the order of announcement.
        self._awaited: dict[BrokerId, deque[_Wanted | _RemovedRow]] = {}
        # Removed filters of local clients, by number of the row, until all confirm that.
        self._removed: dict[int, _RemovedRow] = {}
        # Rows of all homes, by home and number.
        self.rows: dict[tuple[BrokerId, int], Filter] = {}
        self._index = MatchIndex()
        # The rows here are complete with the announcements of all others (`_heard`), or, if it is
        # not None, with the rows of the brokers in `_handing_over`; rows removed before these came.
        self._heard: set[BrokerId] = set()
        self._handing_over: set[BrokerId] | None = None
        self._removed_early: set[tuple[BrokerId, int]] = set()
        self._places: ViewPlaces | None = None

    def __len__(self) -> int:
        """Number of different filters of local clients."""
        return len(self._wanted)

    @property
    def missing(self) -> Collection[BrokerId]:
        """The members that have not announced their filters yet, or not handed over others'."""
        if self._handing_over is not None:
            return sorted(self._handing_over)
        return [each for each in self._membership.others if each not in self._heard]

    @property
    def is_complete(self) -> bool:
        """Whether all filters are known that this broker is to know in the view."""
        if self._handing_over is not None:
            return not self._handing_over
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
            self._settle_if_confirmed(wanted, out)

    def remove(self, filter: Filter, out: list[Effect]) -> None:
        wanted = self._wanted[filter]
        wanted.count -= 1
        if not wanted.count:
            del self._wanted[filter]
            self._number += 1
            if self._membership.view is not None:
                removed = _RemovedRow(wanted.row.id, self._number, wanted.keys)
                self._await(removed)
                if removed.missing:
                    self._removed[removed.id] = removed
            self._announce(wanted, out, removed=(wanted.row.id,))
            wanted.missing.clear()
            self._settle_if_confirmed(wanted, out)

    def _await(self, wanted: _Wanted | _RemovedRow) -> None:
        """Note the brokers that have yet to confirm it."""
        wanted.missing = {each for each in self._targets(wanted) if each != self._broker}
        for target in wanted.missing:
            self._awaited.setdefault(target, deque()).append(wanted)

    def _settle_if_confirmed(self, wanted: _Wanted, out: list[Effect]) -> None:
        """Settle the inputs that wait for it, if all have confirmed."""
        if wanted.missing or self._membership.view is None:
            return
        wanted.is_known = True
        out.extend(Settled(key) for key in wanted.waiting)
        wanted.waiting.clear()

    def _targets(self, wanted: _Wanted | _RemovedRow) -> Collection[BrokerId]:
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
            self._take_rows(self._broker, added, removed)
        others = tuple(each for each in targets if each != self._broker)
        if others:
            change = TopicInterest(view.age, self._broker, others, self._number, added, removed)
            self._spread(change, others, out)

    # --- a new view ---------------------------------------------------------------------------

    def begin(self, out: list[Effect], *, continues: bool = False) -> None:
        """A view begins; it `continues` if this broker was in its base, and knew all there."""
        former, self._places = self._places, self._membership.places
        self._awaited.clear()
        self._removed_early.clear()
        self._handing_over = None
        self._heard.clear()
        if continues and former is not None and self._places is not None:
            self._continue(former, self._places, out)
            return
        self.rows.clear()
        self._index = MatchIndex()
        view = self._membership.view
        for wanted in self._wanted.values():
            if not wanted.is_known:
                self._await(wanted)
                self._settle_if_confirmed(wanted, out)
            if self._broker in self._targets(wanted):
                self._take_rows(self._broker, (wanted.row,), ())
        if view is not None and view.base is not None:
            self._ask_for_rows(out)
            # The announcement of all that follows asks for the confirmation.
            for target, ids in sorted(self._unconfirmed_removals().items()):
                self._send_rows((target,), (), out, removed=tuple(ids))
        else:
            self._removed.clear()
        self._send_all(self._membership.others, out)

    def _send_all(self, others: tuple[BrokerId, ...], out: list[Effect]) -> None:
        """Announce to these brokers all that they need, and that it was all."""
        everywhere: list[TopicRow] = []
        at_roots: dict[BrokerId, list[TopicRow]] = {}
        for wanted in self._wanted.values():
            if wanted.keys is None:
                everywhere.append(wanted.row)
                continue
            for root in self._targets(wanted):
                if root in others:
                    at_roots.setdefault(root, []).append(wanted.row)
        for root, rows in at_roots.items():
            for part in _parts(rows):
                self._send_rows((root,), part, out)
        if others:
            *parts, last = _parts(everywhere)
            for part in parts:
                self._send_rows(others, part, out)
            self._membership.spend(len(others))
            self._send_rows(others, last, out, is_all=True)

    # --- a view with other positions ----------------------------------------------------------

    def _continue(self, former: ViewPlaces, places: ViewPlaces, out: list[Effect]) -> None:
        """Keep the rows, hand over those of other positions, and announce what is unconfirmed."""
        changed = [
            pair for pair in zip(former.members, places.members, strict=True) if pair[0] != pair[1]
        ]
        self._handing_over = {source for source, target in changed if target == self._broker}
        for source, target in changed:
            if source == self._broker:
                self._hand_over(former, target, out)
        self._keep_rows(places)
        for wanted in self._wanted.values():
            if self._broker in self._targets(wanted):
                self._take_rows(self._broker, (wanted.row,), ())
        self._repeat_unconfirmed(out)

    def _hand_over(self, former: ViewPlaces, target: BrokerId, out: list[Effect]) -> None:
        view = self._membership.view
        assert view is not None
        rows = [
            HandedRow(home, TopicRow(id, filter))
            for (home, id), filter in self.rows.items()
            if any(former.root(key) == self._broker for key in self._topics_of(filter) or ())
        ]
        starts = range(0, max(1, len(rows)), ROWS_PER_MESSAGE)
        for start in starts:
            part = tuple(rows[start : start + ROWS_PER_MESSAGE])
            is_all = start + ROWS_PER_MESSAGE >= len(rows)
            self._hand_on(RowsHandedOver(view.age, self._broker, target, part, is_all), out)

    def _keep_rows(self, places: ViewPlaces) -> None:
        """Drop the rows that are for other roots."""
        for (home, id), filter in list(self.rows.items()):
            keys = self._topics_of(filter)
            if keys is not None and all(places.root(key) != self._broker for key in keys):
                del self.rows[home, id]
                self._index.remove((home, id))

    def _repeat_unconfirmed(self, out: list[Effect]) -> None:
        """Send additions and removals without confirmation again.

        The last message to a broker alone asks: it confirms all up to its number, and so those of
        the messages before it.
        """
        added: dict[BrokerId, list[TopicRow]] = {}
        for wanted in self._wanted.values():
            if wanted.is_known:
                continue
            self._await(wanted)
            self._settle_if_confirmed(wanted, out)
            for target in wanted.missing:
                added.setdefault(target, []).append(wanted.row)
        removed = self._unconfirmed_removals()
        for target in sorted({*added, *removed}):
            *parts, last = _parts(added.get(target, []))
            for part in parts:
                self._send_rows((target,), part, out)
            ids = tuple(removed.get(target, ()))
            self._send_rows((target,), last, out, asks=True, removed=ids)

    def _unconfirmed_removals(self) -> dict[BrokerId, list[int]]:
        """Await confirmations of removed rows anew; returns the rows by broker."""
        removed: dict[BrokerId, list[int]] = {}
        for row in list(self._removed.values()):
            self._await(row)
            if self._broker in self._targets(row):
                self._take_rows(self._broker, (), (row.id,))
            if not row.missing:
                del self._removed[row.id]
            for target in row.missing:
                removed.setdefault(target, []).append(row.id)
        return removed

    def _ask_for_rows(self, out: list[Effect]) -> None:
        view, others = self._membership.view, self._membership.others
        assert view is not None
        self._handing_over = None
        if others:
            self._ask(RowsWanted(view.age, self._broker, others), others, out)

    def rows_wanted(self, message: RowsWanted, out: list[Effect]) -> None:
        """Another broker has no rows: it gets those of this home, and can hand over none.

        Rows that are here stay: a home may have announced some of its own already, and then only
        says that they were all.
        """
        self._send_all((message.broker,), out)
        if self._handing_over is not None and message.broker in self._handing_over:
            self._ask_for_rows(out)

    def on_handed_over(self, message: RowsHandedOver) -> None:
        """The broker that was here before hands over what it knew as a root."""
        if self._handing_over is None or message.broker not in self._handing_over:
            return
        for each in message.rows:
            if (each.home, each.row.id) not in self._removed_early:
                self._take_rows(each.home, (each.row,), ())
        if message.is_all:
            self._handing_over.discard(message.broker)

    def _send_rows(
        self,
        targets: tuple[BrokerId, ...],
        rows: tuple[TopicRow, ...],
        out: list[Effect],
        *,
        is_all: bool = False,
        asks: bool = False,
        removed: tuple[int, ...] = (),
    ) -> None:
        view = self._membership.view
        assert view is not None
        asks = asks or (is_all and any(self._awaited.values()))
        said = TopicInterest(
            view.age, self._broker, targets, self._number, rows, removed, is_all, asks
        )
        self._spread(said, targets, out)

    # --- announcements of homes ---------------------------------------------------------------

    def on_interest(self, message: TopicInterest) -> KnownTopics | None:
        """A home has announced filters; returns the confirmation, if it asks for one."""
        self._take_rows(message.home, message.added, message.removed)
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
            if isinstance(wanted, _Wanted):
                self._settle_if_confirmed(wanted, out)
            elif not wanted.missing:
                self._removed.pop(wanted.id, None)

    def _take_rows(self, home: BrokerId, added: Iterable[TopicRow], removed: Iterable[int]) -> None:
        for row in added:
            if (home, row.id) not in self.rows:
                self.rows[home, row.id] = row.filter
                self._index.add((home, row.id), row.filter, home)
                if self._tell is not None:
                    self._tell(home, row.filter, True)
        for id in removed:
            if self._handing_over:
                self._removed_early.add((home, id))
            filter = self.rows.pop((home, id), None)
            if filter is not None:
                self._index.remove((home, id))
                if self._tell is not None:
                    self._tell(home, filter, False)


def _parts(rows: list[TopicRow]) -> list[tuple[TopicRow, ...]]:
    """Parts of bounded size; one at least."""
    starts = range(0, max(1, len(rows)), ROWS_PER_MESSAGE)
    return [tuple(rows[start : start + ROWS_PER_MESSAGE]) for start in starts]
