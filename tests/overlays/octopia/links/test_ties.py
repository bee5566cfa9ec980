"""The brokers through which other clusters are entered, and requests to them."""

from __future__ import annotations

from shoal.broker.messages import Advertise, Subscribe
from shoal.overlays.octopia.messages import BitsSaid
from tests.broker.transcript import advertisement, publish, subscription
from tests.overlays.octopia.links.test_relinking import link
from tests.overlays.octopia.order.crowded import carry_all_but
from tests.overlays.octopia.stages import ProductStage


def test_a_late_answer_to_an_earlier_request_does_not_count() -> None:
    """Its late answer to the first request must not count for the second.

    Otherwise a publication could be settled before all subscriptions are known again, and lost.
    """
    here = ProductStage("ab", (0,), 2)
    here.ask("b1", "S", Subscribe(subscription("s", client="S")))
    here.ask("a0", "P", Advertise(advertisement("p")))
    here.settle()
    here.break_link("a0", "a1")
    link(here, "a0", "b1")
    late = ("b1", "a0")
    carry_all_but(here, late)
    while not isinstance(here.links[late][0], BitsSaid):
        here.carry(*late)
    here.mend_link("a0", "a1")
    carry_all_but(here, late)
    here.break_link("a0", "a1")
    carry_all_but(here, late)
    here.carry(*late)
    here.ask("a0", "P", publish(1))
    here.settle()
    assert here.delivered() == [(1, "S")]
