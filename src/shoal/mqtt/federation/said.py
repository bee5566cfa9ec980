"""Messages and sessions as they are said between brokers (`controls`), and read again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from shoal.model import BrokerId
from shoal.mqtt.door.network import read_body, write_body
from shoal.mqtt.federation.controls import GroupName, Item, Journey, Kept, SessionPart, Shared
from shoal.mqtt.messages import Message
from shoal.mqtt.sessions.delivering.outgoing import Outgoing
from shoal.mqtt.sessions.session import ClientSubscription
from shoal.mqtt.sessions.subscribed.rows import SubscriptionState, row_of

# What one part of a session holds, about.
PART_BYTES = 256 * 1_024
PART_KEYS = 4_096

_encode_row: Callable[[SubscriptionState], bytes] = msgspec.msgpack.Encoder().encode


def item_of(outgoing: Outgoing, journey: Journey, now_us: int) -> Item:
    """A message as it is sent on."""
    message = outgoing.message
    return Item(
        journey,
        write_body(message),
        message.published_us,
        _left_us(message, now_us),
        message.key,
        outgoing.qos,
        outgoing.retain,
        outgoing.identifiers,
        outgoing.packet_id,
        outgoing.released,
        outgoing.serial,
    )


def message_of(said: Item | Kept | Shared, now_us: int) -> Message | None:
    """The message that was sent on, told or handed on; None if it is none of MQTT's."""
    message = read_body(said.body, said.published_us)
    if message is not None:
        message.key = None if isinstance(said, Kept) else said.key
        message.expires_us = None if said.left_us is None else now_us + said.left_us
    return message


def kept_of(message: Message, now_us: int) -> Kept:
    """A retained message as it is told."""
    return Kept(write_body(message), message.published_us, _left_us(message, now_us))


def shared_of(
    group: GroupName,
    broker: BrokerId,
    message: Message,
    now_us: int,
    *,
    is_any: bool,
    open_from: int = 0,
) -> Shared:
    """A message as it is handed to a member of a group."""
    return Shared(
        group,
        broker,
        write_body(message),
        message.published_us,
        _left_us(message, now_us),
        message.key,
        is_any,
        open_from,
    )


def _left_us(message: Message, now_us: int) -> int | None:
    return None if message.expires_us is None else max(0, message.expires_us - now_us)


def parts_of(
    subscriptions: Iterable[ClientSubscription],
    journey: Journey,
    came: Iterable[tuple[str, int]],
) -> Iterator[SessionPart]:
    """A session's subscriptions, and the keys of what it has got, in controls of bounded size."""
    rows: list[SubscriptionState] = []
    size = 0
    for subscription in subscriptions:
        row = row_of(subscription)
        rows.append(row)
        size += len(_encode_row(row))
        if size > PART_BYTES:
            yield SessionPart(journey, tuple(rows))
            rows, size = [], 0
    if rows:
        yield SessionPart(journey, tuple(rows))
    keys = tuple(came)
    for start in range(0, len(keys), PART_KEYS):
        yield SessionPart(journey, came=keys[start : start + PART_KEYS])
