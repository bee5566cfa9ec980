"""Messages between dispatchers and matchers, and additional requests of a cluster's clients.

Publications and subscriptions come from clients as everywhere (`shoal.broker.messages`). The
dispatcher of a subscription's client numbers its versions, and its deliveries go through it.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from shoal.broker.messages import Message, RoutedPublication
from shoal.broker.wire import Form, Vocabulary
from shoal.model import BrokerId, MessageId, Subscription, SubscriptionId, check_attributes
from shoal.overlays.bluedove.cluster.forwarding import Load
from shoal.overlays.bluedove.cluster.members import Age, Member, Segment

# Rows in one message; more travel in several.
ROWS_PER_MESSAGE = 1_000

# --- from and to clients ----------------------------------------------------------------------


class SubscriptionStored(Message, frozen=True):
    """To a subscriber: from now on no publication misses this subscription."""

    subscription_id: SubscriptionId


class OpenMailbox(Message, frozen=True):
    """From a subscriber that polls: keep my publications."""


class MailboxOpened(Message, frozen=True):
    """To a subscriber: the handle to poll with, at this dispatcher."""

    mailbox: str


class Poll(Message, frozen=True):
    """From a subscriber: deliver at most this many publications from its mailbox."""

    mailbox: str
    most: int


class LeaveCluster(Message, frozen=True):
    """To a matcher, from its operator or from a dispatcher: hand over, then end the service.

    One that stays ready joins again when it is needed. `for_good`: it leaves the network as well,
    by its driver, and its process ends.
    """

    stay_ready: bool = False
    for_good: bool = False


class StayInCluster(Message, frozen=True):
    """Dispatcher to matcher: take the leave for good back."""


class MatcherStays(Message, frozen=True):
    """Matcher to dispatcher: it cannot leave for good now."""

    reason: str


# --- subscriptions ----------------------------------------------------------------------------


class MatcherRow(msgspec.Struct, frozen=True):
    """A subscription in a cluster: its dispatcher, and that one's version of it."""

    subscription: Subscription
    home: BrokerId
    version: int


class Store(Message, frozen=True):
    """Dispatcher to matcher: store a subscription in the sets of these dimensions, or as a
    replica.
    """

    row: MatcherRow
    dimensions: tuple[int, ...]
    replicas: tuple[int, ...]


class Stored(Message, frozen=True):
    """Matcher to dispatcher: stored, with the segments served on those dimensions at that time."""

    subscription_id: SubscriptionId
    version: int
    segments: Mapping[int, Segment]


class Remove(Message, frozen=True):
    """Dispatcher to matcher: remove this subscription, unless there is a later version."""

    subscription_id: SubscriptionId
    version: int


# --- publications -----------------------------------------------------------------------------


class MatchRequest(Message, frozen=True):
    """Dispatcher to matcher: match these against the set of one dimension."""

    copied = "publications"

    dimension: int
    publications: tuple[RoutedPublication, ...]


class FoundMatches(msgspec.Struct, frozen=True):
    """A publication, a dispatcher's subscriptions that match it, by version, and the matcher."""

    routed: RoutedPublication
    subscriptions: Mapping[SubscriptionId, int]
    matcher: BrokerId


class Matched(Message, frozen=True):
    """To a subscriber's dispatcher, from the matcher or, with order, from the publisher's:
    deliver.
    """

    copied = "found"

    found: tuple[FoundMatches, ...]


class MatchResult(msgspec.Struct, frozen=True):
    """Of a publication: the subscriptions that match it, with their versions, by their
    dispatchers.
    """

    message_id: MessageId
    homes: Mapping[BrokerId, Mapping[SubscriptionId, int]]


class MatchResults(Message, frozen=True):
    """Matcher to dispatcher, which passes them on in their order: these are matched."""

    results: tuple[MatchResult, ...]


class MatchAnswer(Message, frozen=True):
    """Matcher to dispatcher: these are matched, and which other dispatchers have to confirm
    them.
    """

    homes: Mapping[BrokerId, tuple[MessageId, ...]]
    message_ids: tuple[MessageId, ...]


class Receipt(Message, frozen=True):
    """Confirmation of results, to the dispatcher that a publication came from."""

    confirms = True

    message_ids: tuple[MessageId, ...]


class NotServed(Message, frozen=True):
    """Matcher to dispatcher: these do not lie in the sender's segments, which are attached."""

    message_ids: tuple[MessageId, ...]
    member: Member


class LoadReport(Message, frozen=True):
    """Matcher to dispatcher: its load, dimension by dimension."""

    utilisation: float
    loads: tuple[Load, ...]


