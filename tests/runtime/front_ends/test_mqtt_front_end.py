"""Real MQTT clients on a live network of three brokers."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager

import aiomqtt
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from shoal.broker.effects import Effect, Input, Requested
from shoal.broker.machine import Broker
from shoal.broker.messages import Subscribe, Together
from shoal.model import BrokerId
from shoal.mqtt.codec.decoder import Decoder
from shoal.mqtt.codec.encoder import encode
from shoal.mqtt.codec.packet_types import MQTT_3_1_1, MQTT_5
from shoal.mqtt.codec.packets import (
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Publish,
    WillFields,
)
from shoal.mqtt.limits import DEFAULT_LIMITS
from shoal.overlays.registry import strategy_factory
from shoal.runtime.addresses import Address
from shoal.runtime.driving.timing import pauses
from shoal.runtime.driving.timing.clock import Clock
from shoal.runtime.front_ends import asking
from shoal.runtime.front_ends.mqtt_front_end import MqttFrontEnd
from shoal.runtime.front_ends.publishers import LivePublishers
from shoal.runtime.front_ends.sockets.mqtt_socket import MqttSocket
from shoal.runtime.node import Node
from tests.runtime.links.test_peer_links import LINE
from tests.runtime.live import ANYWHERE, PATIENCE_S, LiveNetwork, live, on_loop, until

VERSIONS = [aiomqtt.ProtocolVersion.V311, aiomqtt.ProtocolVersion.V5]


class MqttNetwork:
    """A live network whose brokers admit MQTT clients."""

    def __init__(self, network: LiveNetwork) -> None:
        self.network = network
        self.front_ends: dict[BrokerId, MqttFrontEnd] = {}
        self.publishers: dict[BrokerId, LivePublishers] = {}
        self.servers: dict[BrokerId, str] = {}
        self.listeners: dict[BrokerId, dict[str, str]] = {}
        self.addresses: dict[BrokerId, Address] = {}

    async def open(self, broker: BrokerId) -> None:
        node = self.network.nodes[broker]
        publishers = LivePublishers(node, self.network.forwarding_channels[broker])
        self.publishers[broker] = publishers
        front_end = MqttFrontEnd(
            node, DEFAULT_LIMITS, publishers=publishers, servers=self.listeners
        )
        front_end.start()
        self.front_ends[broker] = front_end
        self.addresses[broker] = await front_end.listen(ANYWHERE, MqttSocket)
        self.servers[broker] = str(self.addresses[broker])
        self.listeners[broker] = {"mqtt": self.servers[broker]}

    async def kill(self, broker: BrokerId) -> None:
        """Stop a broker without a message to its clients."""
        front_end = self.front_ends.pop(broker)
        front_end.stop_listening()
        for each in front_end._sockets.values():
            each.close()
        self.publishers.pop(broker).stop()
        await self.network.kill(broker)

    def client(self, broker: BrokerId, name: str, **options: object) -> aiomqtt.Client:
        address = self.addresses[broker]
        return aiomqtt.Client(address.host, address.port, identifier=name, **options)  # type: ignore[arg-type]

    async def met(self) -> None:
        """Every front end knows all others; those of a network file open before links are up."""
        federations = [front_end.clients.federation for front_end in self.front_ends.values()]
        met = [each.session_transfer.telling._met for each in federations if each is not None]
        await until(lambda: all(len(each) == len(self.front_ends) - 1 for each in met))

    async def knows(self, broker: BrokerId, subscriptions: int) -> None:
        """A broker knows so many subscriptions, its own and others'."""
        tables = self.network.nodes[broker].machine.strategy.tables
        await until(lambda: len(tables.subscriptions) == subscriptions)


@asynccontextmanager
async def mqtt(
    links: Iterable[tuple[str, str]] = LINE, **options: object
) -> AsyncIterator[MqttNetwork]:
    async with live(links, **options) as network:
        found = MqttNetwork(network)
        for broker in network.names:
            await found.open(broker)
        for broker in network.names:
            await found.knows(broker, len(network.names))  # every front end wants retained messages
        yield found
        for front_end in found.front_ends.values():
            front_end.shut_down()
        for publishers in found.publishers.values():
            publishers.stop()


async def payloads(client: aiomqtt.Client, count: int) -> list[bytes]:
    async with asyncio.timeout(PATIENCE_S):
        return [bytes((await anext(client.messages)).payload) for _ in range(count)]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", [0, 1, 2])
