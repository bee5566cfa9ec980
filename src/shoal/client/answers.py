"""What a client has asked its broker, and who waits for the answers."""

from __future__ import annotations

import asyncio

from shoal.client.terms import ClientError
from shoal.mqtt.codec.reason_codes import ReasonCode

_FAILED = 0x80


class Answers:
    """The requests that are not answered yet, by their numbers."""

    def __init__(self) -> None:
        self._waiting: dict[int, asyncio.Future[None]] = {}

    def to(self, number: int) -> asyncio.Future[None]:
        """What says that a request is granted, or raises ClientError."""
        future = self._waiting.get(number)
        if future is None:
            future = self._waiting[number] = asyncio.get_running_loop().create_future()
        return future

    def came(self, number: int, code: ReasonCode, reason: str) -> None:
        """The broker has answered a request."""
        future = self._waiting.pop(number, None)
        if future is None or future.done():
            return
        if code >= _FAILED:
            words = code.name.lower().replace("_", " ")
            fail(future, ClientError(f"{words}: {reason}" if reason else words))
        else:
            future.set_result(None)

    def fail(self, error: ClientError) -> None:
        """Nothing will be answered any more."""
        for future in self._waiting.values():
            fail(future, error)
        self._waiting.clear()


def fail(future: asyncio.Future[None], error: ClientError) -> None:
    """End what somebody may wait for: who does sees the error, and nobody has to."""
    if not future.done():
        future.set_exception(error)
        future.exception()
