"""Oracle: the routing tables of a tree, computed from the global picture of clients and paths.

It shares no code with `shoal.overlays.tree.propagation`, which is tested against it.

The picture does not determine which of several filters that cover each other a broker forwards. So
with covering a table may lack a row from a neighbour exactly when a row from there covers it. With
merging the unions of each broker's clients are subscriptions like theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import permutations
from typing import Protocol

import msgspec

from shoal.matching import covers, overlaps
from shoal.model import (
    Advertisement,
    AdvertisementId,
    BrokerId,
    Subscription,
    SubscriptionId,
)
from shoal.overlays.merging import unions
from shoal.overlays.system import Picture
from shoal.overlays.tree.routing_table import RoutingTable


def table_problems(picture: Picture, brokers: Mapping[BrokerId, HasTables]) -> list[str]:
    """One line for each row of `brokers` that should not be, or is missing."""
    if any(broker.tables.merging is not None for broker in brokers.values()):
        clients = list(picture.subscriptions)
        picture = picture._replace(subscriptions=[*clients, *unions(clients)])
    expected = expected_tables(*picture)
    tables = {name: broker.tables for name, broker in brokers.items()}
    return check_tables({name: expected.get(name, NO_ROWS) for name in tables}, tables)


class HasTables(Protocol):
    """A tree's strategy, as far as it is judged."""

    @property
    def tables(self) -> RoutingTable: ...


class TableRows(msgspec.Struct, frozen=True, kw_only=True):
    """A broker's table as plain rows, to compare.

    advertisements   id → last hop (None: local)
    subscriptions    id → (last hop, the neighbours it was forwarded to)
    """

    advertisements: dict[AdvertisementId, BrokerId | None]
    subscriptions: dict[SubscriptionId, tuple[BrokerId | None, frozenset[BrokerId]]]


NO_ROWS = TableRows(advertisements={}, subscriptions={})


def expected_tables(
    links: Iterable[tuple[BrokerId, BrokerId]],
    advertisements: Iterable[tuple[Advertisement, BrokerId]],
    subscriptions: Iterable[tuple[Subscription, BrokerId]],
) -> dict[BrokerId, TableRows]:
    """Every broker's table, from each client's broker and paths in the tree alone.

    Links that are down split the tree, and nothing passes between its parts.
    """
    advertised, subscribed = list(advertisements), list(subscriptions)
    neighbours: dict[BrokerId, list[BrokerId]] = {}
    for _, home in (*advertised, *subscribed):
        neighbours.setdefault(home, [])
    for left, right in links:
        neighbours.setdefault(left, []).append(right)
        neighbours.setdefault(right, []).append(left)
    towards = {broker: next_hops(broker, neighbours) for broker in neighbours}
    tables = {
        broker: TableRows(
            advertisements={
                advertisement.id: towards[home][broker]
                for advertisement, home in advertised
                if broker in towards[home]
            },
            subscriptions={},
        )
        for broker in neighbours
    }
    for subscription, home in subscribed:
        forwarded: dict[BrokerId, set[BrokerId]] = {home: set()}
        for advertisement, publisher_home in advertised:
            if home not in towards[publisher_home]:
                continue
            if overlaps(subscription.filter, advertisement.filter):
                here = home
                while (next_hop := towards[publisher_home][here]) is not None:
                    forwarded[here].add(next_hop)
                    forwarded.setdefault(next_hop, set())
                    here = next_hop
        for broker, hops in forwarded.items():
            row = (towards[home][broker], frozenset(hops))
            tables[broker].subscriptions[subscription.id] = row
    return tables


def next_hops(
    target: BrokerId, neighbours: Mapping[BrokerId, Sequence[BrokerId]]
) -> dict[BrokerId, BrokerId | None]:
    """For every broker: the next hop to `target`."""
    hops: dict[BrokerId, BrokerId | None] = {target: None}
    reached = [target]
    for broker in reached:
        for neighbour in neighbours[broker]:
            if neighbour not in hops:
                hops[neighbour] = broker
                reached.append(neighbour)
    return hops


def check_tables(
    expected: Mapping[BrokerId, TableRows], actual: Mapping[BrokerId, RoutingTable]
) -> list[str]:
    """One line for each row that differs; empty when the tables are as they should be."""
    problems = []
    for broker in sorted(expected):
        rows, table = expected[broker], actual[broker]
        found = TableRows(
            advertisements={name: row.last_hop for name, row in table.advertisements.items()},
            subscriptions={
                name: (row.last_hop, frozenset(row.forwarded_to))
                for name, row in table.subscriptions.items()
            },
        )
        what = f"{broker}: advertisements"
        problems += _differences(what, rows.advertisements, found.advertisements)
        if table.wanted is not None:
            problems += _covering_problems(broker, rows, actual)
        else:
            what = f"{broker}: subscriptions"
            problems += _differences(what, rows.subscriptions, found.subscriptions)
    return problems


def _covering_problems(
    broker: BrokerId, rows: TableRows, actual: Mapping[BrokerId, RoutingTable]
) -> list[str]:
    """One line for each subscription that is not as covering allows."""
    known = {
        id: entry.subscription
        for each in actual.values()
        for id, entry in each.subscriptions.items()
    }
    found, problems = actual[broker].subscriptions, []
    by_hop: dict[BrokerId | None, list[Subscription]] = {}
    for entry in found.values():
        by_hop.setdefault(entry.last_hop, []).append(entry.subscription)
    for id, (last_hop, wanting) in rows.subscriptions.items():
        if id not in found:
            others = () if last_hop is None else by_hop.get(last_hop, ())
            if id not in known or not any(covers(each.filter, known[id].filter) for each in others):
                problems.append(f"{broker}: subscriptions {id}: no row, and none covers it")
            continue
        entry = found[id]
        having = {
            name
            for name in wanting
            if (
                name in entry.forwarded_to if name not in actual else _has(actual[name], id, broker)
            )
        }
        have, want = (entry.last_hop, set(entry.forwarded_to)), (last_hop, having)
        if have != want:
            problems.append(f"{broker}: subscriptions {id}: {have}, should be {want}")
    problems += [
        f"{broker}: subscriptions {id}: should be no row"
        for id in found.keys() - rows.subscriptions.keys()
    ]
    for last_hop, several in by_hop.items():
        problems += [
            f"{broker}: subscriptions {other.id}: a row, but {one.id} from {last_hop} covers it"
            for one, other in permutations(several, 2)
            if last_hop is not None and covers(one.filter, other.filter)
        ]
    return problems


def _has(table: RoutingTable, id: SubscriptionId, last_hop: BrokerId) -> bool:
    entry = table.subscriptions.get(id)
    return entry is not None and entry.last_hop == last_hop


def _differences(where: str, want: Mapping[str, object], have: Mapping[str, object]) -> list[str]:
    missing = "no row"
    return [
        f"{where} {name}: {have.get(name, missing)}, should be {want.get(name, missing)}"
        for name in sorted(want.keys() | have.keys())
        if want.get(name, missing) != have.get(name, missing)
    ]
