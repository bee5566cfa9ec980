"""Subscriptions as records, for the journal and for other brokers."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from shoal.broker.wire import read_filter
from shoal.language.conflation_rules import read_conflation
from shoal.model import EVERYTHING, Expression, Filter
from shoal.mqtt.codec.fields import MAX_VARIABLE
from shoal.mqtt.sessions.live_gate import LiveGate, ReplayState
from shoal.mqtt.sessions.session import ClientSubscription, Session

Qos = Annotated[int, msgspec.Meta(ge=0, le=2)]
Identifiers = tuple[Annotated[int, msgspec.Meta(ge=1, le=MAX_VARIABLE)], ...]
# A value that tells keys of a conflated subscription apart, or that may have changed.
KeyValue = bool | int | float | str | None
# A content filter, as an expression: SQL text has limits, and a granted filter must be readable
# again.
Where = Expression | Literal[""]


class SubscriptionState(msgspec.Struct, frozen=True, array_like=True):
    """One subscription; `where` is its content filter, empty without one.

    `replay` is the state of its past, if it has one; `every` and `changed` are the texts of its
    conflation.
    """

    text: str
    topic_filter: str
    where: Where
    qos: Qos
    no_local: bool
    retain_as_published: bool
    identifiers: Identifiers
    replay: ReplayState | None = None
    every: str = ""
    changed: str = ""


def row_of(subscription: ClientSubscription) -> SubscriptionState:
    """The record of a subscription."""
    rule = None if subscription.conflator is None else subscription.conflator.rule
    return SubscriptionState(
        subscription.text,
        subscription.topic_filter,
        where_of(subscription.content),
        subscription.qos,
        subscription.no_local,
        subscription.retain_as_published,
        subscription.identifiers,
        None if subscription.gate is None else subscription.gate.state,
        "" if rule is None else rule.every,
        "" if rule is None else rule.changed,
    )


def subscription_of(session: Session, row: SubscriptionState) -> ClientSubscription:
    """The subscription of a record; ValueError if it is invalid."""
    return ClientSubscription(
        session,
        row.text,
        row.topic_filter,
        content_of(row.where),
        qos=row.qos,
        no_local=row.no_local,
        retain_as_published=row.retain_as_published,
        identifiers=row.identifiers,
        gate=None if row.replay is None else LiveGate.restored(row.replay),
        conflation=read_conflation(row.every, row.changed),
    )


def where_of(content: Filter) -> Where:
    """The record of a content filter."""
    return "" if content == EVERYTHING else content.expression


def content_of(where: Where) -> Filter:
    """The content filter of a record; ValueError if it is invalid."""
    return EVERYTHING if where == "" else read_filter(where)
