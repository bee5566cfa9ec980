"""Routing decisions: the next hops of a publication, queried without publishing it.

A caller follows a publication from broker to broker: it asks the first broker, then each broker
that the answer names, and passes along the information that the answer has for that broker.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from shoal.model import Attributes, BrokerId, ClientId

Told = TypeVar("Told", bound=msgspec.Struct)


class RoutingQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A publication that has come to a broker.

    attributes  its attributes
    publisher   its publisher
    source      the neighbour that it comes from; None: its publisher is here
    told        the information that came with it, in the system's own format (`Hop.told`)
    """

    attributes: Attributes
    publisher: ClientId = ""
    source: BrokerId | None = None
    told: str = ""


class Hop(msgspec.Struct, frozen=True):
    """A neighbour as next hop of a publication; or the broker itself, for one of its parts.

    told  the information that goes with it, in the system's own format
    why   the reason, for an operator; "" where the table of subscriptions is the reason
    """

    neighbour: BrokerId
    told: str = ""
    why: str = ""


class RoutingDecision(msgspec.Struct, frozen=True):
    """The routing decision of a broker for a publication.

    hops      its next hops; of equivalent ones any may be named
    is_local  clients of this broker get it
    problem   the reason why it stays here; "" if there is none
    """

    hops: tuple[Hop, ...] = ()
    is_local: bool = False
    problem: str = ""


def write_told(told: msgspec.Struct) -> str:
    """Encode the information for `Hop.told`.

    >>> write_told(Hop("B1"))
    '{"neighbour":"B1","told":"","why":""}'
    """
    return msgspec.json.encode(told).decode()


def read_told(text: str, kind: type[Told]) -> Told:
    """Decode `Hop.told`; ValueError if it is of another kind.

    >>> read_told('{"neighbour": "B1"}', Hop).neighbour
    'B1'
    >>> read_told("B1", Hop)
    Traceback (most recent call last):
    ValueError: told: JSON is malformed: invalid character (byte 0)
    """
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError as error:
        raise ValueError(f"told: {error}") from None
