"""What dispatchers and matchers say to each other, and what clients of a cluster may ask besides.

Publications and subscriptions come from clients as everywhere (`shoal.broker.messages`).  A
dispatcher is the home of its clients' subscriptions: it numbers their versions, and what comes for
them comes through it.
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
    """From a subscriber that cannot listen: keep what comes for me."""


class MailboxOpened(Message, frozen=True):
    """To a subscriber: the handle to poll with, at this dispatcher."""

    mailbox: str


class Poll(Message, frozen=True):
    """From a subscriber: deliver what waits in my mailbox, so many publications at most."""

    mailbox: str
    most: int


class Leave(Message, frozen=True):
    """To a matcher, from its operator or from a dispatcher: hand over, then serve no more.

    One that stays ready joins again when it is needed.
    """

    stay_ready: bool = False


# --- subscriptions ----------------------------------------------------------------------------


class Row(msgspec.Struct, frozen=True):
    """A subscription in a cluster: its home dispatcher, and its home's version of it."""

    subscription: Subscription
    home: BrokerId
    version: int


class Store(Message, frozen=True):
    """Home to matcher: keep a subscription in the sets of these dimensions, or as a replica."""

    row: Row
    dimensions: tuple[int, ...]
    replicas: tuple[int, ...]


class Stored(Message, frozen=True):
    """Matcher to home: kept; and what the matcher serves on those dimensions, as it kept it."""

    subscription_id: SubscriptionId
    version: int
    segments: Mapping[int, Segment]


class Remove(Message, frozen=True):
    """Home to matcher: forget this subscription, unless you have a later version."""

    subscription_id: SubscriptionId
    version: int


# --- publications -----------------------------------------------------------------------------


class Match(Message, frozen=True):
    """Dispatcher to matcher: match these against the set of one dimension."""

    dimension: int
    publications: tuple[RoutedPublication, ...]


class Found(msgspec.Struct, frozen=True):
    """A publication, a home's subscriptions that match it, by version, and who found them."""

    routed: RoutedPublication
    subscriptions: Mapping[SubscriptionId, int]
    matcher: BrokerId


class Matched(Message, frozen=True):
    """To a home, from the matcher or, where order is kept, from the dispatcher: deliver these."""

    found: tuple[Found, ...]


class Result(msgspec.Struct, frozen=True):
    """Of a publication: the subscriptions that match it, with their versions, by their homes."""

    message_id: MessageId
    homes: Mapping[BrokerId, Mapping[SubscriptionId, int]]


class Results(Message, frozen=True):
    """Matcher to dispatcher, which passes them on in their order: these are matched."""

    results: tuple[Result, ...]


class Answer(Message, frozen=True):
    """Matcher to dispatcher: these are matched, and which other homes have to confirm them."""

    homes: Mapping[BrokerId, tuple[MessageId, ...]]
    message_ids: tuple[MessageId, ...]


class Receipt(Message, frozen=True):
    """Home to the dispatcher a publication came from: what was matched has come to me."""

    confirms = True

    message_ids: tuple[MessageId, ...]


class NotServed(Message, frozen=True):
    """Matcher to dispatcher: these do not lie in what I serve; this is what I do serve."""

    message_ids: tuple[MessageId, ...]
    member: Member


class LoadReport(Message, frozen=True):
    """Matcher to dispatcher: its load, dimension by dimension."""

    utilisation: float
    loads: tuple[Load, ...]


# --- the member table -------------------------------------------------------------------------


class Digest(Message, frozen=True):
    """How new the sender's entries are."""

    ages: Mapping[BrokerId, Age]


class News(Message, frozen=True):
    """Entries the other lacks, those wanted from it, and signs of life."""

    members: tuple[Member, ...]
    wanted: tuple[BrokerId, ...] = ()
    ages: Mapping[BrokerId, Age] = {}


class Pull(Message, frozen=True):
    """Dispatcher to matcher: your table, please; answered by `News`."""


# --- starting, joining, leaving, taking over --------------------------------------------------


class Hello(Message, frozen=True):
    """A matcher that starts, to a dispatcher: am I expected, or known from an earlier life?"""


class Welcome(Message, frozen=True):
    """A dispatcher's answer: whether the matcher may take its first segments, and the table."""

    is_first: bool
    members: tuple[Member, ...]


class Join(Message, frozen=True):
    """Matcher to dispatcher: I serve nothing on these dimensions, who gives me some?"""

    dimensions: tuple[int, ...]


class Donors(Message, frozen=True):
    """Dispatcher to joiner: ask these, one for each dimension."""

    matchers: Mapping[int, BrokerId]
    members: tuple[Member, ...]


class Split(Message, frozen=True):
    """To a donor: give me of your segment, half of it or, when you are leaving, all."""

    dimension: int


class TakeOver(Message, frozen=True):
    """Leaver to an heir: ask me for my segment on this dimension."""

    dimension: int


class Refused(Message, frozen=True):
    """To a joiner or leaver: not now."""

    dimension: int


class Fetch(Message, frozen=True):
    """To a dispatcher or a matcher: what do you know of the subscriptions that meet this?

    A dispatcher sends all of its own, a matcher all that it has; each under this number.
    """

    dimension: int
    segment: Segment
    number: int
    is_for_home: bool


class Rows(Message, frozen=True):
    """Subscriptions for the set of one dimension; `is_last`: all that meet the segment are sent.

    `number` is that of the question, 0 of a segment that moves.
    """

    dimension: int
    segment: Segment
    rows: tuple[Row, ...]
    is_last: bool
    number: int = 0


def in_messages(dimension: int, segment: Segment, rows: list[Row], number: int = 0) -> list[Rows]:
    """Rows in messages of bounded size, the last one marked; one at least."""
    starts = range(0, max(1, len(rows)), ROWS_PER_MESSAGE)
    return [
        Rows(
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
    """Donor to receiver: I no longer serve this; you do."""

    dimension: int
    segment: Segment


# --- on the wire ------------------------------------------------------------------------------


def _itself(message: msgspec.Struct) -> msgspec.Struct:
    return message


def _checked_match(message: Match) -> Match:
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
    Leave,
    Store,
    Stored,
    Remove,
    Form(Match, Match, _itself, _checked_match),
    Form(Matched, Matched, _itself, _checked_matched),
    Answer,
    Results,
    Receipt,
    NotServed,
    LoadReport,
    Digest,
    News,
    Pull,
    Hello,
    Welcome,
    Join,
    Donors,
    Split,
    TakeOver,
    Refused,
    Fetch,
    Rows,
    TakerReady,
    Yours,
)
