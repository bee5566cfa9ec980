"""Where a broker sends a publication, asked without publishing anything.

Who asks follows a publication from broker to broker: it asks the first, then each broker that the
answer names, and says there what the answer says is told to it.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from shoal.model import Attributes, BrokerId, ClientId

Told = TypeVar("Told", bound=msgspec.Struct)


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A publication that has come to a broker.

    attributes  what it says
    publisher   whose it is
    source      the neighbour that it comes from; None: its publisher is here
    told        what came with it, in the system's own words (`Hop.told`)
    """

    attributes: Attributes
    publisher: ClientId = ""
    source: BrokerId | None = None
    told: str = ""


class Hop(msgspec.Struct, frozen=True):
    """A neighbour that a publication goes to; or the broker itself, where one of its parts does.

    told  what the neighbour is told with it, in the system's own words
    why   the reason, in words for an operator; "" where the table of subscriptions is the reason
    """

    neighbour: BrokerId
    told: str = ""
    why: str = ""


class Onward(msgspec.Struct, frozen=True):
    """What a broker does with a publication.

    hops      whom it goes to; of those that could do the same any may be named
    is_local  clients of this broker get it
    problem   what keeps it here, in words; "" if nothing does
    """

    hops: tuple[Hop, ...] = ()
    is_local: bool = False
    problem: str = ""


def write_told(told: msgspec.Struct) -> str:
    """The text for `Hop.told`.

    >>> write_told(Hop("B1"))
    '{"neighbour":"B1","told":"","why":""}'
    """
    return msgspec.json.encode(told).decode()


def read_told(text: str, kind: type[Told]) -> Told:
    """What `write_told` wrote; ValueError if it is something else.

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
