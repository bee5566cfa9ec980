"""Clients in the process: a publisher that moves while it publishes loses nothing."""

from __future__ import annotations

import asyncio

import pytest

from shoal.broker.wire import WireError
from shoal.clients.records import MigrationRecord
from shoal.language import FilterSyntaxError
from shoal.overlays.registry import SYSTEMS
from tests.runtime.live import live, on_loop, received, until
from tests.systems import eager

LINE = (("B1", "B2"), ("B2", "B3"), ("B3", "B4"))
MOVING = [name for name in SYSTEMS if SYSTEMS[name].decides_after]


@pytest.mark.parametrize("system", MOVING)
@on_loop
async def test_a_publisher_moves_to_its_subscribers_and_nothing_is_lost(system: str) -> None:
    async with live(LINE, system=system, parameters=eager(system, 20)) as network:
        publisher = network.client("P", "B1")
        subscribers = [network.client(f"C{n}", "B4") for n in range(3)]
        publisher.advertise("a", "x >= 0")
        for number, subscriber in enumerate(subscribers):
            subscriber.subscribe(f"s{number}", "x >= 0")
        tables = network.nodes["B1"].machine.strategy.tables
        await until(lambda: len(tables.subscriptions) == 3)
        sent = 0
        while publisher.broker == "B1":
            assert sent < 20_000
            await publisher.publish({"x": sent})
            sent += 1
            await asyncio.sleep(0)
        for _ in range(100):
            await publisher.publish({"x": sent})
            sent += 1
        for subscriber in subscribers:
            assert await received(subscriber, sent) == list(range(sent))
            assert subscriber.deliveries.empty()
        moves = [each for each in network.records if isinstance(each, MigrationRecord)]
        assert moves[0].source == "B1"
        assert moves[0].target == publisher.broker
        assert not publisher.rejections


@on_loop
async def test_a_clients_mistakes_are_errors() -> None:
    async with live((("B1", "B2"),)) as network:
        client = network.client("C", "B1")
        with pytest.raises(FilterSyntaxError):
            client.subscribe("s", "x >")
        with pytest.raises(WireError, match="cannot be written"):
            client.subscribe("\ud800", "x > 1")
        with pytest.raises(ValueError, match="does not fit in 64 bits"):
            await client.publish({"x": 2**63})
        await client.publish({"x": 1})
        await until(lambda: client.rejections == ["C has not advertised at B1"])
        client.advertise("a", "x > 1")
        await client.publish({"x": 1}, {"x": 2})
        await until(lambda: len(client.rejections) == 2)
        assert client.rejections[1] == "publication 1 matches no advertisement of C"
        client.unadvertise("a")
        client.close()
        assert network.nodes["B1"].client_count == 0
