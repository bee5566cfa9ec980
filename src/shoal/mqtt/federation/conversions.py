"""Converts messages and sessions to controls between brokers, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from shoal.model import BrokerId
from shoal.mqtt.federation.controls import (
    GroupName,
    Item,
    RetainedState,
    SessionPart,
    Shared,
    Transfer,
)
from shoal.mqtt.front_end.network import read_body, write_body
from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.sessions.delivering.outgoing import Outgoing
from shoal.mqtt.sessions.session import ClientSubscription
from shoal.mqtt.sessions.subscribed.rows import SubscriptionState, row_of

# The approximate size of one part of a session.
PART_BYTES = 256 * 1_024
PART_KEYS = 4_096

_encode_row: Callable[[SubscriptionState], bytes] = msgspec.msgpack.Encoder().encode


def item_of(outgoing: Outgoing, transfer: Transfer, now_us: int) -> Item:
    """The control of a queued message."""
    message = outgoing.message
    return Item(
        transfer,
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


def message_of(said: Item | RetainedState | Shared, now_us: int) -> PublishedMessage | None:
    """The message of a control; None if it is not one of MQTT."""
    message = read_body(said.body, said.published_us)
    if message is not None:
        message.key = None if isinstance(said, RetainedState) else said.key
        message.expires_us = None if said.left_us is None else now_us + said.left_us
    return message


def kept_of(message: PublishedMessage, now_us: int) -> RetainedState:
    """The control of a retained message."""
    return RetainedState(write_body(message), message.published_us, _left_us(message, now_us))


def shared_of(
    group: GroupName,
    broker: BrokerId,
    message: PublishedMessage,
    now_us: int,
    *,
    is_any: bool,
    open_from: int = 0,
) -> Shared:
    """The control of a message for a member of a group."""
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


def _left_us(message: PublishedMessage, now_us: int) -> int | None:
    return None if message.expires_us is None else max(0, message.expires_us - now_us)


def parts_of(
    subscriptions: Iterable[ClientSubscription],
    transfer: Transfer,
    came: Iterable[tuple[str, int]],
) -> Iterator[SessionPart]:
    """A session's subscriptions and message keys, in controls of bounded size."""
    rows: list[SubscriptionState] = []
    size = 0
    for subscription in subscriptions:
        row = row_of(subscription)
        rows.append(row)
        size += len(_encode_row(row))
        if size > PART_BYTES:
            yield SessionPart(transfer, tuple(rows))
            rows, size = [], 0
    if rows:
        yield SessionPart(transfer, tuple(rows))
    keys = tuple(came)
    for start in range(0, len(keys), PART_KEYS):
        yield SessionPart(transfer, came=keys[start : start + PART_KEYS])
