"""Strategies for every message of a cluster, valid or not."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

from shoal.broker.messages import Message
from shoal.overlays.bluedove.cluster.forwarding import Load
from shoal.overlays.bluedove.cluster.members import Age, Member, Segment, Status
from shoal.overlays.bluedove.messages import (
    Digest,
    Donors,
    Fetch,
    FoundMatches,
    GossipNews,
    JoinAnswer,
    JoinCluster,
    LeaveCluster,
    LoadReport,
    MailboxOpened,
    MatchAnswer,
    Matched,
    MatcherRow,
    MatcherStays,
    MatchRequest,
    MatchResult,
    MatchResults,
    MemberHello,
    MembershipRefused,
    NotServed,
    OpenMailbox,
    Poll,
    Pull,
    Receipt,
    Remove,
    SegmentTakeOver,
    Split,
    StayInCluster,
    Store,
    Stored,
    SubscriptionRows,
    SubscriptionStored,
    TakerReady,
    Yours,
)

Strategy = st.SearchStrategy[Any]
DIMENSIONS = st.integers(-1, 3)
PLACES = st.sampled_from([-math.inf, -5.0, 0.0, 250.0, 500.0, 900.0, math.inf])
SEGMENTS = st.builds(Segment, PLACES, PLACES)
VERSIONS = st.integers(0, 5)
# Of entries, also such as do not fit into the bytes of heartbeats.
ENTRY_VERSIONS = VERSIONS | st.sampled_from([-1, 2**32 - 1, 2**32, 2**63, 2**64 - 1])
RATES = st.floats(1e-3, 1e6)
LOADS = st.builds(
    Load,
    queue=VERSIONS,
    arrival_per_s=RATES,
    matching_per_s=RATES,
    subscriptions=VERSIONS,
)


def some(of: Strategy) -> Strategy:
    return st.lists(of, max_size=3).map(tuple)


def cluster_messages(
    brokers: Strategy, names: Strategy, subscriptions: Strategy, ids: Strategy, routed: Strategy
) -> dict[type[Message], st.SearchStrategy[Message]]:
    """A strategy for each message type, made of the given parts."""
    members = st.builds(
        Member,
        broker=brokers,
        generation=VERSIONS,
        version=ENTRY_VERSIONS,
        changed=VERSIONS,
        status=st.sampled_from(list(Status)),
        segments=st.lists(SEGMENTS, min_size=1, max_size=2).map(tuple),
    )
    rows = st.builds(MatcherRow, subscriptions, brokers, VERSIONS)
    versions = st.dictionaries(names, VERSIONS, max_size=3)
    found = st.builds(FoundMatches, routed, versions, brokers)
    results = st.builds(MatchResult, ids, st.dictionaries(brokers, versions, max_size=3))
    ages = st.builds(Age, VERSIONS, VERSIONS, ENTRY_VERSIONS, VERSIONS)
    heartbeats = st.integers(0, 2**64 - 1), st.binary(max_size=12)

    def by(keys: Strategy, values: Strategy) -> Strategy:
        return st.dictionaries(keys, values, max_size=3)

    return {
        SubscriptionStored: st.builds(SubscriptionStored, names),
        OpenMailbox: st.builds(OpenMailbox),
        MailboxOpened: st.builds(MailboxOpened, names),
        Poll: st.builds(Poll, names, VERSIONS),
        LeaveCluster: st.builds(LeaveCluster, st.booleans(), st.booleans()),
        StayInCluster: st.builds(StayInCluster),
        MatcherStays: st.builds(MatcherStays, names),
        Store: st.builds(Store, rows, some(DIMENSIONS), some(DIMENSIONS)),
        Stored: st.builds(Stored, names, VERSIONS, by(DIMENSIONS, SEGMENTS)),
        Remove: st.builds(Remove, names, VERSIONS),
        MatchRequest: st.builds(MatchRequest, DIMENSIONS, some(routed)),
        Matched: st.builds(Matched, some(found)),
        MatchAnswer: st.builds(MatchAnswer, by(brokers, some(ids)), some(ids)),
        MatchResults: st.builds(MatchResults, some(results)),
        Receipt: st.builds(Receipt, some(ids)),
        NotServed: st.builds(NotServed, some(ids), members),
        LoadReport: st.builds(LoadReport, RATES, some(LOADS)),
        Digest: st.builds(Digest, by(brokers, ages), *heartbeats),
        GossipNews: st.builds(
            GossipNews, some(members), some(brokers), by(brokers, ages), *heartbeats
        ),
        Pull: st.builds(Pull),
        MemberHello: st.builds(MemberHello),
        JoinAnswer: st.builds(JoinAnswer, st.booleans(), some(members)),
        JoinCluster: st.builds(JoinCluster, some(DIMENSIONS)),
        Donors: st.builds(Donors, by(DIMENSIONS, brokers), some(members)),
        Split: st.builds(Split, DIMENSIONS),
        SegmentTakeOver: st.builds(SegmentTakeOver, DIMENSIONS),
        MembershipRefused: st.builds(MembershipRefused, DIMENSIONS),
        Fetch: st.builds(Fetch, DIMENSIONS, SEGMENTS, VERSIONS, st.booleans()),
        SubscriptionRows: st.builds(
            SubscriptionRows, DIMENSIONS, SEGMENTS, some(rows), st.booleans(), VERSIONS
        ),
        TakerReady: st.builds(TakerReady, DIMENSIONS),
        Yours: st.builds(Yours, DIMENSIONS, SEGMENTS),
    }
