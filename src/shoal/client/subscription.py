"""One subscription of a client: its messages, to be waited for or iterated over."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping
from typing import Protocol

import msgspec

from shoal.mqtt.codec.packets import Publish


class Owner(Protocol):
    """Whose subscription it is."""

    async def unsubscribe(self, subscription: Subscription) -> None:
        """Take a subscription back."""

    def take_back(self, subscription: Subscription) -> object:
        """The same, without waiting until the broker has it."""

    async def next_message(self, subscription: Subscription) -> Message:
        """The next message of a subscription."""

    def check_open(self) -> None:
        """ClientError unless somebody connects it, or has."""


class Message(msgspec.Struct, frozen=True):
    """What arrived at a subscription; `attributes` are the publisher's user properties.

    `packet` is all of it.  For who acknowledges it: the connection it came over, and how many
    subscriptions it came to.
    """

    topic: str
    payload: bytes
    qos: int
    retain: bool
    attributes: Mapping[str, str]
    content_type: str | None
    packet: Publish = Publish("")
    connection: int = 0
    shares: int = 1


class Subscription:
    """Messages of one subscription, to be iterated over; used by `async with` it ends there."""

    def __init__(self, client: Owner, number: int, done: asyncio.Future[None]) -> None:
        self._client = client
        self._done = done
        self.number = number
        self.messages: deque[Message] = deque()
        # Set when there is something to look at: a message, or the end.
        self.changed = asyncio.Event()
        self.is_closed = False

    async def granted(self) -> None:
        """Wait until the broker has it; ClientError when it was refused."""
        if not self._done.done():
            self._client.check_open()
        # Who gives up waiting must not spoil the answer for those who go on.
        await asyncio.shield(self._done)

    async def close(self) -> None:
        """Take it back."""
        await self._client.unsubscribe(self)

    async def get(self) -> Message:
        """The next message; ClientError when this or the client is closed.

        Who gives up waiting, by a timeout, loses nothing: the message is the next one's.
        """
        return await self._client.next_message(self)

    async def __aenter__(self) -> Subscription:
        await self.granted()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Who is stopped does not wait for a broker that may hang."""
        if kind is not None and not issubclass(kind, Exception):
            self._client.take_back(self)
        else:
            await self.close()

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Its messages; ends when it or its client is closed, ClientError when that has failed."""
        await self.granted()
        while True:
            try:
                message = await self.get()
            except Exception:
                if self.is_closed:
                    return
                raise
            yield message
