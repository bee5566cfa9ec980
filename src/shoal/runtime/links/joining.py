"""How a new broker joins a running network: over one link, to a broker that it knows.

The link lasts, and the other broker takes it up from who has the network's name and, with TLS, a
certificate made out to its own.  All else it hears over that link.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from shoal.broker.links.controls import Hello
from shoal.broker.wire import WireError
from shoal.model import BrokerId
from shoal.runtime.addresses import Address
from shoal.runtime.links.peer_connections import EndedError
from shoal.runtime.links.peer_settings import PeerSettings
from shoal.runtime.storage.overlay_file import Overlay


class Join(NamedTuple):
    """Over whom a new broker joins the network, and where that one listens for others."""

    broker: BrokerId
    address: Address


def join_once(overlay: Overlay, given: Sequence[BrokerId], join: Join, now_us: int) -> bool:
    """Give a new broker its link; one that has or had links keeps to those.

    `given` are its links by the network file, in whose place it joins.  Whether it is new.
    """
    if overlay.links or overlay.ended:
        return False
    overlay.comes_later()
    for neighbour in given:
        overlay.has_ended(neighbour, 0)
    overlay.opened(join.broker, now_us, str(join.address))
    return True


def take_up(hello: Hello, broker: BrokerId, overlay: Overlay, settings: PeerSettings) -> int | None:
    """When the link was opened that a broker offers to which there is none; None: it does not last.

    EndedError when it means a link that has ended, WireError when `broker` takes it for a stranger.
    """
    neighbour, opened_us = hello.broker, hello.opened_us
    if hello.ends or (opened_us is not None and overlay.is_over(neighbour, opened_us)):
        raise EndedError(f"the link to broker {neighbour!r} has ended")
    if opened_us and settings.no_joiners:
        raise WireError(settings.no_joiners)
    if opened_us:
        return opened_us
    if opened_us is None and neighbour in settings.addresses:
        return None
    raise WireError(f"{broker} has no link to broker {neighbour!r}")
