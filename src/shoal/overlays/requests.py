"""What every system refuses of its clients: filters too large to route by, what is another's."""

from __future__ import annotations

from shoal.broker.strategy import ProtocolError
from shoal.model import ClientId, Filter, FilterError


def check_filter(filter: Filter, what: str, name: str) -> None:
    """ProtocolError when the filter is too large to route by."""
    try:
        filter.normal_form  # noqa: B018  # computed here so that its error is met here
    except FilterError as error:
        raise ProtocolError(f"{what} {name}: {error}") from None


def check_owner(client: ClientId, owner: ClientId, what: str, name: str) -> None:
    """ProtocolError when it belongs to another client."""
    if client != owner:
        raise ProtocolError(f"{what} {name} belongs to {owner}, not to {client}")
