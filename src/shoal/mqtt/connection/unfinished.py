"""Bounds the memory of incomplete packets, of all connections of a broker.

A packet is in memory until it is complete: many connections with incomplete packets could fill the
memory. At the bound the broker drops the packet that began first, with its connection: an honest
client has finished its packet by then, and a connection without an incomplete packet is not
touched. Connections that are not admitted yet have a bound of their own, so that they cost clients
nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

# The bounds of admitted clients, and of other connections.
MOST_OF_CLIENTS = 256 * 1_048_576
MOST_OF_STRANGERS = 32 * 1_048_576


class Sender(Protocol):
    """The connection of an incomplete packet."""

    def give_up(self, reason: str, now_us: int) -> None:
        """End the connection, and drop its packet."""


class Unfinished:
    """Bytes of incomplete packets, by connection; the oldest packet first."""

    def __init__(self, most: int) -> None:
        self.bytes = 0
        self._most = most
        self._of: OrderedDict[Sender, int] = OrderedDict()

    def has(self, sender: Sender, size: int, *, is_new: bool, now_us: int) -> None:
        """Set the bytes of a connection's packet; `is_new` if it may be another than before."""
        if is_new:
            self.forget(sender)
        self.bytes += size - self._of.get(sender, 0)
        self._of[sender] = size
        while self.bytes > self._most:
            oldest = next(iter(self._of))
            self.forget(oldest)
            reason = f"over {self._most // 1_048_576} MB of packets are not complete"
            oldest.give_up(reason, now_us)

    def forget(self, sender: Sender) -> None:
        """Forget a connection: its packet is complete, or the connection has ended."""
        self.bytes -= self._of.pop(sender, 0)
