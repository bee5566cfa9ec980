"""Brokers of every system with storage start in every order, some of them twice: nothing is lost.

In `tid` the content of a link that fails may be lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

import pytest

from shoal.overlays.registry import MODULES
from tests.examples import at_length
from tests.seeds.restarts.start_orders import ORDERS, StartOrders
from tests.systems import PROTOCOLS

SYSTEMS = [name for name in MODULES if name != "tid"]
FEW = [name for name in PROTOCOLS if name in SYSTEMS]
LONG = range(100, 160)


def play(seed: int, system: str, kills: int, settled: int = 10) -> None:
    """Nothing is lost, and more than so many publications were settled."""
    orders = (ORDERS[seed % len(ORDERS)], Random(seed).choice(ORDERS))
    network = StartOrders(seed, system, orders, kills)
    problems = network.run()
    assert not problems, (problems[:10], network.happened)
    assert network.clients.settled > settled


@pytest.mark.parametrize("system", [*FEW, *at_length(each for each in SYSTEMS if each not in FEW)])
def test_two_start_orders_lose_nothing(system: str) -> None:
    play(SYSTEMS.index(system), system, kills=0)


@pytest.mark.parametrize("system", ["tree", "bluedove", "self_organising", "octopia", "tco"])
def test_kills_during_starts_lose_nothing(system: str) -> None:
    play(102, system, kills=4)


class KilledAtOnce(StartOrders):
    """The first broker is killed as soon as it has started, before others run."""

    async def _start_all(self, order: Sequence[str]) -> None:
        first, second, third = order
        await self._start(second)
        await asyncio.sleep(self.random.uniform(0, 2))
        await self._start(first)
        await self._kill_after(first, self.random.choice((0.03, 0.1, 0.5)))
        await self._start(third)
        await asyncio.sleep(self.random.uniform(1, 14))
        await self._start(first)

    async def _kill_after(self, name: str, life_s: float) -> None:
        await asyncio.sleep(self.random.uniform(0, life_s))
        self.clients.killed(name)
        await self.network.kill(name)
        await asyncio.sleep(self.random.uniform(0, 1))


@pytest.mark.parametrize(
    ("system", "seed"),
    [
        pytest.param(name, seed, marks=() if (name, seed) == ("tco", 8) else pytest.mark.soak)
        for name in SYSTEMS
        for seed in (1, 8, 9, 12)
    ],
)
def test_a_kill_of_the_first_broker_at_its_start_loses_nothing(system: str, seed: int) -> None:
    network = KilledAtOnce(seed, system, ORDERS[:1])
    problems = network.run()
    assert not problems, (problems[:10], network.happened)


@pytest.mark.soak
@pytest.mark.parametrize("kills", [0, 4])
@pytest.mark.parametrize("seed", LONG)
@pytest.mark.parametrize("system", SYSTEMS)
def test_many_start_orders_lose_nothing(system: str, seed: int, kills: int) -> None:
    play(seed, system, kills, settled=0)  # in some orders all is over in a few seconds
