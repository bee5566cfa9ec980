"""Publishers of ordinary MQTT clients move while they publish; the clients keep their front end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager

import aiomqtt
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from shoal.broker.effects import Effect, Input
from shoal.broker.links.controls import CONTROLS, Hello, Purpose, RefuseConnection
from shoal.broker.links.outbox import LinkLimits
from shoal.broker.links.protocol import PROTOCOL
from shoal.broker.messages import Advertise, Message, Ping, Pong
from shoal.broker.wire import Codec, FrameReader
from shoal.clients.forwarding_channel import ForwardingChannelLimits
from shoal.clients.messages import MigrationAdvertisement, Relocate
from shoal.clients.records import MigrationRecord
from shoal.language import parse
from shoal.model import Advertisement, MessageId
from shoal.runtime.driving import cost_estimator
from tests.examples import at_length
from tests.runtime.front_ends.test_clients import LINE, MOVING
from tests.runtime.front_ends.test_mqtt_front_end import MqttNetwork, mqtt, payloads
from tests.runtime.live import PATIENCE_S, live, on_asyncio, on_loop, until
from tests.systems import calm, eager

STAR = (("B1", "B2"), ("B2", "B3"), ("B2", "B4"))
V5 = aiomqtt.ProtocolVersion.V5


def advertising(*filters: str) -> Properties:
    properties = Properties(PacketTypes.CONNECT)
    properties.UserProperty = [("$advertise", text) for text in filters]
    return properties


def publisher(network: MqttNetwork, broker: str) -> aiomqtt.Client:
    promise = advertising("`$topic` = 'flights'")
    return network.client(broker, "publisher", protocol=V5, properties=promise)


async def told(network: MqttNetwork, broker: str, subscriptions: int) -> None:
    """The broker knows so many subscriptions because of an advertisement of the client."""
    tables = network.network.nodes[broker].machine.strategy.tables
    await until(lambda: len(tables.subscriptions) == subscriptions)


@pytest.mark.parametrize(
    ("qos", "system"), [(0, "pop"), (1, "grape"), *at_length([(1, "pop"), (0, "grape")])]
)
@on_asyncio
async def test_a_publisher_moves_while_its_client_stays(system: str, qos: int) -> None:
    async with (
        mqtt(LINE, system=system, parameters=eager(system, 20)) as network,
        network.client("B4", "first", protocol=V5) as first,
        network.client("B4", "second", protocol=V5) as second,
        publisher(network, "B1") as writer,
    ):
        for reader in (first, second):
            await reader.subscribe("flights", qos=1)
        await told(network, "B1", 5)
        publishers = network.publishers["B1"].publishers
        sent = 0
        while not any(each.moved for each in publishers):
            assert sent < 20_000
            await writer.publish("flights", b"%d" % sent, qos=qos)
            sent += 1
            await asyncio.sleep(0)
        for _ in range(200):
            await writer.publish("flights", b"%d" % sent, qos=qos)
            sent += 1
        for reader in (first, second):
            assert await payloads(reader, sent) == [b"%d" % number for number in range(sent)]
        moves = [each for each in network.network.records if isinstance(each, MigrationRecord)]
        assert moves[0].publisher == "publisher"
        assert moves[0].source == "B1"


async def publish(writer: aiomqtt.Client, numbers: Iterable[int]) -> None:
    for number in numbers:
        await writer.publish("flights", b"%d" % number, qos=1)


async def arrived(reader: aiomqtt.Client, sent: int) -> None:
    """Everything has arrived once and in order, and nothing follows."""
    assert await payloads(reader, sent) == [b"%d" % number for number in range(sent)]


async def moved_to(network: MqttNetwork, broker: str, writer: aiomqtt.Client) -> int:
    """Publish until the publisher has moved there; return the number of publications."""
    (machine,) = network.publishers["B1"].publishers
    sent = 0
    while machine.broker != broker or machine.moving:
        assert sent < 20_000
        await publish(writer, [sent])
        sent += 1
    return sent


# Requests for a dead broker do not wait long.
IMPATIENT = LinkLimits(give_up_us=1_000_000)
SHORT = ForwardingChannelLimits(lost_us=100_000, stranded_us=800_000, idle_us=500_000)


@asynccontextmanager
async def star(system: str) -> AsyncIterator[tuple[MqttNetwork, aiomqtt.Client, aiomqtt.Client]]:
    """A publisher and a subscriber at B1, others around B2, without moves of their own."""
    limits = {"forwarding_channel_limits": SHORT, "limits": IMPATIENT}
    options = {"system": system, "parameters": calm(system), **limits}
    async with (
        mqtt(STAR, **options) as network,
        network.client("B1", "near", protocol=V5) as near,
        network.client("B3", "third", protocol=V5) as third,
        publisher(network, "B1") as writer,
    ):
        for reader in (near, third):
            await reader.subscribe("flights", qos=1)
        await told(network, "B1", 6)
        yield network, near, writer


def send_away(network: MqttNetwork, *path: str) -> None:
    """Move the publisher, as its broker's decision would."""
    network.publishers["B1"].noticed(path[0], "publisher", Relocate(path))


