"""Live brokers that join and leave, within one process."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from pathlib import Path

import msgspec
import pytest

from shoal.client import Client
from shoal.overlays.registry import SYSTEMS
from shoal.overlays.system import SystemLayout
from shoal.runtime.addresses import Address, read_address
from shoal.runtime.broker_service import BrokerService
from shoal.runtime.free_ports import free_ports
from shoal.runtime.links.joining import JoinAttempt
from shoal.runtime.network_file import NetworkFile
from shoal.runtime.network_sections import BrokerSection
from shoal.runtime.supervisor import ask_to_leave, local_network
from tests.runtime.live import PATIENCE_S, on_asyncio, until
from tests.runtime.one_service import network as network_of
from tests.runtime.one_service import running


def with_new(network: NetworkFile, name: str) -> NetworkFile:
    """The network as a new broker has it: its own listeners beside those of the file."""
    (port,) = free_ports("127.0.0.1", 1)
    anywhere = "127.0.0.1:0"
    section = BrokerSection(
        name=name, peers=f"127.0.0.1:{port}", mqtt=anywhere, websocket=anywhere, admin=anywhere
    )
    return msgspec.structs.replace(network, brokers=(*network.brokers, section))


@on_asyncio
async def test_a_join_without_an_answer_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    network = with_new(network_of(2), "B9")
    where = read_address(network.broker("B2").peers)
    service = BrokerService(network, "B9", [JoinAttempt("B2", where)])
    starting = asyncio.create_task(service.start())
    first = network.broker("B1").peers
    problem = f"B2 at {where}: Connection refused; B1 at {first}: Connection refused"
    asked = f"a member that takes it in ({problem})"
    try:
        await until(lambda: asked in service.missing())
        assert "listener mqtt" in service.missing()
        assert service.status()["joining"]["tried"][0] == {
            "broker": "B2",
            "address": str(where),
            "problem": "Connection refused",
        }
        async with running(network, "B2", "B1"):
            await starting
            assert service.links.neighbours == ["B2"]
            assert service.status()["joining"]["stage"] == ""
            said = [each for each in caplog.records if each.message == "not taken in"]
            assert {each.__dict__["address"] for each in said} == {str(where), first}
    finally:
        await service.stop()


def post(address: Address) -> int:
    request = urllib.request.Request(f"http://{address}/leave", b"", method="POST")
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as found:
            code: int = found.status
    except urllib.error.HTTPError as error:
        code = error.code
    return code


@on_asyncio
async def test_a_broker_joins_leaves_and_joins_again(tmp_path: Path) -> None:
    network = network_of(2, storage={"folder": str(tmp_path), "sync": "never"})
    there = read_address(network.broker("B2").peers)
    async with asyncio.timeout(2 * PATIENCE_S), running(network, "B1", "B2") as (one, two):
        await until(lambda: not (one.missing() or two.missing()))
        for _ in range(2):
            new = BrokerService(with_new(network, "B9"), "B9", [JoinAttempt("B2", there)])
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
            again = BrokerService(with_new(network, "B9"), "B9")
            await again.start()
            assert again.missing() == ["membership: B9 has left the network"]
            await again.stop()


@on_asyncio
async def test_a_joined_broker_has_one_lasting_link_to_its_member() -> None:
    """Its machine opens links as it starts, before its recorded links are brought up."""
    network = local_network("bluedove", SystemLayout(["B1", "B2"]), port=0)
    there = read_address(network.broker("B2").peers)
    async with asyncio.timeout(2 * PATIENCE_S), running(network, "B1", "B2") as others:
        await until(lambda: not any(each.missing() for each in others))
        new = BrokerService(with_new(network, "B9"), "B9", [JoinAttempt("B2", there)])
        try:
            await new.start()
            await until(lambda: not new.missing() and new.links.neighbours == ["B1", "B2"])
            lasting = {row["neighbour"]: row["is_lasting"] for row in new.links.status()}
            assert lasting["B2"]
        finally:
            await new.stop()


@on_asyncio
async def test_a_broker_without_a_link_is_not_ready_and_takes_no_publications() -> None:
    """It waits for a connection of a broker with a smaller name, and acknowledges nothing."""
    network = local_network("dynatops", SystemLayout(["B1", "B2"]), port=0)
    missing = "a link to one of B1"
    async with asyncio.timeout(2 * PATIENCE_S), running(network, "B2") as (alone,):
        assert missing in alone.missing()
        async with Client(str(alone.listening["mqtt"])) as client:
            publishing = asyncio.create_task(client.publish("a", b"x", qos=1))
            await until(lambda: len(alone.node.machine.strategy.membership.view.members) == 1)  # type: ignore[attr-defined]
            await asyncio.sleep(0)
            assert alone.node.is_holding
            assert not publishing.done()
            async with running(network, "B1"):
                await publishing
                await until(lambda: not alone.missing())


@on_asyncio
async def test_a_broker_may_open_links_while_it_leaves() -> None:
    """A matcher hands its segments over once all know that it leaves."""
    system = SYSTEMS["bluedove"]
    network = local_network(system.name, system.size().layout(), port=0)
    names = [broker.name for broker in network.brokers]
    async with asyncio.timeout(2 * PATIENCE_S), running(network, *names) as services:
        await until(lambda: not any(service.missing() for service in services))
        for leaving_broker in (services[0], services[-1]):
            left = asyncio.Event()
            leaving_broker.at_left = left.set
            assert await ask_to_leave(leaving_broker.listening["admin"]) == ""
            await left.wait()
            assert leaving_broker.links.neighbours == []


@on_asyncio
async def test_refused_leaves_have_a_reason_and_web_pages_cannot_order_one() -> None:
    async with running(network_of(1), "B1") as (alone,):
        problem = await ask_to_leave(alone.listening["admin"])
        assert problem == "it has no links, and is all there is of its network"
        assert await asyncio.to_thread(post, alone.listening["admin"]) == 403
        assert alone.leaving.stage == ""


@on_asyncio
async def test_a_single_broker_admits_no_joining_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    network = network_of(1)
    there = read_address(network.broker("B1").peers)
    async with running(network, "B1") as (alone,):
        new = BrokerService(with_new(network, "B9"), "B9", [JoinAttempt("B1", there)])
        starting = asyncio.create_task(new.start())
        reason = "B1 is alone in its network file"
        await until(lambda: any(reason in str(vars(row)) for row in caplog.records))
        assert alone.links.neighbours == []
        starting.cancel()
        await asyncio.wait([starting])
        await new.stop()


@on_asyncio
async def test_a_single_broker_grows_with_its_retained_messages(tmp_path: Path) -> None:
    """It restarts as one that others may join, and its retained messages reach them."""
    network = network_of(1, storage={"folder": str(tmp_path), "sync": "never"})
    there = read_address(network.broker("B1").peers)
    async with running(network, "B1") as (alone,), Client(str(alone.listening["mqtt"])) as client:
        await client.publish("a", b"kept", qos=1, retain=True)
    network = msgspec.structs.replace(network, grows=True)
    async with asyncio.timeout(2 * PATIENCE_S), running(network, "B1") as (one,):
        new = BrokerService(with_new(network, "B9"), "B9", [JoinAttempt("B1", there)])
        await new.start()
        async with (
            Client(str(new.listening["mqtt"])) as client,
            client.subscribe("a") as subscription,
        ):
            assert (await subscription.get()).payload == b"kept"
        assert one.links.neighbours == ["B9"]
        await new.stop()


@on_asyncio
async def test_brokers_of_a_system_that_does_not_grow_neither_join_nor_leave(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An order to leave is refused before any client is redirected."""
    system = msgspec.structs.replace(SYSTEMS["tid"], grows=False)
    monkeypatch.setitem(SYSTEMS, "tid", system)
    network = local_network(system.name, system.size().layout(), port=0)
    names = [broker.name for broker in network.brokers]
    reason = "brokers of tid are those of the network file: none joins or leaves"
    async with asyncio.timeout(2 * PATIENCE_S), running(network, *names) as services:
        await until(lambda: not any(service.missing() for service in services))
        assert await ask_to_leave(services[0].listening["admin"]) == reason
        assert services[0].leaving.stage == ""
        there = read_address(network.broker(names[0]).peers)
        new = BrokerService(with_new(network, "B9"), "B9", [JoinAttempt(names[0], there)])
        starting = asyncio.create_task(new.start())
        await until(lambda: any(reason in str(vars(row)) for row in caplog.records))
        starting.cancel()
        await asyncio.wait([starting])
        await new.stop()
