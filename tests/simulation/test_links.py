"""Reliable links: once, in order, over any wire; bounded; quiet when everything is acknowledged."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.broker.effects import (
    CancelTimer,
    Effect,
    LinkChanged,
    LinkState,
    Received,
    Record,
    Requested,
    ResetLink,
    Send,
    SetTimer,
    TimerFired,
)
from shoal.broker.machine import Broker
from shoal.broker.messages import Advertise, Message, Ping, Publish, Subscribe, Unadvertise
from shoal.overlays.registry import strategy_factory
from shoal.simulation.links import reliable as links
from shoal.simulation.links.reliable import ReliableBroker, ReliableFrame
from tests.broker.transcript import advertisement, publish, subscription

KEY = ("link", "B2")
RESEND_US = 1_000


def broker(name: str, neighbour: str) -> ReliableBroker:
    machine = Broker(name, (neighbour,), strategy_factory("tree"))
    return ReliableBroker(machine, RESEND_US)


def advertise(number: int) -> Requested:
    return Requested("P", Advertise(advertisement(f"a{number}", f"x = {number}")))


def frames(effects: list[Effect]) -> list[tuple[int, int, bool]]:
    """(sequence, acknowledged, whether it carries a message) of the frames sent."""
    sent = [effect.message for effect in effects if isinstance(effect, Send)]
    assert all(isinstance(frame, ReliableFrame) for frame in sent)
    return [(row.sequence, row.acknowledged, row.message is not None) for row in sent]  # type: ignore[attr-defined]


@dataclass
class Wire:
    """Two brokers, B1 and B2, and everything between them, in any order."""

    brokers: dict[str, ReliableBroker] = field(
        default_factory=lambda: {"B1": broker("B1", "B2"), "B2": broker("B2", "B1")}
    )
    under_way: list[tuple[str, Message]] = field(default_factory=list)
    timers: set[str] = field(default_factory=set)
    now_us: int = 0
    delivered: list[int] = field(default_factory=list)
    sent: int = 0

    def handle(self, name: str, input) -> None:  # type: ignore[no-untyped-def]
        self.now_us += 1
        other = "B2" if name == "B1" else "B1"
        for effect in self.brokers[name].handle(input, self.now_us):
            match effect:
                case Send(_, message):
                    self.sent += 1
                    self.under_way.append((other, message))
                case SetTimer():
                    self.timers.add(name)
                case CancelTimer():
                    self.timers.discard(name)
                case _ if hasattr(effect, "routed"):
                    self.delivered.append(effect.routed.publication.sequence)
                case _:
                    raise AssertionError(effect)

    def arrive(self, place: int) -> None:
        name, message = self.under_way.pop(place)
        self.handle(name, Received("B2" if name == "B1" else "B1", message))

    def fire(self, name: str) -> None:
        self.timers.discard(name)
        other = "B2" if name == "B1" else "B1"
        self.handle(name, TimerFired(("link", other)))

    def settle(self) -> None:
        """A wire without faults, until everything is acknowledged."""
        for _ in range(10_000):
            if self.under_way:
                self.arrive(0)
            elif self.timers:
                self.fire(min(self.timers))
            else:
                return
        raise AssertionError("they never stop")


MISHAPS = st.lists(
    st.tuples(
        st.sampled_from(["publish", "arrive", "lose", "double", "fire", "answer"]),
        st.integers(0, 1_000),
    ),
    max_size=80,
)


@given(MISHAPS)
def test_messages_arrive_once_and_in_order_over_any_wire(mishaps: list[tuple[str, int]]) -> None:
    wire = Wire()
    wire.handle("B2", Requested("C", Subscribe(subscription("s"))))
    wire.handle("B1", Requested("P", Advertise(advertisement("a"))))
    wire.settle()
    published = 0
    for mishap, where in mishaps:
        place = where % len(wire.under_way) if wire.under_way else None
        match mishap:
            case "publish":
                wire.handle("B1", Requested("P", publish(published)))
                published += 1
            case "answer":  # something the other way
                wire.handle(
                    "B2", Requested("Q", Advertise(advertisement(f"q{where}", publisher="Q")))
                )
            case "arrive" if place is not None:
                wire.arrive(place)
            case "lose" if place is not None:
                wire.under_way.pop(place)
            case "double" if place is not None:
                wire.under_way.append(wire.under_way[place])
            case "fire" if wire.timers:
                wire.fire(sorted(wire.timers)[where % len(wire.timers)])
    wire.settle()
    assert wire.delivered == list(range(published))
    tables = [wire.brokers[name].strategy.tables.advertisements.keys() for name in ("B1", "B2")]
    assert tables[0] == tables[1]


def test_acknowledgements_are_not_acknowledged() -> None:
    wire = Wire()
    wire.handle("B1", advertise(1))
    wire.settle()
    assert wire.sent == 2  # the message, its acknowledgement
    assert not wire.timers


def test_the_transcript_of_a_lost_frame() -> None:
    machine = broker("B1", "B2")
    assert frames(machine.handle(advertise(1), 10)) == [(1, 0, True)]
    assert frames(machine.handle(advertise(2), 20)) == [(2, 0, True)]
    again = machine.handle(TimerFired(KEY), 1_010)
    assert frames(again) == [(1, 0, True), (2, 0, True)]
    assert again[-1] == SetTimer(KEY, 1_010 + RESEND_US)
    some = machine.handle(Received("B2", ReliableFrame(0, 1, None)), 1_100)
    assert some == [SetTimer(KEY, 1_100 + RESEND_US)]
    assert machine.handle(Received("B2", ReliableFrame(0, 2, None)), 1_200) == [CancelTimer(KEY)]
    assert machine.handle(Received("B2", ReliableFrame(0, 2, None)), 1_300) == []
    assert machine.handle(TimerFired(KEY), 5_000) == []


def test_the_timer_starts_with_the_first_frame_only() -> None:
    machine = broker("B1", "B2")
    assert [type(effect) for effect in machine.handle(advertise(1), 10)] == [SetTimer, Send]
    assert [type(effect) for effect in machine.handle(advertise(2), 20)] == [Send]


def test_acknowledgements_travel_with_messages() -> None:
    machine = broker("B1", "B2")
    machine.handle(Requested("C", Subscribe(subscription("s"))), 5)
    effects = machine.handle(Received("B2", ReliableFrame(1, 0, Advertise(advertisement("a")))), 10)
    assert frames(effects) == [(1, 1, True)]  # the subscription, and no more


@pytest.mark.parametrize("sequence", [-1, 0, 2, links.WINDOW + 1, 10**18])
def test_frames_beyond_the_window_are_dropped_and_answered(sequence: int) -> None:
    machine = broker("B1", "B2")
    effects = machine.handle(Received("B2", ReliableFrame(sequence, 0, Ping(None))), 10)  # type: ignore[arg-type]
    assert frames(effects) == [(0, 0, False)]


def test_an_acknowledgement_of_an_unsent_frame_is_refused() -> None:
    machine = broker("B1", "B2")
    machine.handle(advertise(1), 5)
    message = Advertise(advertisement("b"))
    assert machine.handle(Received("B2", ReliableFrame(1, 2, message)), 10) == []
    assert "b" not in machine.strategy.tables.advertisements


def test_frames_behind_the_window_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "WINDOW", 3)
    machine = broker("B1", "B2")
    sent = [frames(machine.handle(advertise(number), number)) for number in range(6)]
    assert sent == [[(1, 0, True)], [(2, 0, True)], [(3, 0, True)], [], [], []]
    assert frames(machine.handle(TimerFired(KEY), 100)) == [
        (1, 0, True),
        (2, 0, True),
        (3, 0, True),
    ]
    moved = machine.handle(Received("B2", ReliableFrame(0, 2, None)), 200)
    assert frames(moved) == [(4, 0, True), (5, 0, True)]


def test_a_link_too_far_behind_is_closed_once_and_starts_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(links, "WINDOW", 2)
    monkeypatch.setattr(links, "MAX_WAITING", 3)
    machine = broker("B1", "B2")
    effects = [
        effect for number in range(9) for effect in machine.handle(advertise(number), number)
    ]
    assert [effect for effect in effects if isinstance(effect, ResetLink)] == [ResetLink("B2")]
    assert machine.handle(Received("B2", ReliableFrame(0, 2, None)), 20) == []  # it is given up
    down = machine.handle(LinkChanged("B2", LinkState.FAILED), 30)
    assert down == [CancelTimer(KEY)]
    up = machine.handle(LinkChanged("B2", LinkState.UP), 40)
    assert frames(up) == [(1, 0, True), (2, 0, True)]


def test_a_changed_link_drops_its_former_state() -> None:
    machine = broker("B1", "B2")
    machine.handle(advertise(1), 5)
    machine.handle(
        Received("B2", ReliableFrame(3, 0, Unadvertise("a1"))), 10
    )  # early: waits for 1 and 2
    machine.handle(LinkChanged("B2", LinkState.FAILED), 20)
    up = machine.handle(LinkChanged("B2", LinkState.UP), 30)
    assert frames(up) == [(1, 0, True), (2, 0, True)]  # the advertisement, and that it is all
    effects = machine.handle(Received("B2", ReliableFrame(1, 0, Advertise(advertisement("b")))), 40)
    assert frames(effects) == [(0, 1, False)]
    assert list(machine.strategy.tables.advertisements) == ["a1", "b"]


def test_a_neighbour_that_sends_no_frames_is_refused() -> None:
    machine = broker("B1", "B2")
    (record,) = machine.handle(Received("B2", Advertise(advertisement("a"))), 10)
    assert isinstance(record, Record)
    assert record.record.reason == "Advertise is not expected from neighbour B2"  # type: ignore[attr-defined]
    assert list(machine.strategy.tables.advertisements) == []


def test_a_frame_in_a_frame_is_refused() -> None:
    machine = broker("B1", "B2")
    effects = machine.handle(
        Received("B2", ReliableFrame(1, 0, ReliableFrame(1, 0, Publish(())))), 10
    )
    assert isinstance(effects[0], Record)


def test_clients_need_no_frames() -> None:
    machine = broker("B1", "B2")
    effects = machine.handle(Requested("P", Publish(())), 10)
    assert [type(effect).__name__ for effect in effects] == ["Record", "Notify"]
    assert (machine.id, machine.strategy.tables.advertisements) == ("B1", {})
