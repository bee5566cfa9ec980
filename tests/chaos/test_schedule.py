"""Plans name existing brokers and clients, and a printed plan reads back equal."""

from __future__ import annotations

from itertools import product

import pytest

from shoal.overlays.registry import SYSTEMS as REGISTERED
from tests.chaos.schedule import FAULTS, KINDS, LONGEST_AWAY_S, SYSTEMS, make_plan, read_action

SEEDS = range(100)


@pytest.mark.parametrize("members", [False, True])
@pytest.mark.parametrize("system", SYSTEMS)
def test_plans_name_only_existing_brokers_and_clients(system: str, members: bool) -> None:
    for seed in SEEDS:
        plan = make_plan(system, seed, members=members)
        clients = {each.name for each in plan.publishers}
        clients |= {each.name for each in plan.subscribers}
        known = {*plan.brokers, *plan.joiners, *clients, *(f"@{name}" for name in clients), ""}
        assert all({action.whom, action.where} <= known for action in plan.actions)
        REGISTERED[system].check_links(None, plan.brokers, plan.links)


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_kind_of_fault_occurs_in_some_plan(system: str) -> None:
    kinds = {
        action.kind
        for seed, members in product(SEEDS, (False, True))
        for action in make_plan(system, seed, members=members).actions
    }
    assert kinds == set(KINDS)


@pytest.mark.parametrize("kind", FAULTS)
def test_a_plan_can_be_restricted_to_one_kind_of_fault(kind: str) -> None:
    plan = make_plan("tree", 1, faults=[kind])
    assert plan.actions
    assert plan.actions == tuple(sorted(plan.actions))
    assert plan == make_plan("tree", 1, faults=[kind])


def test_a_killed_broker_restarts_long_before_it_counts_as_dead() -> None:
    for seed in SEEDS:
        for action in make_plan("tree", seed).actions:
            assert action.kind != "kill" or action.value <= LONGEST_AWAY_S


def test_a_printed_action_reads_back_equal() -> None:
    for seed in SEEDS:
        for action in make_plan("grape", seed).actions:
            read = read_action(str(action))
            assert (*read[1:], round(action.at_s, 2)) == (*action[1:], read.at_s)
