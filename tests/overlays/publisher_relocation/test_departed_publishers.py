"""Publishers that leave in the middle of a move, or never arrive: their rows are dropped."""

from __future__ import annotations

import pytest

from shoal.broker.messages import Advertise, Goodbye, Publish, Unadvertise
from shoal.clients.messages import CannotMove, MigrationAdvertisement, Paused, Relocate, Resume
from shoal.overlays.publisher_relocation.migration import HOLD_US, LEAVE_TIMEOUT_US
from tests.broker.transcript import Stage, advertisement, publication, publish
from tests.overlays.publisher_relocation.broken_move import CUT, TIMER, B, Move, all_but
from tests.overlays.publisher_relocation.one_publisher import (
    PATH,
    WEB,
    A,
    assert_nothing_is_left,
    interests,
    send_away,
    stage_with_publisher,
)
from tests.systems import eager


@pytest.mark.parametrize("progress", range(6))
def test_a_publisher_that_leaves_leaves_no_rows(progress: int) -> None:
    move = Move(A, B)
    steps = [
        lambda: move.let_through("B3"),
        lambda: move.stage.carry("B3", "B2"),
        lambda: move.let_through("B1"),
        lambda: move.stage.carry("B2", "B1"),
        lambda: move.stage.carry("B1", "B2", len(move.stage.links["B1", "B2"])),
    ]
    for step in steps[:progress]:
        step()
    move.do(move.client.leave())
    move.settle()
    move.hold_expires()
    assert not move.stage.problems([], interests())
    assert_nothing_is_left(move.stage)
    for broker in move.stage.brokers.values():
        strategy = broker._strategy
        assert not strategy.migrations._arrived  # type: ignore[attr-defined]
        publishers = strategy.tree.publishers  # type: ignore[attr-defined]
        assert not publishers._promises
        assert not publishers._next_numbers


def test_the_last_publications_of_a_leaving_publisher_are_delivered() -> None:
    """It leaves at the target while its publications from the source are under way."""
    move = Move()
    move.stage.ask("B1", "P", publish(1))  # waits in the links from B1
    move.let_through("B3")
    move.stage.carry("B3", "B2")
    move.do(move.client.leave())
    move.let_through("B3")
    move.stage.carry("B3", "B2", len(move.stage.links["B3", "B2"]))
    move.stage.carry("B2", "B5", len(move.stage.links["B2", "B5"]))
    move.stage.carry("B5", "B2", len(move.stage.links["B5", "B2"]))
    move.settle()
    assert sorted(client for _, client in move.stage.delivered()) == all_but()
    move.hold_expires()
    assert not move.stage.problems([], interests())


def test_goodbye_withdraws_all_requests_of_a_client() -> None:
    stage = stage_with_publisher(A, B)
    stage.ask("B1", "P", Goodbye())
    stage.ask("B4", "S4", Goodbye())
    stage.settle()
    stayed = [row for row in interests() if row[0].client != "S4"]
    assert not stage.problems([], stayed)
    assert not stage.refusals()


def test_goodbye_of_a_moving_publisher_keeps_its_rows_for_the_move() -> None:
    """Its connection to the source breaks first; it may be at the target already."""
    move = Move()
    move.let_through("B3")
    move.words.clear()
    move.stage.ask("B1", "P", Goodbye())
    move.settle()
    assert move.client.broker == "B3"
    assert move.publish(1) == all_but()
    assert_nothing_is_left(move.stage)


# --- expiry ------------------------------------------------------------------------------------


def test_a_client_that_ignores_its_move_is_traced_again() -> None:
    stage = Stage(WEB, "grape", eager("grape", 2))
    stage.ask("B1", "P", Advertise(A))
    stage.settle()
    sessions = stage.brokers["B1"]._strategy.tracer._sessions  # type: ignore[attr-defined]
    stage.ask("B1", "P", publish(1))
    send_away(stage, "P", PATH)
    assert sessions
    assert stage.timers["B1", TIMER] == stage.now_us + LEAVE_TIMEOUT_US
    stage.fire("B1", TIMER)
    assert not sessions
    stage.ask("B1", "P", publish(2))
    assert list(sessions) == ["P"]
    # It may still arrive there.
    stage.ask("B1", "P", Paused(PATH, 1))
    stage.ask("B3", "P", MigrationAdvertisement(PATH, (A,), 1))
    stage.settle()
    assert stage.notified[-1] == ("B3", "P", Resume(1, True))


