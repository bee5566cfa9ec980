"""One subscription of a client: an asynchronous iterator of its messages."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping
from typing import Protocol

import msgspec

from shoal.mqtt.codec.packets import Publish


class SubscriptionOwner(Protocol):
    """The client of a subscription."""

    async def unsubscribe(self, subscription: Subscription) -> None:
        """Unsubscribe."""

    def take_back(self, subscription: Subscription) -> object:
        """Unsubscribe, without waiting for the broker's answer."""

    async def next_message(self, subscription: Subscription) -> Message:
        """The next message of a subscription."""

    def check_open(self) -> None:
        """Raise ClientError unless the client was connected, or will be."""


class Message(msgspec.Struct, frozen=True):
    """A message of a subscription; `attributes` are the publisher's user properties.

    `packet` is the whole PUBLISH. For its acknowledgement: `connection` is the connection that it
    came over, `shares` the number of subscriptions that got it.
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
    """The messages of one subscription, an iterator; `async with` ends the subscription."""

    def __init__(self, client: SubscriptionOwner, number: int, done: asyncio.Future[None]) -> None:
        self._client = client
        self._done = done
        self.number = number
        self.messages: deque[Message] = deque()
        # Set when there is a message, or the end.
        self.changed = asyncio.Event()
        self.is_closed = False

    async def granted(self) -> None:
        """Wait until the broker grants it; ClientError when it is refused."""
        if not self._done.done():
            self._client.check_open()
        # A cancelled caller must not cancel the answer for the others.
        await asyncio.shield(self._done)

    async def close(self) -> None:
        """Unsubscribe."""
        await self._client.unsubscribe(self)

    async def get(self) -> Message:
        """The next message; ClientError when this or the client is closed.

        A caller that stops waiting, by a timeout, loses nothing: the next call gets the message.
        """
        return await self._client.next_message(self)

    async def __aenter__(self) -> Subscription:
        await self.granted()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Unsubscribe; a cancelled caller does not wait for a broker that may hang."""
        if kind is not None and not issubclass(kind, Exception):
            self._client.take_back(self)
        else:
            await self.close()

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Its messages, until it or its client is closed; ClientError when that has failed."""
        await self.granted()
        while True:
            try:
                message = await self.get()
            except Exception:
                if self.is_closed:
                    return
                raise
            yield message