@on_loop
async def test_a_publication_arrives_at_another_broker(
    version: aiomqtt.ProtocolVersion, qos: int
) -> None:
    async with (
        mqtt() as network,
        network.client("B3", "subscriber", protocol=version) as subscriber,
        network.client("B1", "publisher", protocol=version) as publisher,
    ):
        await subscriber.subscribe("flights/+/late", qos=qos)
        await network.knows("B1", 4)
        async with asyncio.TaskGroup() as publishing:
            for number in range(100):
                topic, payload = f"flights/{number % 2}/late", b"%d" % number
                publishing.create_task(publisher.publish(topic, payload, qos=qos))
                publishing.create_task(publisher.publish("flights/on time", b"none", qos=qos))
        assert await payloads(subscriber, 100) == [b"%d" % number for number in range(100)]


@on_loop
async def test_slow_requests_to_the_machine_are_sliced() -> None:
    """The filters of one packet must not be handled in one go."""
    each_s, count, most, handled = 0.004, 60, 0, 0
    async with (
        mqtt((("B1", "B2"),)) as network,
        network.client("B1", "subscriber") as subscriber,
        network.client("B1", "publisher") as publisher,
    ):
        machine = network.network.nodes["B1"].machine
        handle = machine.handle

        def handle_slowly(input: Input, now_us: int) -> list[Effect]:
            nonlocal handled
            if isinstance(input, Requested) and isinstance(input.request, Subscribe | Together):
                asked = len(getattr(input.request, "messages", (input.request,)))
                handled += asked
                time.sleep(asked * each_s)
            return handle(input, now_us)

        machine.handle = handle_slowly
        filters = [(f"t/{number}", 1) for number in range(count)]
        asked = asyncio.create_task(subscriber.subscribe(filters))
        while handled < count:
            before = handled
            await asyncio.sleep(0)
            most = max(most, handled - before)
        # In two slices, since more input may be read while the rest waits.
        assert 0 < most <= 2 * (asking.TURN_US / 1e6 / each_s + 1)
        await asked
        await publisher.publish("t/59", b"last", qos=1)
        assert await payloads(subscriber, 1) == [b"last"]