@pytest.mark.parametrize("system", MOVING)
@on_asyncio
async def test_a_target_killed_during_a_move_loses_nothing(system: str) -> None:
    async with star(system) as (network, near, writer):
        asked = asyncio.Event()
        node = network.network.nodes["B2"]

        def ask(client: str, wanted: Message, *_: object, **__: object) -> None:
            if isinstance(wanted, MigrationAdvertisement):
                asked.set()  # it dies before it has read this

        node.request = ask  # type: ignore[method-assign]
        await publish(writer, range(50))
        send_away(network, "B1", "B2")
        publishing = asyncio.create_task(publish(writer, range(50, 150)))
        await asked.wait()
        await network.kill("B2")
        (machine,) = network.publishers["B1"].publishers
        assert machine.moving
        await publishing  # held requests are acknowledged once they have been sent
        await until(lambda: not machine.moving)
        assert machine.broker == "B1"
        await publish(writer, range(150, 200))
        await arrived(near, 200)


@pytest.mark.parametrize(
    ("comes_back", "system"),
    [(True, "grape"), (False, "pop"), *at_length([(True, "pop"), (False, "grape")])],
)
@on_asyncio
async def test_a_publisher_whose_broker_dies_loses_nothing(system: str, comes_back: bool) -> None:
    async with star(system) as (network, near, writer):
        await publish(writer, range(50))
        send_away(network, "B1", "B2")
        (machine,) = network.publishers["B1"].publishers
        await until(lambda: machine.broker == "B2" and not machine.moving)
        publishing = asyncio.create_task(publish(writer, range(50, 350)))
        await asyncio.sleep(0.02)
        await network.kill("B2")
        await publishing
        if comes_back:
            await network.network.start("B2")
            await network.open("B2")
        await until(lambda: machine.broker == "B1")
        await publish(writer, range(350, 450))
        await arrived(near, 450)


@on_asyncio
async def test_forwarding_channels_that_break_lose_nothing_and_end_with_their_clients() -> None:
    async with (
        mqtt(
            LINE[:2], system="pop", parameters=eager("pop"), forwarding_channel_limits=SHORT
        ) as network,
        network.client("B3", "reader", protocol=V5) as reader,
    ):
        forwarding_channels = network.network.forwarding_channels["B1"]
        async with publisher(network, "B1") as writer:
            await reader.subscribe("flights", qos=1)
            await told(network, "B1", 4)
            sent = await moved_to(network, "B3", writer)
            for _ in range(5):
                publishing = asyncio.create_task(publish(writer, range(sent, sent + 100)))
                await asyncio.sleep(0.01)
                for connection in list(forwarding_channels._by_connection):
                    connection.abort()
                await publishing
                sent += 100
            await arrived(reader, sent)
            assert [row["broker"] for row in forwarding_channels.status()] == ["B3"]
            assert promises(network, "B3")
        # With the client its publisher ends, wherever it was, and then the forwarding channel.
        await until(lambda: not promises(network, "B3"))
        await until(lambda: not forwarding_channels.status())
        assert network.publishers["B1"].status() == []


