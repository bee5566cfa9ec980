"""Brokers that die for good and are declared dead: one tree is left, and nothing is lost later.

A few seeds here, 1,000 by `make soak`; SHOAL_SEEDS="7" or "0-999" replays chosen seeds.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from shoal.overlays.coordination.coordinator import Coordinator
from tests.seeds.chosen import CHOSEN, chosen
from tests.seeds.faults.random_deaths import Death
from tests.seeds.networks.random_network import END_US, SECOND_US

# In a simulation of `self_organising` a broker that has just started may not know its neighbours,
# so no other broker is killed there.
SYSTEMS = [("tree", True), ("grape", True), ("pop", True), ("self_organising", False)]
QUICK = (2, 3, 5)
SOAK = range(1_000)
UNTIL_US = END_US + 60 * SECOND_US


def _run(seeds: Iterable[int], system: str, *, fault: bool, lossy: bool = False) -> int:
    """Run and judge; the number of networks with a dead broker of several neighbours."""
    died = 0
    for seed in chosen(seeds):
        network = Death(seed, system=system, lossy=lossy, fault=fault)
        if len(network.neighbours) < 2:
            continue
        problems = network.run(UNTIL_US)
        assert not problems, f"SHOAL_SEEDS={seed}: {network.fault}: " + "\n".join(problems)
        died += 1
    return died


@pytest.mark.parametrize(("system", "fault"), SYSTEMS)
def test_one_neighbour_takes_the_place_of_a_dead_broker(system: str, fault: bool) -> None:
    assert _run(QUICK, system, fault=fault) == len(QUICK) or CHOSEN


def test_the_judges_notice_a_declaration_without_effect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Coordinator, "declare_dead", lambda *_: None)
    with pytest.raises(Exception, match="cannot be reached"):
        Death(2, system="tree", fault=False).run(UNTIL_US)


@pytest.mark.soak
@pytest.mark.parametrize("lossy", [False, True])
@pytest.mark.parametrize(("system", "fault"), SYSTEMS)
def test_a_thousand_deaths_leave_one_tree(system: str, fault: bool, lossy: bool) -> None:
    assert _run(SOAK, system, fault=fault, lossy=lossy) > 500 or CHOSEN
