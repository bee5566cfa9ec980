"""Control messages between the MQTT sides of brokers: about sessions that are transferred
(`session_transfer`), retained messages of a joining broker (`joining`), shared subscriptions
(`sharing`), the spread of subscriptions (`granting`), full queues (`full_queues`), clients that
are redirected (`moving`), and parts of logs (`replaying`).

>>> body = encode_control(Ended("c", "B1"))
>>> decode_control(body), decode_control(b"garbage")
(Ended(client_id='c', broker='B1'), None)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated

import msgspec

from shoal.log.slices import LogPlace, LogSlice
from shoal.model import BrokerId, ClientId
from shoal.mqtt.codec.packets import WillFields
from shoal.mqtt.sessions.deduplication_window import Gaps
from shoal.mqtt.sessions.subscribed.rows import Identifiers, KeyValue, Qos, SubscriptionState, Where

# A transfer: the client, and the fencing token of its entry at the target.
Transfer = tuple[str, int]
# See `session.ClientSubscription.group`.
GroupName = str
# The bound of controls in one `Several`; a broker sends 256 or 100.
MOST_AT_ONCE = 1_024


class Entered(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The client has connected at `broker`, at `at_us`; the broker `must_send_session` sends its
    session, if it has one.

    `at_us` is the fencing token: the time of the client's CONNECT, however late it was admitted, or
    the last known token and one more. `is_kept`: its session outlives the connection. `user` owns
    the session, and `began_us` is when it began, which identifies it, unless the session is
    requested. Only the registrars of a `registered` client hear of its end. Brokers without the
    session have `passed` the request on so often. The broker `must_take_over` must have the client
    taken over, as by `SessionTakeOver`.
    """

    client_id: str
    broker: BrokerId
    at_us: int
    is_kept: bool
    must_send_session: BrokerId | None
    user: str = ""
    began_us: int = 0
    registered: bool = False
    passed: int = 0
    must_take_over: BrokerId = ""


