"""Holds clients' requests while a live broker cannot take them, and knows the reason."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class RequestGate:
    """Shut as long as there is a reason; `at_change` is told when that changes."""

    def __init__(self) -> None:
        self.at_change: list[Callable[[bool], None]] = []
        self._reasons: set[str] = set()
        self._room = asyncio.Event()
        self._room.set()

    @property
    def is_shut(self) -> bool:
        return bool(self._reasons)

    def hold(self, hold: bool, reason: str) -> None:
        """There is this reason, or is no more."""
        was_shut = self.is_shut
        if hold:
            self._reasons.add(reason)
        else:
            self._reasons.discard(reason)
        if self.is_shut != was_shut:
            if self.is_shut:
                self._room.clear()
            else:
                self._room.set()
            for tell in self.at_change:
                tell(self.is_shut)

    async def room(self) -> None:
        """Return when it is open."""
        await self._room.wait()
