"""Publications that local publishers may make, and their message IDs."""

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
    assert stage.take_transcript() == [
        "B5 => P: Rejected: P has not advertised at B5",
        "B4 => Q: Rejected: Q has not advertised at B4",
    ]


def test_only_unadvertised_publications_of_a_batch_are_refused() -> None:
    stage = stage_with_publisher()
    stage.ask("B4", "C", Subscribe(subscription("s", "x < 100 OR y = 1")))
    stage.take_transcript()
    foreign = publication(7, publisher="Q", x=7)
    rows = (publication(0), publication(1, x=-1), publication(2, y=1), foreign, publication(3))
    stage.ask("B4", "P", Publish(rows))
    assert stage.take_transcript() == [
        "B4 => P: Rejected: publication 1 matches no advertisement of P",
        "B4 => P: Rejected: publication 2 matches no advertisement of P",
        "B4 => P: Rejected: publication 7 belongs to Q, not to P",
        "B4 : delivered P/0 to C (s)",
        "B4 : delivered P/3 to C (s)",
    ]
    numbers = [effect.routed.message_id.number for _, effect in stage.deliveries]
    assert numbers == [0, 1]  # message IDs are consecutive (4.1)


def test_values_become_plain_python_types() -> None:
    """Other brokers do not check types again: numpy's values match like the equal Python ones."""
    stage = stage_with_publisher()
    stage.ask("B4", "C", Subscribe(subscription("s", "x > 2")))
    stage.take_transcript()
    stage.ask("B4", "P", publish(np.float64(3.0)))
    assert stage.take_transcript() == ["B4 : delivered P/3.0 to C (s)"]
    ((_, delivered),) = stage.deliveries
    assert type(delivered.routed.publication.attributes["x"]) is float
    with pytest.raises(TypeError, match="bytes is not a value"):
        stage.ask("B4", "P", publish(b"3"))


def test_after_unadvertising_publications_are_refused() -> None:
    stage = stage_with_publisher()
    stage.ask("B4", "P", Unadvertise("a"), publish(1), Unadvertise("a"))
    assert stage.refusals() == ["P has not advertised at B4", "P has no advertisement a here"]


def test_message_ids_are_unique_when_publishers_leave_and_return() -> None:
    publishers, out = LocalPublishers("B1"), list[Effect]()
    seen = []
    for client in ("P", "Q", "P", "P"):
        publishers.attach(client, [advertisement(f"{client}.a", publisher=client)])
        accepted = publishers.accept(client, (publication(1, client), publication(2, client)), out)
        seen += [(client, routed.message_id.number) for routed in accepted]
        publishers.detach(client)
    assert len(set(seen)) == len(seen) == 8
    assert not out


def test_after_a_withdrawal_only_remaining_advertisements_count() -> None:
    publishers, out = LocalPublishers("B1"), list[Effect]()
    publishers.attach("P", [advertisement("low", "x < 5"), advertisement("high", "x > 5")])
    publishers.take_back("P", "low")
    accepted = publishers.accept("P", (publication(4), publication(6)), out)
    assert [routed.publication.sequence for routed in accepted] == [6]
    assert "P" in publishers
    publishers.take_back("P", "high")
    assert "P" not in publishers
