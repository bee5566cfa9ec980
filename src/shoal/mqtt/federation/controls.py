"""What brokers' MQTT sides say to each other: about clients that move between them (see `roaming`),
about retained messages when one joins (see `joining`), about whose turn it is (see `sharing`),
about how far what they want has come (see `granting`), about full queues (see `crowding`), and
about clients that are to move (see `moving`).

>>> body = encode_control(Ended("c", "B1"))
>>> decode_control(body), decode_control(b"garbage")
(Ended(client_id='c', broker='B1'), None)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated

import msgspec

from shoal.model import BrokerId, ClientId
from shoal.mqtt.codec.packets import Will
from shoal.mqtt.sessions.had import Gaps
from shoal.mqtt.sessions.subscribed.rows import Identifiers, Qos, SubscriptionState, Where

# The client, and when it entered the broker it goes to, by that broker's stamp.
Journey = tuple[str, int]
# See `session.ClientSubscription.group`.
GroupName = str
# What is about several clients is handled in one go: a broker says 256 at once, or 100.
MOST_AT_ONCE = 1_024


class Entered(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The client has connected at `broker`, at `at_us`; `asked` is to send its session, if any is.

    `is_kept`: its session outlives the connection.  `user` is whose session it is, and `began_us`
    the stamp at which it began, wherever that was, unless it is asked for.  Of a client that is
    `registered` only its registrars hear when it leaves.  The question was `passed` on so often by
    who had nothing.  The broker that it `asks` sees to it that the client is taken over, as if it
    heard TakeOver.
    """

    client_id: str
    broker: BrokerId
    at_us: int
    is_kept: bool
    asked: BrokerId | None
    user: str = ""
    began_us: int = 0
    registered: bool = False
    passed: int = 0
    asks: BrokerId = ""


