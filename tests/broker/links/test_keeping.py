"""A link keeps awaited messages until the other end has settled them."""

from __future__ import annotations

import pytest

from shoal.broker.links.controls import Acknowledge
from shoal.broker.links.outbox import Span
from shoal.broker.messages import Unsubscribe
from tests.broker.links.keeping import keeping
from tests.broker.links.wire import CODEC


def test_a_handled_message_is_kept_until_it_is_settled() -> None:
    wire = keeping()
    wire.publish(0, 1, 2, 3)
    wire.go()
    assert wire.got == [(number, False) for number in range(4)]
    kept = wire.ends["A"].buffered_bytes
    assert kept > 0
    wire.settle(2, 1)
    assert wire.settled == [2, 1]
    wire.settle(0, 3)
    assert wire.settled == [2, 1, 0, 3]
    assert wire.ends["A"].buffered_bytes == 0


def test_settlements_during_a_disconnection_are_repeated() -> None:
    wire = keeping()
    wire.publish(0, 1, 2)
    wire.go()
    wire.ends["B"].settle(wire.debts[1])
    wire.write("B")  # and lost
    wire.cut()
    wire.ends["B"].settle(wire.debts[2])
    wire.connect()
    wire.go()
    assert wire.settled == [1, 2]
    assert wire.ups == {"A": 1, "B": 1}
    wire.settle(0)
    assert wire.settled == [1, 2, 0]


def test_a_restarted_end_is_sent_unsettled_messages_again() -> None:
    wire = keeping()
    wire.publish(0, 1, 2)
    wire.go()
    wire.settle(1)
    old = wire.debts[0]
    wire.come_back()
    assert wire.ups["A"] == 2
    wire.publish(3)
    wire.send("A")
    wire.go()
    assert wire.got == [
        (0, False),
        (1, False),
        (2, False),
    ]  # nothing passes before tables are synced
    assert wire.ends["A"].send(Unsubscribe("of an exchange"))
    wire.ends["A"].open_gate()
    wire.got.clear()
    wire.go()
    assert wire.got == [(0, True), (2, True), (3, False)]
    assert not wire.ends["B"].settle(old)  # of an ended session
    wire.settle(0, 2, 3)
    assert wire.settled == [1, 0, 2, 3]


def test_held_messages_pass_to_the_next_session() -> None:
    wire = keeping()
    wire.publish(0)
    wire.come_back()
    wire.publish(1)
    wire.come_back()
    wire.ends["A"].open_gate()
    wire.go()
    assert [number for number, _ in wire.got] == [0, 1]
    wire.settle(0, 1)
    assert wire.settled == [0, 1]
    assert wire.ends["A"].buffered_bytes == 0


def test_unsettled_messages_are_returned_to_a_system_that_retransmits() -> None:
    wire = keeping(is_graceful=False)
    wire.publish(0)
    wire.go()
    wire.come_back()
    assert wire.settled == []
    assert wire.ends["A"].buffered_bytes == 0
    assert wire.returned() == [0]
    assert wire.settled == [0]


def test_unsettled_messages_of_a_link_given_up_are_returned_once_and_marked() -> None:
    wire = keeping()
    wire.publish(0, 1)
    wire.go()
    wire.publish(2)
    wire.settle(1)
    wire.ends["A"].give_up()
    assert wire.settled == [1]
    assert wire.returned() == [0, 2]
    assert wire.settled == [1, 0, 2]
    assert wire.returned() == []


def test_unsettled_messages_fill_a_link() -> None:
    wire = keeping()
    number = 0
    while not wire.ends["A"].is_full:
        wire.publish(number)
        wire.go()
        number += 1
    assert len(wire.got) == number
    wire.settle(*range(number - 2))
    assert not wire.ends["A"].is_full


@pytest.mark.parametrize("spans", [((0, 2**62),), ((-5, 0),), ((3, 1),), ((7, 7), (0, 0))])
def test_settlements_of_unsent_messages_are_ignored(
    spans: tuple[Span, ...],
) -> None:
    wire = keeping()
    wire.publish(0, 1)
    wire.go()
    wire.ends["A"].receive(CODEC.encode(Acknowledge(2, spans)), 1)
    assert wire.settled in ([], [0], [0, 1])
