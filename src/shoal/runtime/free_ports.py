"""Ports that are free, and stay free for the process that asked.

A port that is free at a check may be taken when a broker listens, or while a killed broker is
restarted. So each process that starts networks holds a block of ports for as long as it lives: it
keeps the first port of the block bound, which marks the block as taken.
"""

from __future__ import annotations

import contextlib
import errno
import socket
from collections import deque
from random import Random

# Below those that systems give to outgoing connections.
_FIRST, _END, _BLOCK = 10_000, 32_000, 200
_LOOPBACK = "127.0.0.1"


class PortBlocks:
    """The blocks of ports of one process, each asked for when it is needed."""

    def __init__(self) -> None:
        self._ports: deque[int] = deque()
        self._guards: list[socket.socket] = []

    def free(self, host: str, count: int) -> list[int]:
        """Ports at which nothing listens; OSError when there are no more."""
        found: list[int] = []
        with contextlib.ExitStack() as stack:
            untried = len(self._ports)
            while len(found) < count:
                if not untried:
                    untried = self._hold_block()
                untried -= 1
                # Those given last come last, as a killed broker may want them again.
                self._ports.rotate(-1)
                try:
                    stack.enter_context(socket.create_server((host, self._ports[-1])))
                except OSError as error:
                    if error.errno != errno.EADDRINUSE:
                        raise
                else:
                    found.append(self._ports[-1])
        return found

    def _hold_block(self) -> int:
        """One block more, its ports the next; how many they are."""
        firsts = range(_FIRST, _END, _BLOCK)
        for first in Random().sample(firsts, len(firsts)):
            guard = socket.socket()
            try:
                # Without SO_REUSEADDR, so that no other process binds it, too.
                guard.bind((_LOOPBACK, first))
            except OSError:
                guard.close()
                continue
            self._guards.append(guard)
            ports = range(first + 1, first + _BLOCK)
            self._ports.extendleft(reversed(ports))
            return len(ports)
        raise OSError(errno.EADDRINUSE, f"no ports are free between {_FIRST} and {_END}")


_BLOCKS = PortBlocks()


def free_ports(host: str, count: int) -> list[int]:
    """Ports that nothing listens at, and that no other process is given while this one lives.

    So a broker that is started again finds its own free.
    """
    return _BLOCKS.free(host, count)
