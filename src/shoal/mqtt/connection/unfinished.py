"""Packets whose end has not come yet, of all connections of a broker, and how much they may be.

A packet is in memory until it is complete, so whoever opens many connections and ends no packet
could fill it.  At the bound the packet that began first is given up, and its connection with it:
what is sent in earnest is through by then, and who has nothing under way is not touched.  Who is
not let in yet has a bound of its own, so that strangers cost clients nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

# Of those that are let in, and of those that are not.
MOST_OF_CLIENTS = 256 * 1_048_576
MOST_OF_STRANGERS = 32 * 1_048_576


class Sender(Protocol):
    """Whose packet it is."""

    def give_up(self, reason: str, now_us: int) -> None:
        """End the connection: its packet has to go."""


class Unfinished:
    """Bytes of packets that wait for their ends, by connection; the oldest first."""

    def __init__(self, most: int) -> None:
        self.bytes = 0
        self._most = most
        self._of: OrderedDict[Sender, int] = OrderedDict()

    def has(self, sender: Sender, size: int, *, is_new: bool, now_us: int) -> None:
        """So many bytes wait of this connection's packet, which may be another than before."""
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
        """Its packet is complete, or the connection has ended."""
        self.bytes -= self._of.pop(sender, 0)
