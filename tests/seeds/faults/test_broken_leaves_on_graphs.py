"""A broker leaves a graph with cycles during a fault: one graph is left, and no broker is quiesced.

Publications through a broker that dies may be lost; none is doubled, and no broker waits for ever.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from shoal.overlays.graph import GraphStrategy
from shoal.overlays.shapes import CONNECTED
from tests.examples import at_length
from tests.seeds.chosen import CHOSEN, chosen
from tests.seeds.faults.broken_leaves import BrokenLeave
from tests.seeds.networks.random_network import END_US, SECOND_US, RandomNetwork

UNTIL_US = END_US + 90 * SECOND_US
SYSTEMS = ("tid", "flooding")
QUICK = (1, 3)
SOAK = range(300)


def _problems(network: BrokenLeave) -> list[str]:
    """Violations at the end."""
    said = [str(each) for each in RandomNetwork.run(network, UNTIL_US)]
    is_loss = "duplicates=(), phantoms=()"
    found = [each for each in said if not each.startswith("refused: ") and is_loss not in each]
    world = network.world
    if network.leaving_broker not in world.departures:
        found.append(f"{network.leaving_broker} has not left")
    for name, node in sorted(world.brokers.items()):
        strategy = node.machine.strategy
        assert isinstance(strategy, GraphStrategy)
        ends = {end for link in world.links if name in link for end in link} - {name}
        if {*strategy.neighbours} != ends:
            found.append(f"{name} is linked to {ends}, and knows {strategy.neighbours}")
        if not (strategy.changes.is_free and strategy.is_ready):
            found.append(f"{name} waits: {strategy.changes.problem}")
    CONNECTED.check(sorted(world.brokers), world.links)
    return found


def _run(seeds: Iterable[int], system: str, *, lossy: bool = False, patient: bool = False) -> int:
    """Run and judge; the number of leaves with a fault."""
    broken = 0
    for seed in chosen(seeds):
        whole = BrokenLeave(seed, system=system, lossy=lossy, patient=patient)
        if len(whole.neighbours[whole.leaving_broker]) < 2:
            continue
        whole.world.run(END_US)
        faulty = BrokenLeave(seed, system=system, lossy=lossy, patient=patient)
        faulty.break_something(whole.world.departures[whole.leaving_broker])
        problems = _problems(faulty)
        assert not problems, f"SHOAL_SEEDS={seed}: {faulty.fault}: " + "\n".join(problems)
        broken += 1
    return broken


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("patient", [True, *at_length([False])])
def test_a_leave_with_a_fault_leaves_one_graph(system: str, patient: bool) -> None:
    assert _run(QUICK, system, patient=patient) or CHOSEN


@pytest.mark.parametrize(
    "seed",
    [
        # The leaving broker is killed during its drain, with links that are not up yet.
        0,
        # A neighbour is killed while the leaving broker waits for its trees.
        32,
        # A neighbour in doubt is killed, returns, and waits for the leaving broker.
        39,
        # A link to the leaving broker comes up again while that broker ends it.
        57,
    ],
)
def test_regression_seeds_leave_one_graph(seed: int) -> None:
    assert _run((seed,), "tid", patient=True) or CHOSEN


@pytest.mark.soak
@pytest.mark.parametrize("patient", [False, True])
@pytest.mark.parametrize("lossy", [False, True])
@pytest.mark.parametrize("system", SYSTEMS)
def test_many_leaves_with_faults_leave_one_graph(system: str, lossy: bool, patient: bool) -> None:
    assert _run(SOAK, system, lossy=lossy, patient=patient) > 100 or CHOSEN
