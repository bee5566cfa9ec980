"""MQTT's guarantees on each system with views, while brokers swap places."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiomqtt
import pytest

from shoal.mqtt.codec.encoder import encode
from shoal.mqtt.codec.packet_types import MQTT_5
from shoal.mqtt.codec.packets import Connect, WillFields
from shoal.runtime.broker_service import BrokerService
from tests.runtime.live import on_asyncio, until
from tests.runtime.systems.test_moving import brokers, shoal

BROKERS = ["B1", "B2", "B3"]
SYSTEMS = {
    "dynatops": {},
    "bayeux": {},
    "geops": {},
    "hybrid": {"per_gateway": 2},
    "tco": {},
}


def client(service: BrokerService, name: str) -> aiomqtt.Client:
    host, _, port = str(service.listening["mqtt"]).rpartition(":")
    version = aiomqtt.ProtocolVersion.V5
    return aiomqtt.Client(host, int(port), identifier=name, protocol=version)


async def hears(who: aiomqtt.Client, heard: list[tuple[str, bytes]]) -> None:
    async for message in who.messages:
        assert isinstance(message.payload, bytes)
        heard.append((str(message.topic), message.payload))


def members(service: BrokerService) -> int:
    """The members of the shared group that the broker knows."""
    federation = service.front_end.clients.federation
    assert federation is not None
    return len(federation.sharing.membership._counts.get("$share/g/work/+", ()))


@pytest.mark.parametrize("system", SYSTEMS)
@on_asyncio
async def test_mqtt_features_work_while_brokers_swap_places(
    system: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ring = {"system": system, "links": [], system: {"brokers": BROKERS, **SYSTEMS[system]}}
    async with brokers(tmp_path, **ring) as (path, (first, second, third)):
        host, _, port = str(first.listening["mqtt"]).rpartition(":")
        reader, dying = await asyncio.open_connection(host, int(port))
        dying.write(encode(Connect("dying", will=WillFields("last/words", b"gone", qos=1)), MQTT_5))
        await reader.readexactly(4)  # it is connected
        async with (
            client(first, "publisher") as publisher,
            client(second, "all") as all_of_it,
            client(second, "worker 1") as one,
            client(third, "worker 2") as other,
            client(third, "picky") as picky,
        ):
            await publisher.publish("kept/a", b"retained", qos=1, retain=True)
            heard: dict[str, list[tuple[str, bytes]]] = {}
            who = {"all": all_of_it, "one": one, "other": other, "picky": picky}
            hearing = [
                asyncio.create_task(hears(each, heard.setdefault(name, [])))
                for name, each in who.items()
            ]
            await all_of_it.subscribe("#", qos=1)
            await one.subscribe("$share/g/work/+", qos=1)
            await other.subscribe("$share/g/work/+", qos=1)
            await picky.subscribe("work/1?x>7", qos=1)
            await until(lambda: ("kept/a", b"retained") in heard["all"])
            await until(lambda: members(second) == members(third) == 2)
            said = []
            for number in range(20):
                if number == 10 and system != "tco":
                    code, _ = await shoal(capsys, "rearrange", path, "--swap", "B1,B3")
                    assert code == 0
                payload = b'{"x": %d}' % number
                said.append((f"work/{number % 4}", payload))
                await publisher.publish(*said[-1], qos=1)
            dying.transport.abort()
            await until(lambda: ("last/words", b"gone") in heard["all"])
            await until(lambda: len(heard["one"]) + len(heard["other"]) >= 20)
            await until(lambda: len(heard["picky"]) >= 3)
            assert [each for each in heard["all"] if each[0] != "last/words"][1:] == said
            assert sorted(heard["one"] + heard["other"]) == sorted(said)
            assert heard["picky"] == [said[number] for number in (9, 13, 17)]
            for task in hearing:
                task.cancel()
