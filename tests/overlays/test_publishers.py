"""What local publishers may publish, and the numbers of what they do."""

from __future__ import annotations

import numpy as np
import pytest

from shoal.broker.effects import Effect
from shoal.broker.messages import Publish, Subscribe, Unadvertise
from shoal.overlays.publishers import LocalPublishers
from tests.broker.transcript import advertisement, publication, publish, subscription
from tests.overlays.tree.stages import stage_with_publisher


def test_publishing_needs_an_advertisement_here() -> None:
    stage = stage_with_publisher()
    stage.ask("B5", "P", publish(1))
    stage.ask("B4", "Q", publish(1, publisher="Q"))
    assert stage.heard() == [
        "B5 => P: Rejected: P has not advertised at B5",
        "B4 => Q: Rejected: Q has not advertised at B4",
    ]


def test_in_a_batch_only_what_does_not_conform_is_refused() -> None:
    stage = stage_with_publisher()
    stage.ask("B4", "C", Subscribe(subscription("s", "x < 100 OR y = 1")))
    stage.heard()
    foreign = publication(7, publisher="Q", x=7)
    rows = (publication(0), publication(1, x=-1), publication(2, y=1), foreign, publication(3))
    stage.ask("B4", "P", Publish(rows))
    assert stage.heard() == [
        "B4 => P: Rejected: publication 1 matches no advertisement of P",
        "B4 => P: Rejected: publication 2 matches no advertisement of P",
        "B4 => P: Rejected: publication 7 belongs to Q, not to P",
        "B4 : delivered P/0 to C (s)",
        "B4 : delivered P/3 to C (s)",
    ]
    numbers = [effect.routed.message_id.number for _, effect in stage.deliveries]
    assert numbers == [0, 1]  # message identifiers are consecutive (4.1)


def test_values_are_made_our_own_before_they_travel() -> None:
    """Brokers on the way look no more at what values are: numpy's match as what they equal."""
    stage = stage_with_publisher()
    stage.ask("B4", "C", Subscribe(subscription("s", "x > 2")))
    stage.heard()
    stage.ask("B4", "P", publish(np.float64(3.0)))
    assert stage.heard() == ["B4 : delivered P/3.0 to C (s)"]
    ((_, delivered),) = stage.deliveries
    assert type(delivered.routed.publication.attributes["x"]) is float
    with pytest.raises(TypeError, match="bytes is not a value"):
        stage.ask("B4", "P", publish(b"3"))


def test_after_unadvertising_publications_are_refused() -> None:
    stage = stage_with_publisher()
    stage.ask("B4", "P", Unadvertise("a"), publish(1), Unadvertise("a"))
    assert stage.refusals() == ["P has not advertised at B4", "P has no advertisement a here"]


def test_no_number_comes_twice_whoever_leaves_and_comes_back() -> None:
    publishers, out = LocalPublishers("B1"), list[Effect]()
    seen = []
    for client in ("P", "Q", "P", "P"):
        publishers.attach(client, [advertisement(f"{client}.a", publisher=client)])
        accepted = publishers.accept(client, (publication(1, client), publication(2, client)), out)
        seen += [(client, routed.message_id.number) for routed in accepted]
        publishers.detach(client)
    assert len(set(seen)) == len(seen) == 8
    assert not out


def test_who_takes_back_a_promise_may_publish_what_others_promise() -> None:
    publishers, out = LocalPublishers("B1"), list[Effect]()
    publishers.attach("P", [advertisement("low", "x < 5"), advertisement("high", "x > 5")])
    publishers.take_back("P", "low")
    accepted = publishers.accept("P", (publication(4), publication(6)), out)
    assert [routed.publication.sequence for routed in accepted] == [6]
    assert "P" in publishers
    publishers.take_back("P", "high")
    assert "P" not in publishers
