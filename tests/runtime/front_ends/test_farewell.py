"""The last packets to clients that have disconnected."""

from __future__ import annotations

import asyncio
from typing import Any

from shoal.runtime.front_ends.farewell import Lingering
from shoal.runtime.front_ends.reading import ReadRounds
from tests.runtime.live import on_loop


class GoneTransport(asyncio.Transport):
    """The transport of a client that has disconnected, before the loop reports it."""

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        raise OSError(107, "Transport endpoint is not connected")

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def close(self) -> None:
        pass


class Ending(Lingering):
    def _send_close(self) -> None:
        pass


@on_loop
async def test_a_departed_client_does_not_stop_other_clients_packets() -> None:
    """The rest of the flush must reach the other clients."""
    ending: Any = Ending()
    ending._begin(GoneTransport(), lambda data: None, ReadRounds())
    ending.close()
    assert ending._is_half_closed
