"""Bits for the hosts in other clusters: whether this cluster wants their advertisements.

The paper's bit is on while a subscription here overlaps the advertisement, so that all publications
under the advertisement come, with or without a subscriber here. A sharp bit comes with a bounded
number of filters, one of which covers each overlapping subscription here. The host then sends only
publications that match one of them (`hosted.py`).

The announced filters may be wider than the subscriptions, and are never narrower. So a subscription
that none of them covers is announced at once, in the same step, as one more (`BitSet.more`). A
removed one is announced later, for many rows at once, as a new set. If filters are too many or too
long, or one of them covers the advertisement, the bit is plain, and stands for everything. The bit
of a new advertisement is plain, too, until filters have been announced.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable

from shoal.broker.effects import Effect, Send, SetTimer, TimerKey
from shoal.matching import CoveringSet, Work, covers
from shoal.model import Filter
from shoal.overlays.octopia.known.tables import NOTHING, ClusterEntry, SecondaryRow, Tables
from shoal.overlays.octopia.messages import BitCleared, BitSet

TIMER: TimerKey = ("narrow",)
# Rows with removed subscriptions are narrowed at this interval, with these work bounds in total and
# for one row: some 10 ms.
NARROW_US = 1_000_000
MOST_WORK = 20_000
# Pairs of filters that are compared as one input is handled, some 10 ms.
MOST_PAIRS = 2_000
# The filters of one bit together (`Filter.size`).
MOST_SIZE = 2_000
# While a covering set is made it may be larger, by this.
SLACK = 4


class Bits:
    """The bits of `tables`' secondary rows, with at most `most` filters each.

    `linked` are all neighbours.
    """

    def __init__(self, tables: Tables, linked: Container[str], most: int) -> None:
        self._tables = tables
        self._linked = linked
        self._most = most
        # Rows with fewer subscriptions than announced, maybe.
        self._wide: dict[SecondaryRow, None] = {}
        self._is_timer_set = False
        self._pairs = MOST_PAIRS

    def advertised(self, row: SecondaryRow, now_us: int, out: list[Effect]) -> None:
        """A host has a new advertisement, for which nothing is announced yet."""
        if row.is_wanted:
            self._announce_first(row, out)
            self._set_narrowing_timer(now_us, out)

    def changed(
        self,
        gone: Iterable[ClusterEntry],
        new: Iterable[ClusterEntry],
        now_us: int,
        out: list[Effect],
    ) -> None:
        """Subscriptions were removed from the tables, and others added."""
        left: dict[SecondaryRow, set[Filter]] = {}
        met: dict[SecondaryRow, list[Filter]] = {}
        for entry in gone:
            for row in entry.overlapping:
                left.setdefault(row, set()).add(entry.subscription.filter)
        for entry in new:
            for row in entry.overlapping:
                met.setdefault(row, []).append(entry.subscription.filter)
        self._pairs = MOST_PAIRS
        for row in dict.fromkeys((*left, *met)):
            if row.host not in self._linked:
                continue
            if not row.is_wanted:
                self._clear(row, out)
            elif row.told is NOTHING:
                self._announce_first(row, out)
            elif self._most:
                self._widen(row, met.get(row, ()), out)
                told = () if row.told is None else row.told.keys()
                if row in left and (row.is_coarse or not left[row].isdisjoint(told)):
                    self._wide[row] = None
        self._set_narrowing_timer(now_us, out)

    def _clear(self, row: SecondaryRow, out: list[Effect]) -> None:
        row.told = NOTHING
        self._wide.pop(row, None)
        out.append(Send(row.host, BitCleared(row.advertisement.id)))

    def _announce_first(self, row: SecondaryRow, out: list[Effect]) -> None:
        """Announce a row for the first time: its few filters, or everything at first."""
        found = None
        if self._most:
            if len(row.overlapping) <= self._most:
                found = self._asked(row, Work(MOST_WORK))
            else:
                self._wide[row] = None
        self._announce_row(row, found, out)

    def _announce_row(
        self, row: SecondaryRow, filters: Collection[Filter] | None, out: list[Effect]
    ) -> None:
        row.is_coarse = filters is None
        row.told = None if filters is None else dict.fromkeys(filters)
        said = None if filters is None else tuple(filters)
        out.append(Send(row.host, BitSet(row.advertisement.id, said)))

    def _widen(self, row: SecondaryRow, filters: Iterable[Filter], out: list[Effect]) -> None:
        """Announce additional filters of a row."""
        told = row.told
        if told is None:
            return
        more: dict[Filter, None] = {}
        for each in filters:
            if each not in told and not self._is_covered(each, (*told, *more)):
                more[each] = None
        if not more:
            return
        is_all = self._is_covered(row.advertisement.filter, more)
        if self._is_short({**told, **more}) and not is_all:
            told.update(more)
            out.append(Send(row.host, BitSet(row.advertisement.id, tuple(more), more=True)))
        else:
            # Some announced filters may have been removed since, or be covered by new ones.
            self._wide[row] = None
            self._announce_row(row, None, out)

    def _is_covered(self, filter: Filter, by: Collection[Filter]) -> bool:
        """Whether one of these covers a filter; False if the test exceeds the work bound."""
        self._pairs -= len(by)
        return self._pairs >= 0 and any(covers(one, filter) for one in by)

    # --- narrower -----------------------------------------------------------------------------

    def waited(self, now_us: int, out: list[Effect]) -> None:
        """The timer fired: announce narrower filters."""
        self._is_timer_set = False
        spent = 0
        for row in list(self._wide):
            if spent > MOST_WORK:
                break
            del self._wide[row]
            key = (row.host, row.advertisement.id)
            if self._tables.secondary.get(key) is not row or row.host not in self._linked:
                continue
            work = Work(MOST_WORK)
            found = self._asked(row, work)
            spent += work.spent + len(row.overlapping)
            # If there are too many of them, the announced filters still hold.
            row.is_coarse = found is None
            if found is not None and row.told != found:
                self._announce_row(row, found, out)
        self._set_narrowing_timer(now_us, out)

    def _asked(self, row: SecondaryRow, work: Work) -> dict[Filter, None] | None:
        """The covering set of the subscriptions that overlap a row; None if its bit is plain."""
        kept: CoveringSet[Filter] = CoveringSet()
        for each in dict.fromkeys(entry.subscription.filter for entry in row.overlapping):
            if each.size > MOST_SIZE:
                return None
            kept.add(each, each, work)
            if work.is_spent or len(kept.kept) > SLACK * self._most:
                return None
        found = dict.fromkeys(kept.kept)
        everything = row.advertisement.filter
        if not self._is_short(found) or any(covers(each, everything) for each in found):
            return None
        return found

    def _is_short(self, filters: Collection[Filter]) -> bool:
        return len(filters) <= self._most and sum(each.size for each in filters) <= MOST_SIZE

    def _set_narrowing_timer(self, now_us: int, out: list[Effect]) -> None:
        if self._wide and not self._is_timer_set:
            self._is_timer_set = True
            out.append(SetTimer(TIMER, now_us + NARROW_US))
