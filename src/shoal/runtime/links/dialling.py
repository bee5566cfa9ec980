"""Decides which end of a live link dials, and retries.

A link of the network file is connected by the broker with the smaller name, one that was opened on
purpose by both: of crossing connections that of the smaller name stays.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from random import Random

from shoal.broker.links.states import LinkSessionState
from shoal.model import BrokerId
from shoal.runtime.addresses import Address, read_address
from shoal.runtime.links.link_scheduler import PeerLink
from shoal.runtime.links.peer_connections import ConnectionHandler, PeerConnection, dial
from shoal.runtime.links.peer_settings import PeerSettings

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 2.0

_log = logging.getLogger(__name__)


class Dialling:
    """The attempts of one broker.

    `send_hello` takes a connection that was made, `vanish` a link of which the other end says that
    it has ended, `not_up` one that does not last and is not there.
    """

    def __init__(
        self,
        handler: ConnectionHandler,
        broker: BrokerId,
        settings: PeerSettings,
        send_hello: Callable[[PeerConnection, PeerLink], None],
        vanish: Callable[[PeerLink], None],
        not_up: Callable[[PeerLink], None],
    ) -> None:
        self.is_stopping = False
        self._handler = handler
        self._broker = broker
        self._settings = settings
        self._send_hello = send_hello
        self._vanish = vanish
        self._not_up = not_up
        # Only the pauses between attempts: no two brokers come back in step.
        self._random = Random()

    def see_to(self, link: PeerLink) -> None:
        """Connect, if this end is to, or the other might not."""
        session = link.session
        is_to = link.is_lasting and (self._broker < session.neighbour or bool(session.opened_us))
        if (is_to or session.state is LinkSessionState.PARTING) and not link.is_gone:
            self.dial(link)

    def dial(self, link: PeerLink) -> None:
        """Connect, and again whenever there is no connection, as long as there is the link."""
        if not (link.is_dialled or self.is_stopping):
            link.dialling = asyncio.create_task(self._keep_dialling(link))

    def knows(self, broker: BrokerId, address: str) -> bool:
        """Return whether it is known where a broker is, or an address says so."""
        if broker in self._settings.addresses:
            return True
        try:
            read_address(address)
        except ValueError:
            return False
        return True

    async def _keep_dialling(self, link: PeerLink) -> None:
        pause_s = FIRST_PAUSE_S
        while not link.is_gone:
            connection = None
            address = self._address(link)
            if link.connection is None and address is not None:
                failed = partial(self._failed, link, address, pause_s)
                connection = await dial(self._handler, address, self._settings.tls, failed)
            if connection is not None and link.is_gone:
                connection.abort()  # the link has ended meanwhile, and may be another by now
            elif connection is not None:
                self._send_hello(connection, link)
                await connection.ended
                if connection.is_greeted:
                    pause_s = FIRST_PAUSE_S
                elif connection.refused and address is not None:
                    self._failed(link, address, pause_s, connection.refused)
                if connection.has_ended:
                    self._vanish(link)
            elif link.connection is not None:
                await link.connection.ended
            if not link.is_lasting and link.session.state is LinkSessionState.IDLE:
                self._not_up(link)
                return
            longer_s = max(pause_s, link.quarantine.pause_s)
            await asyncio.sleep(longer_s * self._random.uniform(0.75, 1.25))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _failed(self, link: PeerLink, address: Address, pause_s: float, problem: str) -> None:
        """Log repeated failures to connect, once until the link comes up."""
        if pause_s < LONGEST_PAUSE_S or link.connection is not None:
            return  # brokers that start together are not all there at once
        if not link.problem:
            extra = {"neighbour": link.session.neighbour, "address": str(address)}
            _log.warning("no connection", extra=extra | {"problem": problem})
        link.problem = f"{address}: {problem}"

    def _address(self, link: PeerLink) -> Address | None:
        known = self._settings.addresses.get(link.session.neighbour)
        return read_address(link.address) if known is None and link.address else known
