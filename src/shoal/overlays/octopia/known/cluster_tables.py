"""Propagation of the tables of a cluster's brokers within the cluster (VI).

A broker's own table goes over the cluster's tree, change by change; a known version goes no
further, so changes may come over any links in any order. Only a change of the parent goes over the
tree alone: beside it, it would overtake publications on the old path. A broker that misses a change
requests the table, and so do both ends of a link that has come up. A restarted broker finds its
earlier table, and announces a newer one. Each change also updates the bits of other clusters'
advertisements (`bits.py`).

With covering a table contains only those subscriptions of its broker that no other one there
covers: publications that match the others come to that broker all the same, and it has all
subscriptions itself. With merging it contains unions of its subscriptions, too, which cover these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from shoal.broker.effects import Effect, Send
from shoal.broker.strategy import ProtocolError
from shoal.matching import CoveringSet, Work
from shoal.model import BrokerId, Subscription, SubscriptionId
from shoal.overlays.merging import NO_CHANGE, OwnMerging
from shoal.overlays.octopia.known.bits import Bits
from shoal.overlays.octopia.known.exchange import KnownExchange
from shoal.overlays.octopia.known.tables import Tables
from shoal.overlays.octopia.messages import HomeChange, HomeTable, TableWanted
from shoal.overlays.requests import check_filter

# A version begins as the time in microseconds.
MAX_VERSION = 2**62
# Work bound of one change of the own table, some 20 ms; and the number of subscriptions that one
# may cover, as all are sent when it is removed.
MOST_WORK = 20_000
MOST_COVERED = 256


class ClusterTables:
    """The tables of a cluster at one broker: announcements and updates.

    `told` are the neighbours of the cluster that get changes; `goes_on` tests whether a change from
    one neighbour, or of this broker (None), goes to another over the tree. `moved` is called when a
    broker of the cluster links up to another one; `is_above` tests whether the second region's
    broker may link up to the first one's.
    """

    def __init__(
        self,
        tables: Tables,
        told: Iterable[BrokerId],
        bits: Bits,
        exchange: KnownExchange,
        moved: Callable[[int, list[Effect]], None],
        goes_on: Callable[[BrokerId, BrokerId | None], bool],
        is_above: Callable[[int, int], bool],
        *,
        covering: bool = False,
        merging: OwnMerging | None = None,
    ) -> None:
        self._tables = tables
        self._is_above = is_above
        self._region = tables.region
        self.told = set(told)
        self._goes_on = goes_on
        # By neighbour: regions whose latest parent it has not got.
        self._behind: dict[BrokerId, dict[int, None]] = {}
        self._bits = bits
        self._exchange = exchange
        self._moved = moved
        # With covering: the own subscriptions, and those of them that the others have.
        self._covering: CoveringSet[SubscriptionId] | None = None
        if covering:
            self._covering = CoveringSet(MOST_COVERED)
        # With merging, which is with covering: unions of the own subscriptions.
        self._merging = merging
        self._unions: dict[SubscriptionId, Subscription] = {}
        self._said: dict[SubscriptionId, Subscription] = {}

    def subscribed(self, subscription: Subscription, out: list[Effect]) -> None:
        """The own table has a subscription more, or another one under this id."""
        if self._covering is None:
            self.announce_change((subscription,), (), out)
            return
        merging = self._merging
        new, gone = NO_CHANGE if merging is None else merging.add(subscription)
        self._change((*new, subscription), gone, new, out)

    def unsubscribed(self, ids: Iterable[SubscriptionId], out: list[Effect]) -> None:
        """These were removed from the own table."""
        gone = tuple(ids)
        if self._covering is None:
            if gone:
                self.announce_change((), gone, out)
            return
        merging = self._merging
        new, unions = NO_CHANGE if merging is None else merging.remove(gone)
        self._change(new, (*gone, *unions), new, out)

    def _change(
        self,
        added: Iterable[Subscription],
        removed: Iterable[SubscriptionId],
        unions: Iterable[Subscription],
        out: list[Effect],
    ) -> None:
        """Announce the changes of the covering set; `unions` are new ones of those added."""
        assert self._covering is not None
        touched: dict[SubscriptionId, None] = {}
        work = Work(MOST_WORK)
        self._unions.update((each.id, each) for each in unions)
        for each in added:
            change = self._covering.add(each.id, each.filter, work)
            touched.update(dict.fromkeys((each.id, *change.kept, *change.dropped)))
        for id in removed:
            change = self._covering.remove(id, work)
            touched.update(dict.fromkeys((*change.kept, *change.dropped)))
        self._announce_kept(touched, out)
        for id in removed:
            self._unions.pop(id, None)

    def _announce_kept(self, ids: Iterable[SubscriptionId], out: list[Effect]) -> None:
        """Announce those of these that others lack, and retract those that they need not have."""
        assert self._covering is not None
        own, unions, added, removed = self._tables.own.entries, self._unions, [], []
        for id in dict.fromkeys(ids):
            if id not in self._covering.kept:
                if self._said.pop(id, None) is not None:
                    removed.append(id)
                continue
            subscription = unions[id] if id in unions else own[id].subscription
            if self._said.get(id) != subscription:
                self._said[id] = subscription
                added.append(subscription)
        if added or removed:
            self.announce_change(tuple(added), tuple(removed), out)

    def _subscriptions(self, region: int) -> tuple[Subscription, ...]:
        """The announced subscriptions of a region's table."""
        if region == self._region and self._covering is not None:
            return tuple(self._said.values())
        return self._tables.homes[region].subscriptions

    def announce_change(
        self,
        added: tuple[Subscription, ...],
        removed: tuple[SubscriptionId, ...],
        out: list[Effect],
    ) -> None:
        self._flood(self._next_change(added, removed), None, out)

    def announce_parent(self, out: list[Effect]) -> None:
        """This broker links up to another one."""
        self._flood(self._next_change((), ()), None, out, is_moved=True)

    def _next_change(
        self, added: tuple[Subscription, ...], removed: tuple[SubscriptionId, ...]
    ) -> HomeChange:
        own = self._tables.own
        own.version += 1
        return HomeChange(self._region, own.version, own.up, added, removed)

    def _flood(
        self,
        message: HomeChange | HomeTable,
        source: BrokerId | None,
        out: list[Effect],
        *,
        is_moved: bool = False,
    ) -> None:
        """Announce a change.

        Neighbours beside the tree get no change that `is_moved`, nor later ones.
        """
        for each in sorted(self.told):
            if each == source:
                continue
            is_behind = is_moved or message.region in self._behind.get(each, {})
            if not is_behind or self._goes_on(each, source):
                out.append(Send(each, message))
            else:
                self._behind.setdefault(each, {})[message.region] = None

    def unlinked(self, neighbour: BrokerId) -> None:
        """A neighbour is lost, or has restarted without its announcements."""
        self.told.discard(neighbour)
        self._behind.pop(neighbour, None)

    def catch_up(self, neighbour: BrokerId, is_own: bool, out: list[Effect]) -> None:
        """Send a neighbour the tables that it lacks, or only the own one."""
        behind = self._behind.get(neighbour, {})
        for region in list(behind):
            if not is_own or region == self._region:
                del behind[region]
                self.send_table(neighbour, region, out)

    def _announce_own(self, out: list[Effect]) -> None:
        """This broker has a table from an earlier incarnation: a newer one replaces it."""
        own = self._tables.own
        subscriptions = self._subscriptions(self._region)
        table = HomeTable(self._region, own.version, own.up, subscriptions)
        self._flood(table, None, out, is_moved=True)

    def change(
        self, neighbour: BrokerId, message: HomeChange | HomeTable, now_us: int, out: list[Effect]
    ) -> None:
        """Handle a change of a table; an older version is ignored."""
        home = self._tables.homes.get(message.region)
        if home is None or not self._may_link_up(message.region, message.up):
            raise ProtocolError(f"region {message.region} links up to {message.up}")
        if not 0 <= message.version <= MAX_VERSION:
            raise ProtocolError(f"{message.version} is no version")
        subscriptions = message.added if isinstance(message, HomeChange) else message.subscriptions
        for each in subscriptions:
            check_filter(each.filter, "subscription", each.id)
        if message.region == self._region:
            # Its own change comes back to it while more links are up than a tree has.
            if message.version > home.version:
                home.version = message.version + 1
                self._announce_own(out)
            return
        if message.version <= home.version:
            return
        if isinstance(message, HomeChange):
            if message.version > home.version + 1:
                out.append(Send(neighbour, TableWanted(message.region)))
                return
            ids = dict.fromkeys((*message.removed, *(each.id for each in message.added)))
            gone = self._tables.remove(message.region, ids)
            added = () if home.has_left else message.added
            new = [self._tables.add(message.region, each) for each in added]
        else:
            rows = () if home.has_left else message.subscriptions
            gone, new = self._tables.replace(message.region, rows)
        self._bits.changed(gone, new, now_us, out)
        home.version = message.version
        is_moved = message.up != home.up
        self._flood(message, neighbour, out, is_moved=is_moved)
        if is_moved:
            self._tables.link_up(message.region, message.up)
            self._moved(now_us, out)

    def forget_left(self, came: Mapping[int, int], now_us: int, out: list[Effect]) -> None:
        """Brokers `came` to these regions of the cluster when they did: all others have left.

        A broker that has left has no rows any more, but may have been cut off as it announced that.
        """
        for region, home in self._tables.homes.items():
            home.has_left = region not in came or came[region] > home.since
            if home.has_left and home.entries and region != self._region:
                gone, _ = self._tables.replace(region, ())
                self._bits.changed(gone, (), now_us, out)

    def _may_link_up(self, region: int, up: int | None) -> bool:
        return up is None or (up in self._tables.homes and self._is_above(up, region))

    def send_tables(
        self, neighbour: BrokerId, versions: Mapping[int, int], out: list[Effect]
    ) -> None:
        self.told.add(neighbour)
        for region, home in self._tables.homes.items():
            if home.version > versions.get(region, 0):
                self.send_table(neighbour, region, out)
        known = versions.get(self._region, 0)
        if self._tables.own.version < known <= MAX_VERSION:
            self._tables.own.version = known + 1
            self._announce_own(out)
        self._exchange.owe_tables(neighbour)
        self._exchange.send_markers(out)

    def send_table(self, neighbour: BrokerId, region: int, out: list[Effect]) -> None:
        home = self._tables.homes[region]
        table = HomeTable(region, home.version, home.up, self._subscriptions(region))
        out.append(Send(neighbour, table))
