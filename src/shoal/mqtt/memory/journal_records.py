"""The records of a journal: each states the present value of a thing, or its end.

A repeated record does no harm. Tags and the order of fields are the format on disk: a new field
comes last and has a default, a tag is never reused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated

import msgspec

from shoal.model import BrokerId, ClientId
from shoal.mqtt.codec.packets import WillFields
from shoal.mqtt.sessions.deduplication_window import Gaps
from shoal.mqtt.sessions.session import Farewell
from shoal.mqtt.sessions.subscribed.rows import KeyValue, Qos, SubscriptionState, Where

PacketId = Annotated[int, msgspec.Meta(ge=0, le=65_535)]


class SessionPut(msgspec.Struct, frozen=True, tag=0, array_like=True, gc=False):
    """A client's session, without its queue and its subscriptions.

    `left_us` is when its connection ended, None while it has one; `entered_us` is the fencing token
    of its entry here. An expiry interval of 0 keeps only the will. With `arriving_us` the session
    is being imported, in the transfer with that fencing token. With `going` it is being exported to
    that broker, in the transfer with that token. `user` owns the session, `began_us` is when it
    began, `had` and `gaps` are its deduplication window (see `DeduplicationWindow`), `farewells`
    are the brokers that wait for the end of an earlier transfer. With `waits_to_publish`
    publications of its client at the source are not settled. The broker `source` exports the
    session that is being imported.
    """

    client_id: str
    expiry_interval_s: int
    left_us: int | None
    entered_us: int
    will: WillFields | None
    arriving_us: int | None = None
    going: tuple[BrokerId, int] | None = None
    user: str = ""
    began_us: int = 0
    had: Mapping[ClientId, int] = {}
    farewells: tuple[Farewell, ...] = ()
    gaps: Mapping[str, Gaps] = {}
    waits_to_publish: bool = False
    source: BrokerId = ""


class SessionEnd(msgspec.Struct, frozen=True, tag=1, array_like=True, gc=False):
    """The session has ended, with all its records."""

    client_id: str


class SubscriptionPut(msgspec.Struct, frozen=True, tag=2, array_like=True, gc=False):
    """One subscription of a session."""

    client_id: str
    row: SubscriptionState


class SubscriptionEnd(msgspec.Struct, frozen=True, tag=3, array_like=True, gc=False):
    """The subscription with that name has ended."""

    client_id: str
    text: str


class MessagePut(msgspec.Struct, frozen=True, tag=4, array_like=True, gc=False):
    """A message, before the records that refer to its number."""

    number: int
    body: bytes
    published_us: int
    expires_us: int | None
    key: tuple[str, int] | None


class ItemPut(msgspec.Struct, frozen=True, tag=5, array_like=True, gc=False):
    """A message queued for a client; in flight if it has a packet identifier.

    Items of a session are in the order of their serial numbers. A `held` item may still arrive from
    the session's source; conflation of the subscriptions `via` is still to decide about it.
    """

    client_id: str
    serial: int
    message: int
    qos: Qos
    retain: bool
    identifiers: tuple[int, ...]
    packet_id: PacketId
    released: bool
    held: bool = False
    via: tuple[str, ...] = ()


class ItemEnd(msgspec.Struct, frozen=True, tag=6, array_like=True, gc=False):
    """The client has the message, or it was dropped."""

    client_id: str
    serial: int


class ReceivedPut(msgspec.Struct, frozen=True, tag=7, array_like=True, gc=False):
    """A QoS 2 publication of the client was received and is not released yet."""

    client_id: str
    packet_id: PacketId


class ReceivedEnd(msgspec.Struct, frozen=True, tag=8, array_like=True, gc=False):
    """A QoS 2 publication was released."""

    client_id: str
    packet_id: PacketId


class UnsettledPut(msgspec.Struct, frozen=True, tag=12, array_like=True, gc=False):
    """A QoS 2 publication of the client that is not settled, and so not acknowledged.

    A `ReceivedPut` replaces it when it is settled. `shares` are the groups it is for, and the
    brokers chosen for them.
    """

    client_id: str
    packet_id: PacketId
    message: int
    shares: tuple[tuple[str, BrokerId], ...] = ()


class HeardPut(msgspec.Struct, frozen=True, tag=13, array_like=True, gc=False):
    """The last publication of a publisher that was delivered here, by its number.

    Where order is kept by topic `publisher` includes the topic (see
    `shoal.mqtt.front_end.deduplication`).
    """

    publisher: ClientId
    sequence: int


class RetainedPut(msgspec.Struct, frozen=True, tag=9, array_like=True, gc=False):
    """The topic's retained message; with an empty payload its removal."""

    topic: str
    message: int


