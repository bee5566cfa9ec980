"""The first publication of an advertising client reaches every subscriber.

Its broker must not settle it before the subscriptions are known.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from shoal.mqtt.codec.encoder import encode
from shoal.mqtt.codec.packet_types import MQTT_5
from shoal.mqtt.codec.packets import Connect, Publish
from shoal.mqtt.codec.properties import Properties
from shoal.overlays.registry import SYSTEMS
from tests.runtime.front_ends.test_mqtt_front_end import MqttNetwork, payloads
from tests.runtime.live import live, on_loop
from tests.systems import eager

NAMES = ("B1", "B2", "B3", "B4")
LINE = (("B1", "B2"), ("B2", "B3"), ("B3", "B4"))


@pytest.mark.parametrize("system", ["tree", "octopia", "tid"])
@on_loop
async def test_the_first_publication_of_an_advertisement_reaches_subscribers(system: str) -> None:
    parameters = eager(system, 3, NAMES)
    make = SYSTEMS[system].make_links
    links = LINE if make is None or system == "tid" else tuple(make(parameters, NAMES))
    promise = Properties(user_properties=(("$advertise", "`$topic` = 'flights'"),))
    said = (
        Connect("writer", properties=promise),
        Publish("flights", b"late", 1, packet_id=1),
    )
    async with (
        live(links, system=system, parameters=parameters, brokers=NAMES) as network,
        AsyncExitStack() as stack,
    ):
        found = MqttNetwork(network)
        for name in NAMES:
            await found.open(name)
            stack.callback(found.publishers[name].stop)
            stack.callback(found.front_ends[name].shut_down)
        await found.met()
        readers = []
        for name in NAMES:
            readers.append(await stack.enter_async_context(found.client(name, f"reader at {name}")))
            await readers[-1].subscribe("flights", qos=1)
        _, writer = await asyncio.open_connection(*found.addresses["B1"])
        writer.write(b"".join(encode(each, MQTT_5) for each in said))
        for reader in readers:
            assert await payloads(reader, 1) == [b"late"]
        writer.close()
