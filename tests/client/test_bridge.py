"""One rule of a bridge: each message is carried once, and acknowledged after that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from types import SimpleNamespace
from typing import Any, cast

import pytest

from shoal.client import Client, ClientError, Message
from shoal.client.bridges import bridge as module
from shoal.client.bridges.bridge import CARRIED_BY, WAS_IN, BridgeShares, Lane
from shoal.client.bridges.bridge_file import BridgeRuleSection, parse_bridge
from shoal.client.bridges.identity import Identity
from shoal.client.bridges.metrics import Flow
from shoal.client.events import SessionError
from shoal.client.session import ClientSession
from shoal.client.subscription import Subscription
from shoal.language import parse
from shoal.mqtt.codec.encoder import encode
from shoal.mqtt.codec.packet_types import MQTT_5
from shoal.mqtt.codec.packets import Connack, Connect, Publish
from shoal.mqtt.codec.properties import Properties
from tests.runtime.live import PATIENCE_S, on_asyncio, until
from tests.runtime.one_service import network, running

RULE = BridgeRuleSection(topic="a/#", remove="a/", add="b/")


class Source:
    """A broker that sends messages, and records acknowledgements."""

    def __init__(self) -> None:
        self.connections = self.forgotten = 1
        self.is_connected = True
        self.acknowledged: list[int] = []
        self._coming: asyncio.Queue[Message] = asyncio.Queue()

    def acknowledge(self, message: Message) -> None:
        self.acknowledged.append(message.packet.packet_id)

    def come(self, packet_id: int, payload: bytes = b"", **given: Any) -> None:
        shares, qos = given.pop("shares", 1), given.pop("qos", 1)
        packet = Publish("a/x", payload, qos, packet_id=packet_id, **given)
        message = Message("a/x", payload, 1, False, {}, None, packet, self.connections, shares)
        self._coming.put_nowait(message)

    async def get(self) -> Message:
        return await self._coming.get()


class Target:
    """A broker that receives packets, and answers when the test wants it."""

    def __init__(self) -> None:
        self.is_connected = True
        self.taken: list[tuple[Publish, asyncio.Future[None]]] = []

    async def hand_in(self, packet: Publish) -> asyncio.Future[None]:
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.taken.append((packet, answer))
        return answer


class Carrying:
    """A running lane between the two."""

    def __init__(self, rule: BridgeRuleSection = RULE) -> None:
        self.source, self.target = Source(), Target()
        self.flow = Flow()
        ends = cast(Client, self.source), cast(Client, self.target)
        self.lane = Lane(rule, *ends, "me", self.flow)
        self.shares = BridgeShares()
        subscription = cast(Subscription, self.source)
        self.task = asyncio.create_task(self.lane.run(subscription, self.shares))

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)


def carrying(test: Callable[[Carrying], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    @wraps(test)
    def run() -> None:
        async def main() -> None:
            lane = Carrying()
            try:
                await test(lane)
            finally:
                lane.task.cancel()

        asyncio.run(main())

    del run.__wrapped__  # type: ignore[attr-defined]
    return run


@carrying
async def test_a_message_is_acknowledged_when_the_other_end_has_it(found: Carrying) -> None:
    found.source.come(1, b"m")
    await found.settle()
    ((packet, answer),) = found.target.taken
    assert (packet.topic, packet.payload, packet.qos) == ("b/x", b"m", 1)
    assert (CARRIED_BY, "me") in packet.properties.user_properties
    assert found.source.acknowledged == []
    answer.set_result(None)
    await found.settle()
    assert found.source.acknowledged == [1]


@carrying
async def test_a_retransmission_is_acknowledged_and_not_carried_again(found: Carrying) -> None:
    found.source.come(1)
    await found.settle()
    found.source.connections = 2
    found.source.come(1, duplicate=True)
    await found.settle()
    assert len(found.target.taken) == 1
    found.target.taken[0][1].set_result(None)
    await found.settle()
    assert found.source.acknowledged == [1]


@pytest.mark.parametrize("is_known", [True, False])
def test_a_retransmission_after_the_acknowledgement_is_answered(is_known: bool) -> None:
    async def main() -> None:
        found = Carrying()
        found.source.come(1)
        await found.settle()
        found.source.is_connected = False
        found.target.taken[0][1].set_result(None)
        await found.settle()
        assert found.source.acknowledged == []
        found.source.is_connected = True
        found.source.connections = 2
        found.source.forgotten += not is_known
        found.source.come(1, duplicate=True)
        await found.settle()
        # A restarted broker may use the identifier for another message.
        assert len(found.target.taken) == (1 if is_known else 2)
        assert found.source.acknowledged == ([1] if is_known else [])
        found.task.cancel()

    asyncio.run(main())


@carrying
async def test_final_refusals_are_dropped_and_others_retried(
    found: Carrying,
) -> None:
    module.RETRY_S, before = 0.0, module.RETRY_S
    try:
        found.source.come(1)
        found.source.come(2)
        await found.settle()
        found.target.taken[0][1].set_exception(ClientError("not authorized: no"))
        found.target.taken[1][1].set_exception(ClientError("quota exceeded: full"))
        await found.settle()
        await asyncio.sleep(0.01)
        assert found.source.acknowledged == [1]
        assert found.flow.left == {"refused: not authorized: no": 1}
        assert (found.flow.carried, found.flow.under_way) == (0, 1)
        assert len(found.target.taken) == 3
        found.target.taken[2][1].set_result(None)
        await found.settle()
        assert found.source.acknowledged == [1, 2]
        assert (found.flow.carried, found.flow.under_way) == (1, 0)
    finally:
        module.RETRY_S = before


@carrying
async def test_filtered_and_circulating_messages_are_acknowledged(found: Carrying) -> None:
    found.lane.judged = parse("x > 1")
    found.source.come(1, b'{"x": 1}')
    found.source.come(2, properties=Properties(user_properties=((CARRIED_BY, "me"),)))
    found.source.come(3, b'{"x": 2}')
    await found.settle()
    assert found.source.acknowledged == [1, 2]
    assert [packet.payload for packet, _ in found.target.taken] == [b'{"x": 2}']


def test_no_message_is_carried_back_into_its_network(
    caplog: pytest.LogCaptureFixture,
) -> None:
    carrying(_into_a_network_where_it_has_been)()
    (row,) = (vars(record) for record in caplog.records)
    assert (row["others"], row["topic"]) == ("another", "a/#")


async def _into_a_network_where_it_has_been(found: Carrying) -> None:
    here, there = (cast(Identity, SimpleNamespace(value=value)) for value in ("x", "y"))
    found.lane.identities = here, there
    been = (("other", "y"), (WAS_IN, "y"), (CARRIED_BY, "another"))
    for packet_id in (1, 3):  # and the log says it once
        found.source.come(packet_id, properties=Properties(user_properties=been))
    found.source.come(2, b"m", properties=Properties(user_properties=((WAS_IN, "z"),)))
    await found.settle()
    assert found.source.acknowledged == [1, 3]
    assert found.flow.left == {"was here before": 2}
    ((packet, _),) = found.target.taken
    stamps = ((WAS_IN, "z"), (CARRIED_BY, "me"), (WAS_IN, "x"))
    assert packet.properties.user_properties == stamps


@carrying
async def test_qos_0_losses_are_counted(found: Carrying) -> None:
    found.target.is_connected = False
    found.source.come(0, qos=0)
    await found.settle()
    assert found.flow.left == {"the other end is away": 1}
    assert (found.flow.carried, found.target.taken) == (0, [])


@carrying
async def test_a_message_of_two_rules_is_acknowledged_after_both(
    found: Carrying,
) -> None:
    ends = cast(Client, found.source), cast(Client, found.target)
    other = Lane(RULE, *ends, "me", found.flow)
    found.source.come(1, shares=2)
    await found.settle()
    found.target.taken[0][1].set_result(None)
    await found.settle()
    assert found.source.acknowledged == []
    found.source.come(1, shares=2)
    other_task = asyncio.create_task(other.run(cast(Subscription, found.source), found.shares))
    found.task.cancel()
    await found.settle()
    found.target.taken[-1][1].set_result(None)
    await found.settle()
    other_task.cancel()
    assert found.source.acknowledged == [1]


HOSTILE = (
    b"\xff" * 10_000,
    encode(Connack(), MQTT_5) + b"\x30\xff\xff\xff\x7f" + b"x" * 100_000,
    encode(Connack(), MQTT_5) + encode(Publish("a" * 60_000, b"", 1, packet_id=1), MQTT_5)[:-5],
    b"",
)


@on_asyncio
async def test_malformed_packets_end_only_their_connection() -> None:
    said = list(HOSTILE)
    async with (
        asyncio.timeout(2 * PATIENCE_S),
        running(network(), "B1") as (here,),
        running(network(), "B1") as (there,),
    ):
        address = there.listening["mqtt"]

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if said:
                await reader.read(100)
                writer.write(said.pop(0))
                writer.write_eof()
                return
            up, down = await asyncio.open_connection(*address)
            await asyncio.gather(carry(reader, down), carry(up, writer), return_exceptions=True)

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        data = {
            "name": "b",
            "here": {"address": str(here.listening["mqtt"])},
            "there": {"address": f"127.0.0.1:{port}"},
            "out": [{"topic": "a/#"}],
        }
        bridge = asyncio.create_task(module.run_bridge(parse_bridge(data, "bridge.toml")))
        async with (
            Client(str(here.listening["mqtt"])) as writer,
            Client(str(address)) as reader,
            reader.subscribe("a/#") as subscription,
        ):
            # The rule's, and that to the network's identity.
            await until(lambda: here.front_end.clients.subscriptions.count == 2)
            await writer.publish("a/x", b"m")
            assert (await subscription.get()).payload == b"m"
        assert not said
        bridge.cancel()
        await asyncio.gather(bridge, return_exceptions=True)
        server.close()


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(10_000):
        writer.write(data)
    writer.close()


def test_a_too_long_packet_ends_the_connection_by_its_header() -> None:
    session = ClientSession(Connect("c"), is_held=True, maximum_packet_size=1_000)
    session.opened()
    session.receive(encode(Connack(), MQTT_5))
    with pytest.raises(SessionError, match="breaks the protocol"):
        session.receive(b"\x30\xff\xff\xff\x7f")
