"""A broker that was disconnected while a neighbour left does not seek it for ever."""

from __future__ import annotations

import pytest

from shoal.broker.effects import Leave
from shoal.overlays.registry import strategy_factory
from shoal.overlays.self_organising.links.memory import LinkStanding
from shoal.overlays.self_organising.parameters import Mode, SelfOrganisingParameters
from shoal.overlays.self_organising.protocol import SelfOrganising
from shoal.simulation.world import World
from tests.seeds.faults.test_random_absences import is_tree
from tests.seeds.networks.random_network import SECOND_US, SeededUnderlay

FAULT_US = 20 * SECOND_US
# Above the time that a leaf waits for its neighbour.
BACK_US = FAULT_US + 80 * SECOND_US
# By then it has been told, and has asked in vain.
TOLD_US = BACK_US + 30 * SECOND_US


@pytest.mark.parametrize("links", [[("A", "B")], [("A", "B"), ("B", "C"), ("C", "D")]])
@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("is_patient", [False, True])
def test_a_returned_broker_stops_asking_for_a_departed_leaf(
    links: list[tuple[str, str]], mode: Mode, is_patient: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    parameters = SelfOrganisingParameters(mode=mode, interval_us=SECOND_US)
    factory = strategy_factory("self_organising", parameters)
    world = World(links, factory, SeededUnderlay(1), seed=1, is_patient=is_patient)
    world.crash(FAULT_US, "B")
    world.queue.push(FAULT_US, lambda now_us, _: world.brokers["A"].bring(now_us, Leave()), None)
    world.restart(BACK_US, "B")
    world.run(TOLD_US)
    assert "A" in world.departures
    asked: list[str] = []
    monkeypatch.setattr(World, "open_link", lambda self, source, target, **_: asked.append(target))
    world.run(TOLD_US + 60 * SECOND_US)
    assert "A" not in asked
    assert sorted(world.links) == [ends for ends in links if "A" not in ends]
    assert not remembered(world.brokers["B"].machine.strategy).is_in
    assert world.brokers["B"].machine.strategy.is_ready


def test_a_leave_waits_for_cut_off_neighbours_and_then_has_one_successor() -> None:
    """Otherwise each would look for another neighbour although the successor is linked: a cycle."""
    links = [("A", "H"), ("H", "X"), ("H", "Z")]
    parameters = SelfOrganisingParameters(
        mode=Mode.EXCHANGE, interval_us=SECOND_US, least_gain_percent=100
    )
    factory = strategy_factory("self_organising", parameters)
    world = World(links, factory, SeededUnderlay(1), seed=1)
    cuts = [("A", "X"), ("A", "Z"), ("H", "X"), ("H", "Z"), ("X", "Z")]
    for ends in cuts:
        world.cut(FAULT_US, *ends)
    world.queue.push(FAULT_US, lambda now_us, _: world.brokers["H"].bring(now_us, Leave()), None)
    world.run(TOLD_US)
    assert not world.departures
    strategy = world.brokers["H"].machine.strategy
    assert isinstance(strategy, SelfOrganising)
    assert strategy.overlay.tree.changes.problem == "X, Z are not connected"
    for ends in cuts:
        world.heal(TOLD_US, *ends)
    world.run(TOLD_US + 60 * SECOND_US)
    assert "H" in world.departures
    assert is_tree(list(world.links), {"A", "X", "Z"})


def remembered(strategy: object) -> LinkStanding:
    assert isinstance(strategy, SelfOrganising)
    return strategy.overlay.memory.standing("A")
