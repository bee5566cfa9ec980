"""Delivery from a machine to its clients: destination, amount and waiting time."""

from __future__ import annotations

from collections import Counter

from shoal.broker.effects import Deliver, Notify
from shoal.model import ClientId
from shoal.runtime.driving.surroundings import NodeClient, TraceSink
from shoal.runtime.driving.timing.clock import Clock
from shoal.runtime.driving.watching import Watching


class Delivering:
    """The clients of one node; `counts` has its deliveries, as of the last flush."""

    def __init__(
        self, clock: Clock, counts: Counter[str], watching: Watching, trace: TraceSink | None
    ) -> None:
        self._clock = clock
        self._counts = counts
        self._watching = watching
        self._trace = trace
        self._clients: dict[ClientId, NodeClient] = {}
        # Since the last flush, and the first of them.
        self._deliveries = 0
        self._delivered_us = 0

    def __len__(self) -> int:
        """Return how many clients there are."""
        return len(self._clients)

    def attach(self, name: ClientId, client: NodeClient) -> None:
        """Deliver to this client from now on; one of that name before is replaced."""
        self._clients[name] = client

    def detach(self, name: ClientId) -> None:
        self._clients.pop(name, None)

    def client(self, name: ClientId) -> NodeClient | None:
        """Return the destination of this client's deliveries."""
        return self._clients.get(name)

    def deliver(self, effect: Deliver, now_us: int) -> None:
        client = self._clients.get(effect.client)
        if client is None:
            self._counts["deliveries_to_nobody"] += 1
            return
        self._deliveries += 1
        self._delivered_us = self._delivered_us or now_us
        if self._trace is not None:
            self._trace.delivered(effect, now_us)
        client.deliver(effect)

    def notify(self, effect: Notify) -> None:
        client = self._clients.get(effect.client)
        if client is not None:
            client.notify(effect.message)

    def flushed(self) -> None:
        """Note that deliveries are written."""
        if self._deliveries:
            monitor = self._watching.monitor
            if monitor is not None:
                waited_us = max(0, self._clock.now_us() - self._delivered_us)
                monitor.delivered(self._deliveries, waited_us)
            self._counts["deliveries"] += self._deliveries
            self._deliveries = self._delivered_us = 0
