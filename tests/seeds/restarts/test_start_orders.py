"""Brokers of every system with storage start in every order, some of them twice: nothing is lost.

What brokers have over a link that fails may be lost in `tid`.
"""

from __future__ import annotations

from random import Random

import pytest

from shoal.overlays.registry import MODULES
from tests.seeds.restarts.start_orders import ORDERS, StartOrders

SYSTEMS = [name for name in MODULES if name != "tid"]
LONG = range(100, 160)


def play(seed: int, system: str, kills: int) -> None:
    orders = (ORDERS[seed % len(ORDERS)], Random(seed).choice(ORDERS))
    network = StartOrders(seed, system, orders, kills)
    problems = network.run()
    assert not problems, (problems[:10], network.happened)
    assert network.clients.settled > 10


@pytest.mark.parametrize("system", SYSTEMS)
def test_in_two_orders(system: str) -> None:
    play(SYSTEMS.index(system), system, kills=0)


@pytest.mark.parametrize("system", ["tree", "bluedove", "self_organising", "octopia", "tco"])
def test_brokers_are_killed_meanwhile(system: str) -> None:
    play(102, system, kills=4)


@pytest.mark.soak
@pytest.mark.parametrize("kills", [0, 4])
@pytest.mark.parametrize("seed", LONG)
@pytest.mark.parametrize("system", SYSTEMS)
def test_in_many_orders(system: str, seed: int, kills: int) -> None:
    play(seed, system, kills)