@on_loop
async def test_many_requests_of_a_front_end_are_handled_in_slices() -> None:
    """The requests of one read must not be handled in one go."""
    each_s, count, most, handled = 0.004, 60, 0, 0
    async with live((("B1", "B2"),)) as network:
        machine = network.nodes["B2"].machine
        handle = machine.handle

        def handle_slowly(input: Input, now_us: int) -> list[Effect]:
            nonlocal handled
            handled += 1
            time.sleep(each_s)
            return handle(input, now_us)

        def ask(number: int) -> None:
            promise = Advertisement(id=f"a{number}", publisher="c", filter=parse(f"x = {number}"))
            network.forwarding_channels["B1"].ask("B2", "c", Advertise(promise))

        ask(0)
        await until(lambda: len(machine.strategy.tables.advertisements) == 1)
        machine.handle = handle_slowly
        for number in range(1, count):
            ask(number)
        while len(machine.strategy.tables.advertisements) < count:
            before = handled
            await asyncio.sleep(0)
            most = max(most, handled - before)
        # In two slices, since more input may be read while the rest waits.
        assert 0 < most <= 2 * (cost_estimator.TURN_US / 1e6 / each_s + 1)
        assert list(machine.strategy.tables.advertisements) == [f"a{n}" for n in range(count)]


@on_asyncio
async def test_a_dead_front_ends_publishers_end() -> None:
    limits = LinkLimits(give_up_us=200_000)
    async with (
        mqtt(LINE[:2], system="pop", parameters=eager("pop"), limits=limits) as network,
        network.client("B3", "reader", protocol=V5) as reader,
        AsyncExitStack() as stack,
    ):
        writer = await stack.enter_async_context(publisher(network, "B1"))
        await reader.subscribe("flights", qos=1)
        await told(network, "B1", 4)
        sent = await moved_to(network, "B3", writer)
        await arrived(reader, sent)
        await network.kill("B1")
        await until(lambda: not promises(network, "B3"))
        stack.push(lambda kind, *_: kind is not None and issubclass(kind, aiomqtt.MqttError))


def promises(network: MqttNetwork, broker: str) -> list[str]:
    """The publisher's advertisements that the broker knows."""
    known = network.network.nodes[broker].machine.strategy.tables.advertisements.values()
    return [row.advertisement.id for row in known if row.advertisement.publisher == "publisher"]


@pytest.mark.parametrize(
    ("hello", "reason"),
    [
        (
            Hello(PROTOCOL, "net", "B2", (1, 1), None, 0, Purpose.FORWARDING_CHANNEL),
            "this is network 'test', not 'net'",
        ),
        (
            Hello(PROTOCOL, "test", "B1", (1, 1), None, 0, Purpose.FORWARDING_CHANNEL),
            "B1 has no link to broker 'B1'",
        ),
        (
            Hello(PROTOCOL, "test", "B9", (1, 1), None, 0, Purpose.FORWARDING_CHANNEL),
            "takes no forwarding channels from broker",
        ),
    ],
)
@on_asyncio
async def test_forwarding_channels_of_unknown_brokers_are_refused(
    hello: Hello, reason: str
) -> None:
    async with live(LINE[:1]) as network:
        codec = Codec(CONTROLS)
        stream, writer = await asyncio.open_connection(*network.addresses["B1"])
        writer.write(codec.encode(hello))
        async with asyncio.timeout(PATIENCE_S):
            said = await stream.read()
        (body,) = FrameReader().feed(said)
        refusal = codec.decode(body)
        assert isinstance(refusal, RefuseConnection)
        assert reason in refusal.reason
        writer.close()


@on_asyncio
async def test_each_front_end_of_a_moving_client_may_measure_delays() -> None:
    async with live(LINE) as network:
        session = MessageId("B1", "publisher", 1)
        for front_end in ("B1", "B2", "B1"):
            owner = Listening()
            network.forwarding_channels[front_end].owner = owner
            network.forwarding_channels[front_end].ask("B3", "publisher", Ping(session))
            await until(lambda owner=owner: bool(owner.heard))  # type: ignore[misc]
            assert owner.heard == [("B3", "publisher", Pong(session))]
        # The question alone makes no client of the broker.
        assert network.nodes["B3"].client_count == 0


class Listening:
    """Records the messages of distant brokers to a front end."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str, Message]] = []

    def noticed(self, broker: str, client: str, message: Message) -> None:
        self.heard.append((broker, client, message))

    def happened(self, event: object) -> None: ...

    def found(self, broker: str) -> None: ...

    def filled(self, broker: str, full: bool) -> None: ...

    def uses(self, broker: str) -> bool:
        return False
