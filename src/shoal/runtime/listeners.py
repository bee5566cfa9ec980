"""Where one broker listens: it binds all its addresses first, and listens at each when it is ready.

A broker whose port is taken has not joined a network by then, and has written nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from shoal.runtime.addresses import Address
from shoal.runtime.binding import Bound, bind_all, cannot_listen
from shoal.runtime.doors.mqtt_door import MqttDoor
from shoal.runtime.doors.sockets.mqtt_socket import MqttSocket
from shoal.runtime.doors.sockets.websocket import WebSocket
from shoal.runtime.links.peer_links import PeerLinks
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
        links: PeerLinks,
        door: MqttDoor,
        certificates: Certificates,
        allows: Callable[[str, str, str], bool],
    ) -> None:
        self.listening: dict[str, Address] = {}
        self._section = section
        self._admin = admin
        self._links = links
        self._door = door
        self._certificates = certificates
        self._allows = allows
        self._bound: dict[str, Bound] = {}

    def bind(self) -> None:
        """Bind every address; OSError, naming the listener, where that cannot be."""
        keys = self._section.listeners()
        addresses = {key: address for key in keys if (address := self._section.address(key))}
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

    async def let_clients_in(self) -> None:
        """Take connections of clients."""
        await self.listen(*FOR_CLIENTS)

    async def let_clients_in_again(self) -> None:
        """Take connections of clients where they were taken before; OSError where that cannot be.

        A listener whose port is another process's by now is missing from `listening`.
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

    async def _open(self, key: str, bound: Bound) -> Address:
        match key:
            case "admin":
                return await self._admin.start(bound)
            case "peers":
                return await self._links.start(bound)
        protocol: Callable[[MqttDoor], asyncio.Protocol] = partial(MqttSocket, listener=key)
        if key in ("websocket", "wss"):
            protocol = partial(WebSocket, allows=partial(self._allows, key), listener=key)
        tls = self._certificates.clients if key in ("mqtts", "wss") else None
        return await self._door.listen(bound, protocol, tls, key)
