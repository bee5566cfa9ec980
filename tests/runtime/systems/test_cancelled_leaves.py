"""A leave that is refused, that waits for a neighbour, or that is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from shoal.broker.effects import Leave
from shoal.client import Client, Keep
from shoal.mqtt.federation.evacuating import Evacuating
from shoal.overlays.registry import SYSTEMS
from shoal.runtime import leaving
from shoal.runtime.broker_service import BrokerService
from shoal.runtime.network_file import NetworkFile
from shoal.runtime.node import Node
from shoal.runtime.operations.caller import ANYBODY
from shoal.runtime.supervisor import ask_to_leave, get_json, local_network, order
from tests.contract.test_growth import GROWING
from tests.runtime.live import PATIENCE_S, on_asyncio, until
from tests.runtime.one_service import network as network_of
from tests.runtime.one_service import running

AWAY = "B3 is not connected. Wait, or say --without B3"


@asynccontextmanager
async def a_line(network: NetworkFile) -> AsyncIterator[tuple[BrokerService, BrokerService]]:
    """The first two of three brokers; the third was connected before."""
    async with (
        asyncio.timeout(2 * PATIENCE_S),
        running(network, "B1", "B2") as (first, leaving_broker),
    ):
        async with running(network, "B3"):
            await until(lambda: not first.missing() and not leaving_broker.missing())
        yield first, leaving_broker


async def goes_through(source: BrokerService, target: BrokerService, topic: str) -> None:
    """A publication at one broker reaches a subscriber at another."""
    async with (
        Client(str(target.listening["mqtt"])) as reader,
        reader.subscribe(topic, qos=1) as subscription,
        Client(str(source.listening["mqtt"])) as writer,
    ):
        await subscription.granted()
        await writer.publish(topic, b"x", qos=1)
        assert (await subscription.get()).payload == b"x"


@on_asyncio
async def test_a_leave_is_refused_while_a_neighbour_is_down() -> None:
    async with a_line(network_of(3)) as (_, leaving_broker):
        where = leaving_broker.listening["admin"]
        assert await ask_to_leave(where) == AWAY
        assert leaving_broker.leaving.stage == ""
        assert await ask_to_leave(where, without=["B1"]) == f"B1 is connected, and not dead; {AWAY}"
        problem = f"B7 is no neighbour of it; {AWAY}"
        assert await ask_to_leave(where, without=["B7"]) == problem
        left = asyncio.Event()
        leaving_broker.at_left = left.set
        assert await ask_to_leave(where, without=["B3"]) == ""
        await left.wait()


@on_asyncio
async def test_a_leave_that_has_begun_waits_for_a_neighbour_that_goes_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The neighbour may return, or the operator declares it dead."""
    async with held_at_sessions(monkeypatch) as (network, _, leaving_broker, let_go):
        left = asyncio.Event()
        leaving_broker.at_left = left.set
        where = leaving_broker.listening["admin"]
        await let_go()
        await until(lambda: leaving_broker.leaving.problem == "no link to B3, which may come back")
        said = leaving_broker.status()["leaving"]
        assert said["stage"] == "overlay"
        assert said["next"] == "start B3, or say --without B3"
        assert said["since_s"] >= 0
        assert not left.is_set()
        assert await ask_to_leave(where, without=["B3"]) == ""
        assert leaving_broker.status()["leaving"]["without"] == ["B3"]
        await left.wait()
        assert network.broker("B3")


@asynccontextmanager
async def held_at_sessions(monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """The middle of a line leaves, its session stays until `let_go`; the last broker is down."""
    begin = Evacuating.begin
    monkeypatch.setattr(Evacuating, "begin", lambda *_: None)
    network = network_of(3)
    async with (
        asyncio.timeout(2 * PATIENCE_S),
        running(network, "B1", "B2") as (first, leaving_broker),
    ):
        async with running(network, "B3"):
            await until(lambda: not first.missing() and not leaving_broker.missing())
            reader = Client(
                str(leaving_broker.listening["mqtt"]), client_id="R", keep=Keep(seconds=600)
            )
            async with reader, reader.subscribe("a", qos=1) as subscription:
                await subscription.granted()
            assert await ask_to_leave(leaving_broker.listening["admin"]) == ""
            await until(lambda: leaving_broker.leaving.stage == "sessions")

        async def let_go() -> None:
            monkeypatch.setattr(Evacuating, "begin", begin)
            where = leaving_broker.listening["admin"]
            assert await order(where, "delete-session", ANYBODY, client="R") == ""
            await until(lambda: leaving_broker.leaving.stage == "overlay")

        yield network, first, leaving_broker, let_go


@on_asyncio
async def test_a_leave_is_cancelled_while_sessions_remain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with held_at_sessions(monkeypatch) as (network, first, leaving_broker, _):
        where, mqtt = leaving_broker.listening["admin"], leaving_broker.listening["mqtt"]
        problem = "1 session is still here (R); no link to B3, which may come back"
        assert leaving_broker.status()["leaving"]["problem"] == problem
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*mqtt)
        assert await order(where, "stay", ANYBODY) == ""
        assert leaving_broker.leaving.stage == ""
        assert leaving_broker.leaving.outcome == "taken back by an operator"
        assert leaving_broker.listening["mqtt"] == mqtt
        async with running(network, "B3") as (last,):
            await until(lambda: not leaving_broker.missing())
            await goes_through(last, leaving_broker, "b")
            await goes_through(first, last, "c")
            assert leaving_broker.front_end.clients.sessions.get("R") is not None
        assert await order(where, "stay", ANYBODY) == "it does not leave"