# --- the member table -------------------------------------------------------------------------


class Digest(Message, frozen=True):
    """The sender's table: its basis and all versions or, to a table of another basis, the ages of
    its entries.
    """

    ages: Mapping[BrokerId, Age] = {}
    basis: int = 0
    versions: bytes = b""


class GossipNews(Message, frozen=True):
    """Entries the other lacks, those wanted from it, and heartbeats: ages of single entries, or the
    basis of the table and all versions.
    """

    members: tuple[Member, ...]
    wanted: tuple[BrokerId, ...] = ()
    ages: Mapping[BrokerId, Age] = {}
    basis: int = 0
    versions: bytes = b""


class Pull(Message, frozen=True):
    """Dispatcher to matcher: your table, please; answered by `GossipNews`."""


# --- starting, joining, leaving, taking over ----------------------------------------------------


class MemberHello(Message, frozen=True):
    """A matcher that starts, to a dispatcher: am I expected, or known from an earlier life?"""


class JoinAnswer(Message, frozen=True):
    """A dispatcher's answer: whether the matcher may take its first segments, and the table."""

    is_first: bool
    members: tuple[Member, ...]


class JoinCluster(Message, frozen=True):
    """Matcher to dispatcher: request for donors on these dimensions."""

    dimensions: tuple[int, ...]


class Donors(Message, frozen=True):
    """Dispatcher to joiner: the donors, one for each dimension."""

    matchers: Mapping[int, BrokerId]
    members: tuple[Member, ...]


class Split(Message, frozen=True):
    """To a donor: request for half of its segment or, when it is leaving, all."""

    dimension: int


class SegmentTakeOver(Message, frozen=True):
    """Leaving matcher to an heir: request to take over its segment on this dimension."""

    dimension: int


class MembershipRefused(Message, frozen=True):
    """To a joiner, or an heir of a leaving broker: not now."""

    dimension: int


class Fetch(Message, frozen=True):
    """To a dispatcher or a matcher: request for subscriptions that meet this segment.

    A dispatcher sends all of its own, a matcher all that it has; each under this number.
    """

    dimension: int
    segment: Segment
    number: int
    is_for_home: bool


class SubscriptionRows(Message, frozen=True):
    """Subscriptions for the set of one dimension; `is_last`: all that meet the segment are sent.

    `number` is that of the question, 0 of a segment that moves.
    """

    dimension: int
    segment: Segment
    rows: tuple[MatcherRow, ...]
    is_last: bool
    number: int = 0


def in_messages(
    dimension: int, segment: Segment, rows: list[MatcherRow], number: int = 0
) -> list[SubscriptionRows]:
    """Rows in messages of bounded size, the last one marked; one at least."""
    starts = range(0, max(1, len(rows)), ROWS_PER_MESSAGE)
    return [
        SubscriptionRows(
            dimension,
            segment,
            tuple(rows[start : start + ROWS_PER_MESSAGE]),
            start + ROWS_PER_MESSAGE >= len(rows),
            number,
        )
        for start in starts
    ]


class TakerReady(Message, frozen=True):
    """Receiver to donor: I have all rows."""

    dimension: int


class Yours(Message, frozen=True):
    """Source to target: the source does not serve this segment any more; the target does."""

    dimension: int
    segment: Segment


# --- on the wire ------------------------------------------------------------------------------


def _itself(message: msgspec.Struct) -> msgspec.Struct:
    return message


def _checked_match(message: MatchRequest) -> MatchRequest:
    for routed in message.publications:
        check_attributes(routed.publication.attributes)
    return message


def _checked_matched(message: Matched) -> Matched:
    for found in message.found:
        check_attributes(found.routed.publication.attributes)
    return message


MESSAGES: Vocabulary = (
    SubscriptionStored,
    OpenMailbox,
    MailboxOpened,
    Poll,
    LeaveCluster,
    StayInCluster,
    MatcherStays,
    Store,
    Stored,
    Remove,
    Form(MatchRequest, MatchRequest, _itself, _checked_match),
    Form(Matched, Matched, _itself, _checked_matched),
    MatchAnswer,
    MatchResults,
    Receipt,
    NotServed,
    LoadReport,
    Digest,
    GossipNews,
    Pull,
    MemberHello,
    JoinAnswer,
    JoinCluster,
    Donors,
    Split,
    SegmentTakeOver,
    MembershipRefused,
    Fetch,
    SubscriptionRows,
    TakerReady,
    Yours,
)
