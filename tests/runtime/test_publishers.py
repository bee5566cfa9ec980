"""Ordinary MQTT clients whose publishers are moved while they publish: their door stays theirs."""

from __future__ import annotations

import asyncio

import aiomqtt
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from shoal.broker.records import MigrationRecord
from tests.runtime.live import on_loop, until
from tests.runtime.test_clients import LINE, MOVING
from tests.runtime.test_mqtt_door import MqttNetwork, mqtt, payloads
from tests.systems import eager

V5 = aiomqtt.ProtocolVersion.V5


def advertising(*filters: str) -> Properties:
    properties = Properties(PacketTypes.CONNECT)
    properties.UserProperty = [("$advertise", text) for text in filters]
    return properties


def publisher(network: MqttNetwork, broker: str) -> aiomqtt.Client:
    promise = advertising("`$topic` = 'flights'")
    return network.client(broker, "publisher", protocol=V5, properties=promise)


async def told(network: MqttNetwork, broker: str, subscriptions: int) -> None:
    """The broker has heard of so many subscriptions by way of an advertisement of the client."""
    tables = network.network.nodes[broker].machine.tables
    await until(lambda: len(tables.subscriptions) == subscriptions)


@pytest.mark.parametrize("system", MOVING)
@pytest.mark.parametrize("qos", [0, 1])
@on_loop
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
