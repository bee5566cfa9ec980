"""Brokers of a live ring change places under load, by the operator's commands."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from shoal.client import Client
from shoal.overlays.dynatops.protocol import Dynatops
from shoal.runtime.broker_service import BrokerService
from tests.runtime.live import on_asyncio, until
from tests.runtime.test_moving import brokers, shoal

RING = {"system": "dynatops", "links": [], "dynatops": {"brokers": ["B1", "B2", "B3"]}}


def members(service: BrokerService) -> tuple[str, ...]:
    strategy = service.node.machine.strategy
    assert isinstance(strategy, Dynatops)
    view = strategy.membership.view
    assert view is not None
    return view.members


@on_asyncio
async def test_an_operator_swaps_brokers_takes_it_back_and_is_told_why_if_not(
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
        await until(lambda: {members(each) for each in services} == {("B2", "B3", "B1")})
        assert await shoal(capsys, "rearrange", path, "--undo") == (0, "B1: undo is done")
        await until(lambda: {members(each) for each in services} == {("B2", "B1", "B3")})
        await publishing
        assert [(await subscription.get()).payload for _ in sent] == sent
        code, text = await shoal(capsys, "rearrange", path, "--swap", "B1,B9")
        assert (code, text) == (2, "shoal: B1: no broker 'B9' stands on the ring")
        code, text = await shoal(capsys, "rearrange", path, "--go", "--undo")
        assert (code, text) == (2, "shoal: say one of --undo, --go, or --stop and --swap")


@on_asyncio
async def test_a_system_without_places_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with brokers(tmp_path) as (path, _):
        code, text = await shoal(capsys, "rearrange", path, "--stop")
        assert (code, text.count("its system takes no such order")) == (2, 3)
