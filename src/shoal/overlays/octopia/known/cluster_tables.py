"""How the tables of a cluster's brokers travel to all of them (VI).

A broker's own table goes over the cluster's tree, change by change; what is known already goes no
further, so that it may come over any links in any order.  Only word of who links up elsewhere goes
over the tree alone: beside it that would be ahead of publications on the way of before.  Who
misses a change asks for the table, and so does a link that has come up.  A broker that has begun
anew finds its table of before, and says a newer one.  With each change the bits of other clusters'
advertisements are said (`bits.py`).

With covering a table says only those subscriptions of its broker that no other one there covers:
whatever matches the others comes to it all the same, and it has all of them itself.  With merging
it says unions of its subscriptions, too, which cover these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from shoal.broker.effects import Effect, Send
from shoal.broker.strategy import ProtocolError
from shoal.matching import CoveringSet, Work
from shoal.model import BrokerId, Subscription, SubscriptionId
from shoal.overlays.merging import NO_CHANGE, OwnMerging
from shoal.overlays.octopia.known.bits import Bits
from shoal.overlays.octopia.known.exchange import Exchange
from shoal.overlays.octopia.known.tables import Tables
from shoal.overlays.octopia.messages import HomeChange, HomeTable, TableWanted
from shoal.overlays.requests import check_filter

# A version begins as the time in microseconds.
MAX_VERSION = 2**62
# What one change of the own table may cost at once, some 20 ms, and how many one subscription may
# stand for: when it goes, so many are said.
MOST_WORK = 20_000
MOST_COVERED = 256


class ClusterTables:
    """What one broker says and hears of the tables of its cluster.

    `told` are the neighbours of the cluster that are told changes; `goes_on` says whether what has
    come from one, or began here (None), goes to another over the tree.
    `moved` is called when a broker of the cluster links up to another one; `is_above` says whether
    of two regions the second one's broker may link up to the first one's.
    """

    def __init__(
        self,
        tables: Tables,
        told: Iterable[BrokerId],
        bits: Bits,
        exchange: Exchange,
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
        # Regions of which they were not told to whom these link up now.
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
            self.say_change((subscription,), (), out)
            return
        merging = self._merging
        new, gone = NO_CHANGE if merging is None else merging.add(subscription)
        self._change((*new, subscription), gone, new, out)

    def unsubscribed(self, ids: Iterable[SubscriptionId], out: list[Effect]) -> None:
        """These are in the own table no more."""
        gone = tuple(ids)
        if self._covering is None:
            if gone:
                self.say_change((), gone, out)
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
        """Say what comes of these in the covering set; `unions` are new ones of those added."""
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
        self._say_kept(touched, out)
        for id in removed:
            self._unions.pop(id, None)

    def _say_kept(self, ids: Iterable[SubscriptionId], out: list[Effect]) -> None:
        """Say what of these others lack, and what they need not have any more."""
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
            self.say_change(tuple(added), tuple(removed), out)

    def _subscriptions(self, region: int) -> tuple[Subscription, ...]:
        """What is said of the table of a region."""
        if region == self._region and self._covering is not None:
            return tuple(self._said.values())
        return self._tables.homes[region].subscriptions

    def say_change(
        self,
        added: tuple[Subscription, ...],
        removed: tuple[SubscriptionId, ...],
        out: list[Effect],
    ) -> None:
        self._flood(self._next_change(added, removed), None, out)

    def say_up(self, out: list[Effect]) -> None:
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
        """Tell a change; beside the tree not who `is_moved`, nor what comes behind that."""
        for each in sorted(self.told):
            if each == source:
                continue
            is_behind = is_moved or message.region in self._behind.get(each, {})
            if not is_behind or self._goes_on(each, source):
                out.append(Send(each, message))
            else:
                self._behind.setdefault(each, {})[message.region] = None

    def unlinked(self, neighbour: BrokerId) -> None:
        """A neighbour is gone, or knows nothing of what it was told."""
        self.told.discard(neighbour)
        self._behind.pop(neighbour, None)

    def catch_up(self, neighbour: BrokerId, is_own: bool, out: list[Effect]) -> None:
        """Tell a neighbour the tables that it was not told, or only the own one."""
        behind = self._behind.get(neighbour, {})
        for region in list(behind):
            if not is_own or region == self._region:
                del behind[region]
                self.say_table(neighbour, region, out)

    def _say_own(self, out: list[Effect]) -> None:
        """This broker has a table from an earlier life: a newer one takes its place."""
        own = self._tables.own
        subscriptions = self._subscriptions(self._region)
        table = HomeTable(self._region, own.version, own.up, subscriptions)
        self._flood(table, None, out, is_moved=True)

    def change(
        self, neighbour: BrokerId, message: HomeChange | HomeTable, now_us: int, out: list[Effect]
    ) -> None:
        """A table has changed; what is older than what is known says nothing."""
        home = self._tables.homes.get(message.region)
        if home is None or not self._may_link_up(message.region, message.up):
            raise ProtocolError(f"region {message.region} links up to {message.up}")
        if not 0 <= message.version <= MAX_VERSION:
            raise ProtocolError(f"{message.version} is no version")
        subscriptions = message.added if isinstance(message, HomeChange) else message.subscriptions
        for each in subscriptions:
            check_filter(each.filter, "subscription", each.id)
        if message.region == self._region:
            # What it says comes back to it where more links are up than a tree has.
            if message.version > home.version:
                home.version = message.version + 1
                self._say_own(out)
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

        Who leaves has no rows any more, but may have been cut off from all that should hear that.
        """
        for region, home in self._tables.homes.items():
            home.has_left = region not in came or came[region] > home.since
            if home.has_left and home.entries and region != self._region:
                gone, _ = self._tables.replace(region, ())
                self._bits.changed(gone, (), now_us, out)

    def _may_link_up(self, region: int, up: int | None) -> bool:
        return up is None or (up in self._tables.homes and self._is_above(up, region))

    def say_tables(
        self, neighbour: BrokerId, versions: Mapping[int, int], out: list[Effect]
    ) -> None:
        self.told.add(neighbour)
        for region, home in self._tables.homes.items():
            if home.version > versions.get(region, 0):
                self.say_table(neighbour, region, out)
        known = versions.get(self._region, 0)
        if self._tables.own.version < known <= MAX_VERSION:
            self._tables.own.version = known + 1
            self._say_own(out)
        self._exchange.owe_tables(neighbour)
        self._exchange.say(out)

    def say_table(self, neighbour: BrokerId, region: int, out: list[Effect]) -> None:
        home = self._tables.homes[region]
        table = HomeTable(region, home.version, home.up, self._subscriptions(region))
        out.append(Send(neighbour, table))
