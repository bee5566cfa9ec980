"""A live client above its rate is read more slowly, and stays connected."""

from __future__ import annotations

import asyncio

import aiomqtt

from tests.runtime.live import PATIENCE_S, on_loop
from tests.runtime.one_service import network, running


@on_loop
async def test_paho_above_its_rate_is_slowed_down_and_loses_nothing() -> None:
    limits = {"maximum_messages_per_s": 100}
    async with running(network(limits=limits), "B1") as (service,):
        where = service.listening["mqtt"]
        async with (
            asyncio.timeout(PATIENCE_S),
            aiomqtt.Client(where.host, where.port, identifier="reader") as reader,
            aiomqtt.Client(where.host, where.port, identifier="fast") as fast,
            aiomqtt.Client(where.host, where.port, identifier="other") as other,
        ):
            await reader.subscribe("#", qos=1)
            for number in range(200):
                await fast.publish("fast", b"%d" % number, qos=0)
            await other.publish("other", qos=1)
            await fast.publish("fast", b"end", qos=1)
            found = []
            async for message in reader.messages:
                found.append(message.payload)
                if len(found) == 202:
                    break
        expected = [*(b"%d" % number for number in range(200)), b"end"]
        assert [each for each in found if each] == expected
        assert found[-1] == b"end"
        figures = service.figures()["mqtt"]
        assert figures["slowed"] > 0
        assert figures["refused"] == 0
