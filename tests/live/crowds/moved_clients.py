"""Real MQTT clients of three libraries that follow redirects and record what they receive."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import aiomqtt
import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from shoal.client import Client
from shoal.mqtt.connection.connecting import FOLLOW

TOPIC = "load"
# Topic prefix of a client's will; its name follows.
WILLS = "wills/"
# A client whose broker is killed is back before.
WILL_DELAY_S = 30
# A client without its broker tries the next one after this.
PAUSE_S = 0.5


def properties(*, follows: bool) -> Properties:
    """CONNECT properties; the session outlives connections."""
    said = Properties(PacketTypes.CONNECT)
    said.SessionExpiryInterval = 3_600
    if follows:
        said.UserProperty = [(FOLLOW, "")]
    return said


def will_properties() -> Properties:
    said = Properties(PacketTypes.WILLMESSAGE)
    said.WillDelayInterval = WILL_DELAY_S
    return said


class Paho:
    """paho-mqtt, which reconnects by itself; after a redirect to the new address."""

    def __init__(
        self, name: str, servers: list[str], topic: str = TOPIC, *, follows: bool = True
    ) -> None:
        self.name, self.taken, self.moved = name, list[bytes](), 0
        self.is_subscribed = False
        self._topic, self._follows = topic, follows
        self._servers, self._next = servers, 0
        self._client = client = paho.Client(
            CallbackAPIVersion.VERSION2, client_id=name, protocol=paho.MQTTv5
        )
        client.will_set(WILLS + name, b"gone", 1, properties=will_properties())
        client.reconnect_delay_set(1, 1)
        client.on_connect = self._on_connect
        client.on_subscribe = self._on_subscribe
        client.on_message = self._on_message
        client.on_disconnect = self._on_disconnect
        client.on_connect_fail = self._on_connect_fail

    async def __aenter__(self) -> Paho:
        self._go_to(self._servers[0])
        self._client.loop_start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._client.disconnect()
        await asyncio.to_thread(self._client.loop_stop)

    def _go_to(self, server: str) -> None:
        host, _, port = server.rpartition(":")
        self._client.connect_async(
            host,
            int(port),
            keepalive=60,
            clean_start=False,
            properties=properties(follows=self._follows),
        )

    def _on_connect(self, client: Any, data: Any, flags: Any, code: Any, said: Any) -> None:
        if not code.is_failure and not flags.session_present:
            client.subscribe(self._topic, qos=2)

    def _on_subscribe(self, *_: Any) -> None:
        self.is_subscribed = True

    def _on_message(self, client: Any, data: Any, message: Any) -> None:
        self.taken.append(message.payload)

    def _on_disconnect(self, client: Any, data: Any, flags: Any, code: Any, said: Any) -> None:
        server = getattr(said, "ServerReference", None)
        if server is not None:
            self.moved += 1
            self._go_to(server)
        elif code.is_failure:
            self._try_next()

    def _on_connect_fail(self, *_: Any) -> None:
        self._try_next()

    def _try_next(self) -> None:
        self._next += 1
        self._go_to(self._servers[self._next % len(self._servers)])


class Aiomqtt:
    """aiomqtt, with a new object for each connection, as its documentation recommends.

    A new object forgets the state of QoS 2, so this client subscribes at QoS 1.
    """

    def __init__(
        self, name: str, servers: list[str], topic: str = TOPIC, *, follows: bool = True
    ) -> None:
        self.name, self.taken, self.moved = name, list[bytes](), 0
        self.is_subscribed = False
        self._topic, self._follows = topic, follows
        self._servers = servers

    async def __aenter__(self) -> Aiomqtt:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        server, tried = self._servers[0], 0
        while True:
            host, _, port = server.rpartition(":")
            client = aiomqtt.Client(
                host,
                int(port),
                identifier=self.name,
                protocol=aiomqtt.ProtocolVersion.V5,
                clean_start=False,
                properties=properties(follows=self._follows),
                will=aiomqtt.Will(WILLS + self.name, b"gone", 1, properties=will_properties()),
            )
            sent_to: list[str] = []
            _note_server(client, sent_to.append)
            with suppress(aiomqtt.MqttError):
                async with client:
                    if not self.is_subscribed:
                        await client.subscribe(self._topic, qos=1)
                        self.is_subscribed = True
                    async for message in client.messages:
                        self._take(message)
            # Messages that it acknowledged and did not hand out before its connection ended.
            while not client._queue.empty():
                self._take(client._queue.get_nowait())
            if sent_to:
                self.moved += 1
                server = sent_to[0]
            else:
                tried += 1
                server = self._servers[tried % len(self._servers)]
                await asyncio.sleep(PAUSE_S)

    def _take(self, message: aiomqtt.Message) -> None:
        assert isinstance(message.payload, bytes)
        self.taken.append(message.payload)


def _note_server(client: aiomqtt.Client, note: Callable[[str], None]) -> None:
    """Record server references, which aiomqtt does not expose."""
    inner: Any = client._client
    before = inner.on_disconnect

    def on_disconnect(*said: Any) -> None:
        server = getattr(said[-1], "ServerReference", None)
        if server is not None:
            note(server)
        before(*said)

    inner.on_disconnect = on_disconnect


class Own:
    """shoal.Client."""

    def __init__(
        self, name: str, servers: list[str], topic: str = TOPIC, *, follows: bool = True
    ) -> None:
        self.name, self.taken = name, list[bytes]()
        self.is_subscribed = False
        self._topic = topic
        self._client = Client(servers[0], name, follow=follows)

    @property
    def moved(self) -> int:
        return self._client.redirections

    async def __aenter__(self) -> Own:
        await self._client.__aenter__()
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task.done():
            self._task.result()  # it has ended by itself
        self._task.cancel()
        await asyncio.wait([self._task])
        await self._client.__aexit__(None, None, None)

    async def _run(self) -> None:
        async with self._client.subscribe(self._topic, qos=2) as messages:
            self.is_subscribed = True
            async for message in messages:
                self.taken.append(message.payload)


LIBRARIES = (Paho, Aiomqtt, Own)
Mover = Paho | Aiomqtt | Own
