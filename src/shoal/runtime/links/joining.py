"""How a new broker joins a running network: over one link, to a broker that it knows.

The link lasts, and the other broker takes it up from who has the network's name and, with TLS, a
certificate made out to its own.  All else it hears over that link.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from shoal.model import BrokerId
from shoal.runtime.addresses import Address
from shoal.runtime.storage.overlay_file import Overlay


class Join(NamedTuple):
    """Over whom a new broker joins the network, and where that one listens for others."""

    broker: BrokerId
    address: Address


def join_once(overlay: Overlay, given: Sequence[BrokerId], join: Join, now_us: int) -> None:
    """Give a new broker its link; one that has or had links keeps to those.

    `given` are its links by the network file, in whose place it joins.
    """
    if not (overlay.links or overlay.ended):
        for neighbour in given:
            overlay.has_ended(neighbour, 0)
        overlay.opened(join.broker, now_us, str(join.address))
