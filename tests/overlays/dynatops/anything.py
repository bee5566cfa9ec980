"""Strategies for every message between brokers in views, valid or not."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from shoal.broker.messages import Message
from shoal.overlays.dynatops.messages import (
    BoundFor,
    Costly,
    CountsReported,
    EndRefused,
    EndWanted,
    EntryBound,
    HandedRow,
    HomeTurn,
    Introduction,
    JoinWanted,
    KnownTopics,
    LeaveRequest,
    LinkLost,
    PublicationArrived,
    RowsHandedOver,
    RowsWanted,
    StayWanted,
    SwapAnswered,
    SwapAsked,
    SwapWanted,
    ToHomes,
    TopicCount,
    TopicInterest,
    TopicRow,
    TopicSummary,
    ToRoot,
    ViewSaid,
)
from shoal.overlays.dynatops.view import View
from shoal.overlays.tco.messages import AlongPath, LinksSaid, Stop

NUMBERS = st.one_of(st.integers(-2, 5), st.sampled_from([2**40, 2**63 - 1, -(2**63)]))


def ring_messages(
    brokers: Any, clients: Any, filters: Any, routed: Any
) -> dict[type[Message], st.SearchStrategy[Message]]:
    # Views: the first, those derived from it, and unrelated ones.
    ages = st.one_of(st.just((0, "")), st.tuples(NUMBERS, brokers))
    some = st.lists(brokers, max_size=4).map(tuple)
    views = st.builds(
        View,
        NUMBERS,
        brokers,
        some,
        st.dictionaries(brokers, NUMBERS, max_size=3),
        st.booleans(),
        st.just(1),
        st.one_of(st.none(), ages),
    )
    handed = st.lists(
        st.builds(HandedRow, brokers, st.builds(TopicRow, NUMBERS, filters)), max_size=3
    ).map(tuple)
    rows = st.lists(st.builds(TopicRow, NUMBERS, filters), max_size=3).map(tuple)
    numbers = st.lists(NUMBERS, max_size=3).map(tuple)
    publications = st.lists(routed, max_size=3).map(tuple)
    counts = st.lists(
        st.builds(TopicCount, st.sampled_from(["t", ""]), NUMBERS, some), max_size=3
    ).map(tuple)
    yes = st.booleans()
    former = st.one_of(st.none(), ages)
    known = st.lists(st.tuples(clients, NUMBERS), max_size=3).map(tuple)
    topics = st.lists(st.sampled_from(["t", ""]), max_size=3).map(tuple)
    figures = st.floats()
    return {
        Introduction: st.builds(Introduction, NUMBERS, st.one_of(st.none(), views)),
        ViewSaid: st.builds(ViewSaid, views),
        JoinWanted: st.builds(JoinWanted, brokers, NUMBERS),
        LeaveRequest: st.builds(LeaveRequest),
        StayWanted: st.builds(StayWanted),
        EndWanted: st.builds(EndWanted),
        EndRefused: st.builds(EndRefused),
        LinkLost: st.builds(LinkLost, ages, brokers, yes),
        TopicInterest: st.builds(
            TopicInterest, ages, brokers, some, NUMBERS, rows, numbers, yes, yes
        ),
        RowsWanted: st.builds(RowsWanted, ages, brokers, some),
        RowsHandedOver: st.builds(RowsHandedOver, ages, brokers, brokers, handed, yes),
        KnownTopics: st.builds(KnownTopics, ages, brokers, brokers, NUMBERS),
        CountsReported: st.builds(CountsReported, ages, brokers, counts),
        TopicSummary: st.builds(TopicSummary, ages, brokers, brokers, topics, NUMBERS),
        Costly: st.builds(Costly, ages, brokers, brokers, figures),
        SwapAsked: st.builds(SwapAsked, ages, brokers, brokers, topics),
        SwapAnswered: st.builds(SwapAnswered, ages, brokers, brokers, topics, figures),
        SwapWanted: st.builds(SwapWanted, ages, brokers, brokers, brokers, figures, figures),
        ToRoot: st.builds(
            ToRoot, publications, ages, brokers, NUMBERS, brokers, NUMBERS, former, yes
        ),
        ToHomes: st.builds(
            ToHomes, publications, ages, brokers, NUMBERS, NUMBERS, NUMBERS, former, some, yes
        ),
        EntryBound: st.builds(
            EntryBound,
            ages,
            brokers,
            st.lists(st.builds(BoundFor, some, known), max_size=3).map(tuple),
        ),
        HomeTurn: st.builds(HomeTurn, ages, brokers, NUMBERS, brokers, clients, numbers),
        LinksSaid: st.builds(
            LinksSaid, ages, st.lists(st.tuples(brokers, brokers), max_size=3).map(tuple)
        ),
        AlongPath: st.builds(
            AlongPath,
            publications,
            ages,
            brokers,
            NUMBERS,
            NUMBERS,
            NUMBERS,
            former,
            st.lists(st.builds(Stop, brokers, NUMBERS, NUMBERS), max_size=4).map(tuple),
            NUMBERS,
        ),
        PublicationArrived: st.builds(
            PublicationArrived,
            ages,
            brokers,
            brokers,
            NUMBERS,
            known,
        ),
    }
