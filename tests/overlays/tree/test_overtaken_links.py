"""Links of strangers, and of brokers that have left, that change while a broker leaves."""

from __future__ import annotations

import pytest

from shoal.broker.effects import (
    Departed,
    EndLink,
    Hold,
    Leave,
    Left,
    LinkChanged,
    LinkState,
    Release,
    ResetLink,
    Started,
    TimerFired,
)
from shoal.broker.machine import Broker
from shoal.broker.messages import Advertise
from shoal.overlays.registry import strategy_factory
from shoal.overlays.tree.messages import (
    Abandon,
    Flushed,
    Prepare,
    Prepared,
    Stop,
    Stopped,
    Succeeded,
)
from shoal.overlays.tree.system import Parameters
from tests.broker.transcript import advertisement
from tests.overlays.tree.told import Told, received

UP, FAILED, ENDED = LinkState.UP, LinkState.FAILED, LinkState.ENDED
SYSTEMS = pytest.mark.parametrize("system", ["tree", "grape", "self_organising"])
LEAVE = TimerFired(("leave",))


def linking(system: str) -> Told:
    """B2 is about to leave B1, B3 and B4."""
    return Told("B2", "B1", "B3", "B4", system=system).hears(Leave())


def succeeding(system: str) -> Told:
    """B3 and B4 are to move from B2, which leaves, to B1."""
    leaver = linking(system).hears(*received("B3", Prepared(1)), *received("B4", Prepared(1)))
    leaver.hears(*received("B1", Prepared(1)))
    for name in ("B1", "B3", "B4"):
        leaver.hears(*received(name, Stopped(1, 1)))
    assert leaver.says("B3") == [Flushed(1)]
    return leaver


def neighbours(broker: Told) -> list[str]:
    strategy = broker.machine.strategy
    return [*getattr(strategy, "tree", strategy).propagation.neighbours]  # type: ignore[union-attr]


@SYSTEMS
@pytest.mark.parametrize("state", [FAILED, ENDED])
def test_a_stranger_that_comes_and_goes_while_others_move_is_no_neighbour(
    system: str, state: LinkState
) -> None:
    """It was taken for one that had come, never said its tables, and the broker never left."""
    leaver = succeeding(system).hears(LinkChanged("B5", UP), LinkChanged("B5", state))
    leaver.hears(LinkChanged("B3", ENDED), LinkChanged("B4", ENDED))
    assert EndLink("B1") in leaver.did
    leaver.hears(LinkChanged("B1", ENDED))
    assert Left() in leaver.did


@pytest.mark.parametrize("system", ["tree", "grape"])
def test_who_joins_while_others_move_is_a_neighbour_then(system: str) -> None:
    leaver = succeeding(system).hears(LinkChanged("B5", UP))
    leaver.hears(LinkChanged("B3", ENDED), LinkChanged("B4", ENDED))
    assert ResetLink("B1") in leaver.did
    assert neighbours(leaver) == ["B1", "B5"]


@SYSTEMS
def test_who_is_back_while_others_move_is_heard_when_these_have(system: str) -> None:
    """It said its tables before its link was taken for one that had come: they were awaited for
    ever, and the broker never left.
    """
    leaver = succeeding(system)
    assert Hold(("B4",)) in leaver.hears(LinkChanged("B3", FAILED)).did
    assert Hold(("B4",)) in leaver.hears(LinkChanged("B3", UP)).did
    assert Release() in leaver.hears(LinkChanged("B4", ENDED)).did


@SYSTEMS
def test_a_link_that_is_none_of_the_trees_may_fail_before_others_move(system: str) -> None:
    assert Abandon(1) not in linking(system).hears(LinkChanged("B5", FAILED)).says("B3")


@SYSTEMS
def test_who_has_left_while_others_moved_is_not_waited_for(system: str) -> None:
    """That its link had failed came up again when all had moved or not."""
    leaver = succeeding(system)
    for name in ("B3", "B1", "B4"):
        leaver.hears(LinkChanged(name, FAILED), Departed(name))
    assert Left() in leaver.hears(LEAVE).did


@SYSTEMS
def test_who_has_left_while_a_broker_was_still_is_not_waited_for(system: str) -> None:
    broker = Told("B3", "B2", "B5", "B6", system=system)
    broker.hears(*received("B2", Prepare(1, "B1", ())), LinkChanged("B1", UP))
    broker.hears(*received("B2", Stop(1, 1), Flushed(1)))
    for name in ("B5", "B6"):
        broker.hears(LinkChanged(name, FAILED), Departed(name))
    broker.hears(*received("B1", Succeeded(1, 0)), LinkChanged("B2", ENDED))
    assert EndLink("B1") in broker.hears(Leave()).did


@SYSTEMS
def test_who_has_just_started_waits_for_its_neighbours_before_it_leaves(system: str) -> None:
    """By a clock that has long run they had been away for longer than anybody is waited for."""
    broker = Told("B3", system=system)
    broker.machine = Broker("B3", (), strategy_factory(system), expected=("B1",))
    broker.now_us = 10**15
    broker.hears(Started(former=("B1",)), Leave())
    assert Left() not in broker.did
    assert Left() not in broker.hears(LEAVE).did


def test_who_is_gone_wants_nothing_any_more_as_an_advertisement_turns() -> None:
    """Its name was kept among those that want subscriptions, where others cover them."""
    broker = Told("B3")
    factory = strategy_factory("tree", Parameters(covering=True))
    broker.machine = Broker("B3", ("B1", "B2"), factory)
    broker.hears(*received("B2", Advertise(advertisement("a"))), LinkChanged("B4", UP))
    broker.hears(*received("B4", Advertise(advertisement("a"))), LinkChanged("B2", ENDED))
    tables = broker.machine.strategy.tables  # type: ignore[attr-defined]
    assert tables.advertisements["a"].last_hop == "B4"
    assert "B2" not in tables.wanted
