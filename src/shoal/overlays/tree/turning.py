"""Silent turn of a broker's tables, when one link takes the place of another.

A new link closes a cycle, and a link of the cycle ends. For each broker between the two links the
brokers behind the ending link, the *far* side, are then in the other direction, and so is the
direction in which subscriptions to their advertisements are forwarded. A `TableTurn` has what a
broker must know for that. It is passed along the cycle from the end of the old link to the end of
the new link. Brokers outside the cycle need no change: they reach every advertisement on the cycle
by the same neighbour as before.

No message may be in transit between brokers of the cycle from the first `TableTurn` until all have
turned. Then every table satisfies the invariant of `propagation.py` for the new tree.

With covering a broker lacks subscriptions that its other rows cover. If these rows turn, it gets
the covered ones with the `TableTurn`; at the new link it counts the rows that the other end lacks.
Each broker recomputes covering after it has turned (`subscription_forwarding.py`); until then
neighbours have more than they need. A broker that has passed its `TableTurn` on covers nothing
towards the far side until then: a subscription that comes the other way is in no `TableTurn`, and
the end of the new link counts it as one that the far side has.

Brokers near a moved publisher know the highest count of its moves, as a move passes only the
brokers between its old and its new place. The ends of the new link are nearer to each side's
publishers than brokers beyond, so they must take over the counts: of two announcements the higher
count is valid.

    before  the neighbour towards the ending link, in whose direction the far side lies before
    behind  the neighbour towards the new link, in whose direction the far side lies after
"""

from __future__ import annotations

from collections.abc import Container, Iterable

import msgspec

from shoal.matching import overlaps
from shoal.model import AdvertisementId, BrokerId, Filter, Subscription, SubscriptionId
from shoal.overlays.tree.propagation import Propagation
from shoal.overlays.tree.routing_rows import AdvertisementEntry, SubscriptionEntry
from shoal.overlays.tree.routing_table import RoutingTable


class TableTurn(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Facts for the next broker towards the new link.

    advertisements  those from the far side
    known           subscriptions from the far side that it has
    far             subscriptions from there that it lacks
    near            subscriptions from this side that it lacks, which overlap a far advertisement,
                    or which one from the far side covered
    moves           number of moves, by advertisement, as the first broker knows it
    covered         subscriptions from this side that overlap a far advertisement and that the far
                    side lacks, as it has others that cover them
    """

    advertisements: tuple[AdvertisementId, ...]
    known: tuple[SubscriptionId, ...]
    far: tuple[Subscription, ...] = ()
    near: tuple[Subscription, ...] = ()
    moves: tuple[tuple[AdvertisementId, int], ...] = ()
    covered: tuple[SubscriptionId, ...] = ()


def first_turn(tables: RoutingTable, before: BrokerId) -> TableTurn:
    """The turn at the end of the ending link: the far side is the rows from `before`."""
    return TableTurn(
        advertisements=tuple(row.advertisement.id for row in tables.advertised_from(before)),
        known=tuple(entry.id for entry in tables.subscribed_from(before)),
        moves=tables.moves,
    )


def next_turn(
    tables: RoutingTable, turn: TableTurn, before: BrokerId, behind: BrokerId
) -> TableTurn:
    """The turn for the next broker, computed before this broker's table turns."""
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
    return TableTurn(
        advertisements=turn.advertisements,
        known=tuple(known),
        far=tuple(lacking),
        near=(*turn.near, *(entry.subscription for entry in near)),
        moves=turn.moves,
        covered=(*turn.covered, *_lacking(asked, before)),
    )


def turn_tables(
    propagation: Propagation, turn: TableTurn, before: BrokerId, behind: BrokerId
) -> tuple[SubscriptionId, ...]:
    """Turn far rows from `before` to `behind`, and restore the invariant between the three.

    Returns the subscriptions whose covering may have changed.
    """
    tables = propagation.tables
    rows = _rows(tables, turn)
    is_new = not propagation.has_link(behind)
    lacking = {*turn.covered, *_lacking(_asked_for(rows), before)} if is_new else set()
    near = [entry.id for entry in _uncovered(tables, {*turn.known}, behind)]
    for row in rows:
        # This neighbour was not on the path of the move that turned it.
        tables.turn_advertisement(row, behind)
        row.turned_us = None
    tables.count_moves(turn.moves)
    for subscription in turn.near:
        if _is_asked_for(tables, subscription.filter, before):
            _add(propagation, subscription, before)
            near.append(subscription.id)
    known = [tables.subscriptions[id] for id in turn.known if id in tables.subscriptions]
    for entry in known:
        if entry.is_wanted_beyond(behind):
            tables.turn_subscription(entry, behind)
        else:
            tables.remove_subscription(entry)
    for subscription in turn.far:
        if _is_asked_for(tables, subscription.filter, behind):
            _add(propagation, subscription, behind)
    far = dict.fromkeys((*turn.known, *(subscription.id for subscription in turn.far)))
    changed = _asked_for(rows)
    found = (tables.subscriptions.get(id) for id in (*far, *near))
    changed.update({entry: None for entry in found if entry is not None})
    for entry in changed:
        if entry.last_hop == behind and not entry.is_wanted_beyond(behind):
            tables.remove_subscription(entry)
            continue
        for neighbour in (before, behind):
            # Rows that `before` lacked because others cover them it lacks still.
            is_lacking = (
                neighbour == before and entry.id not in far and not entry.was_forwarded_to(before)
            )
            is_lacking |= neighbour == behind and entry.id in lacking
            if entry.last_hop != neighbour and entry.is_wanted_by(neighbour) and not is_lacking:
                tables.mark_forwarded(entry, neighbour)
            else:
                tables.mark_retracted(entry, neighbour)
    return (*far, *(entry.id for entry in changed))


def _uncovered(
    tables: RoutingTable, far: Container[SubscriptionId], behind: BrokerId
) -> list[SubscriptionEntry]:
    """Subscriptions covered at a neighbour by far ones, which will come from there itself."""
    return [
        entry
        for entry in tables.covered_at(behind)
        if tables.wanted_by(behind).coverer(entry.id) in far
    ]


def _lacking(asked: Iterable[SubscriptionEntry], before: BrokerId) -> list[SubscriptionId]:
    """Subscriptions of `asked` that were not forwarded to a neighbour."""
    return [
        entry.id
        for entry in asked
        if entry.last_hop != before and not entry.was_forwarded_to(before)
    ]


def _add(propagation: Propagation, subscription: Subscription, hop: BrokerId) -> None:
    """Store a row that a neighbour has; of a moving client's there may be another here, which stays
    until it is retracted.
    """
    known = propagation.tables.subscriptions.get(subscription.id)
    if known is None:
        propagation.tables.add_subscription(subscription, hop)
    elif known.last_hop != hop:
        propagation.alternate_routes.add(subscription, hop)


def _rows(tables: RoutingTable, turn: TableTurn) -> list[AdvertisementEntry]:
    found = (tables.advertisements.get(id) for id in turn.advertisements)
    return [row for row in found if row is not None]


def _asked_for(rows: Iterable[AdvertisementEntry]) -> dict[SubscriptionEntry, None]:
    """The subscriptions that overlap these advertisements, each once."""
    return {entry: None for row in rows for entry in row.overlapping}


def _is_asked_for(tables: RoutingTable, filter: Filter, behind: BrokerId) -> bool:
    """Whether the filter overlaps an advertisement with another last hop than this neighbour."""
    return any(
        advertised.is_beyond(behind) and overlaps(filter, advertised.filter)
        for advertised in tables.candidates(filter)
    )
