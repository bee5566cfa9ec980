"""Subscriptions as they are written: for the journal, and for another broker."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from shoal.broker.wire import read_filter
from shoal.model import EVERYTHING, Expression, Filter
from shoal.mqtt.codec.fields import MAX_VARIABLE
from shoal.mqtt.sessions.session import ClientSubscription, Session

Qos = Annotated[int, msgspec.Meta(ge=0, le=2)]
Identifiers = tuple[Annotated[int, msgspec.Meta(ge=1, le=MAX_VARIABLE)], ...]
# A content filter as `where_of` writes it: as an expression, since what was granted must come back,
# and SQL has limits.
Where = Expression | Literal[""]


class SubscriptionState(msgspec.Struct, frozen=True, array_like=True):
    """One subscription; `where` is its content filter, empty if it asks for none."""

    text: str
    topic_filter: str
    where: Where
    qos: Qos
    no_local: bool
    retain_as_published: bool
    identifiers: Identifiers


def row_of(subscription: ClientSubscription) -> SubscriptionState:
    """A subscription as it is written."""
    return SubscriptionState(
        subscription.text,
        subscription.topic_filter,
        where_of(subscription.content),
        subscription.qos,
        subscription.no_local,
        subscription.retain_as_published,
        subscription.identifiers,
    )


def subscription_of(session: Session, row: SubscriptionState) -> ClientSubscription:
    """A subscription, made anew; ValueError if it cannot be."""
    return ClientSubscription(
        session,
        row.text,
        row.topic_filter,
        content_of(row.where),
        qos=row.qos,
        no_local=row.no_local,
        retain_as_published=row.retain_as_published,
        identifiers=row.identifiers,
    )


def where_of(content: Filter) -> Where:
    """A content filter as it is written."""
    return "" if content == EVERYTHING else content.expression


def content_of(where: Where) -> Filter:
    """A content filter, made anew; ValueError if it cannot be."""
    return EVERYTHING if where == "" else read_filter(where)
