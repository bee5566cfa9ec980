"""Whether what comes back to a host was published in this life of it, also by who has left."""

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
    """An assured publication of the host's, given back by who was to carry it."""
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


def test_what_a_publisher_that_has_left_was_given_back_goes_on() -> None:
    """It waits for that maybe elsewhere, where it has moved to."""
    here = stage()
    assured = msgspec.structs.replace(publication(0), assured=True)
    here.congest(CROWDED)
    here.ask(HOST, "P", msgspec.structs.replace(publish(0), publications=(assured,)))
    here.carry(HOST, "b1")
    here.ask(HOST, "P", Goodbye())
    break_and_return(here, "b1", "b0")
    here.settle()
    assert (got(here, "S1"), held(here)) == ([0], {})


def test_what_those_who_have_left_published_in_an_earlier_life_does_not_go_on() -> None:
    here = stage()
    come_and_go(here, "Q", 3)
    come_and_go(here, "R", 2)  # has 3 and 4
    assert [goes_on(here, number, "Q") for number in (2, 3)] == [True, False]
    assert [goes_on(here, number, "R") for number in (4, 5)] == [True, False]
    assert not goes_on(here, 0, "P")
    # Who comes again has what it published before, too.
    come_and_go(here, "Q", 1)
    assert [goes_on(here, number, "Q") for number in (5, 6)] == [True, False]


def test_of_publishers_that_left_long_ago_no_more_is_remembered_than_a_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A number of each was kept for ever, 130 bytes."""
    monkeypatch.setattr(giving_back, "MOST_LEFT", 2)
    here = stage()
    for name in ("Q", "R", "S", "T", "R"):
        come_and_go(here, name, 2)
    known = here.brokers[HOST].strategy.routing.giving_back
    assert list(known._left) == ["T", "R"]
    assert not known._unused_numbers
    # Rather than losing what Q and S published, what nobody knows may be sent again.
    assert [goes_on(here, number, "Q") for number in (1, 5, 6)] == [True, True, False]
    assert [goes_on(here, number, "T") for number in (7, 8)] == [True, False]
