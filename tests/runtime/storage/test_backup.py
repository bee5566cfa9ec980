"""A copy of a broker's folder, made while it runs, restores it."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import aiomqtt
import pytest

from shoal.client import Client
from shoal.runtime.broker_service import BrokerService
from tests.live.crowds.moved_clients import properties
from tests.runtime.live import PATIENCE_S, on_asyncio
from tests.runtime.one_service import network, running


def stays(at: BrokerService, name: str) -> aiomqtt.Client:
    """A client whose session outlives its connection."""
    return aiomqtt.Client(
        "127.0.0.1",
        at.listening["mqtt"].port,
        identifier=name,
        protocol=aiomqtt.ProtocolVersion.V5,
        clean_start=False,
        properties=properties(follows=False),
    )


@pytest.mark.parametrize("system", ["grape", "octopia", "dynatops"])
@on_asyncio
async def test_a_copy_of_a_running_broker_restores_it(tmp_path: Path, system: str) -> None:
    changes = {"storage": {"folder": str(tmp_path / "data"), "sync": "never"}}
    if system == "dynatops":
        changes["links"] = []
    both = network(2, system=system, **changes)
    folder, copy = tmp_path / "data" / "B1", tmp_path / "copy"
    async with asyncio.timeout(2 * PATIENCE_S), running(both, "B2") as (second,):
        async with running(both, "B1") as (first,):
            here = str(first.listening["mqtt"])
            for name, at in (("here", first), ("there", second)):
                async with stays(at, name) as client:
                    await client.subscribe("t", 2)
            async with Client(here, "publisher") as publisher:
                await publisher.publish("t", b"before", qos=2)
                shutil.copytree(folder, copy)
                for number in range(10):
                    await publisher.publish("t", b"lost %d" % number, qos=2)
        shutil.rmtree(folder)
        shutil.copytree(copy, folder)
        async with running(both, "B1") as (first,):
            here = str(first.listening["mqtt"])
            async with Client(here, "publisher") as publisher:
                for number in range(3):
                    await publisher.publish("t", b"after %d" % number, qos=2)
            later = [b"after 0", b"after 1", b"after 2"]
            lost = [b"lost %d" % number for number in range(10)]
            for name, at, expected in (
                ("here", first, [b"before", *later]),
                ("there", second, [b"before", *lost, *later]),
            ):
                async with stays(at, name) as client:
                    messages = aiter(client.messages)
                    assert [(await anext(messages)).payload for _ in expected] == expected
                    assert not len(client.messages)
