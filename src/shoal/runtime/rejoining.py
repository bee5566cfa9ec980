"""Makes a running broker join its network again after all its links have ended.

Its neighbours may have declared it dead while it was cut off, or its only neighbour has left. It
asks the brokers that it knows, as a joining broker does, and takes nothing from its clients until a
member has admitted it (`links/isolation.py`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from shoal.runtime.links.isolation import Isolation
from shoal.runtime.links.joining import JoinAgainError, NetworkJoining
from shoal.runtime.links.peer_links import PeerLinks
from shoal.runtime.links.probing import Probes

LOOK_S = 1.0
# For so long a broker may be without a link while its system changes links.
ALONE_S = 4.0

_log = logging.getLogger(__name__)


class Rejoining:
    """One broker's; `is_leaving` says whether it is about to leave."""

    def __init__(
        self,
        links: PeerLinks,
        joining: NetworkJoining,
        isolation: Isolation,
        probes: Probes,
        is_leaving: Callable[[], bool],
    ) -> None:
        self._links = links
        self._joining = joining
        self._isolation = isolation
        self._probes = probes
        self._is_leaving = is_leaving
        self._watching: asyncio.Task[None] | None = None

    @property
    def _is_alone(self) -> bool:
        return bool(self._isolation.problem) and not self._is_leaving()

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
            if self._is_alone:
                await asyncio.sleep(ALONE_S)
            while self._is_alone:
                await self._join()

    async def _join(self) -> None:
        _log.warning("all links have ended: joins again")
        self._joining.begin_again()
        sponsor = await self._joining.find(self._probes)
        self._links.start_link(sponsor)
        try:
            await self._joining.linked(sponsor, lambda: self._links.away)
        except JoinAgainError as error:
            _log.warning("not linked", extra={"problem": str(error)})
        self._joining.end()