def test_no_link_change_waits_for_an_unresponsive_publisher() -> None:
    stage = stage_with_publisher()
    around = stage.brokers["B1"]._strategy
    send_away(stage, "P", PATH)
    assert around.is_moving  # type: ignore[attr-defined]
    stage.fire("B1", TIMER)
    assert not around.is_moving  # type: ignore[attr-defined]
    # It is moved again, and does not answer again.
    send_away(stage, "P", PATH)
    assert not around.is_moving  # type: ignore[attr-defined]
    # A late answer is as good as another.
    stage.ask("B1", "P", Paused(PATH, 1))
    assert around.is_moving  # type: ignore[attr-defined]


def test_a_client_that_cannot_move_is_neither_waited_for_nor_traced() -> None:
    stage = Stage(WEB, "grape", eager("grape", 2))
    stage.ask("B1", "P", Advertise(A))
    around = stage.brokers["B1"]._strategy
    stage.ask("B1", "P", publish(1))
    send_away(stage, "P", PATH)
    stage.ask("B1", "P", CannotMove())
    assert not around.is_moving  # type: ignore[attr-defined]
    assert ("B1", TIMER) not in stage.timers
    stage.ask("B1", "P", publish(2), publish(3))
    assert not around.tracer._sessions  # type: ignore[attr-defined]
    # Another client of its name may move.
    stage.ask("B1", "P", Goodbye(), Advertise(A), publish(4))
    assert list(around.tracer._sessions) == ["P"]  # type: ignore[attr-defined]


def test_rows_of_a_publisher_that_never_arrives_expire() -> None:
    stage = stage_with_publisher()
    send_away(stage, "P", PATH)
    stage.ask("B1", "P", Paused(PATH, 1))
    assert stage.timers["B1", TIMER] == stage.now_us + HOLD_US
    stage.settle()
    assert not stage.problems([(A, "B1")], interests())
    stage.fire("B1", TIMER)
    stage.settle()
    assert not stage.problems([], interests())
    assert_nothing_is_left(stage)


def test_a_withdrawn_advertisement_does_not_return_with_the_publisher() -> None:
    """B3 holds rows from a move that failed; P, back at B1, withdraws one and comes again."""
    move = Move(A, B)
    move.let_through()
    move.stage.break_link(*CUT)
    move.settle()
    move.do(move.client.request(Unadvertise("b"), move.stage.now_us))
    move.settle()
    send_away(move.stage, "P", PATH)
    move.deliver_to_publisher()
    move.settle()
    move.stage.mend_link(*CUT)
    move.settle()
    move.hold_expires()
    assert not move.stage.problems([(A, move.client.broker)], interests())
    assert_nothing_is_left(move.stage)


def test_message_ids_are_unique_and_not_kept_for_departed_publishers() -> None:
    stage = stage_with_publisher()
    numbers = []
    for client in ("P", "Q", "P", "R"):
        name = advertisement(f"of {client}", "x >= 0", client)
        stage.ask("B1", client, Advertise(name))
        before = len(stage.deliveries)
        rows = tuple(publication(sequence, client) for sequence in (1, 2))
        stage.ask("B1", client, Publish(rows))
        routed = [effect.routed for _, effect in stage.deliveries[before:]]
        numbers += [(client, row.message_id.number) for row in routed]
        stage.ask("B1", client, Goodbye())
    assert len(set(numbers)) == len(numbers) == 8
    tree = stage.brokers["B1"]._strategy.tree  # type: ignore[attr-defined]
    assert not tree.publishers._next_numbers


def test_relocate_reaches_a_client_once() -> None:
    move = Move()
    assert [row[2] for row in move.stage.notified] == [Relocate(PATH)]
