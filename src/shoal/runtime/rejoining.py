"""A running broker whose links have all ended joins its network again.

Its neighbours may have declared it dead while it was cut off, or the only one that it was linked
to has left.  It asks the brokers that it knows, as one that joins does, and takes nothing from its
clients until a member has taken it in: what it acknowledged would come to nobody.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from shoal.runtime.links.joining import JoinAgainError, Joining
from shoal.runtime.links.peer_links import PeerLinks
from shoal.runtime.links.probing import Probes
from shoal.runtime.node import Node

LOOK_S = 1.0
# For so long a broker may be without a link while its system changes links.
ALONE_S = 4.0
REASON = "no link"

_log = logging.getLogger(__name__)


class Rejoining:
    """One broker's; `has_others` says whether it knows of other members, `is_leaving` whether it is
    about to leave.
    """

    def __init__(
        self,
        node: Node,
        links: PeerLinks,
        joining: Joining,
        probes: Probes,
        has_others: Callable[[], bool],
        is_leaving: Callable[[], bool],
    ) -> None:
        self._node = node
        self._links = links
        self._joining = joining
        self._probes = probes
        self._has_others = has_others
        self._is_leaving = is_leaving
        self._watching: asyncio.Task[None] | None = None

    @property
    def is_alone(self) -> bool:
        """Whether there is no link, though there are other members."""
        return not (self._links.neighbours or self._is_leaving()) and self._has_others()

    def start(self) -> None:
        """Watch the links from now on."""
        self._watching = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            if not self.is_alone:
                continue
            self._node.hold(True, REASON)
            await asyncio.sleep(ALONE_S)
            if self.is_alone:
                await self._join()
            self._node.hold(False, REASON)

    async def _join(self) -> None:
        _log.warning("all links have ended: joins again", extra={"broker": self._node.id})
        while self.is_alone:
            self._joining.begin_again()
            sponsor = await self._joining.find(self._probes)
            self._links.start_link(sponsor)
            try:
                await self._joining.linked(sponsor, lambda: self._links.away)
            except JoinAgainError as error:
                _log.warning("not linked", extra={"problem": str(error)})
            self._joining.end()
