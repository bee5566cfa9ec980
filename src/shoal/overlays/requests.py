"""Checks of clients' requests in every system: filters too large to route by, and foreign ids."""

from __future__ import annotations

from shoal.broker.strategy import ProtocolError
from shoal.model import Advertisement, ClientId, Filter, FilterError, Subscription


def check_filter(filter: Filter, what: str, name: str) -> None:
    """ProtocolError when the filter is too large to route by."""
    try:
        filter.normal_form  # noqa: B018  # computed here so that its error is met here
    except FilterError as error:
        raise ProtocolError(f"{what} {name}: {error}") from None


def check_advertisement(
    client: ClientId, advertisement: Advertisement, known: Advertisement | None
) -> None:
    """ProtocolError unless the advertisement, and one known by its id, are the client's."""
    what, name = "advertisement", advertisement.id
    _check_owner(client, advertisement.publisher, what, name)
    check_filter(advertisement.filter, what, name)
    if known is not None:
        _check_owner(client, known.publisher, what, name)


def check_subscription(
    client: ClientId, subscription: Subscription, known: Subscription | None
) -> None:
    """ProtocolError unless the subscription, and one known by its id, are the client's."""
    what, name = "subscription", subscription.id
    _check_owner(client, subscription.client, what, name)
    check_filter(subscription.filter, what, name)
    if known is not None:
        _check_owner(client, known.client, what, name)


def _check_owner(client: ClientId, owner: ClientId, what: str, name: str) -> None:
    """ProtocolError when it belongs to another client."""
    if client != owner:
        raise ProtocolError(f"{what} {name} belongs to {owner}, not to {client}")
