"""A new sequencer learns when all publications numbered for the former one have come."""

from __future__ import annotations

from collections import deque
from random import Random
from unittest.mock import patch

import pytest

from shoal.broker.effects import Effect, LinkChanged, LinkState, Returned
from shoal.broker.messages import Advertise
from shoal.overlays.octopia.messages import (
    Notification,
    NumbersBegin,
    NumbersOpen,
    WayCleared,
    WayClosed,
    WayLost,
)
from shoal.overlays.octopia.order.clearing import Clearing
from shoal.overlays.octopia.order.sequencer import TIMER
from shoal.overlays.octopia.routing import RETRY
from tests.broker.transcript import advertisement, publish
from tests.examples import one_in
from tests.overlays.octopia.order.crowded import (
    CROWDED,
    carry_all_but,
    got,
    held,
    stage,
    wait_in_vain,
)
from tests.overlays.octopia.stages import ProductStage


@pytest.fixture(autouse=True)
def _is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing more would be sent after a check of all publishers."""
    go_on = Clearing.update

    def checked(self: Clearing, now_us: int, out: list[Effect]) -> None:
        go_on(self, now_us, out)
        more: list[Effect] = []
        self.changed()
        go_on(self, now_us, more)
        assert more == []

    monkeypatch.setattr(Clearing, "update", checked)


# Of the publisher's region: its host, and the brokers that carry for it.
HOST, CARRIER, GATE, NEXT = "b2", "b1", "b0", "a0"


def fail(here: ProductStage, broker: str, lost: str) -> None:
    """A broker notices a lost link: its content is returned, then the broker continues."""
    back = [*here.links[broker, lost]]
    here.links[broker, lost].clear()
    here.handle(broker, LinkChanged(lost, LinkState.FAILED))
    here.links[broker, lost].clear()
    for message in back:
        if isinstance(message, Notification):
            here.handle(broker, Returned(lost, message))
    here.fire(broker, RETRY)


def kill(here: ProductStage, dead: str, *but: str) -> None:
    """All neighbours of a broker lose it, except these."""
    for left, right in here.edges:
        if dead in (left, right):
            other = left if right == dead else right
            here.links[dead, other].clear()
            if other not in but:
                fail(here, other, dead)


def enter_by(here: ProductStage, gate: str) -> None:
    """The links by which the dead broker's cluster is repaired and entered."""
    for link in [(HOST, gate), (CARRIER, gate), ("c0", gate)]:
        here.links |= {link: deque(), link[::-1]: deque()}
        here.mend_link(*link)
        here.mend_link(*link)


def crowded() -> ProductStage:
    """1 is on its way to the sequencer over its carrier, 0 and 2 are on theirs from the host."""
    here = stage()
    here.congest(CROWDED)
    here.ask(HOST, "P", publish(1))
    here.congest()
    here.ask(HOST, "P", publish(2))
    return here


def opened(here: ProductStage) -> list[int | None]:
    return [each.number for _, _, each in here.sent(NumbersOpen)]


def test_the_next_sequencer_waits_for_no_publication_that_cannot_come() -> None:
    here = crowded()
    kill(here, GATE)
    enter_by(here, NEXT)
    here.settle()
    assert (got(here, "S1"), held(here)) == ([1, 2], {})
    assert opened(here)[-1] is not None
    here.ask(HOST, "P", publish(3))
    here.settle()
    assert (got(here, "S1"), held(here)) == ([1, 2, 3], {})


def test_the_next_sequencer_waits_for_carried_publications() -> None:
    """The carrier answers after everything that it was to carry."""
    here = crowded()
    kill(here, GATE)
    enter_by(here, NEXT)
    carry_all_but(here, (HOST, CARRIER))
    assert opened(here) == [None]
    here.ask(HOST, "P", publish(3))
    carry_all_but(here, (HOST, CARRIER))
    assert (got(here, "S1"), held(here)) == ([], {NEXT: 2})
    while here.now_us < 20_000_000 and (NEXT, TIMER) in here.timers:
        here.fire(NEXT, TIMER)
    carry_all_but(here, (HOST, CARRIER))
    assert (got(here, "S1"), held(here)) == ([], {NEXT: 2})
    here.settle()
    assert (got(here, "S1"), held(here)) == ([1, 2, 3], {})


def test_a_host_does_not_confirm_before_all_carriers_answered() -> None:
    here = crowded()
    kill(here, GATE, CARRIER)
    enter_by(here, NEXT)
    carry_all_but(here, (CARRIER, GATE), (HOST, CARRIER))
    assert opened(here) == []  # a broker that still has its link may never answer
    here.settle()
    assert opened(here) == []
    wait_in_vain(here, NEXT)
    here.settle()
    assert NEXT not in held(here)


def test_a_lost_carrier_need_not_answer() -> None:
    here = crowded()
    kill(here, GATE)
    enter_by(here, NEXT)
    carry_all_but(here, (HOST, CARRIER))
    assert opened(here) == [None]
    here.links[CARRIER, HOST].clear()
    fail(here, HOST, CARRIER)
    here.settle()
    assert (got(here, "S1"), held(here)) == ([1, 2], {})


