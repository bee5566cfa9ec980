"""Which of the subscriptions that a neighbour wants it is told: all, or those that no other covers.

A neighbour *wants* what did not come from it and overlaps an advertisement that did.  Without
covering it is told all of that.  With covering each neighbour has a set of what it wants, and is
told what is kept there: whatever matches a subscription also matches the one that covers it, so
the neighbour sends the same publications, and has fewer rows.  What comes to be told is said before
what is taken back, so at no moment it knows less than it needs.

Subscriptions come from strangers, so the work of one change is bounded, and so is how many one
stands for: when it goes those are said at once.

PADRES covers so: Li, Hou and Jacobsen, "A Unified Approach to Routing, Covering and Merging in
Publish/Subscribe Systems Based on Modified Binary Decision Diagrams" (ICDCS 2005).
"""

from __future__ import annotations

from collections.abc import Iterable

from shoal.broker.effects import Effect, Send
from shoal.broker.messages import Subscribe, Unsubscribe
from shoal.matching import Work
from shoal.model import BrokerId, SubscriptionId
from shoal.overlays.tree.routing_table import RoutingTable, SubscriptionEntry

# What one change may cost at once, some 20 ms; what is left to do then is told as it is.
MOST_WORK = 20_000


class Telling:
    """What one broker tells its neighbours of its subscriptions; `forwarded_to` of rows has it."""

    def __init__(self, tables: RoutingTable) -> None:
        self._tables = tables

    def offer(
        self, hops: Iterable[BrokerId], entries: Iterable[SubscriptionEntry], out: list[Effect]
    ) -> None:
        """These neighbours want these, which may be told already."""
        if self._tables.wanted is None:
            for hop in hops:
                for entry in entries:
                    if hop not in entry.forwarded_to:
                        self._tables.tell(entry, hop)
                        out.append(Send(hop, Subscribe(entry.subscription)))
            return
        work = Work(MOST_WORK)
        for hop in hops:
            wanted = self._tables.wanted_by(hop)
            touched: dict[SubscriptionId, None] = {}
            for entry in entries:
                if entry.id not in wanted:
                    change = wanted.add(entry.id, entry.subscription.filter, work)
                    touched.update(dict.fromkeys((*change.kept, *change.dropped)))
            _take_back(hop, self._say(hop, touched, out), out)

    def release(
        self, hop: BrokerId, entries: Iterable[SubscriptionEntry], out: list[Effect]
    ) -> list[SubscriptionEntry]:
        """The neighbour does not want these any more; what is to be taken back for that."""
        if self._tables.wanted is None:
            told = [entry for entry in entries if hop in entry.forwarded_to]
            for entry in told:
                self._tables.untell(entry, hop)
            return told
        return self._withdraw(hop, entries, Work(MOST_WORK), out)

    def remove(self, entries: Iterable[SubscriptionEntry], out: list[Effect]) -> None:
        """Forget rows, and tell everybody."""
        removed = list(entries)
        if self._tables.wanted is None:
            for entry in removed:
                self._tables.remove_subscription(entry)
                message = Unsubscribe(entry.id)
                out.extend(Send(hop, message) for hop in sorted(entry.forwarded_to))
            return
        work = Work(MOST_WORK)
        for hop in sorted(self._tables.wanted):
            _take_back(hop, self._withdraw(hop, removed, work, out), out)
        for entry in removed:
            self._tables.remove_subscription(entry)

    def restate(
        self, hops: Iterable[BrokerId], ids: Iterable[SubscriptionId], out: list[Effect]
    ) -> None:
        """Rows have turned, and what neighbours have was put right: make of it what it must be.

        Without covering it is that already.
        """
        if self._tables.wanted is None:
            return
        work = Work(MOST_WORK)
        found = [(id, self._tables.subscriptions.get(id)) for id in ids]
        for hop in hops:
            wanted = self._tables.wanted_by(hop)
            touched = dict.fromkeys(id for id, _ in found)
            # What it has comes first, so that of those that are equal it stays.
            order = sorted(found, key=lambda each: each[1] is None or not each[1].is_told(hop))
            for id, entry in order:
                is_wanted = entry is not None and entry.last_hop != hop and entry.is_wanted_by(hop)
                if is_wanted is (id in wanted):
                    continue
                if entry is not None and is_wanted:
                    change = wanted.add(id, entry.subscription.filter, work)
                else:
                    change = wanted.remove(id, work)
                touched.update(dict.fromkeys((*change.kept, *change.dropped)))
            _take_back(hop, self._say(hop, touched, out), out)

    def _withdraw(
        self,
        hop: BrokerId,
        entries: Iterable[SubscriptionEntry],
        work: Work,
        out: list[Effect],
    ) -> list[SubscriptionEntry]:
        wanted = self._tables.wanted_by(hop)
        touched: dict[SubscriptionId, None] = {}
        for entry in entries:
            if entry.id in wanted:
                change = wanted.remove(entry.id, work)
                touched.update(dict.fromkeys((*change.kept, *change.dropped)))
        return self._say(hop, touched, out)

    def _say(
        self, hop: BrokerId, ids: Iterable[SubscriptionId], out: list[Effect]
    ) -> list[SubscriptionEntry]:
        """Tell what is kept of these and not told; what to take back: told, and not kept."""
        kept, told = self._tables.wanted_by(hop).kept, []
        for id in ids:
            entry = self._tables.subscriptions.get(id)
            if entry is None:
                continue
            if id in kept and hop not in entry.forwarded_to:
                self._tables.tell(entry, hop)
                out.append(Send(hop, Subscribe(entry.subscription)))
            elif id not in kept and hop in entry.forwarded_to:
                self._tables.untell(entry, hop)
                told.append(entry)
        return told


def _take_back(hop: BrokerId, entries: Iterable[SubscriptionEntry], out: list[Effect]) -> None:
    out.extend(Send(hop, Unsubscribe(entry.id)) for entry in entries)
