"""A restarted broker knows its cluster's subscriptions before it admits publications."""

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
    """P's notification from b1 to a0."""
    routed = [RoutedPublication(publication(each), MessageId("b1", "P", each)) for each in numbers]
    return Notification(tuple(routed), 1)


def started_again() -> ProductStage:
    """a0 has restarted; of a1, b1 and b0 (where S is) the last is not linked to it yet."""
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


def receive(here: ProductStage, neighbour: str, message: Message) -> list[Effect]:
    return here.handle("a0", Received(neighbour, message))


def held(here: ProductStage) -> int:
    return here.brokers["a0"].description["held"]


def keys(effects: list[Effect], kind: type[Unsettled | Settled]) -> list[object]:
    return [each.key for each in effects if isinstance(each, kind)]


def test_an_early_publication_waits_until_subscriptions_are_known() -> None:
    """A host entered the cluster through the restarted broker and retransmitted a publication.

    Handled before the tables were complete it would be settled and lost (random growth).
    """
    here = started_again()
    assert len(keys(receive(here, "b1", notification(1, 2)), Unsettled)) == held(here) == 2
    here.mend_link("a0", "b0")
    here.settle()
    assert here.delivered() == [(1, "S"), (2, "S")]
    assert held(here) == 0


def test_an_admitted_publication_is_settled_after_its_next_hops() -> None:
    here = started_again()
    first, second = keys(receive(here, "b1", notification(1, 2)), Unsettled)
    here.mend_link("a0", "b0")
    effects: list[Effect] = []
    while not keys(effects, Settled):
        here.carry("a0", "b0", len(here.links["a0", "b0"]))
        effects = receive(here, "b0", here.links["b0", "a0"].popleft())
    done = [
        each
        for each in effects
        if isinstance(each, Continue | Settled)
        or (isinstance(each, Send) and isinstance(each.message, Notification))
    ]
    assert [type(each) for each in done] == [*[Continue, Send, Settled] * 2, Continue]
    assert [each.key for each in done if isinstance(each, Continue)] == [first, second, None]


@pytest.mark.parametrize("message", [Sweep("b1", 1), NumbersBegin("P", 9)])
def test_publications_behind_an_early_one_wait(message: Message) -> None:
    here = started_again()
    receive(here, "b1", notification(1))
    assert not receive(here, "b1", message)
    assert held(here) == 2
    here.mend_link("a0", "b0")
    here.settle()
    assert held(here) == 0
    assert here.delivered() == [(1, "S")]
    is_answered = ("a0", "b1", Swept("b1", 1)) in here.everything_sent
    assert is_answered is isinstance(message, Sweep)


def test_an_early_publication_returns_over_its_lost_link() -> None:
    here = started_again()
    unsettled = keys(receive(here, "b1", notification(1)), Unsettled)
    effects = here.handle("a0", LinkChanged("b1", LinkState.FAILED))
    assert keys(effects, Settled) == unsettled
    here.mend_link("a0", "b0")
    here.settle()
    assert here.delivered() == []
