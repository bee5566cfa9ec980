"""The will of an old connection precedes its client's publications at another broker."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import aiomqtt
import pytest

from tests.examples import at_length
from tests.runtime.live import PATIENCE_S
from tests.runtime.processes import Processes, processes, wait_until

ROUNDS = 12


def client(network: Processes, broker: str, **options: object) -> aiomqtt.Client:
    where = network.network.broker(broker).address("mqtt")
    assert where is not None
    return aiomqtt.Client(where.host, where.port, **options)  # type: ignore[arg-type]


async def words(reader: aiomqtt.Client, count: int) -> list[bytes]:
    async with asyncio.timeout(PATIENCE_S):
        return [bytes((await anext(reader.messages)).payload) for _ in range(count)]


@pytest.mark.parametrize(
    "version", [aiomqtt.ProtocolVersion.V5, *at_length([aiomqtt.ProtocolVersion.V311])]
)
@pytest.mark.parametrize("system", ["dynatops", *at_length(["tree"])])
def test_a_device_back_at_another_broker_ends_as_online(
    tmp_path: Path, system: str, version: aiomqtt.ProtocolVersion
) -> None:
    with processes(tmp_path, 3, system=system) as network:
        wait_until(lambda: all(network.is_ready(broker) for broker in network.running))

        async def rounds() -> None:
            for number in range(ROUNDS):
                topic, name = f"state/{number}", f"device-{number}"
                will = aiomqtt.Will(topic, b"offline", 1, retain=True)
                options = {"identifier": name, "will": will, "protocol": version}
                async with AsyncExitStack() as stack:
                    readers = []
                    for broker in ("B1", "B2", "B3"):
                        reader = await stack.enter_async_context(client(network, broker))
                        await reader.subscribe(topic, qos=1)
                        readers.append(reader)
                    old = client(network, "B1", **options)
                    await old.__aenter__()
                    # The takeover by another connection is intended here.
                    old._disconnected.add_done_callback(asyncio.Future.exception)
                    await old.publish(topic, b"online", 1, retain=True)
                    new = await stack.enter_async_context(client(network, "B3", **options))
                    await new.publish(topic, b"online", 1, retain=True)
                    for reader in readers:
                        assert await words(reader, 3) == [b"online", b"offline", b"online"]
                    late = await stack.enter_async_context(client(network, "B2"))
                    await late.subscribe(topic, qos=1)
                    assert await words(late, 1) == [b"online"]
                    with suppress(aiomqtt.MqttError):
                        await old.__aexit__(None, None, None)

        asyncio.run(rounds())
