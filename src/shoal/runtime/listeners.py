"""Listeners of one broker: it binds all addresses first, and listens at each when it is ready.

So a broker whose port is taken fails before it has joined a network or written anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from shoal.runtime.addresses import Address
from shoal.runtime.binding import BoundAddress, bind_all, cannot_listen
from shoal.runtime.front_ends.mqtt_front_end import MqttFrontEnd
from shoal.runtime.front_ends.sockets.mqtt_socket import MqttSocket
from shoal.runtime.front_ends.sockets.websocket import WebSocket
from shoal.runtime.links.peer_links import PeerLinks
from shoal.runtime.log_serving.pages import LogServer
from shoal.runtime.network_sections import FOR_CLIENTS, BrokerSection
from shoal.runtime.operations.admin import AdminServer
from shoal.runtime.tls.certificates import Certificates


class Listeners:
    """The listeners of one broker; `listening` has the addresses of those that are open.

    `allows` says whether web pages of an origin may connect to a listener under a host.
    """

    def __init__(
        self,
        section: BrokerSection,
        admin: AdminServer,
        log: LogServer | None,
        links: PeerLinks,
        front_end: MqttFrontEnd,
        certificates: Certificates,
        allows: Callable[[str, str, str], bool],
    ) -> None:
        self.listening: dict[str, Address] = {}
        self._section = section
        self._admin = admin
        self._log = log
        self._links = links
        self._front_end = front_end
        self._certificates = certificates
        self._allows = allows
        self._bound: dict[str, BoundAddress] = {}

    @property
    def keys(self) -> list[str]:
        """The listeners that the broker is to have; without a log it has none for readers."""
        return [key for key in self._section.listeners() if key != "log" or self._log is not None]

    def bind(self) -> None:
        """Bind every address; OSError, naming the listener, where that cannot be."""
        addresses = {key: address for key in self.keys if (address := self._section.address(key))}
        self._bound = bind_all(addresses)

    def close(self) -> None:
        """Give up the addresses at which the broker does not listen yet."""
        for bound in self._bound.values():
            bound.close()
        self._bound.clear()

    async def listen(self, *keys: str) -> None:
        """Take connections at those of these addresses that there are."""
        for key in keys:
            bound = self._bound.pop(key, None)
            if bound is not None:
                try:
                    self.listening[key] = await self._open(key, bound)
                except OSError as error:
                    raise cannot_listen(key, bound.address, error) from None

    async def admit_clients(self) -> None:
        """Take connections of clients."""
        await self.listen(*FOR_CLIENTS)

    async def readmit_clients(self) -> None:
        """Accept clients again at all former addresses; OSError if that is impossible.

        A listener is missing from `listening` if another process has taken its port.
        """
        addresses = {key: self.listening.pop(key) for key in FOR_CLIENTS if key in self.listening}
        problems: list[OSError] = []
        for key, address in addresses.items():
            try:
                self._bound |= bind_all({key: address})
                await self.listen(key)
            except OSError as error:
                problems.append(error)
        if problems:
            raise OSError("; ".join(map(str, problems)))

    async def _open(self, key: str, bound: BoundAddress) -> Address:
        match key:
            case "admin":
                return await self._admin.start(bound)
            case "log":
                assert self._log is not None
                return await self._log.start(bound)
            case "peers":
                return await self._links.start(bound)
        protocol: Callable[[MqttFrontEnd], asyncio.Protocol] = partial(MqttSocket, listener=key)
        if key in ("websocket", "wss"):
            protocol = partial(WebSocket, allows=partial(self._allows, key), listener=key)
        tls = self._certificates.clients if key in ("mqtts", "wss") else None
        return await self._front_end.listen(bound, protocol, tls, key)
