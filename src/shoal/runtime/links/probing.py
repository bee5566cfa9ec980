"""How far other brokers are to which there is no link: asked by a hello, as often as is needed.

The other end answers with its own hello and closes; half the time between the two is the way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from shoal.broker.links.controls import Hello, Purpose
from shoal.broker.wire import WireError
from shoal.model import BrokerId
from shoal.runtime.driving.timing.clock import Clock
from shoal.runtime.links.peer_connections import PeerConnection, dial
from shoal.runtime.links.peer_settings import PeerSettings, check_peer


class Probes:
    """The questions of one broker."""

    def __init__(self, broker: BrokerId, settings: PeerSettings, clock: Clock) -> None:
        self._broker = broker
        self._settings = settings
        self._clock = clock
        self._expected: dict[PeerConnection, BrokerId] = {}
        self._answered_us: dict[PeerConnection, int] = {}

    async def delays_us(self, brokers: list[BrokerId]) -> Mapping[BrokerId, int]:
        """How long a message takes to each of these that answers."""
        found = await asyncio.gather(*map(self._ask, brokers))
        pairs = zip(brokers, found, strict=True)
        return {broker: delay_us for broker, delay_us in pairs if delay_us is not None}

    async def _ask(self, broker: BrokerId) -> int | None:
        address = self._settings.addresses.get(broker)
        connection = await dial(self, address, self._settings.tls) if address else None
        if connection is None:
            return None
        self._expected[connection] = broker
        asked_us = self._clock.now_us()
        connection.say(probe(self._broker, self._settings))
        await connection.ended
        del self._expected[connection]
        answered_us = self._answered_us.pop(connection, None)
        return None if answered_us is None else max(1, (answered_us - asked_us) // 2)

    # --- connections --------------------------------------------------------------------------

    def opened(self, connection: PeerConnection) -> None:
        """It is asked next."""

    def greeted(self, connection: PeerConnection, hello: Hello) -> None:
        check_peer(connection, hello, self._broker, self._settings)
        if hello.broker != self._expected.get(connection):
            raise WireError(f"this is {hello.broker}")
        self._answered_us[connection] = self._clock.now_us()
        connection.close()

    def received(self, connection: PeerConnection, data: bytes) -> None:
        """Nothing more is asked."""

    def closed(self, connection: PeerConnection) -> None:
        """All is known that will be."""


def probe(broker: BrokerId, settings: PeerSettings) -> Hello:
    """The question, and the answer."""
    name = (settings.incarnation, 0)
    return Hello(settings.protocol, settings.network, broker, name, None, 0, Purpose.PROBE)
