"""The rows of a trace's tables that every system has, and the allowed types of fields.

Times are integer microseconds, in virtual time or since 1970 UTC.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from types import UnionType
from typing import Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from shoal.broker.happenings import Happening
from shoal.broker.records import RefusalRecord
from shoal.clients.records import MigrationRecord, ReturnRecord, SubscriberMoveRecord
from shoal.model import BrokerId, ClientId, SubscriptionId

Kind = Literal["text", "integer", "double"]
Columns = Mapping[str, Kind]

_KINDS: Mapping[type, Kind] = {str: "text", int: "integer", float: "double"}


class EventRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of a system's brokers that describes an event.

    Reports and status show it without knowing it.
    """

    at_us: int

    @abstractmethod
    def in_words(self) -> str:
        """The event, in a line without the time."""

    def happening(self) -> Happening:
        return Happening(at_us=self.at_us, kind="overlay", text=self.in_words())


class BrokerPlace(msgspec.Struct, frozen=True):
    """A broker, and its place on the map, if known."""

    broker: BrokerId
    latitude: float | None = None
    longitude: float | None = None
    name: str | None = None


class OverlayLink(msgspec.Struct, frozen=True):
    """Two brokers that are linked from the start."""

    left: BrokerId
    right: BrokerId


class AcceptedPublication(msgspec.Struct, frozen=True):
    """A publication that its publisher handed to its broker."""

    publisher: ClientId
    sequence: int
    published_us: int
    first_broker: BrokerId


class DeliveredPublication(msgspec.Struct, frozen=True):
    """A delivery to a client, once for each of its subscriptions."""

    publisher: ClientId
    sequence: int
    subscription: SubscriptionId
    client: ClientId
    broker: BrokerId
    published_us: int
    delivered_us: int
    hops: int


class LoadRow(msgspec.Struct, frozen=True):
    """One broker's load in one window; messages count publications singly.

    `control_busy_us` is the part of `input_busy_us` that control messages took, `delivered` the
    part of `messages_out` that are publications for clients.
    """

    broker: BrokerId
    window_start_us: int
    messages_in: int
    messages_out: int
    control_in: int
    control_out: int
    input_busy_us: int
    output_busy_us: int
    control_busy_us: int = 0
    delivered: int = 0


class ControlRow(msgspec.Struct, frozen=True):
    """Control messages of one type that a broker sent to its neighbours in one window.

    kind           name of the type
    bytes          of their frames; 0 if the messages have no wire form
    publications   copies of publications in them: a system may send these by messages of its own
    """

    broker: BrokerId
    window_start_us: int
    kind: str
    messages: int
    bytes: int
    publications: int = 0


class ConflatedSubscription(msgspec.Struct, frozen=True):
    """A subscription with `$every` or `$changed`: what became of the publications that reached its
    broker. Those that a link was spared, and those held at the end, are in none of the counts.
    """

    subscription: SubscriptionId
    delivered: int
    superseded: int
    suppressed: int


class SubscribedSpan(msgspec.Struct, frozen=True):
    """A time for which a subscription is there that comes and goes by a scenario's `[churn]`, in
    virtual time: only publications of these times are expected. `until_us`: None to the end.
    """

    subscription: SubscriptionId
    from_us: int
    until_us: int | None = None


# Rows that brokers and publishers of every system write by `Record` effects.
SHARED_RECORDS: Mapping[str, type[msgspec.Struct]] = {
    "migrations": MigrationRecord,
    "failed_migrations": ReturnRecord,
    "refusals": RefusalRecord,
    "subscriber_moves": SubscriberMoveRecord,
}

# All tables that every trace has.
SHARED_TABLES: Mapping[str, type[msgspec.Struct]] = {
    "brokers": BrokerPlace,
    "links": OverlayLink,
    "publications": AcceptedPublication,
    "deliveries": DeliveredPublication,
    "load": LoadRow,
    "conflated": ConflatedSubscription,
    "subscribed": SubscribedSpan,
    "control": ControlRow,
    **SHARED_RECORDS,
}


def columns_of(row: type[msgspec.Struct]) -> Columns:
    """A row's fields, in their order, with their types; each may be missing."""
    found: dict[str, Kind] = {}
    for name, hint in get_type_hints(row).items():
        either = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        kinds = [kind for kind in either if kind is not type(None)]
        (found[name],) = (_KINDS[kind] for kind in kinds)
    return found
