"""Strategies for every message of OctopiA's brokers, valid or not."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from shoal.broker.messages import Message
from shoal.overlays.octopia.messages import (
    BitCleared,
    BitSet,
    BitsSaid,
    EntryLeft,
    Freeze,
    Frozen,
    Go,
    HomeChange,
    HomeTable,
    Notification,
    NumbersBegin,
    NumbersEnd,
    NumbersOpen,
    Parted,
    SpreadCopy,
    Sweep,
    Swept,
    TablesKnown,
    TablesSaid,
    TableWanted,
    Thaw,
    Turned,
    TurnTables,
    WayCleared,
    WayClosed,
    WayLost,
    WayOpened,
)
from shoal.overlays.octopia.places.roster import PlacesAnnounced, PlaceStage, RosterPlace

NUMBERS = st.one_of(st.integers(-2, 5), st.sampled_from([2**40, 2**63 - 1, -(2**63)]))


def product_messages(
    brokers: Any, names: Any, clients: Any, subscriptions: Any, routed: Any
) -> dict[type[Message], st.SearchStrategy[Message]]:
    ups = st.one_of(st.none(), NUMBERS)
    some = st.lists(subscriptions, max_size=3).map(tuple)
    only = st.one_of(st.none(), st.lists(NUMBERS, max_size=3).map(tuple))
    shifts = st.dictionaries(NUMBERS, NUMBERS, max_size=2)
    publications = st.lists(routed, max_size=3).map(tuple)
    places = st.builds(
        RosterPlace,
        brokers,
        NUMBERS,
        st.sampled_from(PlaceStage),
        NUMBERS,
        NUMBERS,
        NUMBERS,
        NUMBERS,
    )
    return {
        Notification: st.builds(Notification, publications, NUMBERS, NUMBERS, only, shifts),
        SpreadCopy: st.builds(
            SpreadCopy, publications, NUMBERS, NUMBERS, st.lists(NUMBERS, max_size=3).map(tuple)
        ),
        HomeTable: st.builds(HomeTable, NUMBERS, NUMBERS, ups, some),
        HomeChange: st.builds(
            HomeChange, NUMBERS, NUMBERS, ups, some, st.lists(names, max_size=3).map(tuple)
        ),
        TablesKnown: st.builds(TablesKnown, st.dictionaries(NUMBERS, NUMBERS, max_size=3)),
        TableWanted: st.builds(TableWanted, NUMBERS),
        TablesSaid: st.builds(TablesSaid),
        BitSet: st.builds(BitSet, names),
        BitCleared: st.builds(BitCleared, names),
        BitsSaid: st.builds(BitsSaid),
        NumbersBegin: st.builds(NumbersBegin, clients, st.one_of(st.none(), NUMBERS)),
        NumbersEnd: st.builds(NumbersEnd, clients, NUMBERS),
        WayLost: st.builds(WayLost),
        NumbersOpen: st.builds(NumbersOpen, clients, st.one_of(st.none(), NUMBERS)),
        WayClosed: st.builds(WayClosed, brokers, NUMBERS),
        WayOpened: st.builds(WayOpened, brokers),
        WayCleared: st.builds(WayCleared, brokers, NUMBERS),
        EntryLeft: st.builds(EntryLeft),
        Freeze: st.builds(
            Freeze, brokers, NUMBERS, brokers, st.lists(brokers, max_size=2).map(tuple)
        ),
        Frozen: st.builds(Frozen, brokers, NUMBERS),
        TurnTables: st.builds(TurnTables, brokers, NUMBERS),
        Turned: st.builds(Turned, brokers, NUMBERS),
        Thaw: st.builds(Thaw, brokers, NUMBERS),
        Go: st.builds(Go, brokers, NUMBERS),
        Parted: st.builds(Parted, brokers, NUMBERS),
        PlacesAnnounced: st.builds(PlacesAnnounced, st.lists(places, max_size=3).map(tuple)),
        Sweep: st.builds(Sweep, brokers, NUMBERS),
        Swept: st.builds(Swept, brokers, NUMBERS),
    }
