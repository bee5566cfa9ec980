"""What the first broker holds for a link reaches its subscribers although the links change."""

from __future__ import annotations

from msgspec.structs import replace

from shoal.broker.messages import Advertise, Publish, Subscribe
from shoal.model import Pace, Publication
from shoal.overlays.tree.link_conflation import TIMER
from tests.broker.transcript import advertisement, subscription
from tests.overlays.coordination.stage import Leaving


def test_held_ones_are_sent_before_a_broker_quiesces() -> None:
    """B leaves A and C; the publisher is at A, a subscriber with a pace at C."""
    stage = Leaving(("A", "B"), ("B", "C"))
    stage.ask("A", "P", Advertise(advertisement("a")))
    stage.ask("C", "D", Subscribe(replace(subscription("s", client="D"), pace=Pace(10_000_000))))
    stage.settle()
    stage.leave("B")
    stage.settle()
    stage.up("A", "C")
    for number in range(3):
        attributes = {"x": number}
        publication = Publication(
            publisher="P", sequence=number, published_us=stage.now_us, attributes=attributes
        )
        stage.ask("A", "P", Publish((publication,)))
    stage.settle()
    assert "A ends B" in stage.take_transcript()
    stage.ended("A", "B")
    stage.ended("B", "C")
    while ("A", TIMER) in stage.timers:
        stage.fire("A", TIMER)
        stage.settle()
    got = [effect.routed.publication.sequence for _, effect in stage.deliveries]
    assert (got[0], got[-1]) == (0, 2)
