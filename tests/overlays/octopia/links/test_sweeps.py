"""A cluster is entered through another broker: publications over the former entry come first."""

from __future__ import annotations

import pytest

from shoal.broker.effects import LinkChanged, LinkState, Returned
from shoal.broker.messages import Advertise, Subscribe
from shoal.overlays.octopia.messages import Notification, Sweep, Swept
from shoal.overlays.octopia.parameters import Dynamic
from shoal.overlays.octopia.routing import RETRY
from tests.broker.transcript import advertisement, publish, subscription
from tests.overlays.octopia.links.test_relinking import link
from tests.overlays.octopia.order.crowded import break_and_return, carry_all_but, got
from tests.overlays.octopia.stages import ProductStage


def test_publications_the_former_entry_missed_precede_those_behind_its_sweep() -> None:
    """The sweep ends with the link, so waiting publications must follow the returned ones."""
    here = ProductStage(dynamic=Dynamic.ORDERED, clusters=2)
    here.ask("a1", "S", Subscribe(subscription("s", client="S")))
    here.ask("c0", "P", Advertise(advertisement("p")))
    here.settle()
    here.break_link("c0", "c1")
    link(here, "c0", "b1")
    here.settle()
    here.ask("c0", "P", publish(1))
    here.mend_link("c0", "c1")
    carry_all_but(here, ("c0", "b1"))
    assert any(isinstance(each, Sweep) for each in here.links["c0", "b1"])
    here.ask("c0", "P", publish(2))
    carry_all_but(here, ("c0", "b1"))
    assert got(here, "S") == []
    break_and_return(here, "c0", "b1")
    here.fire("c0", RETRY)
    here.settle()
    assert got(here, "S") == [1, 2]


@pytest.mark.parametrize("is_for_lost", [False, True])
def test_a_sweep_waits_for_publications_returned_from_a_lost_link(is_for_lost: bool) -> None:
    """The sweep must not be answered before the returned publications are sent again."""
    here = ProductStage(dynamic=Dynamic.ORDERED, clusters=2)
    here.ask("c0", "S", Subscribe(subscription("s", client="S")))
    here.ask("b1", "P", Advertise(advertisement("p")))
    here.settle()
    here.ask("b1", "P", publish(1))
    here.tell("b1", "b0", Sweep("x", 1, is_for_lost))
    down = ("b0", "c0")
    carry_all_but(here, down)
    lost = [each for each in here.links[down] if isinstance(each, Notification)]
    answer = ("b0", "b1", Swept("x", 1))
    here.handle("b0", LinkChanged("c0", LinkState.FAILED))
    here.links[down].clear()
    carry_all_but(here, down)
    assert answer not in here.everything_sent
    for message in lost:
        here.handle("b0", Returned("c0", message))
    here.fire("b0", RETRY)
    carry_all_but(here, down)
    # A sweep by a broker that requests lost content does not wait for a way.
    assert (answer in here.everything_sent) is is_for_lost
    here.handle("c0", LinkChanged("b0", LinkState.FAILED))
    link(here, "a0", "c0")
    here.settle()
    assert got(here, "S") == [1]
    assert answer in here.everything_sent


def test_a_sweep_for_lost_content_uses_links_beside_the_tree() -> None:
    """A broker that has not noticed the loss of the link has its content."""
    here = ProductStage(dynamic=Dynamic.ORDERED, clusters=2)
    here.handle("c0", LinkChanged("b0", LinkState.FAILED))
    link(here, "a0", "c0")
    carry_all_but(here, ("b0", "c0"))
    (sweep,) = [each for each in here.links["b0", "c0"] if isinstance(each, Sweep)]
    assert sweep.broker == "c0"
    assert not [each for _, end, each in here.sent(Swept) if end == "c0"]
    here.links["b0", "c0"].clear()
    here.handle("b0", LinkChanged("c0", LinkState.FAILED))
    here.fire("b0", RETRY)
    here.settle()
    assert [each for _, end, each in here.sent(Swept) if end == "c0"]
    # If the link had come up again, that message would follow the content.
    here.mend_link("b0", "c0")
    here.tell("b0", "c0", sweep)
    assert here.links["c0", "b0"][-1] == Swept("c0", sweep.number)
