"""The identity of a network, by which bridges recognise it at any of its brokers.

A network's identity is a retained message in it, which the first bridge publishes. Its topic begins
with `$`, so that no `#` carries it elsewhere. Bridges add to each message the identities of the
networks that it comes from, and carry none into a network that it has passed: so bridges side by
side, or in a circle, bring nothing back.

| event | result |
| --- | --- |
| two bridges find none at the same time | both publish one, and get both; the smaller one counts, and a bridge that gets a greater one publishes the smaller one again |
| the bridge may not read or publish it | the broker's address stands for it, with a log line |
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
# The subscription identifier for it, which no rule has (see `bridge`).
IDENTIFIER = 2**24 + 1
# The timeout of the retained message, and of the bridge's own publication.
WAIT_S = 1.0
_MOST_BYTES = 64

_log = logging.getLogger(__name__)


class Identity:
    """The identity of the network behind one client, which is to connect; `value` once `known`."""

    def __init__(self, client: Client) -> None:
        self.value = client.address
        self._is_known = False
        self._client = client
        self._subscription: Subscription = client.subscribe(TOPIC, identifier=IDENTIFIER)

    async def known(self) -> None:
        """Find out the identity, or publish a new one."""
        try:
            await self._subscription.granted()
            if not await self._hear():
                await self._publish(secrets.token_hex(8))
                if not await self._hear():
                    raise ClientError(f"publications to {TOPIC} do not come back")
        except ClientError as error:
            extra = {"topic": TOPIC, "address": self.value, "why": str(error)}
            _log.warning("its address stands for this network", extra=extra)

    async def _hear(self) -> bool:
        try:
            async with asyncio.timeout(WAIT_S):
                await self._take_identity()
        except TimeoutError:
            return False
        return True

    async def _take_identity(self) -> None:
        heard = (await self._subscription.get()).payload[:_MOST_BYTES].decode(errors="replace")
        if heard and (not self._is_known or heard < self.value):
            self.value, self._is_known = heard, True
        elif heard != self.value:
            with suppress(ClientError):  # rules may allow a bridge to read it and not to publish it
                await self._publish(self.value)

    async def _publish(self, value: str) -> None:
        await self._client.publish(TOPIC, value.encode(), retain=True)

    async def follow(self) -> None:
        """Follow changes, until the connection fails for good: ClientError."""
        while True:
            await self._take_identity()
