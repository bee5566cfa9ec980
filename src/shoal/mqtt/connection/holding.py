"""Held packets of a client: packets that may not be handled yet, in their order."""

from __future__ import annotations

from collections.abc import Iterable

from shoal.mqtt.codec.packets import (
    Packet,
    Pingreq,
    Puback,
    Pubcomp,
    Pubrec,
    Pubrel,
)
from shoal.mqtt.connection.broker_api import BrokerApi

# Packets that wait for the answer to a CONNECT; with `wants_reading` a driver brings fewer.
MAX_HELD = 10_000
# Bytes held while input is suspended, of one client and of all; above it no more is read.
MAX_HELD_BYTES = 262_144
MAX_ALL_HELD_BYTES = 64 * 1_048_576

# Packets that are handled although publications must wait.
PASSING = frozenset((Pingreq, Puback, Pubrec, Pubrel, Pubcomp))


class HeldPackets:
    """The held packets of one connection; the broker counts the bytes of all connections."""

    __slots__ = ("_broker_api", "_bytes", "packets")

    def __init__(self, broker_api: BrokerApi) -> None:
        self._broker_api = broker_api
        self.packets: list[Packet] = []
        self._bytes = 0

    @property
    def is_too_long(self) -> bool:
        """Whether a client that is not admitted yet has sent too many packets."""
        return len(self.packets) > MAX_HELD

    @property
    def has_room(self) -> bool:
        """Whether more may be read.

        At the bound of all connections, a connection that holds no packets is still read: its
        client may only send a PINGREQ.
        """
        if not self._bytes:
            return True
        return self._bytes < MAX_HELD_BYTES and self._broker_api.held_bytes < MAX_ALL_HELD_BYTES

    def keep(self, packets: Iterable[Packet]) -> None:
        """Hold packets, without counting their bytes."""
        self.packets += packets

    def sift(self, packets: list[Packet], size: int) -> list[Packet]:
        """Hold packets of `size` bytes; returns the packets that need not wait."""
        passing = [each for each in packets if type(each) in PASSING]
        if len(passing) < len(packets):
            self.packets += (each for each in packets if type(each) not in PASSING)
        if self.packets:
            self._count(size)
        return passing

    def take(self, most: int) -> tuple[list[Packet], int]:
        """Take out the first packets, at most `most`, with their bytes."""
        count = len(self.packets)
        if count <= most:
            return self.take_all()
        packets, size = self.packets[:most], self._bytes * most // count
        del self.packets[:most]
        self._count(-size)
        return packets, size

    def put_back(self, packets: list[Packet], size: int) -> None:
        """Put back the end of the packets that were taken out, before the others."""
        self.packets[:0] = packets
        self._count(size)

    def _count(self, size: int) -> None:
        self._bytes += size
        self._broker_api.held_bytes += size

    def take_all(self) -> tuple[list[Packet], int]:
        """Take out all packets, with their bytes."""
        packets, size = self.packets, self._bytes
        self._broker_api.held_bytes -= size
        self.packets, self._bytes = [], 0
        return packets, size
