"""Addresses that a broker has bound, and at which it does not listen yet.

A bound port belongs to the broker; the system refuses connections to it until the broker listens.
So a broker has all its ports before it joins a network, and no client waits in a queue that is
never served.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import NamedTuple

from shoal.runtime.addresses import Address


class BoundAddress(NamedTuple):
    """Sockets wherever the name of an address leads; `address` has the port that was chosen."""

    address: Address
    sockets: tuple[socket.socket, ...]

    def listen(self, backlog: int) -> None:
        """Take connections; OSError where another process began to listen meanwhile."""
        for each in self.sockets:
            each.listen(backlog)

    def close(self) -> None:
        for each in self.sockets:
            each.close()


def bind(address: Address) -> BoundAddress:
    """Bind an address; OSError where that cannot be."""
    found = socket.getaddrinfo(
        address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets: list[socket.socket] = []
    try:
        for family, where in dict.fromkeys((family, where) for family, *_, where in found):
            sockets.append(each := socket.socket(family, socket.SOCK_STREAM))
            # Connections of an earlier process may still be closing.
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                each.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            each.bind(where[:2])
            each.setblocking(False)
    except OSError:
        for each in sockets:
            each.close()
        raise
    return BoundAddress(Address(address.host, sockets[0].getsockname()[1]), tuple(sockets))


def bind_all(addresses: Mapping[str, Address]) -> dict[str, BoundAddress]:
    """Bind all listeners of a broker, or none; OSError names the listener and its address."""
    bound: dict[str, BoundAddress] = {}
    for key, address in addresses.items():
        try:
            bound[key] = bind(address)
        except OSError as error:
            for each in bound.values():
                each.close()
            raise cannot_listen(key, address, error) from None
    return bound


def cannot_listen(key: str, address: Address, error: OSError) -> OSError:
    """The error of one listener, with its name."""
    return OSError(f"{key}: cannot listen at {address}: {error.strerror or error}")
