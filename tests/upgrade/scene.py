"""State of every kind that two brokers keep over a restart, and its check."""

from __future__ import annotations

import asyncio
from pathlib import Path

from shoal.client import Client
from shoal.client.terms import Keep
from shoal.mqtt.codec.decoder import Decoder
from shoal.mqtt.codec.encoder import encode
from shoal.mqtt.codec.packet_types import MQTT_5
from shoal.mqtt.codec.packets import Connack, Connect, Packet, Publish, Pubrec, Pubrel
from shoal.mqtt.codec.properties import Properties
from shoal.runtime.broker_service import BrokerService
from shoal.runtime.network_file import NetworkFile
from tests.runtime.live import until
from tests.runtime.one_service import network, running

# Sessions that never end.
EVER_S = 0xFFFF_FFFF
KEEP = Keep(seconds=EVER_S)
TWICE = Publish("a/once", b'{"x": 9}', 2, packet_id=7)


def two_brokers(folder: Path) -> NetworkFile:
    return network(
        2,
        name="upgrade",
        storage={"folder": str(folder), "sync": "never", "absent_s": 10**9},
        link_limits={"park_us": 100_000},
    )


def reader(address: str, name: str) -> Client:
    """A client whose session stays."""
    return Client(address, name, keep=KEEP)


def at(service: BrokerService) -> str:
    return str(service.listening["mqtt"])


class Raw:
    """A client of packets, which can vanish in the middle of a handshake."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._decoder = Decoder(MQTT_5)
        self._came: list[Packet] = []

    @classmethod
    async def connect(cls, service: BrokerService, name: str) -> tuple[Raw, Connack]:
        raw = cls(*await asyncio.open_connection(*service.listening["mqtt"]))
        properties = Properties(session_expiry_interval_s=EVER_S)
        answer = await raw.ask(Connect(name, clean_start=False, properties=properties))
        assert isinstance(answer, Connack)
        return raw, answer

    async def ask(self, packet: Packet) -> Packet:
        self._writer.write(encode(packet, MQTT_5))
        while not self._came:
            data = await self._reader.read(10_000)
            assert data, "the broker closed the connection"
            self._came += self._decoder.feed(data)
        return self._came.pop(0)

    def vanish(self) -> None:
        self._writer.transport.abort()


async def play(folder: Path) -> None:
    """Make both brokers keep state of every kind in `folder`."""
    net = two_brokers(folder)
    async with running(net, "B1") as (here,):
        async with running(net, "B2") as (there,):
            await until(lambda: not here.missing() and not there.missing())
            async with reader(at(here), "reader") as near:
                await near.subscribe("a/#", "x > 1", identifier=5).granted()
                await near.subscribe("b", qos=2, identifier=6).granted()
            async with reader(at(there), "far") as far:
                await far.subscribe("far/#", identifier=7).granted()
            async with Client(at(here), "writer") as writer:
                await writer.publish("a/1", b'{"x": 2}')
                await writer.publish("a/2", b'{"x": 0}')
                await writer.publish("b", b"twice", qos=2)
                await writer.publish("r/kept", b"kept", retain=True)
                await writer.publish("far/1", b"one")
        await until(lambda: bool(here.missing()))
        async with Client(at(here), "writer") as writer:
            await writer.publish("far/2", b"two")
            await writer.publish("far/3", b"three", qos=2)
        raw, _ = await Raw.connect(here, "sender")
        assert isinstance(await raw.ask(TWICE), Pubrec)
        raw.vanish()
        await until(lambda: here.front_end.clients.connection("sender") is None)


async def know(folder: Path) -> None:
    """AssertionError unless the brokers have all of that state."""
    net = two_brokers(folder)
    async with running(net, "B1") as (here,):
        raw, answer = await Raw.connect(here, "sender")
        assert answer.session_present
        assert isinstance(await raw.ask(TWICE), Pubrec)
        await raw.ask(Pubrel(TWICE.packet_id))
        raw.vanish()
        near = reader(at(here), "reader")
        first, second = (
            near.subscribe("a/#", "x > 1", identifier=5),
            near.subscribe("b", qos=2, identifier=6),
        )
        async with near:
            assert near.forgotten == 0
            came = [await first.get(), await first.get()]
            assert [each.payload for each in came] == [b'{"x": 2}', TWICE.payload]
            assert (await second.get()).payload == b"twice"
            kept = near.subscribe("r/#")
            message = await kept.get()
            assert (message.topic, message.payload, message.retain) == ("r/kept", b"kept", True)
        async with running(net, "B2") as (there,):
            far = reader(at(there), "far")
            rest = far.subscribe("far/#", identifier=7)
            async with far:
                assert far.forgotten == 0
                assert [(await rest.get()).payload for _ in range(3)] == [b"one", b"two", b"three"]
                await until(lambda: not here.missing() and not there.missing())
                async with Client(at(here), "writer") as writer:
                    await writer.publish("a/1", b'{"x": 3}')
                    await writer.publish("far/4", b"four")
                    assert (await rest.get()).payload == b"four"
