"""Converts messages and sessions to controls between brokers, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from shoal.conflation import KeyName, KeyState, key_values
from shoal.model import BrokerId
from shoal.mqtt.federation.controls import (
    ConflatedKeyState,
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
from shoal.mqtt.sessions.session import ClientSubscription, HeldMessage, Session
from shoal.mqtt.sessions.subscribed.rows import SubscriptionState, row_of

# The approximate size of one part of a session.
PART_BYTES = 256 * 1_024
PART_KEYS = 4_096

_encode_row: Callable[[SubscriptionState | ConflatedKeyState], bytes]
_encode_row = msgspec.msgpack.Encoder().encode


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
        outgoing.via,
    )


class ConflatedSnapshot(NamedTuple):
    """A key of the conflated subscription `text`, as it is at one time (see `ConflatedKey`)."""

    text: str
    key: KeyName
    state: KeyState[HeldMessage]


def snapshot_of_keys(session: Session) -> list[ConflatedSnapshot]:
    """The present state of all keys of a session's conflated subscriptions."""
    found: list[ConflatedSnapshot] = []
    for conflator in session.conflators:
        text = conflator.subscription.text
        for key in conflator:
            state = conflator.state_of(key)
            assert state is not None
            found.append(ConflatedSnapshot(text, key, state))
    return found


def state_of_key(row: ConflatedSnapshot, now_us: int) -> ConflatedKeyState:
    """The control of one key."""
    known = row.state
    left_us = None if known.ends_us is None else max(0, known.ends_us - now_us)
    control = ConflatedKeyState(
        row.text, key_values(row.key), left_us, known.last, newest=known.newest
    )
    if known.held is None:
        return control
    message = known.held.message
    return msgspec.structs.replace(
        control,
        body=write_body(message),
        values=known.held_values,
        published_us=message.published_us,
        expires_in_us=_left_us(message, now_us),
        message_key=message.key,
        is_retained=known.held.is_retained,
    )


def held_of(state: ConflatedKeyState, now_us: int) -> PublishedMessage | None:
    """The held message of a key; None without one."""
    message = read_body(state.body, state.published_us) if state.body else None
    if message is not None:
        message.key = state.message_key
        left_us = state.expires_in_us
        message.expires_us = None if left_us is None else now_us + left_us
    return message


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
    conflated: Iterable[ConflatedKeyState] = (),
) -> Iterator[SessionPart]:
    """A session's subscriptions, message keys and conflation, in controls of bounded size."""
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
    states: list[ConflatedKeyState] = []
    size = 0
    for state in conflated:
        states.append(state)
        size += len(_encode_row(state))
        if size > PART_BYTES:
            yield SessionPart(transfer, conflated=tuple(states))
            states, size = [], 0
    if states:
        yield SessionPart(transfer, conflated=tuple(states))
