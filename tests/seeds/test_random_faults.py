"""Random networks whose links break and whose brokers crash.

What is published meanwhile may be lost; but nothing raises, nothing arrives twice or unasked, and
when all is up again every table of the tree is as if nothing had happened.  With publishers that
move the tables are left out: a path that breaks in the middle of a migration can leave the source
with an advertisement that has gone (see `shoal.overlays.publisher_relocation.migration`).
"""

from __future__ import annotations

from random import Random

import pytest

from shoal.simulation.checkers import check_deliveries, check_tables, expected_tables
from tests.seeds.random_network import END_US, SECOND_US, SETTLE_US, RandomNetwork
from tests.seeds.test_random_networks import _seeds

QUICK = range(6)
FAULTS = 6


def break_things(network: RandomNetwork, random: Random) -> None:
    """Cuts and crashes, each healed within a few seconds; they may overlap."""
    world = network.world
    for _ in range(FAULTS):
        at_us = random.randint(SETTLE_US, END_US)
        until_us = at_us + random.choice([1, SECOND_US // 10, SECOND_US, 4 * SECOND_US])
        if random.random() < 0.5:
            link = random.choice(network.links)
            world.cut(at_us, *link)
            world.heal(until_us, *link)
        else:
            broker = random.choice(network.brokers)
            world.crash(at_us, broker)
            world.restart(until_us, broker)


def judge_tables(network: RandomNetwork) -> list[str]:
    world = network.world
    homes = [(row, world.publisher_broker(row.publisher)) for row in network.kept_advertisements]
    wishes = [(wish.subscription, home) for wish, home in network.wishes if wish.until_us is None]
    tables = {name: node.machine.tables for name, node in world.brokers.items()}
    return check_tables(expected_tables(network.links, homes, wishes), tables)


def judge_deliveries(network: RandomNetwork) -> list[str]:
    verdict = check_deliveries(
        network.publications,
        [wish for wish, _ in network.wishes],
        sorted(network.world.trace.deliveries, key=lambda delivery: delivery.delivered_us),
        SETTLE_US,
    )
    problems = [f"twice: {key}" for key in verdict.duplicates]
    return problems + [f"phantom: {key}" for key in verdict.phantoms]


def run(seed: int, system: str, lossy: bool) -> RandomNetwork:
    network = RandomNetwork(seed, system=system, lossy=lossy)
    break_things(network, Random(f"faults/{seed}"))
    network.world.run()
    return network


@pytest.mark.parametrize("lossy", [False, True], ids=["wires", "bad links"])
def test_the_tree_recovers_from_faults(lossy: bool) -> None:
    for seed in _seeds(QUICK):
        network = run(seed, "tree", lossy)
        problems = judge_tables(network) + judge_deliveries(network)
        assert not problems, f"SHOAL_SEEDS={seed}: " + "\n".join(problems)


@pytest.mark.parametrize("lossy", [False, True], ids=["wires", "bad links"])
def test_publishers_move_through_faults(lossy: bool) -> None:
    for seed in _seeds(QUICK):
        problems = judge_deliveries(run(seed, "grape", lossy))
        assert not problems, f"SHOAL_SEEDS={seed}: " + "\n".join(problems)
