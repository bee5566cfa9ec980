"""Plans can be played, and say the same again."""

from __future__ import annotations

import pytest

from shoal.overlays.registry import SYSTEMS as REGISTERED
from tests.chaos.schedule import FAULTS, KINDS, LONGEST_AWAY_S, SYSTEMS, make_plan, read_action

SEEDS = range(100)


@pytest.mark.parametrize("system", SYSTEMS)
def test_plans_name_only_who_is_there(system: str) -> None:
    for seed in SEEDS:
        plan = make_plan(system, seed)
        clients = {each.name for each in plan.publishers}
        clients |= {each.name for each in plan.subscribers}
        known = {*plan.brokers, *clients, *(f"@{name}" for name in clients), ""}
        assert all({action.whom, action.where} <= known for action in plan.actions)
        REGISTERED[system].check_links(None, plan.brokers, plan.links)


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_kind_of_fault_comes_up(system: str) -> None:
    kinds = {action.kind for seed in SEEDS for action in make_plan(system, seed).actions}
    assert kinds == set(KINDS)


@pytest.mark.parametrize("kind", FAULTS)
def test_one_kind_alone(kind: str) -> None:
    plan = make_plan("tree", 1, faults=[kind])
    assert plan.actions
    assert plan.actions == tuple(sorted(plan.actions))
    assert plan == make_plan("tree", 1, faults=[kind])


def test_who_is_killed_starts_again_long_before_it_counts_as_gone() -> None:
    for seed in SEEDS:
        for action in make_plan("tree", seed).actions:
            assert action.kind != "kill" or action.value <= LONGEST_AWAY_S


def test_what_is_printed_is_read_again() -> None:
    for seed in SEEDS:
        for action in make_plan("grape", seed).actions:
            read = read_action(str(action))
            assert (*read[1:], round(action.at_s, 2)) == (*action[1:], read.at_s)
