"""Whether a publication returned to a host is of its present incarnation."""

from __future__ import annotations

import msgspec
import pytest

from shoal.broker.effects import Received
from shoal.broker.messages import Advertise, Goodbye, RoutedPublication
from shoal.model import MessageId
from shoal.overlays.octopia.messages import Notification
from shoal.overlays.octopia.order import giving_back
from tests.broker.transcript import advertisement, publication, publish
from tests.overlays.octopia.order.crowded import (
    CROWDED,
    break_and_return,
    got,
    held,
    stage,
)
from tests.overlays.octopia.stages import ProductStage

HOST = "b2"


def back(number: int, publisher: str) -> Notification:
    """An assured publication of the host, returned by a carrier."""
    assured = msgspec.structs.replace(publication(number, publisher=publisher), assured=True)
    routed = RoutedPublication(assured, MessageId(HOST, publisher, number))
    return Notification((routed,), 3, 0b001, (), {})


def goes_on(here: ProductStage, number: int, publisher: str) -> bool:
    return bool(here.handle(HOST, Received("b1", back(number, publisher))))


def come_and_go(here: ProductStage, publisher: str, count: int) -> None:
    here.ask(HOST, publisher, Advertise(advertisement(publisher, publisher=publisher)))
    here.settle()
    here.ask(HOST, publisher, publish(*range(count), publisher=publisher), Goodbye())
    here.settle()


def test_a_returned_publication_of_a_departed_publisher_goes_on() -> None:
    """The publisher may await its settlement at another broker."""
    here = stage()
    assured = msgspec.structs.replace(publication(0), assured=True)
    here.congest(CROWDED)
    here.ask(HOST, "P", msgspec.structs.replace(publish(0), publications=(assured,)))
    here.carry(HOST, "b1")
    here.ask(HOST, "P", Goodbye())
    break_and_return(here, "b1", "b0")
    here.settle()
    assert (got(here, "S1"), held(here)) == ([0], {})


def test_returned_publications_of_a_former_incarnation_are_dropped() -> None:
    here = stage()
    come_and_go(here, "Q", 3)
    come_and_go(here, "R", 2)  # has 3 and 4
    assert [goes_on(here, number, "Q") for number in (2, 3)] == [True, False]
    assert [goes_on(here, number, "R") for number in (4, 5)] == [True, False]
    assert not goes_on(here, 0, "P")
    # The former publications of a returning publisher count, too.
    come_and_go(here, "Q", 1)
    assert [goes_on(here, number, "Q") for number in (5, 6)] == [True, False]


def test_a_bounded_number_of_departed_publishers_is_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A number for each would take 130 bytes for ever."""
    monkeypatch.setattr(giving_back, "MOST_LEFT", 2)
    here = stage()
    for name in ("Q", "R", "S", "T", "R"):
        come_and_go(here, name, 2)
    known = here.brokers[HOST].strategy.routing.giving_back
    assert list(known._left) == ["T", "R"]
    assert not known._unused_numbers
    # Publications of forgotten publishers are sent again rather than lost.
    assert [goes_on(here, number, "Q") for number in (1, 5, 6)] == [True, True, False]
    assert [goes_on(here, number, "T") for number in (7, 8)] == [True, False]
