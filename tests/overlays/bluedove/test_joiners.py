"""A broker that joins a cluster: its first state, and the brokers that it waits for."""

from __future__ import annotations

import msgspec
import pytest

from shoal.broker.effects import (
    Input,
    LinkChanged,
    LinkState,
    OpenLink,
    Received,
    Remember,
    Send,
    Started,
    TimerFired,
)
from shoal.broker.machine import Broker
from shoal.overlays.bluedove.cluster.members import WHOLE, Member, Status
from shoal.overlays.bluedove.messages import GossipNews, JoinAnswer
from shoal.overlays.bluedove.parameters import BlueDoveParameters
from shoal.overlays.registry import strategy_factory

LATE_US = BlueDoveParameters().failure_us + 10
SECOND_US = 1_000_000
TIMERS = (("gossip",), ("load",), ("tick",))
B1 = Member(broker="B1", generation=1, version=1, segments=(WHOLE,))


def joiner(*expected: str) -> Broker:
    factory = strategy_factory("bluedove")
    return Broker("J1", (), factory, expected=expected, is_founder=False)


def test_a_joined_broker_keeps_the_dispatchers_that_it_knows() -> None:
    machine = joiner("B2")
    machine.handle(Started(), 1)
    machine.handle(LinkChanged("B2", LinkState.UP), 2)
    effects = machine.handle(Received("B2", GossipNews((B1,))), 3)
    assert Remember({"dispatchers": ["B1", "B2", "J1"]}) in effects
    assert OpenLink("B1") in effects


def test_a_restarted_joined_broker_waits_for_no_broker_that_stays_down() -> None:
    """A lasting link does not fail while its other end is down."""
    machine = joiner("B2")
    effects = machine.handle(Started(facts={"dispatchers": ["B1", "J1"]}), 1)
    assert {each.neighbour for each in effects if isinstance(each, OpenLink)} == {"B1", "B2"}
    machine.handle(LinkChanged("B1", LinkState.UP), 2)
    machine.handle(Received("B1", GossipNews((B1,))), 3)
    machine.handle(Received("B1", JoinAnswer(False, (B1,))), 4)
    assert "B2" in machine.awaited
    machine.handle(TimerFired(("gossip",)), LATE_US)
    assert "B2" not in machine.awaited


OLD, LATER, LEFT = (
    Received("B2", GossipNews((msgspec.structs.replace(B1, version=version, status=status),)))
    for version, status in ((1, Status.ALIVE), (2, Status.ALIVE), (3, Status.LEFT))
)
ENDED, FAILED = LinkChanged("B1", LinkState.ENDED), LinkChanged("B1", LinkState.FAILED)


@pytest.mark.parametrize(
    "news",
    [
        (LEFT, ENDED),
        (FAILED, LEFT, ENDED),
        (ENDED, LEFT),
        (ENDED, LATER, FAILED, LEFT),
        (ENDED, LEFT, LATER),
    ],
)
def test_no_link_is_opened_to_a_dispatcher_that_has_left(news: tuple[Input, ...]) -> None:
    """In whichever order the broker learns of it; its matcher has a report each second."""
    machine = joiner("B2")
    machine.handle(Started(), 1)
    for each in (LinkChanged("B2", LinkState.UP), OLD, LinkChanged("B1", LinkState.UP)):
        machine.handle(each, 2)
    machine.handle(Received("B2", JoinAnswer(True, (B1,))), 3)
    for each in news:
        machine.handle(each, 4)
    assert "B1" not in machine.awaited
    later = [
        effect
        for second in range(1, 60)
        for key in TIMERS
        for effect in machine.handle(TimerFired(key), second * SECOND_US)
    ]
    assert "B2" in {each.neighbour for each in later if isinstance(each, Send)}
    assert "B1" not in {each.neighbour for each in later if isinstance(each, OpenLink | Send)}
    # It comes back.
    again = msgspec.structs.replace(B1, generation=2)
    effects = machine.handle(Received("B2", GossipNews((again,))), 60 * SECOND_US)
    assert OpenLink("B1") in effects


def test_a_broker_forgets_dispatchers_that_have_left() -> None:
    machine = joiner("B2")
    machine.handle(Started(), 1)
    machine.handle(LinkChanged("B2", LinkState.UP), 2)
    machine.handle(Received("B2", GossipNews((B1,))), 3)
    gone = msgspec.structs.replace(B1, version=2, status=Status.LEFT)
    effects = machine.handle(Received("B2", GossipNews((gone,))), 4)
    assert Remember({"dispatchers": ["B2", "J1"]}) in effects
