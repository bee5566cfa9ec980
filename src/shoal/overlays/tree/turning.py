"""How a broker's tables turn, without a word, when another link takes the place of one.

A new link closes a cycle, and a link of the cycle goes.  What lies behind the link that goes, the
*far* side, is then in the other direction, for each broker between the two links; and what asks
for something there goes that way.  `Turn` is what a broker must know for that, handed along the
cycle from the end of the link that goes to the end of the new link.  Elsewhere nothing changes:
in whatever way an advertisement on a cycle is reached, it is in the same direction from outside.

Nothing may be under way between brokers of the cycle from the first `Turn` until all have turned.
Then every table is again what the invariant of `propagation.py` makes of the new tree.

With covering a broker lacks what others cover that it has.  If these are in another direction from
now on, it gets what they covered; and at the new link it counts what the other end has not.  What
covers what then each broker says when it has turned (`telling.py`), to nobody's loss: until then
neighbours have more than they need.

Of a publisher that has moved those know most moves that are nearest to it, as moves only pass where
it is and comes to be.  So it must stay, as of two words about it the one that counts more holds:
those at the links that change are nearer to each side's publishers than they were.

    before  the neighbour towards the link that goes: until now what is far lies there
    behind  the neighbour towards the new link: from now on what is far lies there
"""

from __future__ import annotations

from collections.abc import Container, Iterable

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
    near            subscriptions from this side that it lacks, which something far asks for, or
                    which one from the far side covered
    moves           how often publishers have moved, by advertisement: as the first broker knows it
    covered         subscriptions from this side that something far asks for and the far side
                    lacks, as it has others that cover them
    """

    advertisements: tuple[AdvertisementId, ...]
    known: tuple[SubscriptionId, ...]
    far: tuple[Subscription, ...] = ()
    near: tuple[Subscription, ...] = ()
    moves: tuple[tuple[AdvertisementId, int], ...] = ()
    covered: tuple[SubscriptionId, ...] = ()


def first_turn(tables: RoutingTable, before: BrokerId) -> Turn:
    """What the end of the link that goes finds in its own table: the far side is what is there."""
    return Turn(
        advertisements=tuple(row.advertisement.id for row in tables.advertised_from(before)),
        known=tuple(entry.id for entry in tables.subscribed_from(before)),
        moves=tables.moves,
    )


def next_turn(tables: RoutingTable, turn: Turn, before: BrokerId, behind: BrokerId) -> Turn:
    """What is handed on, before the table turns."""
    lacking, known = list(turn.far), []
    for id in turn.known:
        entry = tables.subscriptions.get(id)
        if entry is None or behind in entry.forwarded_to:
            known.append(id)
        else:
            lacking.append(entry.subscription)
    far = {*turn.known}
    asked = _asked_for(_rows(tables, turn))
    near = {
        entry: None
        for entry in (*asked, *_uncovered(tables, far, behind))
        if entry.last_hop != behind and behind not in entry.forwarded_to and entry.id not in far
    }
    return Turn(
        advertisements=turn.advertisements,
        known=tuple(known),
        far=tuple(lacking),
        near=(*turn.near, *(entry.subscription for entry in near)),
        moves=turn.moves,
        covered=(*turn.covered, *_lacking(asked, before)),
    )


def turn_tables(
    propagation: Propagation, turn: Turn, before: BrokerId, behind: BrokerId
) -> tuple[SubscriptionId, ...]:
    """Turn what is far from `before` to `behind`, and restore the invariant between the three.

    The subscriptions for which something may have changed.
    """
    tables = propagation.tables
    rows = _rows(tables, turn)
    is_new = not propagation.has_link(behind)
    lacking = {*turn.covered, *_lacking(_asked_for(rows), before)} if is_new else set()
    near = [entry.id for entry in _uncovered(tables, {*turn.known}, behind)]
    for row in rows:
        # Whatever move turned it, this neighbour was not on its path.
        tables.turn_advertisement(row, behind)
        row.turned_us = None
    tables.count_moves(turn.moves)
    for subscription in turn.near:
        if _is_asked_for(tables, subscription.filter, before):
            tables.add_subscription(subscription, before)
            near.append(subscription.id)
    known = [tables.subscriptions[id] for id in turn.known if id in tables.subscriptions]
    for entry in known:
        if entry.is_wanted_beyond(behind):
            tables.turn_subscription(entry, behind)
        else:
            tables.remove_subscription(entry)
    for subscription in turn.far:
        if _is_asked_for(tables, subscription.filter, behind):
            tables.add_subscription(subscription, behind)
    far = dict.fromkeys((*turn.known, *(subscription.id for subscription in turn.far)))
    changed = _asked_for(rows)
    found = (tables.subscriptions.get(id) for id in (*far, *near))
    changed.update({entry: None for entry in found if entry is not None})
    for entry in changed:
        if entry.last_hop == behind and not entry.is_wanted_beyond(behind):
            tables.remove_subscription(entry)
            continue
        for neighbour in (before, behind):
            # What `before` lacked of this side it lacks still, as it has what covers it.
            is_lacking = neighbour == before and entry.id not in far and not entry.is_told(before)
            is_lacking |= neighbour == behind and entry.id in lacking
            if entry.last_hop != neighbour and entry.is_wanted_by(neighbour) and not is_lacking:
                tables.tell(entry, neighbour)
            else:
                tables.untell(entry, neighbour)
    return (*far, *(entry.id for entry in changed))


def _uncovered(
    tables: RoutingTable, far: Container[SubscriptionId], behind: BrokerId
) -> list[SubscriptionEntry]:
    """What a neighbour was not told for something far, which will come from there itself."""
    return [
        entry
        for entry in tables.covered_at(behind)
        if tables.wanted_by(behind).coverer(entry.id) in far
    ]


def _lacking(asked: Iterable[SubscriptionEntry], before: BrokerId) -> list[SubscriptionId]:
    """What something far asks for and a neighbour was not told."""
    return [entry.id for entry in asked if entry.last_hop != before and not entry.is_told(before)]


def _rows(tables: RoutingTable, turn: Turn) -> list[AdvertisementEntry]:
    found = (tables.advertisements.get(id) for id in turn.advertisements)
    return [row for row in found if row is not None]


def _asked_for(rows: Iterable[AdvertisementEntry]) -> dict[SubscriptionEntry, None]:
    """The subscriptions that these advertisements ask for, each once."""
    return {entry: None for row in rows for entry in row.overlapping}


def _is_asked_for(tables: RoutingTable, filter: Filter, behind: BrokerId) -> bool:
    """Whether something that does not come from this neighbour asks for it."""
    return any(
        promise.is_beyond(behind) and overlaps(filter, promise.filter)
        for promise in tables.candidates(filter)
    )