class HomePut(msgspec.Struct, frozen=True, tag=10, array_like=True, gc=False):
    """Another broker owns a client's session, since the client entered it."""

    client_id: str
    broker: BrokerId
    at_us: int
    user: str = ""
    had_us: int = 0


class CamePut(msgspec.Struct, frozen=True, tag=14, array_like=True, gc=False):
    """Messages that a session got during its import; they may arrive a second time."""

    client_id: str
    keys: tuple[tuple[str, int], ...]


class GroupPut(msgspec.Struct, frozen=True, tag=15, array_like=True, gc=False):
    """The number of a broker's members of a group, connected ones and all; see
    `controls.Members`."""

    group: str
    broker: BrokerId
    present: int
    total: int
    where: Where


class AnswerPut(msgspec.Struct, frozen=True, tag=23, array_like=True, gc=False):
    """The answer to a broker: whether a member has a group's message (see `taking`)."""

    asking: BrokerId
    key: tuple[str, int]
    group: str
    any: bool
    took: bool


class ClosedPut(msgspec.Struct, frozen=True, tag=24, array_like=True, gc=False):
    """A broker asks no more about lower numbers: their answers are obsolete."""

    asking: BrokerId
    open_from: int


class HomeEnd(msgspec.Struct, frozen=True, tag=11, array_like=True, gc=False):
    """A session directory entry was removed."""

    client_id: str


class NeighbourPut(msgspec.Struct, frozen=True, tag=20, array_like=True, gc=False):
    """A broker that this one has been linked to."""

    broker: BrokerId


class SpreadPut(msgspec.Struct, frozen=True, tag=25, array_like=True, gc=False):
    """A sliced fan-out of a message has begun.

    The clients named by later `ItemPut` records have the message.
    """

    message: int


class SpreadTo(msgspec.Struct, frozen=True, tag=26, array_like=True, gc=False):
    """A member of this group has the message, by its shared subscription."""

    message: int
    group: str


class SpreadEnd(msgspec.Struct, frozen=True, tag=27, array_like=True, gc=False):
    """The sliced fan-out is complete."""

    message: int


class ConflatedPut(msgspec.Struct, frozen=True, tag=28, array_like=True, gc=False):
    """A key of a conflated subscription: its topic, then its BY values.

    `ends_us` is the end of its interval, None while none runs; `last` are the values delivered
    last. `message` is held, with its `values`, unless it is 0; `is_retained` as in `HeldMessage`.
    `newest` is the place of the newest message in its stream (see `Conflator`).
    """

    client_id: str
    text: str
    key: tuple[KeyValue, ...]
    ends_us: int | None
    last: tuple[KeyValue, ...] | None
    message: int = 0
    values: tuple[KeyValue, ...] = ()
    is_retained: bool = False
    newest: tuple[str, int] | None = None


class ConflatedEnd(msgspec.Struct, frozen=True, tag=29, array_like=True, gc=False):
    """A key of a conflated subscription is idle, or forgotten."""

    client_id: str
    text: str
    key: tuple[KeyValue, ...]


class ConflationReset(msgspec.Struct, frozen=True, tag=30, array_like=True, gc=False):
    """All keys of a conflated subscription are forgotten: another SUBSCRIBE has replaced it."""

    client_id: str
    text: str


Record = (
    SessionPut
    | SessionEnd
    | SubscriptionPut
    | SubscriptionEnd
    | MessagePut
    | ItemPut
    | ItemEnd
    | ReceivedPut
    | ReceivedEnd
    | RetainedPut
    | UnsettledPut
    | HeardPut
    | HomePut
    | HomeEnd
    | NeighbourPut
    | CamePut
    | GroupPut
    | AnswerPut
    | ClosedPut
    | SpreadPut
    | SpreadTo
    | SpreadEnd
    | ConflatedPut
    | ConflatedEnd
    | ConflationReset
)

_encoder = msgspec.msgpack.Encoder()
# Some records are encoded already.
encode_record: Callable[[Record | msgspec.Raw], bytes] = _encoder.encode
encode_records: Callable[[list[Record | msgspec.Raw]], bytes] = _encoder.encode
# Raises ValueError (msgspec's ValidationError or DecodeError) for anything else.
read_records: Callable[[bytes], list[Record]] = msgspec.msgpack.Decoder(list[Record]).decode
