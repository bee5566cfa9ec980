"""An event loop with virtual time and connections in memory: a live network, deterministic.

The loop never waits: when nothing is ready, time jumps to the next timer. Connections belong to
*cables*, one for each two brokers, which have a latency and a rate, and may be cut and mended. The
content of a cut cable arrives when it is mended, if the connection still exists. A stall is a pause
of the whole process.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import count
from random import Random
from types import SimpleNamespace
from typing import Any

from shoal.runtime.addresses import Address
from shoal.runtime.links import peer_connections
from shoal.runtime.links.peer_connections import PeerConnection

START_US = 1_000_000_000
# Written bytes arrive in pieces.
SEGMENT_BYTES = 10_000


class Cable:
    """The cable between two brokers; `latency_s` has the bounds of a random latency, `rate` bytes a
    second.
    """

    def __init__(self, random: Random, latency_s: tuple[float, float], rate: float) -> None:
        self.latency_s = latency_s
        self.rate = rate
        self.is_cut = False
        self.wires: list[Wire] = []
        self._random = random

    def draw_s(self) -> float:
        return self._random.uniform(*self.latency_s)

    def mend(self) -> None:
        self.is_cut = False
        for wire in list(self.wires):
            wire.arrive()

    def reset(self) -> None:
        """Break all its connections; both ends notice."""
        for wire in list(self.wires):
            wire.abort()


class Wire(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, loop: VirtualLoop, cable: Cable, protocol: PeerConnection) -> None:
        super().__init__()
        self.protocol = protocol
        self.other: Wire = self
        self._loop, self._cable = loop, cable
        self._is_closing = self._is_lost = False
        # Bytes under way to the other end, with their time of arrival; None is the end.
        self._sent: deque[tuple[float, bytes | None]] = deque()
        self._busy_until = 0.0
        cable.wires.append(self)

    def begin(self) -> None:
        self.protocol.connection_made(self)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def is_closing(self) -> bool:
        return self._is_closing

    def write(self, data: Any) -> None:
        for start in range(0, len(data) if not self._is_closing else 0, SEGMENT_BYTES):
            self._put(bytes(data[start : start + SEGMENT_BYTES]))

    def _put(self, data: bytes | None) -> None:
        now = self._loop.time()
        self._busy_until = max(self._busy_until, now) + len(data or b"") / self._cable.rate
        at = max(self._busy_until + self._cable.draw_s(), self._sent[-1][0] if self._sent else 0.0)
        self._sent.append((at, data))
        self._loop.call_at(at, self.arrive)

    def arrive(self) -> None:
        """Deliver everything whose time has come."""
        due = self._loop.time() + 1e-6
        while self._sent and self._sent[0][0] <= due and not self._cable.is_cut:
            _, data = self._sent.popleft()
            if data is None:
                self.other.lose()
            elif not self.other._is_closing:
                self.other.protocol.data_received(data)

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._put(None)
            self._loop.call_soon(self.lose)

    def abort(self) -> None:
        if not self._is_closing:
            self._sent.clear()
            self.close()

    def lose(self) -> None:
        self._is_closing = True
        if not self._is_lost:
            self._is_lost = True
            self.protocol.connection_lost(None)


class VirtualLoop(asyncio.BaseEventLoop):
    """`cable` gives the cable between two brokers."""

    def __init__(self, cable: Callable[[str, str], Cable]) -> None:
        super().__init__()
        self._now = 0.0
        self._clock_resolution = 1e-9
        self._selector = SimpleNamespace(select=self._select)
        self._cable = cable
        self._listening: dict[int, Callable[[], PeerConnection]] = {}
        self._ports = count(1)

    def time(self) -> float:
        return self._now

    def now_us(self) -> int:
        return START_US + round(self._now * 1e6)

    def stall(self, seconds: float) -> None:
        """Pause the process."""
        self._now += seconds

    def _select(self, timeout: float | None) -> list[Any]:
        assert timeout is not None, "no event will ever happen"
        self._now += timeout
        return []

    def _process_events(self, events: object) -> None: ...

    def _write_to_self(self) -> None: ...

    async def create_server(
        self, factory: Any, host: Any = None, port: Any = None, **_: Any
    ) -> Any:
        port = port or next(self._ports)
        self._listening[port] = factory
        socket = SimpleNamespace(getsockname=lambda: (host, port), setsockopt=lambda *option: None)
        return SimpleNamespace(sockets=[socket], close=lambda: self._listening.pop(port, None))

    async def create_connection(
        self, factory: Any, host: Any = None, port: Any = None, **_: Any
    ) -> Any:
        near = factory()
        listening = self._listening.get(port)
        if listening is None:
            raise ConnectionRefusedError
        far = listening()
        cable = self._cable(*(each._handler._node.id for each in (near, far)))
        await asyncio.sleep(cable.draw_s())
        if cable.is_cut:
            await asyncio.sleep(60)
        if self._listening.get(port) is not listening:
            raise ConnectionRefusedError
        wires = Wire(self, cable, near), Wire(self, cable, far)
        for wire, other in (wires, wires[::-1]):
            wire.other = other
            wire.begin()
        return wires[0], near


_listen = peer_connections.listen


async def _listen_where_loops_are_virtual(address: Address, protocol: Any, *others: Any) -> Any:
    """Replaces the listening sockets of live brokers, which this loop does not have."""
    loop = asyncio.get_running_loop()
    if isinstance(loop, VirtualLoop):
        return await loop.create_server(protocol, address.host, address.port)
    return await _listen(address, protocol, *others)


peer_connections.listen = _listen_where_loops_are_virtual
