"""A broker that may have to plan loads and compiles the planner before it is ready."""

from __future__ import annotations

import subprocess
import sys

PLANNED = """
import sys
from shoal.broker.machine import Broker
from shoal.overlays.dynatops.parameters import DynatopsParameters
from shoal.overlays.registry import strategy_factory

Broker("B1", ("B2",), strategy_factory("dynatops", DynatopsParameters(reconfigure_us=1)))
modules = set(sys.modules)

import numpy as np
from shoal.overlays.dynatops.planning import costs, greedy, kernels, problem
from shoal.overlays.dynatops.structures.chord import Chord

def compiled():
    return {name: len(each.signatures) for name, each in vars(kernels).items()
            if hasattr(each, "signatures")}

before = compiled()
wanted = np.random.default_rng(1).random((30, 20)) < 0.3
trees = problem.trees_of(Chord(30), [topic % 30 for topic in range(20)])
asked = problem.PlacementProblem(trees, wanted, np.ones(20), delay_weight=0.5)
mapping = tuple(range(30))
cost = costs.notification_cost(asked, mapping)
steps = list(greedy.improvements(asked, mapping))
greedy.best_of(asked, mapping, cost, steps, 0.1)
assert steps
assert compiled() == before
assert any(before.values())
print(*sorted(name for name in set(sys.modules) - modules))
"""


def test_the_first_plan_loads_and_compiles_nothing() -> None:
    found = subprocess.run(
        [sys.executable, "-c", PLANNED], capture_output=True, text=True, timeout=240
    )
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout.split() == []


OTHERS = """
import sys
from shoal.broker.machine import Broker
from shoal.overlays.dynatops.parameters import DynatopsParameters
from shoal.overlays.registry import strategy_factory
from shoal.overlays.tco.parameters import TcoParameters as Tco

names = ("B1", "B2", "B3")
Broker("B3", (), strategy_factory("dynatops", DynatopsParameters(brokers=names, reconfigure_us=1)))
Broker("B3", (), strategy_factory("tco", Tco(brokers=names)))
assert "numba" not in sys.modules
Broker("B2", (), strategy_factory("tco", Tco(brokers=names)))
assert "numba" in sys.modules
"""


def test_a_broker_that_does_not_plan_does_not_load_the_planner() -> None:
    found = subprocess.run(
        [sys.executable, "-c", OTHERS], capture_output=True, text=True, timeout=240
    )
    assert (found.returncode, found.stderr) == (0, "")