def test_a_carrier_that_is_linked_again_does_not_answer() -> None:
    """Its carried publications use that link; they need not return to their host first."""
    here = crowded()
    kill(here, GATE)
    enter_by(here, NEXT)
    carry_all_but(here, (HOST, CARRIER))
    assert opened(here) == [None]
    begun = len(list(here.sent(NumbersBegin)))
    here.handle(CARRIER, LinkChanged(GATE, LinkState.UP))
    carry_all_but(here, (HOST, CARRIER))
    assert len(list(here.sent(NumbersBegin))) == begun + 1
    here.settle()
    assert HOST not in {target for _, target, _ in here.sent(WayCleared)}
    assert NEXT in held(here)
    wait_in_vain(here, NEXT)
    assert NEXT not in held(here)


def test_retransmissions_to_a_returned_sequencer_close_no_way() -> None:
    """Other brokers send a restarted sequencer what it had not settled before."""
    here = crowded()
    here.handle(HOST, LinkChanged(GATE, LinkState.FAILED))
    here.handle(HOST, LinkChanged(GATE, LinkState.UP))
    here.fire(HOST, RETRY)
    carry_all_but(here)
    assert not list(here.sent(WayClosed))
    assert opened(here) == []


def test_neighbours_of_earlier_versions_are_not_waited_for() -> None:
    here = crowded()
    kill(here, GATE, CARRIER)
    here.tell(CARRIER, HOST, WayLost())
    enter_by(here, NEXT)
    here.settle()
    assert opened(here) == []
    assert held(here)[NEXT] == 1
    wait_in_vain(here, NEXT)
    assert NEXT not in held(here)


def test_the_next_sequencer_waits_for_publications_carried_twice() -> None:
    """With four clusters a carrier uses another one, which answers behind the first."""
    here = stage(("S3", "c3"), clusters=4)
    here.congest(CROWDED, (HOST, "b3", 40), (CARRIER, GATE, 40))
    here.ask(HOST, "P", publish(1))
    here.carry(HOST, CARRIER)
    assert (CARRIER, "b3", 0b0001) in here.copies()
    here.congest()
    here.ask(HOST, "P", publish(2))
    kill(here, GATE)
    enter_by(here, NEXT)
    carry_all_but(here, (CARRIER, "b3"))
    assert (opened(here), held(here)[NEXT]) == ([None], 1)
    here.settle()
    assert (got(here, "S1"), held(here)) == ([1, 2], {})


def test_a_host_confirms_nothing_that_an_unknown_broker_may_hold_up() -> None:
    """The carrier waits for a broker that is not linked to the host and does not answer."""
    here = stage(clusters=4)
    here.break_link(HOST, "b3")
    here.congest(CROWDED)
    here.ask(HOST, "P", publish(1))
    here.congest()
    here.ask(HOST, "P", publish(2))
    kill(here, GATE, "b3")
    enter_by(here, NEXT)
    here.settle()
    assert opened(here) == []
    assert held(here)[NEXT] == 2
    wait_in_vain(here, NEXT)
    assert NEXT not in held(here)


@pytest.mark.parametrize("seed", one_in(3, range(30)))
def test_order_holds_in_any_order_of_arrival(seed: int) -> None:
    """A sequencer dies while publications detour around it; links are of any speed."""
    random = Random(seed)
    here = stage()
    for number in range(20):
        here.ask(HOST, "P", publish(number))
        here.now_us += 1_000
        if random.random() < 0.5:
            here.congest(*([CROWDED] if random.random() < 0.6 else []))
        for pair in random.sample(sorted(here.links), k=len(here.links)):
            here.carry(*pair, random.randint(0, min(2, len(here.links[pair]))))
    kill(here, GATE)
    for number in range(20, 30):
        here.ask(HOST, "P", publish(number))
        for pair in random.sample(sorted(here.links), k=len(here.links)):
            here.carry(*pair, random.randint(0, min(2, len(here.links[pair]))))
        if number == 24:
            enter_by(here, NEXT)
    here.settle(random)
    found = got(here, "S1")
    assert found == sorted(found)
    assert set(range(20, 30)) <= set(found)
    assert not held(here).keys() - {GATE}


def test_publishers_of_a_lost_sequencer_are_checked_only_after_a_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A check after every publication takes 8 ms with 10,000 publishers."""
    monkeypatch.undo()  # the fixture has all looked at
    here = stage()
    names = [f"P{number}" for number in range(20)]
    for name in names:
        here.ask(HOST, name, Advertise(advertisement(name, publisher=name)))
    here.settle()
    here.congest(CROWDED)
    for name in names:
        here.ask(HOST, name, publish(1, publisher=name))
    kill(here, GATE, CARRIER)
    enter_by(here, NEXT)
    carry_all_but(here, (CARRIER, GATE), (HOST, CARRIER))
    looked_at: list[int] = []
    is_cleared = Clearing.is_cleared

    def counted(self: Clearing, cluster: int) -> bool:
        looked_at.append(cluster)
        return is_cleared(self, cluster)

    with patch.object(Clearing, "is_cleared", counted):
        for name in names:
            here.ask(HOST, name, publish(2, publisher=name))
        assert len(here.brokers[HOST].strategy.routing.numbering._late) == len(names)
        assert len(looked_at) <= 3 * len(names)
        looked_at.clear()
        for name in names:
            here.ask(HOST, name, publish(3, publisher=name))
        assert looked_at == []
    here.settle()
    wait_in_vain(here, NEXT)
    here.settle()
    found = [each.routed.publication for _, each in here.deliveries if each.client == "S1"]
    for name in names:
        assert [each.sequence for each in found if each.publisher == name] == [2, 3]
