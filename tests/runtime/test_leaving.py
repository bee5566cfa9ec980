"""Live brokers that join and leave, within one process."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from pathlib import Path

import msgspec
import pytest

from shoal.client import Client
from shoal.runtime.addresses import Address, read_address
from shoal.runtime.broker_service import BrokerService
from shoal.runtime.links.joining import Join
from shoal.runtime.network_file import BrokerSection, Network
from shoal.runtime.supervisor import ask_to_leave, free_ports
from tests.runtime.live import PATIENCE_S, on_asyncio, until
from tests.runtime.test_broker_service import network as network_of
from tests.runtime.test_broker_service import running


def with_new(network: Network, name: str) -> Network:
    """The network as a new broker has it: its own listeners beside those of the file."""
    (port,) = free_ports("127.0.0.1", 1)
    anywhere = "127.0.0.1:0"
    section = BrokerSection(
        name=name, peers=f"127.0.0.1:{port}", mqtt=anywhere, websocket=anywhere, admin=anywhere
    )
    return msgspec.structs.replace(network, brokers=(*network.brokers, section))


def post(address: Address) -> int:
    request = urllib.request.Request(f"http://{address}/leave", b"", method="POST")
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as found:
            code: int = found.status
    except urllib.error.HTTPError as error:
        code = error.code
    return code


@on_asyncio
async def test_a_broker_joins_and_leaves_and_may_come_again(tmp_path: Path) -> None:
    network = network_of(2, storage={"folder": str(tmp_path), "sync": "never"})
    there = read_address(network.broker("B2").peers)
    async with asyncio.timeout(2 * PATIENCE_S), running(network, "B1", "B2") as (one, two):
        await until(lambda: not (one.missing() or two.missing()))
        for _ in range(2):
            new = BrokerService(with_new(network, "B9"), "B9", Join("B2", there))
            left = asyncio.Event()
            new.at_left = left.set
            await new.start()
            assert new.links.neighbours == ["B2"]
            await until(lambda: "B9" in [row["broker"] for row in one.status()["brokers"]])
            async with (
                Client(str(one.listening["mqtt"])) as here,
                Client(str(new.listening["mqtt"])) as at_new,
                at_new.subscribe("a", qos=1) as subscription,
            ):
                await here.publish("a", b"x", qos=1)
                assert (await subscription.get()).payload == b"x"
            assert await ask_to_leave(new.listening["admin"]) == ""
            await left.wait()
            assert new.leaving.stage == "left"
            await new.stop()
            await until(lambda: two.links.neighbours == ["B1"])
            await until(lambda: "B9" not in [row["broker"] for row in one.status()["brokers"]])
            assert not (tmp_path / "B9" / "overlay.json").exists()


@on_asyncio
async def test_who_cannot_leave_says_why_and_nobody_is_asked_by_a_web_page() -> None:
    async with running(network_of(1), "B1") as (alone,):
        problem = await ask_to_leave(alone.listening["admin"])
        assert problem == "it has no links, and is all there is of its network"
        assert await asyncio.to_thread(post, alone.listening["admin"]) == 403
        assert alone.leaving.stage == ""


@on_asyncio
async def test_a_broker_that_is_alone_in_its_file_takes_nobody_in(
    caplog: pytest.LogCaptureFixture,
) -> None:
    network = network_of(1)
    there = read_address(network.broker("B1").peers)
    async with running(network, "B1") as (alone,):
        new = BrokerService(with_new(network, "B9"), "B9", Join("B1", there))
        starting = asyncio.create_task(new.start())
        reason = "B1 is alone in its network file"
        await until(lambda: any(reason in str(vars(row)) for row in caplog.records))
        assert alone.links.neighbours == []
        starting.cancel()
        await asyncio.wait([starting])
        await new.stop()
