"""A client's requests to its broker that wait for answers."""

from __future__ import annotations

import asyncio

from shoal.client.terms import ClientError
from shoal.mqtt.codec.reason_codes import ReasonCode

_FAILED = 0x80


class Answers:
    """The open requests, by their numbers."""

    def __init__(self) -> None:
        self._waiting: dict[int, asyncio.Future[None]] = {}

    def to(self, number: int) -> asyncio.Future[None]:
        """The future of a request: done when it is granted, or fails with ClientError."""
        future = self._waiting.get(number)
        if future is None:
            future = self._waiting[number] = asyncio.get_running_loop().create_future()
        return future

    def came(self, number: int, code: ReasonCode, reason: str) -> None:
        """Handle the broker's answer to a request."""
        future = self._waiting.pop(number, None)
        if future is None or future.done():
            return
        if code >= _FAILED:
            words = code.name.lower().replace("_", " ")
            fail(future, ClientError(f"{words}: {reason}" if reason else words))
        else:
            future.set_result(None)

    def fail(self, error: ClientError) -> None:
        """Fail all open requests."""
        for future in self._waiting.values():
            fail(future, error)
        self._waiting.clear()


def fail(future: asyncio.Future[None], error: ClientError) -> None:
    """Fail a future; marks the error as retrieved, since no caller need wait for it."""
    if not future.done():
        future.set_exception(error)
        future.exception()
