"""Plays chaos plans: one short plan with every fault, and long ones in the soak.

`python -m tests.chaos --help` plays other seeds, or few kinds of faults.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from shoal.overlays.registry import MODULES
from tests.chaos.run import Run
from tests.chaos.schedule import Plan, make_plan, read_action
from tests.examples import at_length

# All systems together: 300 runs.
SOAK_SEEDS = 30
# All systems together: 110 runs.
MEMBER_SEEDS = 10
A_LITTLE = """
0.20 move S1 B2
0.30 cut B1 B2
0.40 pause B3
0.50 slow disk B2 0.02
0.60 look in S2 B1 0.1
0.70 mend B1 B2
0.80 resume B3
0.90 clock @P1 -60
1.00 kill @P1 0.1
1.01 leave S3 0.3
1.10 jump S4 B2
1.20 hang B2 B3
1.30 vanish G1 B1
1.60 good disk B2
1.70 mend B2 B3
1.80 move S5 B3
"""


def play(plan: Plan, folder: Path) -> None:
    outcome = asyncio.run(Run(plan, folder).play())
    assert not outcome.violations, str(outcome)
    assert outcome.taken > 0
    assert outcome.got > 0


# `tid` may lose publications on a link that fails, so it is left out.
JUDGED = [name for name in MODULES if name != "tid"]
# GRAPE and POP use the tree's migration, and self-organising brokers change its links. DYNATOPS'
# baselines use the tree's structures or DYNATOPS' views. `tests/live/kills` kills BlueDove's.
FEW = ("self_organising", "octopia", "dynatops")


@pytest.mark.parametrize("system", [*FEW, *at_length(each for each in JUDGED if each not in FEW)])
def test_a_short_run_keeps_the_guarantees(tmp_path: Path, system: str) -> None:
    actions = tuple(map(read_action, A_LITTLE.split("\n")[1:-1]))
    play(make_plan(system, 0, seconds=2.0)._replace(actions=actions), tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(SOAK_SEEDS))
@pytest.mark.parametrize("system", JUDGED)
def test_long_runs_keep_the_guarantees(tmp_path: Path, system: str, seed: int) -> None:
    play(make_plan(system, seed), tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(MEMBER_SEEDS))
@pytest.mark.parametrize("system", JUDGED)
def test_joins_and_leaves_keep_the_guarantees(tmp_path: Path, system: str, seed: int) -> None:
    play(make_plan(system, seed, members=True), tmp_path)
