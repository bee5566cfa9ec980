"""Another broker is used to enter a cluster: in front of that goes what went by the former."""

from __future__ import annotations

from shoal.broker.messages import Advertise, Subscribe
from shoal.overlays.octopia.messages import Sweep
from shoal.overlays.octopia.parameters import Dynamic
from shoal.overlays.octopia.routing import RETRY
from tests.broker.transcript import advertisement, publish, subscription
from tests.overlays.octopia.links.test_relinking import link
from tests.overlays.octopia.order.crowded import break_and_return, carry_all_but, got
from tests.overlays.octopia.stages import ProductStage


def test_what_the_former_entry_did_not_get_goes_before_what_waited_for_its_sweep() -> None:
    """The sweep was over with the link to it, and what waited went at once."""
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
