"""How a broker's tables turn, without a word, when another link takes the place of one.

A new link closes a cycle, and a link of the cycle goes.  What lies behind the link that goes, the
*far* side, is then in the other direction, for each broker between the two links; and what asks
for something there goes that way.  `Turn` is what a broker must know for that, handed along the
cycle from the end of the link that goes to the end of the new link.  Elsewhere nothing changes:
in whatever way an advertisement on a cycle is reached, it is in the same direction from outside.

Nothing may be under way between brokers of the cycle from the first `Turn` until all have turned.
Then every table is again what the invariant of `propagation.py` makes of the new tree.

Of a publisher that has moved those know most moves that are nearest to it, as moves only pass where
it is and comes to be.  So it must stay, as of two words about it the one that counts more holds:
those at the links that change are nearer to each side's publishers than they were.

    before  the neighbour towards the link that goes: until now what is far lies there
    behind  the neighbour towards the new link: from now on what is far lies there
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from shoal.matching import overlaps
from shoal.model import AdvertisementId, BrokerId, Filter, Subscription, SubscriptionId
from shoal.overlays.tree.propagation import Propagation
from shoal.overlays.tree.routing_table import (
    AdvertisementEntry,
    RoutingTable,
    SubscriptionEntry,
)


class Turn(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What the next broker towards the new link must know.

    advertisements  those from the far side
    known           subscriptions from the far side that it has
    far             subscriptions from there that it lacks
    near            subscriptions from this side that it lacks, which something far asks for
    moves           how often publishers have moved, by advertisement: as the first broker knows it
    """

    advertisements: tuple[AdvertisementId, ...]
    known: tuple[SubscriptionId, ...]
    far: tuple[Subscription, ...] = ()
    near: tuple[Subscription, ...] = ()
    moves: tuple[tuple[AdvertisementId, int], ...] = ()


def first_turn(tables: RoutingTable, before: BrokerId) -> Turn:
    """What the end of the link that goes finds in its own table: the far side is what is there."""
    return Turn(
        advertisements=tuple(
            id for id, row in tables.advertisements.items() if row.last_hop == before
        ),
        known=tuple(id for id, entry in tables.subscriptions.items() if entry.last_hop == before),
        moves=tuple((id, row.rank) for id, row in tables.advertisements.items() if row.rank),
    )


def next_turn(tables: RoutingTable, turn: Turn, behind: BrokerId) -> Turn:
    """What is handed on, before the table turns."""
    lacking, known = list(turn.far), []
    for id in turn.known:
        entry = tables.subscriptions.get(id)
        if entry is None or behind in entry.forwarded_to:
            known.append(id)
        else:
            lacking.append(entry.subscription)
    far = {*turn.known}
    near = list(turn.near)
    near += [
        entry.subscription
        for entry in _asked_for(_rows(tables, turn))
        if entry.last_hop != behind and behind not in entry.forwarded_to and entry.id not in far
    ]
    return Turn(
        advertisements=turn.advertisements,
        known=tuple(known),
        far=tuple(lacking),
        near=tuple(near),
        moves=turn.moves,
    )


def turn_tables(propagation: Propagation, turn: Turn, before: BrokerId, behind: BrokerId) -> None:
    """Turn what is far from `before` to `behind`, and restore the invariant between the three."""
    tables = propagation.tables
    rows = _rows(tables, turn)
    for row in rows:
        # Whatever move turned it, this neighbour was not on its path.
        row.last_hop, row.turned_us = behind, None
    for id, moves in turn.moves:
        if (moved := tables.advertisements.get(id)) is not None:
            moved.moves = max(moved.moves, moves)
    for subscription in turn.near:
        tables.add_subscription(subscription, before)
    known = [tables.subscriptions[id] for id in turn.known if id in tables.subscriptions]
    for entry in known:
        if entry.is_wanted_beyond(behind):
            tables.turn_subscription(entry, behind)
        else:
            tables.remove_subscription(entry)
    for subscription in turn.far:
        if _is_asked_for(tables, subscription.filter, behind):
            tables.add_subscription(subscription, behind)
    far = {*turn.known, *(subscription.id for subscription in turn.far)}
    changed = _asked_for(rows)
    changed.update(dict.fromkeys(tables.subscriptions[id] for id in far & {*tables.subscriptions}))
    for entry in changed:
        if entry.last_hop == behind and not entry.is_wanted_beyond(behind):
            tables.remove_subscription(entry)
            continue
        for neighbour in (before, behind):
            if entry.last_hop != neighbour and entry.is_wanted_by(neighbour):
                entry.forwarded_to.add(neighbour)
            else:
                entry.forwarded_to.discard(neighbour)


def _rows(tables: RoutingTable, turn: Turn) -> list[AdvertisementEntry]:
    found = (tables.advertisements.get(id) for id in turn.advertisements)
    return [row for row in found if row is not None]


def _asked_for(rows: Iterable[AdvertisementEntry]) -> dict[SubscriptionEntry, None]:
    """The subscriptions that these advertisements ask for, each once."""
    return {entry: None for row in rows for entry in row.overlapping}


def _is_asked_for(tables: RoutingTable, filter: Filter, behind: BrokerId) -> bool:
    """Whether something that is not behind this neighbour asks for it."""
    return any(
        row.last_hop != behind and overlaps(filter, row.advertisement.filter)
        for row in tables.candidates(filter)
    )