class Refused(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The client that entered so goes by a name whose session is another user's."""

    journey: Journey


class Ended(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The client's session at `broker` has ended."""

    client_id: str
    broker: BrokerId


class Register(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A client has entered: is said to its registrar, which says so to those whom it concerns."""

    entered: Entered


class TakeOver(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The client has connected at `broker`, at `at_us`: end its connection anywhere else.

    `user` is whose client it is.  The question was `passed` on so often.
    """

    client_id: str
    at_us: int
    broker: BrokerId
    user: str
    passed: int = 0


class AskedThere(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A TakeOver was passed on to `broker`, where the client was; that one answers."""

    journey: Journey
    broker: BrokerId


class TakenOver(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The client that entered so has no other connection, and the will of none is under way."""

    journey: Journey


class Several(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """What would else be said one after the other.

    With `parts` it is the part of this `number`, from 0, of all that `broker` has to say to one
    that has asked who is there.
    """

    controls: Annotated[tuple[Entered | Ended, ...], msgspec.Meta(max_length=MOST_AT_ONCE)]
    broker: BrokerId = ""
    number: Annotated[int, msgspec.Meta(ge=0)] = 0
    parts: Annotated[int, msgspec.Meta(ge=0)] = 0


class Sought(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """`broker`, which has started, does not hear of these clients: who knows where they are?"""

    client_ids: Annotated[tuple[str, ...], msgspec.Meta(max_length=MOST_AT_ONCE)]
    broker: BrokerId


class Known(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """One of them is at a broker that is not the one that says so."""

    entered: Entered


class Item(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A message on its way to the client; with a packet identifier it was sent to it already.

    `left_us` is the time until it expires, `key` the publication's; `serial` is the sender's own
    number for it, 0 if it has none.
    """

    journey: Journey
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


class SessionPart(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A part of a session that would be too long as one control.

    `came` are the keys of messages that it has got already, and that may still be under way to
    brokers where it was shortly ago.
    """

    journey: Journey
    subscriptions: tuple[SubscriptionState, ...] = ()
    came: tuple[tuple[str, int], ...] = ()


class SessionState(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A session, behind its `items` and `parts`, so many; without `exists` there is none.

    `received` are identifiers of QoS 2 publications from the client; `user` and `began_us` are as
    in `Entered`.  `arriving_us` is the stamp of a journey that this session is still on.  `had` is
    what it has had so far: of each stream the last publication.  It lacks `gaps`, and
    may have had what is `heard` where it was, which may be `all_heard` there (see `Had`).  While
    something that its client published at QoS 2 is not `is_settled`, what it publishes next waits.
    """

    journey: Journey
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


class Settling(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Whether all is settled now that the client published before it left `broker`."""

    journey: Journey
    broker: BrokerId
    is_settled: bool


class Offer(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Has the broker got the session that was sent?  `broker` keeps it until it hears so."""

    journey: Journey
    broker: BrokerId


class Adopted(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The session that was sent is on the disk, and its subscriptions are known everywhere."""

    journey: Journey


class Declined(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The session that was sent to `broker` is not there, and not wanted any more."""

    journey: Journey
    broker: BrokerId


class Departed(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Nothing more comes for the client from where it was; `broker` forgets it when it is Taken."""

    journey: Journey
    broker: BrokerId


class Taken(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """All that was sent is on the disk, or the client wants it no more: it may be forgotten."""

    journey: Journey


class Vacated(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """`broker` leaves the network: whoever hears this takes over a session that is there.

    Its client entered at `entered_us`, and is away since `away_us` ago.  The rest is as in a
    session.
    """

    client_id: str
    broker: BrokerId
    entered_us: int
    user: str
    expiry_interval_s: int
    away_us: int
    will: Will | None


class Coming(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """May a client of `broker`, which entered it at `entered_us`, be sent here?

    `moved_us`: when it was sent anywhere, as far as that counts.
    """

    client_id: str
    broker: BrokerId
    entered_us: int
    user: str
    moved_us: tuple[int, ...] = ()


class Welcome(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The answer of `broker`: it may, or not, and why."""

    client_id: str
    broker: BrokerId
    problem: str = ""


class Hello(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """This broker wants to know who is there and what is retained."""

    broker: BrokerId


class Rejoined(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """This broker is linked again to a part of the network that was given up."""

    broker: BrokerId


class Here(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """This broker is there; the digest is of all that it has retained."""

    broker: BrokerId
    digest: int


class Tell(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Tell this broker all that is retained."""

    broker: BrokerId


class Kept(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A retained message, or with an empty payload a removal."""

    body: bytes
    published_us: int
    left_us: int | None


class Told(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """This broker has told all."""

    broker: BrokerId


class Members(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """How many members of a group this broker has since a time, connected ones and all.

    `where` is what the group asks of content, as in `SubscriptionState`.
    """

    broker: BrokerId
    group: GroupName
    from_us: int
    present: Annotated[int, msgspec.Meta(ge=0)]
    total: Annotated[int, msgspec.Meta(ge=0)]
    where: Where


class Mark(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Whoever hears this has heard all that this broker's door had asked for."""

    broker: BrokerId


class Full(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Whether this broker's queues have no room for more that must be kept."""

    broker: BrokerId
    is_full: bool


class Shared(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A message for a member of a group, from the broker that it was published at.

    For `any`, or only for one that is connected.  That broker asks no more about what has a number
    below `open_from`.
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
    """`broker` asks no more about what has a number below `open_from`, as in `Shared`."""

    broker: BrokerId
    open_from: int


class Took(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Whether a member of a group at this broker has the message of that key; `any` as asked."""

    broker: BrokerId
    group: GroupName
    key: tuple[str, int]
    took: bool
    any: bool


Control = (
    Entered
    | Refused
    | Ended
    | Register
    | TakeOver
    | AskedThere
    | TakenOver
    | Several
    | Sought
    | Known
    | Item
    | SessionPart
    | SessionState
    | Settling
    | Offer
    | Adopted
    | Declined
    | Departed
    | Taken
    | Vacated
    | Coming
    | Welcome
    | Hello
    | Rejoined
    | Here
    | Tell
    | Kept
    | Told
    | Mark
    | Full
    | Members
    | Shared
    | Closed
    | Took
)


encode_control: Callable[[Control], bytes] = msgspec.msgpack.Encoder().encode
_decode: Callable[[bytes], Control] = msgspec.msgpack.Decoder(Control).decode


def decode_control(body: bytes) -> Control | None:
    """What was said; None for anything else."""
    try:
        return _decode(body)
    except (msgspec.MsgspecError, ValueError):
        return None