@on_loop
async def test_the_filters_of_one_packet_travel_in_few_messages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise each neighbour gets 800 messages and as many marks.

    A slow machine takes some of them in a slice, and more slices.
    """
    monkeypatch.setattr(asking, "TURN_US", 60_000_000)
    async with mqtt() as network, network.client("B1", "subscriber") as subscriber:
        nodes = network.network.nodes
        before = sum(node.counts["messages_out"] for node in nodes.values())
        await subscriber.subscribe([(f"t/{number}", 1) for number in range(400)])
        for node in nodes.values():
            assert len(node.machine.strategy.tables.subscriptions) >= 400
        said = sum(node.counts["messages_out"] for node in nodes.values()) - before
        assert said < 400


@on_loop
async def test_a_granted_subscription_receives_from_every_broker() -> None:
    async with (
        mqtt() as network,
        network.client("B3", "subscriber") as subscriber,
        network.client("B1", "publisher") as publisher,
    ):
        for number in range(60):
            await subscriber.subscribe(f"t/{number}", qos=1)
            await publisher.publish(f"t/{number}", b"%d" % number)
        assert await payloads(subscriber, 60) == [b"%d" % number for number in range(60)]


def where(text: str) -> Properties:
    properties = Properties(PacketTypes.SUBSCRIBE)
    properties.UserProperty = ("$where", text)
    return properties


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("group", ["", "$share/g/"])
@on_loop
async def test_a_query_before_the_topic_filter_is_read(
    version: aiomqtt.ProtocolVersion, group: str
) -> None:
    """paho-mqtt, below aiomqtt, sends no `+` or `#` beside other characters in a level."""
    async with (
        mqtt() as network,
        network.client("B3", "s", protocol=version) as subscriber,
        network.client("B1", "p", protocol=aiomqtt.ProtocolVersion.V5) as publisher,
    ):
        with pytest.raises(ValueError, match="Invalid subscription filter"):
            await subscriber.subscribe("flights/+?dep_delay>30")
        await subscriber.subscribe(f"{group}$where/dep_delay > 30&place=a%2Fb/flights/+", qos=1)
        properties = Properties(PacketTypes.PUBLISH)
        for number in range(60):
            properties.UserProperty = [("dep_delay", str(number)), ("place", "a/b")]
            await publisher.publish("flights/UA", b"%d" % number, qos=1, properties=properties)
        assert await payloads(subscriber, 29) == [b"%d" % number for number in range(31, 60)]


@on_loop
async def test_content_is_filtered_across_brokers() -> None:
    async with (
        mqtt() as network,
        network.client("B3", "s", protocol=aiomqtt.ProtocolVersion.V5) as subscriber,
        network.client("B1", "p", protocol=aiomqtt.ProtocolVersion.V5) as publisher,
    ):
        await subscriber.subscribe(
            "flights",
            options=SubscribeOptions(qos=1),
            properties=where("carrier = 'UA' AND dep_delay > 30"),
        )
        await network.knows("B1", 4)
        properties = Properties(PacketTypes.PUBLISH)
        properties.ContentType = "application/json"
        before = network.network.nodes["B2"].counts["publications_in"]
        sent = [b'{"carrier": "UA", "dep_delay": %d}' % (number % 60) for number in range(300)]
        async with asyncio.TaskGroup() as publishing:
            for payload in sent:
                publish = publisher.publish("flights", payload, qos=1, properties=properties)
                publishing.create_task(publish)
        wanted = [payload for number, payload in enumerate(sent) if number % 60 > 30]
        assert await payloads(subscriber, len(wanted)) == wanted
        # Unwanted messages do not leave their broker; messages between front ends do.
        passed = network.network.nodes["B2"].counts["publications_in"] - before
        assert len(wanted) <= passed < len(wanted) + 60


@on_loop
async def test_retained_messages_and_wills_reach_other_brokers() -> None:
    async with mqtt() as network, AsyncExitStack() as stack:
        publisher = await stack.enter_async_context(network.client("B1", "p"))
        await publisher.publish("state", b"on", qos=1, retain=True)
        store = network.front_ends["B3"].clients.retained
        await until(lambda: len(list(store.matching("state", 0))) == 1)
        subscriber = await stack.enter_async_context(network.client("B3", "s"))
        await subscriber.subscribe("#", qos=1)
        assert await payloads(subscriber, 1) == [b"on"]
        await network.knows("B2", 4)
        _, writer = await asyncio.open_connection(*network.addresses["B2"])
        writer.write(encode(Connect("dying", will=WillFields("last", b"words", qos=1)), MQTT_5))
        await until(lambda: network.front_ends["B2"].clients.statistics.connected == 1)
        writer.transport.abort()
        assert await payloads(subscriber, 1) == [b"words"]


@on_loop
async def test_garbage_on_the_mqtt_port_disturbs_no_client() -> None:
    async with (
        mqtt() as network,
        network.client("B1", "s") as subscriber,
        network.client("B1", "p") as publisher,
    ):
        await subscriber.subscribe("a")
        for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 100, b"\xff" * 100, b"\x10"):
            reader, writer = await asyncio.open_connection(*network.addresses["B1"])
            writer.write(garbage)
            writer.write_eof()
            async with asyncio.timeout(PATIENCE_S):
                await reader.read()
            writer.close()
        await publisher.publish("a", b"fine")
        assert await payloads(subscriber, 1) == [b"fine"]
        assert network.front_ends["B1"].clients.statistics.connected == 2


@on_loop
async def test_a_single_broker_serves_by_itself() -> None:
    machine = Broker("B1", (), strategy_factory("tree"))
    node = Node(machine, Clock())
    front_end = MqttFrontEnd(node, DEFAULT_LIMITS, networked=False)
    front_end.start()
    address = await front_end.listen(ANYWHERE, MqttSocket)
    async with aiomqtt.Client(address.host, address.port) as client:
        await client.subscribe("a/#", qos=2)
        await client.publish("a/b", b"x" * 500_000, qos=2)
        assert await payloads(client, 1) == [b"x" * 500_000]
    front_end.shut_down()
    node.stop()


@pytest.mark.parametrize("version", [MQTT_3_1_1, MQTT_5])
@on_loop
async def test_pings_are_answered_while_publications_wait(version: int) -> None:
    async with asyncio.timeout(PATIENCE_S), mqtt(LINE[:1]) as network:
        await network.kill("B2")  # retained messages are for it, too: nothing is settled
        front_end = network.front_ends["B1"]
        owed = DEFAULT_LIMITS.receive_maximum
        sent = [Publish("a", b"x", 1, True, packet_id=number) for number in range(1, owed + 2)]
        async with said_by(network.addresses["B1"], version) as (say, hears):
            say(Connect("c", version=version))
            assert await hears(Connack)
            say(*sent[:-1])
            (connection,) = front_end._sockets
            await until(lambda: connection.must_wait)
            say(sent[-1], Pingreq())
            assert await hears(Pingresp)
            assert connection.holds
        front_end.node.hold(True, "a test")
        async with said_by(network.addresses["B1"], version) as (say, hears):
            say(Connect("d", version=version), sent[0], Pingreq())
            assert await hears(Connack)
            assert await hears(Pingresp)
        front_end.node.hold(False, "a test")


@asynccontextmanager
async def said_by(
    address: Address, version: int
) -> AsyncIterator[tuple[Callable[..., None], Callable[[type], Awaitable[bool]]]]:
    """A client that sends packets, and waits for a packet of this kind only."""
    reader, writer = await asyncio.open_connection(*address)
    decoder, inbox = Decoder(version), list[Packet]()

    def say(*packets: Packet) -> None:
        writer.write(b"".join(encode(each, version) for each in packets))

    async def hears(kind: type) -> bool:
        while not inbox:
            inbox.extend(decoder.feed(await reader.read(1_000)))
        return isinstance(inbox.pop(0), kind)

    try:
        yield say, hears
    finally:
        writer.close()


@on_loop
async def test_a_client_that_keeps_sending_gets_the_reason_of_its_end() -> None:
    """A socket closed with unread data is reset, which may lose the last packet."""
    loop, decoder = asyncio.get_running_loop(), Decoder(MQTT_5)
    async with asyncio.timeout(PATIENCE_S), mqtt(LINE[:1]) as network:
        front_end = network.front_ends["B1"]
        with socket.create_connection(network.addresses["B1"]) as client:
            client.setblocking(False)
            await loop.sock_sendall(client, encode(Connect("c"), MQTT_5))
            (connack,) = decoder.feed(await loop.sock_recv(client, 1_000))
            assert isinstance(connack, Connack)
            ((connection, server),) = front_end._sockets.items()
            server.pause_reading()
            ping = encode(Pingreq(), MQTT_5)
            await loop.sock_sendall(client, 10 * ping)
            front_end.carry_out(
                connection.redirect("elsewhere:1883", front_end.node.clock.now_us())
            )
            front_end.node.schedule_flush()
            said = await loop.sock_recv(client, 1_000)
            for _ in range(10):
                await loop.sock_sendall(client, ping)
                await asyncio.sleep(0)
            while more := await loop.sock_recv(client, 1_000):
                said += more
        (disconnect,) = decoder.feed(said)
        assert isinstance(disconnect, Disconnect)
        assert disconnect.properties.server_reference == "elsewhere:1883"


@on_loop
async def test_a_client_that_does_not_close_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("shoal.runtime.front_ends.farewell.LINGER_S", 0.1)
    async with asyncio.timeout(PATIENCE_S), mqtt(LINE[:1]) as network:
        front_end = network.front_ends["B1"]
        reader, writer = await asyncio.open_connection(*network.addresses["B1"])
        writer.write(encode(Connect("c"), MQTT_5))
        await reader.read(1)
        front_end.shut_down()
        await reader.read()
        with pytest.raises(OSError, match=r"reset|[Bb]roken|closed|lost"):
            await write_on(writer)


async def write_on(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(encode(Pingreq(), MQTT_5))
        await writer.drain()
        await asyncio.sleep(0.01)


@on_loop
async def test_immediate_timers_are_not_delayed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers learn of a group's members at once; otherwise each would serve its own member."""
    monkeypatch.setattr(pauses, "LONG_US", 60_000_000)
    monkeypatch.setattr(pauses, "MOST_US", 2**40)
    async with (
        mqtt() as network,
        network.client("B1", "a") as one,
        network.client("B3", "b") as two,
    ):
        for member in (one, two):
            await member.subscribe("$share/g/t", qos=1)

        def members(broker: str) -> int:
            federation = network.front_ends[broker].clients.federation
            assert federation is not None
            return len(federation.sharing.membership._counts.get("$share/g/t", ()))

        await until(lambda: members("B1") == members("B3") == 2)
