"""Who starts again knows what its cluster wants before it lets anything in."""

from __future__ import annotations

import pytest

from shoal.broker.effects import (
    Continue,
    Effect,
    LinkChanged,
    LinkState,
    Received,
    Send,
    Settled,
    Unsettled,
)
from shoal.broker.machine import Broker
from shoal.broker.messages import Advertise, Message, RoutedPublication, Subscribe
from shoal.model import MessageId
from shoal.overlays.octopia.messages import Notification, NumbersBegin, Sweep, Swept
from shoal.overlays.octopia.parameters import Dynamic
from tests.broker.transcript import advertisement, publication, subscription
from tests.overlays.octopia.stages import ProductStage

AROUND = ("b0", "a1")


def notification(*numbers: int) -> Notification:
    """What P at b1 has sent to a0."""
    routed = [RoutedPublication(publication(each), MessageId("b1", "P", each)) for each in numbers]
    return Notification(tuple(routed), 1)


def started_again() -> ProductStage:
    """a0 begins anew; of a1, b1 and b0, where S is, the last one is not linked to it yet."""
    here = ProductStage("ab", (0,), 2, dynamic=Dynamic.ORDERED)
    here.ask("b0", "S", Subscribe(subscription("s", client="S")))
    here.ask("b1", "P", Advertise(advertisement("p")))
    here.settle()
    for other in AROUND:
        here.break_link("a0", other)
    here.brokers["a0"] = Broker("a0", (), here.factory, expected=AROUND)
    here.mend_link("a0", "a1")
    here.handle("a0", LinkChanged("b1", LinkState.UP))
    here.settle()
    return here


def told(here: ProductStage, neighbour: str, message: Message) -> list[Effect]:
    return here.handle("a0", Received(neighbour, message))


def held(here: ProductStage) -> int:
    return here.brokers["a0"].description["held"]


def keys(effects: list[Effect], kind: type[Unsettled | Settled]) -> list[object]:
    return [each.key for each in effects if isinstance(each, kind)]


def test_what_comes_early_waits_until_it_is_known_who_wants_it() -> None:
    """A host entered the cluster by who started again, which took it for one that only answers:
    nobody wanted yet what it sent once more, so that was settled and lost (growth seed 1378)."""
    here = started_again()
    assert len(keys(told(here, "b1", notification(1, 2)), Unsettled)) == held(here) == 2
    here.mend_link("a0", "b0")
    here.settle()
    assert here.delivered() == [(1, "S"), (2, "S")]
    assert held(here) == 0


def test_what_is_let_in_is_settled_where_it_has_gone_on() -> None:
    here = started_again()
    first, second = keys(told(here, "b1", notification(1, 2)), Unsettled)
    here.mend_link("a0", "b0")
    effects: list[Effect] = []
    while not keys(effects, Settled):
        here.carry("a0", "b0", len(here.links["a0", "b0"]))
        effects = told(here, "b0", here.links["b0", "a0"].popleft())
    done = [
        each
        for each in effects
        if isinstance(each, Continue | Settled)
        or (isinstance(each, Send) and isinstance(each.message, Notification))
    ]
    assert [type(each) for each in done] == [*[Continue, Send, Settled] * 2, Continue]
    assert [each.key for each in done if isinstance(each, Continue)] == [first, second, None]


@pytest.mark.parametrize("message", [Sweep("b1", 1), NumbersBegin("P", 9)])
def test_what_comes_behind_it_waits_too(message: Message) -> None:
    here = started_again()
    told(here, "b1", notification(1))
    assert not told(here, "b1", message)
    assert held(here) == 2
    here.mend_link("a0", "b0")
    here.settle()
    assert held(here) == 0
    assert here.delivered() == [(1, "S")]
    is_answered = ("a0", "b1", Swept("b1", 1)) in here.everything_sent
    assert is_answered is isinstance(message, Sweep)


def test_what_came_over_a_link_that_is_lost_goes_back_to_its_other_end() -> None:
    here = started_again()
    unsettled = keys(told(here, "b1", notification(1)), Unsettled)
    effects = here.handle("a0", LinkChanged("b1", LinkState.FAILED))
    assert keys(effects, Settled) == unsettled
    here.mend_link("a0", "b0")
    here.settle()
    assert here.delivered() == []
