"""A feed for each broker of a network: those of its file, and those that join while it runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import httpx

from shoal.console.feed import BrokerFeed
from shoal.console.view import NetworkView
from shoal.model import BrokerId
from shoal.runtime.network_file import NetworkFile
from shoal.runtime.operations.caller import Caller

LOOK_S = 1.0


class Gathering:
    """Keeps a `NetworkView` up to date; `at_happening` gets happenings as they come, `at_second` is
    called each second.
    """

    def __init__(
        self,
        network: NetworkFile,
        caller: Caller,
        client: httpx.AsyncClient,
        *,
        at_happening: Callable[[dict[str, Any]], None],
        at_second: Callable[[], None],
    ) -> None:
        now_s = time.time()
        listed = {each.name: each.reached_at("admin") for each in network.brokers}
        places = {each.name: each.place or None for each in network.brokers}
        self.view = NetworkView(network.name, network.system, places, now_s)
        self.addresses = {name: admin for name, admin in listed.items() if admin}
        for name, admin in listed.items():
            if not admin:
                problem = "it has no admin address; give it one in the network file (admin = …)"
                self.view.disconnected(name, problem, now_s)
        self._caller, self._client = caller, client
        self._at_happening, self._at_second = at_happening, at_second
        self._feeds: dict[BrokerId, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Read all streams until this is cancelled."""
        try:
            while True:
                self._follow()
                self.view.tick(time.time())
                self._at_second()
                await asyncio.sleep(LOOK_S)
        finally:
            for task in self._feeds.values():
                task.cancel()
            await asyncio.gather(*self._feeds.values(), return_exceptions=True)

    def _follow(self) -> None:
        """Begin feeds of brokers that joined, and end those of brokers that left."""
        known = self.view.known
        for name, admin in known.items():
            if admin and self.addresses.get(name) != admin and name not in self._feeds:
                self.addresses[name] = admin
        for name, admin in self.addresses.items():
            if name not in self._feeds:
                self._feeds[name] = asyncio.ensure_future(self._feed(name, admin).run())
        if not known:
            return
        for name in [each for each in self.addresses if each not in known]:
            self._feeds.pop(name).cancel()
            del self.addresses[name]
            self.view.forget(name)

    def _feed(self, broker: BrokerId, address: str) -> BrokerFeed:
        view = self.view

        def take(kind: str, data: Any, identifier: str) -> None:
            happening = view.take(broker, kind, data, identifier, time.time())
            if happening is not None:
                self._at_happening(happening)

        return BrokerFeed(
            self._client,
            self._caller,
            broker,
            address,
            at_event=take,
            at_begin=lambda: view.connected(broker, time.time()),
            at_end=lambda problem: view.disconnected(broker, problem, time.time()),
            last_id=lambda: view.brokers[broker].last_id if broker in view.brokers else "",
        )
