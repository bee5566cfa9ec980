"""The flooding system of the tutorial retransmits returned publications.

The general contract does not cover `Returned`.
"""

from __future__ import annotations

from shoal.broker.ack_tracker import repeated
from shoal.broker.effects import Deliver, Effect, LinkChanged, LinkState, Received, Returned, Send
from shoal.broker.machine import Broker
from shoal.broker.messages import PublicationBatch, RoutedPublication
from shoal.model import MessageId, Publication
from shoal.overlays.registry import strategy_factory

FIRST = Publication(publisher="P", sequence=0, published_us=0, attributes={"x": 1}, assured=True)
COPY = PublicationBatch((RoutedPublication(FIRST, MessageId("A", "P", 0)),), 1)


def sent(effects: list[Effect]) -> list[str]:
    return [each.neighbour for each in effects if isinstance(each, Send)]


def test_a_returned_publication_is_flooded_again_past_brokers_with_the_first_copy() -> None:
    """D's only neighbour is C. C drops B's copy as a duplicate, and dies with A's copy on its way
    to D.

    So the retransmission must pass brokers that had the first copy; otherwise it would be settled
    without D.
    """
    a = Broker("A", ("B", "C"), strategy_factory("flooding"))
    c = Broker("C", ("A", "B", "D"), strategy_factory("flooding"))
    assert sent(c.handle(Received("A", COPY), 1)) == ["B", "D"]
    assert c.handle(Received("B", COPY), 2) == []
    a.handle(LinkChanged("C", LinkState.FAILED), 1)
    again = repeated(COPY)
    assert sent(a.handle(Returned("C", again), 2)) == ["B"]
    effects = c.handle(Received("B", again), 3)
    assert sent(effects) == ["A", "D"]
    assert not [each for each in effects if isinstance(each, Deliver)]
    assert c.handle(Received("A", again), 4) == []
