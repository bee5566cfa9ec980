"""Brokers of a live ring swap places under load, by the operator's commands."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from shoal.client import Client
from shoal.overlays.dynatops.protocol import Dynatops
from shoal.runtime.broker_service import BrokerService
from tests.runtime.live import on_asyncio, until
from tests.runtime.systems.test_moving import brokers, shoal

RING = {"system": "dynatops", "links": [], "dynatops": {"brokers": ["B1", "B2", "B3"]}}


def members(service: BrokerService) -> tuple[str, ...]:
    strategy = service.node.machine.strategy
    assert isinstance(strategy, Dynatops)
    view = strategy.membership.view
    assert view is not None
    return view.members


@on_asyncio
async def test_an_operator_swaps_brokers_undoes_it_and_gets_reasons(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with (
        brokers(tmp_path, **RING) as (path, services),
        Client(str(services[1].listening["mqtt"]), "publisher") as publisher,
        Client(str(services[2].listening["mqtt"]), "subscriber") as subscriber,
        subscriber.subscribe("a", qos=1) as subscription,
    ):
        await subscription.granted()
        sent = [b"%d" % number for number in range(300)]

        async def publish() -> None:
            for payload in sent:
                await publisher.publish("a", payload, qos=1)

        publishing = asyncio.create_task(publish())
        swapped = await shoal(capsys, "rearrange", path, "--swap", "B1,B2", "--swap", "B1,B3")
        assert swapped == (0, "B1: swap B1,B2 is done\nB1: swap B1,B3 is done")
        code, text = await shoal(capsys, "rearrange", path)
        assert (code, "  B2, B3, B1\n" in text, ", B1 decides):" in text) == (0, True, True)
        assert text.endswith("without an order, as reconfigure_us is not set")
        await until(lambda: {members(each) for each in services} == {("B2", "B3", "B1")})
        assert await shoal(capsys, "rearrange", path, "--undo") == (0, "B1: undo is done")
        await until(lambda: {members(each) for each in services} == {("B2", "B1", "B3")})
        await publishing
        assert [(await subscription.get()).payload for _ in sent] == sent
        code, text = await shoal(capsys, "rearrange", path)
        assert (code, text.endswith("all stay where they are until `--go`")) == (0, True)
        code, text = await shoal(capsys, "rearrange", path, "--swap", "B1,B9")
        assert (code, text) == (2, "shoal: B1: no broker 'B9' stands on the ring")
        code, text = await shoal(capsys, "rearrange", path, "--go", "--undo")
        assert (code, text) == (2, "shoal: say one of --undo, --go, or --stop and --swap")


@pytest.mark.parametrize(
    ("system", "manager"),
    [
        ("dynatops", "central"),
        ("dynatops", "pairwise"),
        ("bayeux", "central"),
        ("geops", "central"),
        ("hybrid", "central"),
    ],
)
@on_asyncio
async def test_a_plan_of_a_live_ring_lists_swaps_and_commands(
    system: str, manager: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = {"brokers": ["B1", "B2", "B3"], "reconfigure_us": 200_000, "manager": manager}
    ring = {"system": system, "links": [], system: said}
    async with (
        brokers(tmp_path, **ring) as (path, services),
        Client(str(services[1].listening["mqtt"]), "publisher") as publisher,
        Client(str(services[2].listening["mqtt"]), "subscriber") as subscriber,
        subscriber.subscribe("#", qos=1) as subscription,
    ):
        await subscription.granted()
        planning = "plan", system, "--network", path, "--most-moves", "0"
        code, text = await shoal(capsys, *planning)
        assert (code, "no broker has counted publications yet" in text) == (2, True)
        await shoal(capsys, "rearrange", path, "--stop")
        strategy = services[0].node.machine.strategy
        assert isinstance(strategy, Dynatops)
        places = strategy.membership.places
        assert places is not None
        topic = next(each for each in "abcdefghijk" if places.root(each) == "B1")
        for _ in range(20):
            await publisher.publish(topic, b"", qos=1)
        await until(lambda: any((each.node.machine.survey or {})["rates"] for each in services))
        code, text = await shoal(capsys, *planning)
        assert code == 0
        assert "B3 (at 2) <-> B1 (at 0), saves " in text
        command = f"shoal rearrange {path} --stop --swap B3,B1"
        assert text.endswith(f"to swap them:\n  {command}")
        assert {members(each) for each in services} == {("B1", "B2", "B3")}  # nothing is changed
        assert (await shoal(capsys, *command.split()[1:]))[0] == 0
        await until(lambda: {members(each) for each in services} == {("B3", "B2", "B1")})
        code, text = await shoal(capsys, *planning)
        assert (code, "no brokers should change places" in text) == (0, True)


@on_asyncio
async def test_a_system_without_places_refuses_orders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with brokers(tmp_path) as (path, _):
        code, text = await shoal(capsys, "rearrange", path, "--stop")
        assert (code, text.count("its system takes no such order")) == (2, 3)
        code, text = await shoal(capsys, "rearrange", path)
        assert (code, "brokers of tree have no places" in text) == (2, True)
