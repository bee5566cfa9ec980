"""Clients that wait for their CONNACK: a hang-up is noticed, and early packets are not lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from shoal.broker.machine import Broker
from shoal.mqtt.codec.decoder import Decoder
from shoal.mqtt.codec.encoder import encode
from shoal.mqtt.codec.packet_types import MQTT_5
from shoal.mqtt.codec.packets import (
    Connack,
    Connect,
    Disconnect,
    Packet,
    Suback,
    Subscribe,
    SubscriptionRequest,
)
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.limits import DEFAULT_LIMITS
from shoal.overlays.registry import strategy_factory
from shoal.runtime.driving.timing.clock import Clock
from shoal.runtime.front_ends.mqtt_front_end import MqttFrontEnd
from shoal.runtime.front_ends.sockets.mqtt_socket import MqttSocket
from shoal.runtime.node import Node
from tests.runtime.live import ANYWHERE, on_loop, until

CONNECT = Connect("c", clean_start=False, properties=Properties(session_expiry_interval_s=1_000))
SUBSCRIBE = Subscribe(1, (SubscriptionRequest("a"),))


@asynccontextmanager
async def waiting_client(
    *packets: Packet,
) -> AsyncIterator[tuple[MqttFrontEnd, asyncio.StreamReader, asyncio.StreamWriter]]:
    """A client that has sent CONNECT and these packets, and waits for the sessions of B2."""
    node = Node(Broker("B1", (), strategy_factory("tree")), Clock())
    front_end = MqttFrontEnd(node, DEFAULT_LIMITS)
    assert front_end.clients.federation is not None
    starting = front_end.clients.federation.session_transfer.starting
    starting.others = lambda: ["B2"]
    front_end.start()
    reader, writer = await asyncio.open_connection(*await front_end.listen(ANYWHERE, MqttSocket))
    writer.write(b"".join(encode(packet, MQTT_5) for packet in (CONNECT, *packets)))
    await until(lambda: "c" in starting._waiting)
    yield front_end, reader, writer
    front_end.shut_down()
    node.stop()


@pytest.mark.parametrize("early", [[], [Disconnect()]], ids=["without a word", "politely"])
@on_loop
async def test_a_client_that_hangs_up_while_it_waits_is_not_admitted(early: list[Packet]) -> None:
    """Many clients send a DISCONNECT first."""
    async with waiting_client() as (front_end, _, writer):
        (connection,) = front_end._sockets
        writer.write(b"".join(encode(packet, MQTT_5) for packet in early))
        writer.close()
        await until(lambda: connection.is_closed or "c" in front_end.clients.sessions)
        assert "c" not in front_end.clients.sessions


@on_loop
async def test_a_client_that_disconnects_while_it_waits_may_send_nothing_more() -> None:
    async with waiting_client(Disconnect()) as (front_end, _, writer):
        (connection,) = front_end._sockets
        assert connection.wants_reading
        writer.write(encode(SUBSCRIBE, MQTT_5))
        await until(lambda: not connection.wants_reading)


@on_loop
async def test_packets_behind_a_connect_that_waits_are_handled_later() -> None:
    async with waiting_client(SUBSCRIBE) as (front_end, reader, writer):
        (connection,) = front_end._sockets
        await until(lambda: not connection.wants_reading)
        assert front_end.clients.federation is not None
        writer.write(encode(SUBSCRIBE, MQTT_5))
        writer.write_eof()
        now_us = front_end.node.clock.now_us()
        front_end.clients.federation.session_transfer.starting.left("B2", now_us)
        front_end.node.schedule_flush()
        decoder, answers = Decoder(MQTT_5), list[Packet]()
        while data := await reader.read(1_000):
            answers += decoder.feed(data)
        assert [type(each) for each in answers] == [Connack, Suback, Suback]
