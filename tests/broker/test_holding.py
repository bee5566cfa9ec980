"""Held input is handled in order, and other input at once."""

from __future__ import annotations

from shoal.broker.effects import Received, Requested, TimerFired
from shoal.broker.holding import Holding
from shoal.broker.messages import Goodbye, Ping
from shoal.model import MessageId


def test_other_input_follows_held_input_of_the_same_neighbour() -> None:
    holding: Holding[str] = Holding()
    holding.hold(())
    assert holding.keep(Received("B1", Goodbye()), "first")
    holding.hold(("B1", "B3"))
    assert holding.keep(Received("B1", Goodbye()), "second")
    assert not holding.keep(Received("B3", Goodbye()), "")
    assert [holding.next(), holding.next(), holding.next()] == [
        (Received("B1", Goodbye()), "first"),
        (Received("B1", Goodbye()), "second"),
        None,
    ]


def test_clients_wait_until_the_end_but_pings_and_timers_never_do() -> None:
    holding: Holding[None] = Holding()
    holding.hold(("B1",))
    assert holding.keep(Requested("c", Goodbye()), None)
    assert not holding.keep(Requested("c", Ping(MessageId("B1", "c", 1))), None)
    assert not holding.keep(TimerFired(("a",)), None)
    assert holding.next() is None
    holding.release()
    assert holding.keep(Received("B1", Goodbye()), None), "behind what waited before it"
    assert holding.next() == (Requested("c", Goodbye()), None)
    assert holding.next() == (Received("B1", Goodbye()), None)
    assert holding.is_over


def test_held_input_of_a_lost_link_is_dropped() -> None:
    holding: Holding[None] = Holding()
    holding.hold(())
    for neighbour in ("B1", "B2"):
        holding.keep(Received(neighbour, Goodbye()), None)
    holding.drop("B1")
    assert not holding.keeps_of("B1")
    assert holding.keeps_of("B2")
