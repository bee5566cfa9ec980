"""All processes end and start in every order, with one paused meanwhile; then once more.

`tests/seeds/restarts/test_start_orders.py` does the same in virtual time with far more seeds.
"""

from __future__ import annotations

from itertools import count, permutations
from pathlib import Path
from random import Random

import pytest

from tests.chaos.schedule import Action, Plan, make_plan
from tests.chaos.test_chaos import JUDGED, play

# Orders of three brokers.
ORDERS = 6


def starting_plan(system: str, number: int, times: int = 2) -> Plan:
    """All brokers end and start in the order of this number; then all end again and start in any
    order.
    """
    plan = next(
        plan
        for seed in count(number, ORDERS)
        if len((plan := make_plan(system, seed)).brokers) == 3
    )
    random = Random(f"{system} {number}")
    orders = list(permutations(plan.brokers))
    at_s, actions = 0.5, []
    for order in (orders[number], random.choice(orders))[:times]:
        how = random.choice(("end", "end", "stop"))
        actions += [Action(at_s, how, broker) for broker in order]
        for broker in order:
            at_s = round(at_s + random.choice((0.0, 0.3, 2.0, 4.0)), 3)
            actions.append(Action(at_s, "start", broker))
        paused_s = round(at_s + random.uniform(-0.3, 1.0), 3)
        paused = random.choice(order[:-1])
        actions += [Action(paused_s, "pause", paused), Action(paused_s + 1.0, "resume", paused)]
        at_s += 3.0
    return plan._replace(seconds=at_s, actions=tuple(sorted(actions)))


@pytest.mark.soak
def test_brokers_started_in_another_order_keep_the_guarantees(tmp_path: Path) -> None:
    play(starting_plan("tree", 3, times=1), tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("number", range(ORDERS))
@pytest.mark.parametrize("system", JUDGED)
def test_brokers_started_in_every_order_keep_the_guarantees(
    tmp_path: Path, system: str, number: int
) -> None:
    play(starting_plan(system, number), tmp_path)
