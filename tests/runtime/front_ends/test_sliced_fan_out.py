"""A message for many clients of a live broker is handed out in time slices."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial

import aiomqtt
import pytest

from shoal.broker.machine import Broker
from shoal.mqtt.limits import DEFAULT_LIMITS
from shoal.overlays.registry import strategy_factory
from shoal.runtime.driving.timing.clock import Clock
from shoal.runtime.front_ends.mqtt_front_end import MqttFrontEnd
from shoal.runtime.front_ends.sockets.mqtt_socket import MqttSocket
from shoal.runtime.node import Node
from tests.runtime.front_ends.test_mqtt_front_end import mqtt, payloads
from tests.runtime.live import ANYWHERE, PATIENCE_S, on_loop

CLIENTS = 8
MESSAGES = 5
EXPECTED = [b"%d" % number for number in range(MESSAGES)]


class Slices:
    """The slices of a front end's fan-outs, and whether a publication was settled in between."""

    def __init__(
        self, front_end: MqttFrontEnd, node: Node, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.count = 0
        self.settled_in_between = 0
        spreading, settling = front_end.clients.spreading, node._settling
        spreading.most = 1
        run_slice, look = spreading.run_slice, settling.look

        def counted(now_us: int) -> None:
            self.count += 1
            run_slice(now_us)

        def looked() -> None:
            waiting = len(settling._waiting)
            look()
            if spreading.is_on:
                self.settled_in_between += waiting - len(settling._waiting)

        monkeypatch.setattr(spreading, "run_slice", counted)
        for number, (phase, call) in enumerate(node._flushing._calls):
            if call == look:
                node._flushing._calls[number] = (phase, looked)


async def subscribers(
    client: Callable[[str], aiomqtt.Client], stack: AsyncExitStack, qos: int
) -> list[aiomqtt.Client]:
    clients = [await stack.enter_async_context(client(f"c{number}")) for number in range(CLIENTS)]
    for each in clients:
        await each.subscribe("a", qos=qos)
    return clients


@pytest.mark.parametrize("qos", [0, 1, 2])
@on_loop
async def test_all_receive_in_order_and_the_publisher_is_answered_last(
    qos: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Published at the same broker and at another one, at once."""
    async with mqtt() as network, AsyncExitStack() as stack:
        clients = await subscribers(partial(network.client, "B2"), stack, qos)
        turns = Slices(network.front_ends["B2"], network.network.nodes["B2"], monkeypatch)
        publishers = [
            await stack.enter_async_context(network.client(broker, f"p{broker}"))
            for broker in ("B1", "B2")
        ]
        async with asyncio.timeout(PATIENCE_S):
            for each in EXPECTED:
                await asyncio.gather(*(one.publish("a", each, qos=qos) for one in publishers))
        for client in clients:
            found = await payloads(client, 2 * MESSAGES)
            # The two may interleave in any way.
            assert sorted(found) == sorted(2 * EXPECTED)
            assert [each for number, each in enumerate(found) if each not in found[:number]] == (
                EXPECTED
            )
        if qos:
            assert turns.count >= 2 * MESSAGES * CLIENTS
        assert turns.count
        assert not turns.settled_in_between


@on_loop
async def test_a_single_broker_answers_after_the_last_delivery(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The publisher is not answered before all have it."""
    node = Node(Broker("B1", (), strategy_factory("tree")), Clock())
    front_end = MqttFrontEnd(node, DEFAULT_LIMITS, networked=False)
    front_end.start()
    where = await front_end.listen(ANYWHERE, MqttSocket)

    def client(name: str) -> aiomqtt.Client:
        return aiomqtt.Client(where.host, where.port, identifier=name)

    async with AsyncExitStack() as stack:
        clients = await subscribers(client, stack, 1)
        turns = Slices(front_end, node, monkeypatch)
        publisher = await stack.enter_async_context(client("p"))
        for number, each in enumerate(EXPECTED, 1):
            await publisher.publish("a", each, qos=1)
            assert turns.count >= number * CLIENTS
            assert not front_end.clients.spreading.is_on
        for one in clients:
            assert await payloads(one, MESSAGES) == EXPECTED
    front_end.shut_down()
    node.stop()
