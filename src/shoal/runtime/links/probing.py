"""Questions to brokers to which there is no link, each a hello on a connection of its own.

| purpose | question | answer |
| --- | --- | --- |
| PROBE | how far is the broker | its hello; half the time between the two is the way |
| JOIN | does it take this one in | its hello; or it refuses, and says why |
| BROKERS | which brokers does it know | its hello, then these (`KnownBrokers`) |
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from shoal.broker.links.controls import (
    CONTROLS,
    MOST_CONTROL_BYTES,
    BrokerLocation,
    Hello,
    KnownBrokers,
    Purpose,
)
from shoal.broker.wire import Codec, WireError, first_frame
from shoal.model import BrokerId
from shoal.runtime.addresses import Address
from shoal.runtime.driving.timing.clock import Clock
from shoal.runtime.links.peer_connections import PeerConnection, dial
from shoal.runtime.links.peer_settings import PeerSettings, check_peer

_CONTROLS = Codec(CONTROLS)


class ProbeAnswer(NamedTuple):
    """When an answer came; without one, why not.

    `brokers` are those that the other broker knows, if it was asked.
    """

    at_us: int | None = None
    problem: str = ""
    brokers: tuple[BrokerLocation, ...] = ()


class Probes:
    """The questions of one broker."""

    def __init__(self, broker: BrokerId, settings: PeerSettings, clock: Clock) -> None:
        self._broker = broker
        self._settings = settings
        self._clock = clock
        self._expected: dict[PeerConnection, tuple[BrokerId, Purpose]] = {}
        self._answers: dict[PeerConnection, ProbeAnswer] = {}
        # The bytes of answers that are not complete.
        self._read: dict[PeerConnection, bytes] = {}

    async def delays_us(self, brokers: list[BrokerId]) -> Mapping[BrokerId, int]:
        """Return how long a message takes to each of these that answers."""
        found = await asyncio.gather(*map(self._delay_us, brokers))
        pairs = zip(brokers, found, strict=True)
        return {broker: delay_us for broker, delay_us in pairs if delay_us is not None}

    async def _delay_us(self, broker: BrokerId) -> int | None:
        connection = await self._dial(broker)
        if connection is None:
            return None
        asked_us = self._clock.now_us()
        answer = await self._probe_over(connection, broker, Purpose.PROBE)
        return None if answer.at_us is None else max(1, (answer.at_us - asked_us) // 2)

    async def brokers_known_to(self, broker: BrokerId) -> tuple[BrokerLocation, ...]:
        """Return the brokers that another one knows; nothing if it does not answer."""
        connection = await self._dial(broker)
        if connection is None:
            return ()
        return (await self._probe_over(connection, broker, Purpose.BROKERS)).brokers

    async def _dial(self, broker: BrokerId) -> PeerConnection | None:
        address = self._settings.addresses.get(broker)
        return await dial(self, address, self._settings.tls) if address else None

    async def why_not_taken(self, broker: BrokerId, address: Address) -> str:
        """Return why the broker at an address does not take this one in; empty if it does."""
        problems: list[str] = []
        connection = await dial(self, address, self._settings.tls, problems.append)
        if connection is None:
            return problems[0]
        return (await self._probe_over(connection, broker, Purpose.JOIN)).problem

    async def _probe_over(
        self, connection: PeerConnection, broker: BrokerId, purpose: Purpose
    ) -> ProbeAnswer:
        self._expected[connection] = broker, purpose
        connection.say(probe(self._broker, self._settings, purpose))
        try:
            await connection.ended
        finally:
            connection.abort()  # open only if the probe was cancelled
            del self._expected[connection]
            self._read.pop(connection, None)
            found = self._answers.pop(connection, None)
        return found or ProbeAnswer(problem=connection.refused or connection.problem)

    # --- connections --------------------------------------------------------------------------

    def opened(self, connection: PeerConnection) -> None:
        """It is asked next."""

    def greeted(self, connection: PeerConnection, hello: Hello) -> None:
        check_peer(connection, hello, self._broker, self._settings)
        broker, purpose = self._expected.get(connection, ("", Purpose.PROBE))
        if hello.broker != broker:
            raise WireError(f"this is {hello.broker}")
        self._answers[connection] = ProbeAnswer(self._clock.now_us())
        if purpose is not Purpose.BROKERS:
            connection.close()

    def received(self, connection: PeerConnection, data: bytes) -> None:
        self._read[connection] = self._read.get(connection, b"") + data
        found = first_frame(self._read[connection], MOST_CONTROL_BYTES)
        if found is not None:
            control = _CONTROLS.decode(found[0])
            if isinstance(control, KnownBrokers) and connection in self._answers:
                known = self._answers[connection]._replace(brokers=control.of)
                self._answers[connection] = known
            connection.close()

    def closed(self, connection: PeerConnection) -> None:
        """All is known that will be."""


def probe(broker: BrokerId, settings: PeerSettings, purpose: Purpose = Purpose.PROBE) -> Hello:
    """The question, and the answer."""
    name = (settings.incarnation, 0)
    return Hello(settings.protocol, settings.network, broker, name, None, 0, purpose)
