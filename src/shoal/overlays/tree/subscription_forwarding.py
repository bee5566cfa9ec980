"""Forwarding of subscriptions to neighbours: all that a neighbour wants, or a covering subset.

A neighbour *wants* the subscriptions that did not come from it and overlap an advertisement that
did. Without covering all of them are forwarded to it. With covering each neighbour has a covering
set of those it wants, and only the kept ones are forwarded: a publication that matches a
subscription also matches one that covers it, so the neighbour sends the same publications, and has
fewer rows. Additions are sent before removals, so the neighbour never has less than it needs.

Subscriptions come from untrusted clients, so the work of one change is bounded, and so is the
number of subscriptions that one covers: they are all sent at once when it is removed.

Source: covering in PADRES: Li, Hou and Jacobsen, "A Unified Approach to Routing, Covering and
Merging in Publish/Subscribe Systems Based on Modified Binary Decision Diagrams" (ICDCS 2005).
"""

from __future__ import annotations

from collections.abc import Iterable

from shoal.broker.effects import Effect, Send
from shoal.broker.messages import Subscribe, Unsubscribe
from shoal.matching import Work
from shoal.model import BrokerId, SubscriptionId
from shoal.overlays.tree.routing_rows import SubscriptionEntry
from shoal.overlays.tree.routing_table import RoutingTable

# Work bound of one change, some 20 ms; beyond it subscriptions are forwarded uncovered.
MOST_WORK = 20_000


class SubscriptionForwarding:
    """Forwards subscriptions to neighbours, and records that in the rows' `forwarded_to`."""

    def __init__(self, tables: RoutingTable) -> None:
        self._tables = tables
        # The neighbour without covering at present, and subscriptions that it got for that reason.
        self._uncovered: BrokerId | None = None
        self._late: dict[SubscriptionId, None] = {}

    def suspend_covering(self, hop: BrokerId) -> None:
        """Forward all that this neighbour wants from now on, and retract nothing for covering."""
        self._uncovered = hop

    def resume_covering(self) -> list[SubscriptionId]:
        """Return the subscriptions that others cover at the neighbour, to `restate`."""
        late, self._uncovered, self._late = list(self._late), None, {}
        return late

    def offer(
        self, hops: Iterable[BrokerId], entries: Iterable[SubscriptionEntry], out: list[Effect]
    ) -> None:
        """Forward these subscriptions to these neighbours, which want them, unless that is done."""
        if self._tables.wanted is None:
            for hop in hops:
                for entry in entries:
                    if hop not in entry.forwarded_to:
                        self._tables.mark_forwarded(entry, hop)
                        out.append(Send(hop, Subscribe(entry.subscription)))
            return
        work = Work(MOST_WORK)
        for hop in hops:
            wanted = self._tables.wanted_by(hop)
            touched: dict[SubscriptionId, None] = {}
            for entry in entries:
                if entry.id not in wanted:
                    change = wanted.add(entry.id, entry.subscription.filter, work)
                    touched.update(dict.fromkeys((entry.id, *change.kept, *change.dropped)))
            _retract(hop, self._send_kept(hop, touched, out), out)

    def release(
        self, hop: BrokerId, entries: Iterable[SubscriptionEntry], out: list[Effect]
    ) -> list[SubscriptionEntry]:
        """The neighbour does not want these any more; returns the subscriptions to retract."""
        if self._tables.wanted is None:
            told = [entry for entry in entries if hop in entry.forwarded_to]
            for entry in told:
                self._tables.mark_retracted(entry, hop)
            return told
        return self._withdraw(hop, entries, Work(MOST_WORK), out)

    def remove(self, entries: Iterable[SubscriptionEntry], out: list[Effect]) -> None:
        """Remove rows, and retract them from all neighbours."""
        removed = list(entries)
        if self._tables.wanted is None:
            for entry in removed:
                self._tables.remove_subscription(entry)
                message = Unsubscribe(entry.id)
                out.extend(Send(hop, message) for hop in sorted(entry.forwarded_to))
            return
        work = Work(MOST_WORK)
        for hop in sorted(self._tables.wanted):
            _retract(hop, self._withdraw(hop, removed, work, out), out)
        for entry in removed:
            self._tables.remove_subscription(entry)

    def restate(
        self, hops: Iterable[BrokerId], ids: Iterable[SubscriptionId], out: list[Effect]
    ) -> None:
        """Update covering sets, and what is forwarded, after a silent turn of the tables.

        Does nothing without covering.
        """
        if self._tables.wanted is None:
            return
        work = Work(MOST_WORK)
        found = [(id, self._tables.subscriptions.get(id)) for id in ids]
        for hop in hops:
            wanted = self._tables.wanted_by(hop)
            touched = dict.fromkeys(id for id, _ in found)
            # Forwarded rows first, so that of two equal filters the forwarded one is kept.
            order = sorted(
                found, key=lambda each: each[1] is None or not each[1].was_forwarded_to(hop)
            )
            for id, entry in order:
                is_wanted = entry is not None and entry.last_hop != hop and entry.is_wanted_by(hop)
                if is_wanted is (id in wanted):
                    continue
                if entry is not None and is_wanted:
                    change = wanted.add(id, entry.subscription.filter, work)
                else:
                    change = wanted.remove(id, work)
                touched.update(dict.fromkeys((*change.kept, *change.dropped)))
            _retract(hop, self._send_kept(hop, touched, out), out)

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
        return self._send_kept(hop, touched, out)

    def _send_kept(
        self, hop: BrokerId, ids: Iterable[SubscriptionId], out: list[Effect]
    ) -> list[SubscriptionEntry]:
        """Forward the kept ones of these; returns those to retract: forwarded, and not kept.

        All that are wanted are kept for a neighbour without covering at present.
        """
        wanted, told = self._tables.wanted_by(hop), []
        for id in ids:
            entry = self._tables.subscriptions.get(id)
            if entry is None:
                continue
            is_kept = id in wanted.kept
            if hop == self._uncovered and not is_kept and id in wanted:
                self._late[id] = None
                is_kept = True
            if is_kept and hop not in entry.forwarded_to:
                self._tables.mark_forwarded(entry, hop)
                out.append(Send(hop, Subscribe(entry.subscription)))
            elif not is_kept and hop in entry.forwarded_to:
                self._tables.mark_retracted(entry, hop)
                told.append(entry)
        return told


def _retract(hop: BrokerId, entries: Iterable[SubscriptionEntry], out: list[Effect]) -> None:
    out.extend(Send(hop, Unsubscribe(entry.id)) for entry in entries)