class ClientNotOwner(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The client of this entry uses an identifier whose session is another user's."""

    transfer: Transfer


class Ended(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The client's session at `broker` has ended."""

    client_id: str
    broker: BrokerId


class Register(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A client has connected: sent to its registrar, which informs the brokers concerned."""

    entered: Entered


class SessionTakeOver(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The client has connected at `broker`, at `at_us`: end its connection anywhere else.

    `user` is the client's user. Brokers have `passed` the request on so often. `began_us` is when
    the session there began: after the wait of the client, if it waited.
    """

    client_id: str
    at_us: int
    broker: BrokerId
    user: str
    passed: int = 0
    began_us: int = 0


class AskedThere(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A SessionTakeOver was passed on to `broker`, the client's former one, which will answer."""

    transfer: Transfer
    broker: BrokerId


class TakenOver(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The client of this entry has no other connection, and no unsettled will of one."""

    transfer: Transfer


class Several(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A batch of controls.

    With `parts` it is part `number`, from 0, of the session list of `broker` for a broker that has
    asked for it.
    """

    controls: Annotated[tuple[Entered | Ended, ...], msgspec.Meta(max_length=MOST_AT_ONCE)]
    broker: BrokerId = ""
    number: Annotated[int, msgspec.Meta(ge=0)] = 0
    parts: Annotated[int, msgspec.Meta(ge=0)] = 0


class Sought(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """`broker`, which has started, asks for the session owners of these clients."""

    client_ids: Annotated[tuple[str, ...], msgspec.Meta(max_length=MOST_AT_ONCE)]
    broker: BrokerId


class OwnersSought(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """`broker`, which has started, asks for all sessions that these silent brokers own."""

    owners: Annotated[tuple[BrokerId, ...], msgspec.Meta(max_length=MOST_AT_ONCE)]
    broker: BrokerId


class OwnersKnown(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The owners of such sessions; another broker answers in their place.

    The last part of an answer to `OwnersSought` names the `owners`.
    """

    entered: Annotated[tuple[Entered, ...], msgspec.Meta(max_length=MOST_AT_ONCE)]
    owners: Annotated[tuple[BrokerId, ...], msgspec.Meta(max_length=MOST_AT_ONCE)] = ()


class Item(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A message queued for the client; with a packet identifier it was sent to the client already.

    `left_us` is the time until it expires, `key` is the publication's; `serial` is the sender's own
    number for it, 0 if it has none. Conflation of the subscriptions `via` is still to decide.
    """

    transfer: Transfer
    body: bytes
    published_us: int
    left_us: int | None
    key: tuple[str, int] | None
    qos: Qos
    retain: bool
    identifiers: Identifiers
    packet_id: Annotated[int, msgspec.Meta(ge=0, le=65_535)]
    released: bool
    serial: int = 0
    via: tuple[str, ...] = ()


class ConflatedKeyState(msgspec.Struct, frozen=True, array_like=True):
    """A key of the conflated subscription `text`: its topic, then its BY values.

    `left_us` is the rest of its interval, None while none runs; `last` are the values delivered
    last, `newest` is the place of the newest message in its stream. A held message has a `body`,
    and its `values`; the other fields are as in `Item`.
    """

    text: str
    key: tuple[KeyValue, ...]
    left_us: int | None
    last: tuple[KeyValue, ...] | None
    body: bytes = b""
    values: tuple[KeyValue, ...] = ()
    published_us: int = 0
    expires_in_us: int | None = None
    message_key: tuple[str, int] | None = None
    is_retained: bool = False
    newest: tuple[str, int] | None = None


class SessionPart(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A part of a session that would be too long as one control.

    `came` are the keys of messages that the session has got, and that may still be under way to
    its recent brokers. `conflated` are keys of its conflated subscriptions.
    """

    transfer: Transfer
    subscriptions: tuple[SubscriptionState, ...] = ()
    came: tuple[tuple[str, int], ...] = ()
    conflated: tuple[ConflatedKeyState, ...] = ()


class SessionState(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The session, after its `items` and `parts`, so many; without `exists` there is none.

    `received` are the packet identifiers of QoS 2 publications from the client; `user` and
    `began_us` are as in `Entered`. `arriving_us` is the fencing token of an unfinished transfer to
    the sender. `had` is the last publication of each stream that the session got. It lacks `gaps`,
    and may have got the publications up to `heard` at the source, which has `all_heard` if these
    are all (see `DeduplicationWindow`). While QoS 2 publications of its client are not
    `is_settled`, its next publications wait. The broker `source` exports it.
    """

    transfer: Transfer
    exists: bool
    items: int = 0
    parts: int = 0
    received: tuple[int, ...] = ()
    user: str = ""
    began_us: int = 0
    arriving_us: int | None = None
    had: Mapping[ClientId, int] = {}
    gaps: Mapping[str, Gaps] = {}
    heard: Mapping[str, int] = {}
    all_heard: bool = False
    is_settled: bool = True
    source: BrokerId = ""


class EarlierSettled(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Whether the client's publications at the source `broker` are settled."""

    transfer: Transfer
    broker: BrokerId
    is_settled: bool


class Offer(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Has the target got the session? The source `broker` keeps it until the target answers."""

    transfer: Transfer
    broker: BrokerId


class TransferInquiry(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Does the receiver still export the session? The target `broker` has the session, and has not
    heard of its source for a while.
    """

    transfer: Transfer
    broker: BrokerId


class SessionAdopted(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The session is on the target's disk, and every broker knows its subscriptions."""

    transfer: Transfer


class TransferDeclined(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The target `broker` does not have the session, and does not want it any more."""

    transfer: Transfer
    broker: BrokerId


class SessionDeparted(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The source `broker` sends nothing more; it forgets the session at `TransferComplete`."""

    transfer: Transfer
    broker: BrokerId


class TransferComplete(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The target has recorded all, or the session has ended: the source may forget it."""

    transfer: Transfer


class Vacated(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """`broker` leaves the network: the receiver takes over a session from it.

    Its client entered at `entered_us`, and disconnected `away_us` ago. The other fields are as in a
    session.
    """

    client_id: str
    broker: BrokerId
    entered_us: int
    user: str
    expiry_interval_s: int
    away_us: int
    will: WillFields | None


class Coming(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """May a client of `broker`, which entered it at `entered_us`, be redirected here?

    `moved_us`: the times of its redirects within the last hour.
    """

    client_id: str
    broker: BrokerId
    entered_us: int
    user: str
    moved_us: tuple[int, ...] = ()


class FederationWelcome(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The answer of `broker`: it may, or not, and why."""

    client_id: str
    broker: BrokerId
    problem: str = ""


class FederationHello(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """This broker asks for the session lists and the digests of retained messages of all."""

    broker: BrokerId


class Rejoined(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """This broker is linked again to a part of the network that was given up."""

    broker: BrokerId


class Here(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """This broker is present; the digest is of all its retained messages."""

    broker: BrokerId
    digest: int


class Tell(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Send all retained messages to this broker."""

    broker: BrokerId


class RetainedState(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A retained message; with an empty payload a removal."""

    body: bytes
    published_us: int
    left_us: int | None


class AllTold(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """This broker has sent all its retained messages."""

    broker: BrokerId


class FederationMembers(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The number of a broker's members of a group since a time, connected ones and all.

    `where` is the content filter of the group, as in `SubscriptionState`.
    """

    broker: BrokerId
    group: GroupName
    from_us: int
    present: Annotated[int, msgspec.Meta(ge=0)]
    total: Annotated[int, msgspec.Meta(ge=0)]
    where: Where


class Mark(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The receiver has got all earlier requests of this broker's front end."""

    broker: BrokerId


class Full(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Whether this broker's queues are full."""

    broker: BrokerId
    is_full: bool


class Shared(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A message for a member of a group, from the publisher's broker.

    For `any` member, or only for a connected one. That broker asks no more about numbers below
    `open_from`.
    """

    group: GroupName
    broker: BrokerId
    body: bytes
    published_us: int
    left_us: int | None
    key: tuple[str, int] | None
    any: bool
    open_from: int = 0


class Closed(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """`broker` asks no more about numbers below `open_from`, as in `Shared`."""

    broker: BrokerId
    open_from: int


class Took(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Whether a member of a group at this broker has the message of that key; `any` as asked."""

    broker: BrokerId
    group: GroupName
    key: tuple[str, int]
    took: bool
    any: bool


class LogAsked(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """`broker` asks for a part of the receiver's log, for a subscription with a past.

    From `place` on, or from `from_us` on without one: records that match the filters. `number`
    names the question.
    """

    broker: BrokerId
    number: int
    place: LogPlace | None
    from_us: int
    topic_filter: str
    where: Where


class LogTold(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The answer of `broker`; `part` is None if it cannot be read, and `problem` says why.

    `greatest` is the greatest number of a publication of the broker so far.
    """

    broker: BrokerId
    number: int
    part: LogSlice | None
    greatest: int
    problem: str = ""


Control = (
    Entered
    | ClientNotOwner
    | Ended
    | Register
    | SessionTakeOver
    | AskedThere
    | TakenOver
    | Several
    | Sought
    | OwnersSought
    | OwnersKnown
    | Item
    | SessionPart
    | SessionState
    | EarlierSettled
    | Offer
    | TransferInquiry
    | SessionAdopted
    | TransferDeclined
    | SessionDeparted
    | TransferComplete
    | Vacated
    | Coming
    | FederationWelcome
    | FederationHello
    | Rejoined
    | Here
    | Tell
    | RetainedState
    | AllTold
    | Mark
    | Full
    | FederationMembers
    | Shared
    | Closed
    | Took
    | LogAsked
    | LogTold
)


encode_control: Callable[[Control], bytes] = msgspec.msgpack.Encoder().encode
_decode: Callable[[bytes], Control] = msgspec.msgpack.Decoder(Control).decode


def decode_control(body: bytes) -> Control | None:
    """Decode a control; None for anything else."""
    try:
        return _decode(body)
    except (msgspec.MsgspecError, ValueError):
        return None
