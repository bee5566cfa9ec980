"""How bridges know a network again, whichever of its brokers they are connected to.

A network's identity is a retained message in it, which the first bridge publishes.  Its topic
begins with `$`, so that no `#` carries it elsewhere.  Bridges write on each message the identities
of the networks that it comes from, and carry none into a network where it has been: so bridges side
by side, or in a circle, bring nothing back.

| what happens | what holds |
| --- | --- |
| two bridges find none at the same time | both publish one, and hear both; the smaller one counts, and a bridge that hears a greater one publishes the smaller one again |
| the bridge may not read or publish it | the broker's address stands for it, and the log says so |
| both ends have the same | they are one network: a message is carried once |
"""  # noqa: E501

from __future__ import annotations

import asyncio
import logging
import secrets
from contextlib import suppress

from shoal.client.client import Client
from shoal.client.subscription import Subscription
from shoal.client.terms import ClientError

TOPIC = "$shoal/network"
# What brokers call the subscription to it, which no rule has (see `bridge`).
IDENTIFIER = 2**24 + 1
# What is retained comes at once; and what is published comes back.
WAIT_S = 1.0
_MOST_BYTES = 64

_log = logging.getLogger(__name__)


class Identity:
    """That of the network behind one client, which is to connect; `value` once it is `known`."""

    def __init__(self, client: Client) -> None:
        self.value = client.address
        self._is_known = False
        self._client = client
        self._subscription: Subscription = client.subscribe(TOPIC, identifier=IDENTIFIER)

    async def known(self) -> None:
        """Find it out, or give the network one."""
        try:
            await self._subscription.granted()
            if not await self._hear():
                await self._publish(secrets.token_hex(8))
                if not await self._hear():
                    raise ClientError(f"what is published to {TOPIC} does not come back")
        except ClientError as error:
            extra = {"topic": TOPIC, "address": self.value, "why": str(error)}
            _log.warning("its address stands for this network", extra=extra)

    async def _hear(self) -> bool:
        try:
            async with asyncio.timeout(WAIT_S):
                await self._take()
        except TimeoutError:
            return False
        return True

    async def _take(self) -> None:
        heard = (await self._subscription.get()).payload[:_MOST_BYTES].decode(errors="replace")
        if heard and (not self._is_known or heard < self.value):
            self.value, self._is_known = heard, True
        elif heard != self.value:
            with suppress(ClientError):  # rules may let a bridge hear it and not publish it
                await self._publish(self.value)

    async def _publish(self, value: str) -> None:
        await self._client.publish(TOPIC, value.encode(), retain=True)

    async def follow(self) -> None:
        """Hear of changes, until the connection fails for good: ClientError."""
        while True:
            await self._take()
