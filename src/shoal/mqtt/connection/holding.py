"""What a client has sent that may not be taken yet, in its order."""

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
from shoal.mqtt.connection.house import House

# Packets that wait for the answer to a CONNECT; a driver that minds `wants_reading` brings fewer.
MAX_HELD = 10_000
# Bytes that wait while nothing may be taken, of one client and of all; then no more is read.
MAX_HELD_BYTES = 262_144
MAX_ALL_HELD_BYTES = 64 * 1_048_576

# What is handled though publications must wait.
PASSING = frozenset((Pingreq, Puback, Pubrec, Pubrel, Pubcomp))


class Held:
    """Of one connection: `packets`, in their order; its house counts the bytes of all."""

    __slots__ = ("_bytes", "_house", "packets")

    def __init__(self, house: House) -> None:
        self._house = house
        self.packets: list[Packet] = []
        self._bytes = 0

    @property
    def is_too_long(self) -> bool:
        """Whether more came than is held for a client that is not let in yet."""
        return len(self.packets) > MAX_HELD

    @property
    def has_room(self) -> bool:
        """Whether more may be read.

        When others hold all that may be held, who holds nothing is still heard: it may only ping.
        """
        if not self._bytes:
            return True
        return self._bytes < MAX_HELD_BYTES and self._house.held_bytes < MAX_ALL_HELD_BYTES

    def keep(self, packets: Iterable[Packet]) -> None:
        """Hold all of these, whose bytes do not count."""
        self.packets += packets

    def sift(self, packets: list[Packet], size: int) -> list[Packet]:
        """Hold these, of so many bytes; but not what nobody has to wait for, which comes back."""
        passing = [each for each in packets if type(each) in PASSING]
        if len(passing) < len(packets):
            self.packets += (each for each in packets if type(each) not in PASSING)
        if self.packets:
            self._count(size)
        return passing

    def take(self, most: int) -> tuple[list[Packet], int]:
        """The first of what was held, so many at most, which is not held any more; its bytes."""
        count = len(self.packets)
        if count <= most:
            return self.let_go()
        packets, size = self.packets[:most], self._bytes * most // count
        del self.packets[:most]
        self._count(-size)
        return packets, size

    def put_back(self, packets: list[Packet], size: int) -> None:
        """Hold what was taken of it, or the end of that, in front of the rest."""
        self.packets[:0] = packets
        self._count(size)

    def _count(self, size: int) -> None:
        self._bytes += size
        self._house.held_bytes += size

    def let_go(self) -> tuple[list[Packet], int]:
        """What was held, which is not any more, and its bytes."""
        packets, size = self.packets, self._bytes
        self._house.held_bytes -= size
        self.packets, self._bytes = [], 0
        return packets, size
