"""A broker leaves while something breaks: one tree is left, and who was not concerned lost nothing.

A few seeds here, 1,000 by `make soak`; SHOAL_SEEDS="7" or "0-999" replays chosen ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

import pytest

from tests.seeds.broken_leaves import LEAVES_US, BrokenLeave
from tests.seeds.random_network import END_US, SECOND_US
from tests.systems import TREES

# 8: links were exchanged after the broker was asked to leave.
QUICK = (*range(5), 8)
SOAK = range(1_000)
CHOSEN = os.environ.get("SHOAL_SEEDS", "")
# Above anything that a broken leave may take; a publisher's rows are held for 30 s.
UNTIL_US = END_US + 90 * SECOND_US


def _seeds(default: Iterable[int]) -> Iterable[int]:
    if not CHOSEN:
        return default
    first, _, last = CHOSEN.partition("-")
    return range(int(first), int(last or first) + 1)


def _run(seeds: Iterable[int], system: str, *, lossy: bool = False, patient: bool = False) -> int:
    """Run and judge; how many leaves were broken."""
    broken = 0
    for seed in _seeds(seeds):

        def network(seed: int = seed) -> BrokenLeave:
            return BrokenLeave(seed, system=system, lossy=lossy, patient=patient)

        whole = network()
        if len(whole.neighbours[whole.leaver]) < 2:
            continue
        whole.world.run(LEAVES_US + 20 * SECOND_US)
        faulty = network()
        faulty.break_something(whole.world.departures[whole.leaver])
        problems = faulty.run(UNTIL_US)
        assert not problems, f"SHOAL_SEEDS={seed}: {faulty.fault}: " + "\n".join(problems)
        broken += 1
    return broken


@pytest.mark.parametrize("system", TREES)
@pytest.mark.parametrize("patient", [False, True])
def test_a_leave_that_breaks_leaves_one_tree(system: str, patient: bool) -> None:
    assert _run(QUICK, system, patient=patient) > 2 or CHOSEN


@pytest.mark.soak
@pytest.mark.parametrize("patient", [False, True])
@pytest.mark.parametrize("lossy", [False, True])
@pytest.mark.parametrize("system", TREES)
def test_a_thousand_leaves_that_break(system: str, lossy: bool, patient: bool) -> None:
    assert _run(SOAK, system, lossy=lossy, patient=patient) > 500 or CHOSEN