@on_asyncio
async def test_a_leave_is_cancelled_after_its_announcement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its MQTT side has said goodbye to the machine, and no broker lists it any longer."""
    async with held_at_sessions(monkeypatch) as (network, first, leaving_broker, let_go):
        await let_go()
        known = lambda: [row["broker"] for row in first.status()["brokers"]]  # noqa: E731
        await until(lambda: "B2" not in known())
        async with Client(str(first.listening["mqtt"])) as writer:
            await writer.publish("kept", b"new", qos=0, retain=True)
        assert await order(leaving_broker.listening["admin"], "stay", ANYBODY) == ""
        await until(lambda: "B2" in known())
        reader = Client(str(leaving_broker.listening["mqtt"]))
        async with reader, reader.subscribe("kept") as subscription:
            assert (await subscription.get()).payload == b"new"
        async with running(network, "B3") as (last,):
            await until(lambda: not leaving_broker.missing() and not last.missing())
            await goes_through(last, leaving_broker, "b")
            await goes_through(leaving_broker, first, "c")
            await goes_through(first, last, "d")
            left = asyncio.Event()
            leaving_broker.at_left = left.set
            assert await ask_to_leave(leaving_broker.listening["admin"]) == ""
            await left.wait()
            await until(lambda: first.links.neighbours == ["B3"])
            await goes_through(first, last, "e")


@on_asyncio
async def test_a_leave_without_progress_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaving, "STALL_S", 0.2)
    async with held_at_sessions(monkeypatch) as (_, _, leaving_broker, _):
        await until(lambda: leaving_broker.leaving.stage == "")
        words = "taken back after 0.2 s without progress: 1 session is still here (R); "
        words += "no link to B3, which may come back"
        assert leaving_broker.leaving.outcome == words
        await until(lambda: "mqtt" in leaving_broker.listening)


@on_asyncio
async def test_a_leaving_broker_admits_no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    async with held_at_sessions(monkeypatch) as (_, first, leaving_broker, _):
        probes = first._probes
        settings = leaving_broker.section.address("peers")
        assert settings is not None
        assert await probes.why_not_taken("B2", settings) == "B2 leaves its network"


@on_asyncio
async def test_a_dry_run_of_a_leave_is_reported() -> None:
    async with a_line(network_of(3)) as (_, leaving_broker):
        where = leaving_broker.listening["admin"]
        async with Client(
            str(leaving_broker.listening["mqtt"]), client_id="R", keep=Keep(seconds=60)
        ):
            plan = await get_json(where, "/leave-plan")
        waiting = plan["neighbours"][1]["waiting_bytes"]
        assert plan == {
            "problems": [AWAY],
            "clients": 1,
            "follow": plan["follow"],
            "sessions": 1,
            "takers": ["B1", "B3"],
            "neighbours": [
                {"broker": "B1", "connected": True, "dead": False, "waiting_bytes": 0},
                {"broker": "B3", "connected": False, "dead": False, "waiting_bytes": waiting},
            ],
            "successor": "B1",
            "readers": {},
            "stage": "",
        }
        plan = await get_json(where, "/leave-plan?without=B3")
        assert plan["problems"] == []
        assert leaving_broker.leaving.stage == ""


@pytest.mark.parametrize("system", [*GROWING.values(), "dynatops", "bluedove", "grape"])
@on_asyncio
async def test_brokers_of_every_system_cancel_a_leave(
    system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its MQTT side has said goodbye to the machine, which has not been asked to leave yet."""
    bring = Node.bring
    monkeypatch.setattr(
        Node, "bring", lambda self, input, *at: isinstance(input, Leave) or bring(self, input, *at)
    )
    network = local_network(system, SYSTEMS[system].size().layout(), port=0)
    names = [broker.name for broker in network.brokers]
    async with asyncio.timeout(2 * PATIENCE_S), running(network, *names) as services:
        await until(lambda: not any(service.missing() for service in services))
        first, *_, leaving_broker = [each for each in services if "mqtt" in each.listening]
        where = leaving_broker.listening["admin"]
        assert await ask_to_leave(where) == ""
        await until(lambda: leaving_broker.leaving.stage == "overlay")
        assert await order(where, "stay", ANYBODY) == ""
        await until(lambda: not any(service.missing() for service in services))
        await goes_through(first, leaving_broker, "a")
        await goes_through(leaving_broker, first, "b")
