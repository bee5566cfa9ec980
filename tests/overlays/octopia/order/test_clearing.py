"""A gate that takes another's place is told when all that was numbered for that one has come."""

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
def _is_all_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever goes on has said all that there is to say, whether or not all were looked at."""
    go_on = Clearing.update

    def checked(self: Clearing, now_us: int, out: list[Effect]) -> None:
        go_on(self, now_us, out)
        more: list[Effect] = []
        self.changed()
        go_on(self, now_us, more)
        assert more == []

    monkeypatch.setattr(Clearing, "update", checked)


# Of the region of the publisher: its host, and who carries for it.
HOST, CARRIER, GATE, NEXT = "b2", "b1", "b0", "a0"


def fail(here: ProductStage, broker: str, lost: str) -> None:
    """A broker notices that a link is lost: what it had sent comes back, then it goes on."""
    back = [*here.links[broker, lost]]
    here.links[broker, lost].clear()
    here.handle(broker, LinkChanged(lost, LinkState.FAILED))
    here.links[broker, lost].clear()
    for message in back:
        if isinstance(message, Notification):
            here.handle(broker, Returned(lost, message))
    here.fire(broker, RETRY)


def kill(here: ProductStage, dead: str, *but: str) -> None:
    """All who are linked to a broker lose it, but for these."""
    for left, right in here.edges:
        if dead in (left, right):
            other = left if right == dead else right
            here.links[dead, other].clear()
            if other not in but:
                fail(here, other, dead)


def enter_by(here: ProductStage, gate: str) -> None:
    """The links over which the dead one's cluster is repaired and entered."""
    for link in [(HOST, gate), (CARRIER, gate), ("c0", gate)]:
        here.links |= {link: deque(), link[::-1]: deque()}
        here.mend_link(*link)
        here.mend_link(*link)


def crowded() -> ProductStage:
    """1 is on its way to the gate over its carrier, 0 and 2 are on theirs from the host."""
    here = stage()
    here.congest(CROWDED)
    here.ask(HOST, "P", publish(1))
    here.congest()
    here.ask(HOST, "P", publish(2))
    return here


def opened(here: ProductStage) -> list[int | None]:
    return [each.number for _, _, each in here.sent(NumbersOpen)]


def test_what_comes_to_the_next_gate_waits_for_nothing_that_does_not_come() -> None:
    here = crowded()
    kill(here, GATE)
    enter_by(here, NEXT)
    here.settle()
    assert (got(here, "S1"), held(here)) == ([1, 2], {})
    assert opened(here)[-1] is not None
    here.ask(HOST, "P", publish(3))
    here.settle()
    assert (got(here, "S1"), held(here)) == ([1, 2, 3], {})


def test_what_was_carried_is_waited_for_however_long_it_takes() -> None:
    """The carrier answers behind all that it was to carry."""
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


def test_a_host_does_not_say_so_before_all_have_answered() -> None:
    here = crowded()
    kill(here, GATE, CARRIER)
    enter_by(here, NEXT)
    carry_all_but(here, (CARRIER, GATE), (HOST, CARRIER))
    assert opened(here) == []  # one that has its link yet may never answer
    here.settle()
    assert opened(here) == []
    wait_in_vain(here, NEXT)
    here.settle()
    assert NEXT not in held(here)


def test_who_is_lost_need_not_answer() -> None:
    here = crowded()
    kill(here, GATE)
    enter_by(here, NEXT)
    carry_all_but(here, (HOST, CARRIER))
    assert opened(here) == [None]
    here.links[CARRIER, HOST].clear()
    fail(here, HOST, CARRIER)
    here.settle()
    assert (got(here, "S1"), held(here)) == ([1, 2], {})


def test_who_has_the_link_again_does_not_answer() -> None:
    """What it was to carry goes there now: it need not be back at its host first."""
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


def test_what_is_sent_again_by_itself_closes_no_way() -> None:
    """A gate that is back at once has from others what its earlier life had not settled."""
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


def test_what_is_carried_twice_is_waited_for_as_well() -> None:
    """With four clusters a carrier has another one carry: that answers behind the first."""
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


def test_nobody_is_promised_what_one_may_hold_up_of_whom_the_host_knows_nothing() -> None:
    """The carrier waits for another's word, which is not linked to the host and says none."""
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


@pytest.mark.parametrize("seed", range(30))
def test_in_order_whenever_what_arrives(seed: int) -> None:
    """A gate dies while publications go round it; links are of any speed."""
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


def test_publishers_of_a_lost_gate_are_looked_at_when_something_has_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All were, after every publication: 8 ms for each with 10,000 of them."""
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
