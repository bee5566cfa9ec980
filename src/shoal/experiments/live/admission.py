"""Connects the clients of a replay: many at a time, for as long as any of them gets in.

A busy broker may drop a client that waits at its front end; that client retries. Many more
subscriptions than connections are awaited at a time: a broker answers simultaneous requests
together, once all others have them. If no client has connected for long, the clients still outside
are left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from shoal.client import Client, ClientError, Subscription

# Clients that are let in at once, so that no front end has more knocking than it answers in time.
CONNECTING = 16
# Subscriptions that wait for their answer at once.
GRANTING = 512
# After so long without a new client the rest is left out.
STALLED_S = 60.0
# Pause of a client that was dropped.
RETRY_S = 1.0

# A broker says so, or it says nothing, when it has no time.
_BUSY = ("server unavailable", "server busy", "no broker answers")


class LiveAdmission:
    """Clients on their way in; `left_out` has the reasons of clients that did not get in.

    `tell` is called with the number of subscribed clients at each new one.
    """

    def __init__(self, tell: Callable[[int], None]) -> None:
        self.left_out: dict[str, str] = {}
        self._tell = tell
        self._connecting = asyncio.Semaphore(CONNECTING)
        self._granting = asyncio.Semaphore(GRANTING)
        self._inside = 0
        self._newest_s = asyncio.get_running_loop().time()

    async def connect(
        self, name: str, enter: Callable[[], Coroutine[Any, Any, Client]]
    ) -> Client | None:
        """The client that `enter` connects; None when it is left out.

        ClientError when trying again does not help.
        """
        reason = "nobody before it did"
        while True:
            async with self._connecting:
                if self._is_stalled:
                    self.left_out[name] = reason
                    return None
                try:
                    client = await enter()
                except ClientError as error:
                    reason = str(error)
                    if not any(words in reason for words in _BUSY):
                        raise
                else:
                    self._moved_on()
                    return client
            await asyncio.sleep(RETRY_S)

    async def subscribe(self, name: str, ask: Callable[[], Subscription]) -> Subscription | None:
        """The subscription that `ask` makes, granted; None when it is left out."""
        async with self._granting:
            subscription = ask()
            while True:
                try:
                    # The answer stays usable after a timeout.
                    async with asyncio.timeout(STALLED_S):
                        await subscription.granted()
                except TimeoutError:
                    if self._is_stalled:
                        self.left_out[name] = "its broker did not answer the subscription"
                        return None
                else:
                    return subscription

    def done(self) -> None:
        """One more is all the way in."""
        self._inside += 1
        self._moved_on()
        self._tell(self._inside)

    def _moved_on(self) -> None:
        self._newest_s = asyncio.get_running_loop().time()

    @property
    def _is_stalled(self) -> bool:
        return asyncio.get_running_loop().time() - self._newest_s >= STALLED_S
