"""The records of a journal: each says what something is from now on, or that it is gone.

Saying one again does no harm.  Tags and the order of fields are what a journal on disk is read by:
a new field comes last and has a default, a tag is never used for something else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated

import msgspec

from shoal.model import BrokerId, ClientId
from shoal.mqtt.codec.packets import Will
from shoal.mqtt.sessions.had import Gaps
from shoal.mqtt.sessions.session import Farewell
from shoal.mqtt.sessions.subscribed.rows import Qos, SubscriptionState, Where

PacketId = Annotated[int, msgspec.Meta(ge=0, le=65_535)]


class SessionPut(msgspec.Struct, frozen=True, tag=0, array_like=True, gc=False):
    """A client's session, but for what is on its way and what it has subscribed to.

    `left_us` is when its connection ended, None while there is one; `entered_us` the stamp under
    which the client is known to be here.  An interval of 0 leaves only the will to be remembered.
    With `arriving_us` the session is on its way here from elsewhere, on the journey of that stamp.
    With `going` it was sent to that broker, on the journey of that stamp, and is kept until it is
    there.  `user` is whose it is, `began_us` when it began, `had` and `gaps` what it had where it
    was before (see `Had`), `farewells` who waits for the last word from here.  With
    `waits_to_publish` what its client published there is not settled.
    """

    client_id: str
    expiry_interval_s: int
    left_us: int | None
    entered_us: int
    will: Will | None
    arriving_us: int | None = None
    going: tuple[BrokerId, int] | None = None
    user: str = ""
    began_us: int = 0
    had: Mapping[ClientId, int] = {}
    farewells: tuple[Farewell, ...] = ()
    gaps: Mapping[str, Gaps] = {}
    waits_to_publish: bool = False


class SessionEnd(msgspec.Struct, frozen=True, tag=1, array_like=True, gc=False):
    """The session is gone, with all that belongs to it."""

    client_id: str


class SubscriptionPut(msgspec.Struct, frozen=True, tag=2, array_like=True, gc=False):
    """One subscription of a session."""

    client_id: str
    row: SubscriptionState


class SubscriptionEnd(msgspec.Struct, frozen=True, tag=3, array_like=True, gc=False):
    """The subscription of that name is gone."""

    client_id: str
    text: str


class MessagePut(msgspec.Struct, frozen=True, tag=4, array_like=True, gc=False):
    """A message, before whatever refers to it by number."""

    number: int
    body: bytes
    published_us: int
    expires_us: int | None
    key: tuple[str, int] | None


class ItemPut(msgspec.Struct, frozen=True, tag=5, array_like=True, gc=False):
    """A message on its way to a client; in flight if it has a packet identifier.

    Items of a session are in the order of their serial numbers.  One that is `held` may still
    come from where the session was.
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


class ItemEnd(msgspec.Struct, frozen=True, tag=6, array_like=True, gc=False):
    """The client has it, or it is given up."""

    client_id: str
    serial: int


class ReceivedPut(msgspec.Struct, frozen=True, tag=7, array_like=True, gc=False):
    """A QoS 2 publication of the client was taken and is not released yet."""

    client_id: str
    packet_id: PacketId


class ReceivedEnd(msgspec.Struct, frozen=True, tag=8, array_like=True, gc=False):
    """It is released."""

    client_id: str
    packet_id: PacketId


class UnsettledPut(msgspec.Struct, frozen=True, tag=12, array_like=True, gc=False):
    """A QoS 2 publication of the client is under way to other brokers, and not acknowledged.

    Until a `ReceivedPut` says that it has arrived everywhere.  `shares` are the groups it is for,
    and the brokers that were chosen.
    """

    client_id: str
    packet_id: PacketId
    message: int
    shares: tuple[tuple[str, BrokerId], ...] = ()


class HeardPut(msgspec.Struct, frozen=True, tag=13, array_like=True, gc=False):
    """Of a publisher's publications, which it numbers, the last that was delivered here.

    Where its order is kept by topic `publisher` has that, too (see `shoal.mqtt.door.repeats`).
    """

    publisher: ClientId
    sequence: int


class RetainedPut(msgspec.Struct, frozen=True, tag=9, array_like=True, gc=False):
    """The topic's retained message, or with an empty payload its removal."""

    topic: str
    message: int


class HomePut(msgspec.Struct, frozen=True, tag=10, array_like=True, gc=False):
    """Another broker has a client's session, since the client entered it."""

    client_id: str
    broker: BrokerId
    at_us: int
    user: str = ""
    had_us: int = 0


class CamePut(msgspec.Struct, frozen=True, tag=14, array_like=True, gc=False):
    """Messages that a session has got while it is on its way here; they may come again."""

    client_id: str
    keys: tuple[tuple[str, int], ...]


class GroupPut(msgspec.Struct, frozen=True, tag=15, array_like=True, gc=False):
    """A broker has so many members of a group, connected ones and all; see `controls.Members`."""

    group: str
    broker: BrokerId
    present: int
    total: int
    where: Where


class AnswerPut(msgspec.Struct, frozen=True, tag=23, array_like=True, gc=False):
    """What was answered to a broker: whether a member has a group's message (see `taking`)."""

    asking: BrokerId
    key: tuple[str, int]
    group: str
    any: bool
    took: bool


class ClosedPut(msgspec.Struct, frozen=True, tag=24, array_like=True, gc=False):
    """A broker asks no more about what has a lower number: what was answered is forgotten."""

    asking: BrokerId
    open_from: int


class HomeEnd(msgspec.Struct, frozen=True, tag=11, array_like=True, gc=False):
    """No other broker has it."""

    client_id: str


class NeighbourPut(msgspec.Struct, frozen=True, tag=20, array_like=True, gc=False):
    """A broker that this one has been linked to."""

    broker: BrokerId


class SpreadPut(msgspec.Struct, frozen=True, tag=25, array_like=True, gc=False):
    """A message is taken, and handed to the sessions that it is for a few at a time.

    Those have had it that an `ItemPut` behind this one names.
    """

    message: int


class SpreadTo(msgspec.Struct, frozen=True, tag=26, array_like=True, gc=False):
    """A member of this group has it, by its shared subscription."""

    message: int
    group: str


class SpreadEnd(msgspec.Struct, frozen=True, tag=27, array_like=True, gc=False):
    """All have it."""

    message: int


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
)

_encoder = msgspec.msgpack.Encoder()
# Some of them may be written already.
encode_record: Callable[[Record | msgspec.Raw], bytes] = _encoder.encode
encode_records: Callable[[list[Record | msgspec.Raw]], bytes] = _encoder.encode
# ValueError (msgspec's ValidationError or DecodeError) for anything else.
read_records: Callable[[bytes], list[Record]] = msgspec.msgpack.Decoder(list[Record]).decode
