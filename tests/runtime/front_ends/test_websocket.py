"""A client over WebSocket that is redirected: its last packets are handled."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    Pong,
    RejectConnection,
    Request,
)

from shoal.mqtt.codec.decoder import Decoder
from shoal.mqtt.codec.encoder import encode
from shoal.mqtt.codec.packet_types import MQTT_5
from shoal.mqtt.codec.packets import (
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Puback,
    Publish,
    Suback,
    Subscribe,
    SubscriptionRequest,
)
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.runtime.addresses import Address
from shoal.runtime.front_ends.sockets.websocket import WebSocket, is_same_host
from tests.runtime.front_ends.test_mqtt_front_end import mqtt
from tests.runtime.live import ANYWHERE, PATIENCE_S, on_loop, until


class Peer:
    """The other end of a WebSocket, which sends and reads one packet at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self._reader = reader
        self._protocol = WSConnection(ConnectionType.CLIENT)
        self._decoder = Decoder(MQTT_5)
        self._events: list[Event] = []
        self._packets: list[Packet] = []

    def say(self, event: Event) -> None:
        self.writer.write(self._protocol.send(event))

    def send(self, *packets: Packet) -> None:
        self.say(BytesMessage(b"".join(encode(packet, MQTT_5) for packet in packets)))

    async def event(self) -> Event:
        async with asyncio.timeout(PATIENCE_S):
            while not self._events:
                data = await self._reader.read(65_536)
                self._protocol.receive_data(data or None)
                self._events += self._protocol.events()
        return self._events.pop(0)

    async def packet(self) -> Packet:
        while not self._packets:
            event = await self.event()
            assert isinstance(event, BytesMessage)
            self._packets += self._decoder.feed(bytes(event.data))
        return self._packets.pop(0)


async def peer(address: Address, name: str) -> Peer:
    found = Peer(*await asyncio.open_connection(address.host, address.port))
    found.say(Request(host="x", target="/mqtt", subprotocols=["mqtt"]))
    assert isinstance(await found.event(), AcceptConnection)
    found.send(Connect(name, properties=Properties(session_expiry_interval_s=60)))
    assert isinstance(await found.packet(), Connack)
    return found


@on_loop
async def test_a_redirected_clients_last_packets_are_handled() -> None:
    async with mqtt() as network:
        front_end = network.front_ends["B1"]
        client = await peer(await front_end.listen(ANYWHERE, WebSocket), "c")
        client.send(Subscribe(1, (SubscriptionRequest("a", 1),)))
        assert isinstance(await client.packet(), Suback)
        for number in range(2):
            client.send(Publish("a", b"%d" % number, 1, packet_id=number + 1))
        got = [await client.packet() for _ in range(4)]
        first, second = (each.packet_id for each in got if isinstance(each, Publish))
        (connection,) = front_end._sockets
        front_end.carry_out(connection.redirect("there:1", front_end.node.clock.now_us()))
        front_end.node.schedule_flush()
        (socket,) = front_end._half_closed.values()
        assert isinstance(socket, WebSocket)
        await until(lambda: socket._is_half_closed)
        # Packets sent before the redirect is read; they are not answered.
        client.say(Ping())
        client.send(Puback(first))
        session = connection.session
        assert session is not None
        await until(lambda: session.inflight == 1)
        client.send(Puback(second))
        await until(lambda: session.inflight == 0)
        goodbye = await client.packet()
        assert isinstance(goodbye, Disconnect)
        assert goodbye.reason_code is ReasonCode.USE_ANOTHER_SERVER
        closing = await client.event()
        assert isinstance(closing, CloseConnection)
        client.say(closing.response())
        await until(lambda: not front_end._half_closed)
        assert connection.is_closed
        assert not connection.is_redirected


@on_loop
async def test_an_unrequested_pong_is_ignored() -> None:
    async with mqtt() as network:
        client = await peer(await network.front_ends["B1"].listen(ANYWHERE, WebSocket), "c")
        client.say(Pong(b"still here"))
        client.send(Pingreq())
        assert isinstance(await client.packet(), Pingresp)


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (["mqtt"], "mqtt"),
        (["mqttv3.1"], "mqttv3.1"),
        (["mqttv3.1", "mqtt"], "mqtt"),
        (["soap", "mqttv3.1"], "mqttv3.1"),
        ([], None),
    ],
)
@on_loop
async def test_a_client_may_request_the_mqtt_subprotocols(
    offered: list[str], chosen: str | None
) -> None:
    async with mqtt() as network:
        address = await network.front_ends["B1"].listen(ANYWHERE, WebSocket)
        found = Peer(*await asyncio.open_connection(address.host, address.port))
        found.say(Request(host="x", target="/", subprotocols=offered))
        answer = await found.event()
        assert isinstance(answer, AcceptConnection)
        assert answer.subprotocol == chosen
        found.send(Connect("c"))
        assert isinstance(await found.packet(), Connack)


@on_loop
async def test_other_subprotocols_are_refused() -> None:
    async with mqtt() as network:
        address = await network.front_ends["B1"].listen(ANYWHERE, WebSocket)
        found = Peer(*await asyncio.open_connection(address.host, address.port))
        found.say(Request(host="x", target="/", subprotocols=["soap", "wamp"]))
        answer = await found.event()
        assert isinstance(answer, RejectConnection)
        assert answer.status_code == 400
        refusals = network.front_ends["B1"].clients.statistics.notices.refusals
        assert refusals["connect refused", "not authorized"] == 1


@pytest.mark.parametrize(
    ("origin", "host", "status"),
    [
        ("", "b1:9001", 101),
        ("http://b1:8080", "b1:9001", 101),
        ("https://b1", "B1", 101),
        ("http://[::1]:8080", "[::1]:9001", 101),
        ("https://app.example.org", "b1", 101),
        ("https://example.org", "b1", 403),
        ("http://app.example.org", "b1", 403),
        ("null", "b1", 403),
        ("http://[", "b1", 403),
    ],
)
@on_loop
async def test_pages_of_other_hosts_are_refused_unless_they_are_named(
    origin: str, host: str, status: int
) -> None:
    def allows(origin: str, host: str) -> bool:
        return origin == "https://app.example.org" or is_same_host(origin, host)

    async with mqtt() as network:
        address = await network.front_ends["B1"].listen(ANYWHERE, partial(WebSocket, allows=allows))
        found = Peer(*await asyncio.open_connection(address.host, address.port))
        headers = [(b"Origin", origin.encode())] if origin else []
        found.say(Request(host=host, target="/mqtt", subprotocols=["mqtt"], extra_headers=headers))
        answer = await found.event()
        assert isinstance(answer, AcceptConnection | RejectConnection)
        assert (101 if isinstance(answer, AcceptConnection) else answer.status_code) == status
        # With the other refusals, and with their bound.
        refusals = network.front_ends["B1"].clients.statistics.notices.refusals
        assert refusals["connect refused", "not authorized"] == (status == 403)
