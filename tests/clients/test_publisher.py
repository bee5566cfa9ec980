"""The publisher's side of a relocation: the table of its docstring, row by row."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shoal.broker.effects import Record
from shoal.broker.messages import (
    Advertise,
    Goodbye,
    Message,
    Ping,
    Pong,
    Publish,
    Rejected,
    Unadvertise,
)
from shoal.clients import publisher as module
from shoal.clients.messages import (
    MigrationAdvertisement,
    Paused,
    PingRequest,
    PingTimes,
    Relocate,
    Resume,
)
from shoal.clients.publisher import (
    MOVE_TIMEOUT_US,
    HeldBackError,
    Publisher,
    PublisherEffect,
    ToBroker,
    WakeUp,
)
from shoal.clients.records import MigrationRecord, ReturnRecord
from shoal.model import MessageId
from tests.broker.transcript import advertisement, publish

SESSION = MessageId("B1", "P", 0)
OTHER = MessageId("B1", "P", 100)
PATH = ("B1", "B5", "B6")
A = advertisement("a")


def attached() -> Publisher:
    publisher = Publisher("P", "B1")
    publisher.request(Advertise(A), 0)
    return publisher


def moving() -> Publisher:
    publisher = attached()
    publisher.notified("B1", Relocate(PATH), 1_000)
    return publisher


@pytest.mark.parametrize("request_", [Advertise(A), Unadvertise("a"), publish(1)])
def test_attached_requests_go_to_the_broker(request_: Message) -> None:
    assert attached().request(request_, 5) == [ToBroker("B1", request_)]


def test_attached_pings_are_sent_and_times_reported() -> None:
    publisher = attached()
    asked = publisher.notified("B1", PingRequest(SESSION, ("B6", "B1")), 100)
    assert asked == [ToBroker("B6", Ping(SESSION)), ToBroker("B1", Ping(SESSION))]
    assert publisher.notified("B1", Pong(SESSION), 130) == []
    times = PingTimes(SESSION, {"B1": 30, "B6": 70})
    assert publisher.notified("B6", Pong(SESSION), 170) == [ToBroker("B1", times)]
    assert publisher.notified("B6", Pong(SESSION), 180) == []


def test_attached_relocate_pauses_behind_a_marker() -> None:
    publisher = attached()
    assert publisher.notified("B1", Relocate(PATH), 9) == [
        ToBroker("B1", Paused(PATH, 1)),
        ToBroker("B6", MigrationAdvertisement(PATH, (A,), 1)),
        WakeUp(9 + MOVE_TIMEOUT_US),
    ]
    assert publisher.moving


def test_attached_resume_is_ignored() -> None:
    publisher = attached()
    assert publisher.notified("B1", Resume(1, True), 5) == []
    assert publisher.notified("B6", Resume(1, True), 5) == []
    assert publisher.broker == "B1"


def test_moving_requests_are_held_back_and_sent_in_order() -> None:
    publisher = moving()
    b = advertisement("b", "x < 0")
    waiting = [publish(1), publish(2, 3), Advertise(b), publish(4), Unadvertise("a"), publish(5)]
    assert [publisher.request(request, 2_000) for request in waiting] == [[]] * 6
    record, *sent = publisher.notified("B6", Resume(1, True), 3_000)
    assert isinstance(record, Record)
    assert record.record == MigrationRecord(
        publisher="P", source="B1", target="B6", path_hops=2, paused_us=1_000, resumed_us=3_000
    )
    joined = [publish(1, 2, 3), Advertise(b, 1), publish(4), Unadvertise("a"), publish(5)]
    assert sent == [ToBroker("B6", request) for request in joined]
    assert (publisher.broker, publisher.moving) == ("B6", False)
    # The next move takes along the present advertisements.
    (_, announced, _) = publisher.notified("B6", Relocate(("B6", "B5")), 4_000)
    assert announced == ToBroker("B5", MigrationAdvertisement(("B6", "B5"), (b,), 2))


@pytest.mark.parametrize(
    "message", [PingRequest(SESSION, ("B6",)), Relocate(("B1", "B2")), Relocate(PATH)]
)
def test_moving_is_not_disturbed(message: Message) -> None:
    publisher = moving()
    assert publisher.notified("B1", message, 5_000) == []
    assert publisher.moving


@pytest.mark.parametrize("broker", ["B1", "B5", "B2"])
def test_moving_only_the_target_can_end_it(broker: str) -> None:
    publisher = moving()
    assert publisher.notified(broker, Resume(1, True), 5_000) == []
    assert publisher.moving


def test_attached_advertises_anew_at_a_broker_that_came_back_and_at_no_other() -> None:
    assert attached().reconnected("B1", 5) == [ToBroker("B1", Advertise(A))]
    assert attached().reconnected("B2", 5) == []


@pytest.mark.parametrize("path", [(), ("B1",), ("B5", "B6"), ("B2", "B1")])
def test_a_path_from_elsewhere_or_to_nowhere_is_ignored(path: tuple[str, ...]) -> None:
    publisher = attached()
    assert publisher.notified("B1", Relocate(path), 5) == []
    assert not publisher.moving


@pytest.mark.parametrize("message", [Relocate(("B2", "B1")), PingRequest(SESSION, ("B2",))])
def test_a_broker_it_is_not_attached_to_is_ignored(message: Message) -> None:
    assert attached().notified("B2", message, 5) == []


def test_pongs_of_other_sessions_and_brokers_are_ignored() -> None:
    publisher = attached()
    publisher.notified("B1", PingRequest(SESSION, ("B1", "B6")), 0)
    assert publisher.notified("B1", Pong(SESSION), 10) == []
    assert publisher.notified("B6", Pong(OTHER), 20) == []
    assert publisher.notified("B9", Pong(SESSION), 30) == []
    assert publisher.notified("B1", Pong(SESSION), 40) == []  # twice: the first counts
    times = PingTimes(SESSION, {"B1": 10, "B6": 50})
    assert publisher.notified("B6", Pong(SESSION), 50) == [ToBroker("B1", times)]


def test_a_newer_ping_request_takes_the_place_of_an_older_one() -> None:
    publisher = attached()
    publisher.notified("B1", PingRequest(SESSION, ("B6",)), 0)
    publisher.notified("B1", PingRequest(OTHER, ("B5",)), 100)
    assert publisher.notified("B6", Pong(SESSION), 150) == []
    times = PingTimes(OTHER, {"B5": 80})
    assert publisher.notified("B5", Pong(OTHER), 180) == [ToBroker("B1", times)]


def test_pings_under_way_are_forgotten_when_it_moves() -> None:
    publisher = attached()
    publisher.notified("B1", PingRequest(SESSION, ("B6",)), 0)
    publisher.notified("B1", Relocate(PATH), 5)
    assert publisher.notified("B6", Pong(SESSION), 10) == []


def test_other_messages_are_left_to_the_application() -> None:
    assert attached().notified("B1", Rejected("no"), 5) == []


def test_held_requests_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_HELD_BACK", 3)
    publisher = moving()
    for sequence in range(3):
        publisher.request(publish(sequence), 2_000)
    with pytest.raises(HeldBackError, match="P is moving and has 3 waiting"):
        publisher.request(publish(3), 2_000)
    _, sent = publisher.notified("B6", Resume(1, True), 3_000)
    assert isinstance(sent, ToBroker)
    assert isinstance(sent.request, Publish)
    assert [row.sequence for row in sent.request.publications] == [0, 1, 2]


# --- moves that fail --------------------------------------------------------------------------

BACK = PATH[::-1]


def moves_along(path: tuple[str, ...], moves: int, now_us: int) -> list[PublisherEffect]:
    return [
        ToBroker(path[0], Paused(path, moves)),
        ToBroker(path[-1], MigrationAdvertisement(path, (A,), moves)),
        WakeUp(now_us + MOVE_TIMEOUT_US),
    ]


def going_back() -> Publisher:
    publisher = moving()
    publisher.notified("B6", Resume(1, False), 2_000)
    return publisher


def test_moving_goes_back_when_the_path_was_broken() -> None:
    assert moving().notified("B6", Resume(1, False), 2_000) == moves_along(BACK, 2, 2_000)


def test_moving_goes_back_when_the_target_is_lost_or_forgot() -> None:
    assert moving().lost("B6", 2_000) == moves_along(BACK, 2, 2_000)
    assert moving().reconnected("B6", 2_000) == moves_along(BACK, 2, 2_000)


def test_moving_goes_back_when_nothing_is_heard_for_too_long() -> None:
    publisher, due_us = moving(), 1_000 + MOVE_TIMEOUT_US
    assert publisher.woken(due_us - 1) == []
    assert publisher.woken(due_us) == moves_along(BACK, 2, due_us)
    assert publisher.woken(due_us + 1) == []  # that was for the attempt before


@pytest.mark.parametrize("whole", [True, False])
def test_going_back_ends_at_the_source_whatever_is_left_of_the_path(whole: bool) -> None:
    publisher = going_back()
    assert publisher.request(publish(7), 2_500) == []
    record, *said, sent = publisher.notified("B1", Resume(2, whole), 3_000)
    assert said == ([] if whole else [ToBroker("B1", Advertise(A, 2))])
    assert isinstance(record, Record)
    assert record.record == ReturnRecord(
        publisher="P", broker="B1", target="B6", paused_us=1_000, resumed_us=3_000
    )
    assert sent == ToBroker("B1", publish(7))
    assert (publisher.broker, publisher.moving) == ("B1", False)
    assert publisher.notified("B1", Relocate(PATH), 4_000) == moves_along(PATH, 3, 4_000)


def test_going_back_ignores_messages_of_the_former_move() -> None:
    publisher = going_back()
    for broker in ("B1", "B6"):
        assert publisher.notified(broker, Resume(1, True), 3_000) == []
    assert publisher.notified("B6", Resume(2, True), 3_000) == []


def test_when_both_ends_fail_they_are_tried_in_turn() -> None:
    publisher = going_back()
    assert publisher.lost("B1", 3_000) == moves_along(PATH, 3, 3_000)
    assert publisher.lost("B6", 4_000) == moves_along(BACK, 4, 4_000)
    due_us = 4_000 + MOVE_TIMEOUT_US
    assert publisher.woken(due_us) == moves_along(PATH, 5, due_us)
    assert publisher.reconnected("B6", due_us + 5) == moves_along(PATH, 6, due_us + 5)
    record, said = publisher.notified("B6", Resume(6, False), due_us + 9)
    assert said == ToBroker("B6", Advertise(A, 6))
    assert isinstance(record, Record)
    assert isinstance(record.record, MigrationRecord)
    assert (record.record.source, publisher.broker) == ("B1", "B6")


@pytest.mark.parametrize("event", ["lost", "reconnected"])
def test_moving_without_a_source_to_go_back_to_stays_at_the_target(event: str) -> None:
    publisher = moving()
    assert getattr(publisher, event)("B1", 2_000) == []
    record, said = publisher.notified("B6", Resume(1, False), 3_000)
    assert said == ToBroker("B6", Advertise(A, 1))
    assert isinstance(record, Record)
    assert publisher.broker == "B6"


def test_the_loss_of_other_brokers_is_ignored() -> None:
    assert attached().lost("B1", 5) == []
    assert moving().lost("B5", 5) == []
    assert moving().reconnected("B5", 5) == []


def test_a_leaving_publisher_says_goodbye_and_is_silent_then() -> None:
    assert attached().leave() == [ToBroker("B1", Goodbye())]
    publisher = moving()
    publisher.request(publish(1), 2_000)
    assert publisher.leave() == [ToBroker("B1", Goodbye()), ToBroker("B6", Goodbye())]
    assert publisher.notified("B6", Resume(1, True), 3_000) == []
    assert publisher.notified("B1", PingRequest(SESSION, ("B6",)), 3_000) == []
    assert publisher.reconnected("B1", 3_000) == publisher.woken(10**9) == []
    with pytest.raises(ValueError, match="P has left and asks for Publish"):
        publisher.request(publish(2), 4_000)


def test_a_restarted_client_continues_its_numbers() -> None:
    publisher = Publisher("P", "B1", moves=40)
    assert publisher.request(Advertise(A), 0) == [ToBroker("B1", Advertise(A, 40))]
    assert publisher.notified("B1", Relocate(PATH), 5) == moves_along(PATH, 41, 5)


def test_attached_unhandled_requests_are_repeated_at_its_broker() -> None:
    publisher = attached()
    assert publisher.again([publish(1), publish(2)], 5) == [
        ToBroker("B1", publish(1)),
        ToBroker("B1", publish(2)),
    ]


def test_moving_unhandled_requests_precede_held_ones() -> None:
    publisher = moving()
    publisher.request(publish(3), 1_100)
    assert publisher.again([publish(1), publish(2)], 1_200) == []
    assert publisher.held_back == 3
    assert publisher.brokers == ("B1", "B6")
    effects = publisher.notified("B6", Resume(1, True), 1_300)
    assert ToBroker("B6", publish(1, 2, 3)) in effects
    assert (publisher.moved, publisher.held_back, publisher.brokers) == (1, 0, ("B6",))


@pytest.mark.parametrize("start", [attached, moving])
def test_back_home_it_advertises_anew_and_repeats_requests_in_order(
    start: Callable[[], Publisher],
) -> None:
    publisher = start()
    publisher.notified("B1", PingRequest(SESSION, ("B5",)), 1_050)
    if publisher.moving:
        publisher.request(publish(2), 1_100)
    moves = 2 if publisher.moving else 1
    effects = publisher.come_home("B9", [publish(1)], 1_200)
    asked = publish(1, 2) if moves == 2 else publish(1)
    assert effects == [ToBroker("B9", Advertise(A, moves)), ToBroker("B9", asked)]
    assert publisher.broker == "B9"
    assert not publisher.moving
    assert publisher.notified("B6", Resume(1, True), 1_300) == []
    assert publisher.notified("B5", Pong(SESSION), 1_400) == []
