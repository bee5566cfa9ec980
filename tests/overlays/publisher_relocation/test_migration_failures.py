"""Moves that fail, as transcripts: the messages about the failure; nothing is lost or stays behind.

The network and its subscribers are those of `test_migration`; P is at B1 and is to move over B2 to
B3. The publisher's side is the machine that every client has.
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from shoal.broker.messages import Advertise
from shoal.clients.messages import MigrationAdvertisement, Paused, Resume
from shoal.clients.publisher import MOVE_TIMEOUT_US
from shoal.overlays.publisher_relocation.messages import MigrationComplete, MigrationUpdate
from tests.broker.transcript import Stage
from tests.overlays.publisher_relocation.broken_move import CUT, B, Move, all_but
from tests.overlays.publisher_relocation.one_publisher import (
    PATH,
    WEB,
    A,
    assert_nothing_is_left,
    interests,
    send_away,
)

BEHIND = tuple(edge for edge in WEB if edge != CUT)


@pytest.mark.parametrize("progress", range(5))
def test_a_path_that_breaks_sends_the_publisher_back(progress: int) -> None:
    """Unless the complete message has passed the break; then it has moved."""
    move = Move()
    steps = [
        lambda: move.let_through("B3"),
        lambda: move.stage.carry("B3", "B2"),
        lambda: move.stage.carry("B2", "B1"),
        lambda: move.let_through("B1"),
    ]
    for step in steps[:progress]:
        step()
    move.stage.break_link(*CUT)
    move.settle()
    assert (move.client.broker, move.client.moving) == ("B1", False)
    assert move.publish(1) == ["S0", "S1"]
    move.hold_expires()
    assert not move.problems(BEHIND, "B1")
    assert_nothing_is_left(move.stage)
    move.stage.mend_link(*CUT)
    move.settle()
    assert not move.problems(WEB, "B1")
    assert move.publish(2) == all_but()
    assert not move.stage.refusals()


def test_the_transcript_of_a_move_back() -> None:
    move = Move()
    move.let_through()
    move.stage.carry("B3", "B2")
    move.stage.take_transcript()
    move.stage.break_link(*CUT)
    move.settle()
    said = [
        line
        for line in move.stage.take_transcript()
        if "bscribe" not in line and "vertise" not in line
    ]
    assert said == [
        "B2 -> B3: MigrationComplete P broken",
        "B3 => P: Resume broken",
        "B1 => P: Resume broken",
    ]


@pytest.mark.parametrize("healed_first", [True, False])
def test_a_path_that_breaks_and_is_mended_before_a_move_back(
    healed_first: bool,
) -> None:
    move = Move()
    move.let_through("B3")
    move.stage.carry("B3", "B2")
    move.stage.break_link(*CUT)
    if healed_first:
        move.stage.mend_link(*CUT)
    move.let_through("B1")
    move.settle()
    if not healed_first:
        move.stage.mend_link(*CUT)
        move.settle()
    assert move.client.broker == "B1"
    assert move.publish(1) == all_but()
    move.hold_expires()
    assert not move.problems(WEB, "B1")
    assert_nothing_is_left(move.stage)


# --- a broker dies ----------------------------------------------------------------------------


@pytest.mark.parametrize("progress", range(6))
def test_a_target_that_dies_costs_others_no_publication(progress: int) -> None:
    move = Move()
    steps = [
        lambda: move.let_through("B3"),
        lambda: move.stage.carry("B3", "B2"),
        lambda: move.stage.carry("B2", "B1"),
        lambda: move.let_through("B1"),
        lambda: move.stage.carry("B1", "B2", len(move.stage.links["B1", "B2"])),
    ]
    for step in steps[:progress]:
        step()
    move.die("B3")
    move.settle()
    move.stage.take_transcript()
    move.lose("B3")
    move.settle()
    said = move.stage.take_transcript()
    # P announces that it stays, where the move is known to be incomplete; nothing is withdrawn.
    assert not [line for line in said if ": Unadvertise" in line]
    assert len([line for line in said if ": Advertise" in line]) <= len(move.without_links("B3"))
    assert move.publish(1) == all_but("S3")
    move.hold_expires()
    assert not move.problems(move.without_links("B3"), "B1")
    assert_nothing_is_left(move.stage)


@pytest.mark.parametrize("progress", range(5))
def test_a_broker_of_the_path_that_dies_costs_only_deliveries_behind_it(progress: int) -> None:
    move = Move()
    steps = [
        lambda: move.let_through("B3"),
        lambda: move.stage.carry("B3", "B2"),
        lambda: move.stage.carry("B2", "B1"),
        lambda: move.let_through("B1"),
    ]
    for step in steps[:progress]:
        step()
    move.die("B2")
    move.settle()
    assert move.client.broker == "B1"
    assert move.publish(1) == ["S0", "S1"]
    move.hold_expires()
    assert not move.problems(move.without_links("B2"), "B1")
    assert_nothing_is_left(move.stage)


@pytest.mark.parametrize("told_first", [True, False])
def test_without_its_source_the_publisher_continues_at_the_target(told_first: bool) -> None:
    """The update has passed B2: no subscription has to come again."""
    move = Move()
    move.let_through("B3")
    move.stage.carry("B3", "B2")
    if told_first:
        move.lose("B1")
    move.die("B1")
    move.settle()
    if not told_first:  # it has tried to go back
        assert move.client.moving
        move.lose("B1")
        move.settle()
    assert move.client.broker == "B3"
    assert move.publish(1) == ["S2", "S3", "S4", "S5"]
    move.hold_expires()
    assert not move.problems(move.without_links("B1"), "B3")


def test_a_target_without_rows_of_the_publisher_admits_it_anew() -> None:
    """The source died before the update came near it: the network has forgotten P."""
    move = Move()
    move.die("B1")
    move.settle()
    move.lose("B1")
    move.let_through("B3")
    move.settle()
    assert move.client.broker == "B3"
    assert move.publish(1) == ["S2", "S3", "S4", "S5"]
    assert not move.problems(move.without_links("B1"), "B3")


def test_the_first_broker_to_return_admits_the_publisher() -> None:
    move = Move()
    for broker in ("B1", "B3"):
        move.die(broker)
    move.lose("B3")
    move.let_through()
    move.lose("B1")
    move.let_through()
    assert move.client.moving
    move.dead.discard("B3")
    move.stage.brokers["B3"] = Stage(WEB, "grape").brokers["B3"]
    move.stage.break_link("B2", "B3")  # the fresh one believes in a link that is down
    move.do(move.client.reconnected("B3", move.stage.now_us))
    move.settle()
    assert (move.client.broker, move.client.moving) == ("B3", False)


# --- the publisher times out ------------------------------------------------------------------


@pytest.mark.parametrize("progress", range(6))
def test_a_timeout_loses_nothing_at_any_point_of_the_move(progress: int) -> None:
    """Updates that cross each other on the way; the later one reverses everything."""
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
    before = len(move.stage.everything_sent)
    move.do(move.client.woken(MOVE_TIMEOUT_US + move.stage.now_us))
    move.let_through("B1")
    move.settle()
    sent = [type(row[2]) for row in move.stage.everything_sent[before:]]
    assert move.client.broker == "B1"
    assert sent.count(MigrationUpdate) + sent.count(MigrationComplete) <= 4 * len(PATH)
    assert not move.stage.problems([(A, "B1"), (B, "B1")], interests())
    assert move.publish(1) == all_but()
    assert_nothing_is_left(move.stage)
    assert not move.stage.refusals()


@pytest.mark.parametrize("bystanders", [0, 40])
def test_a_move_and_a_move_back_cost_messages_on_the_path_only(bystanders: int) -> None:
    """The target is dead: updates over three links and back, however large the network is."""
    path = ("B1", "B2", "B3", "B4")
    edges = [*pairwise(path), ("B4", "B5")]
    edges += [(path[number % 4], f"X{number}") for number in range(bystanders)]
    stage = Stage(edges, "grape")
    stage.ask("B1", "P", Advertise(A))
    stage.settle()
    send_away(stage, "P", ("B1", "B2", "B3", "B4", "B5"))
    stage.break_link("B4", "B5")
    before = len(stage.everything_sent)
    stage.ask("B1", "P", Paused(("B1", "B2", "B3", "B4", "B5"), 1))
    stage.ask("B1", "P", MigrationAdvertisement(("B5", "B4", "B3", "B2", "B1"), (A,), 2))
    stage.settle()
    assert len(stage.everything_sent) - before == 2 * 3
    assert stage.notified[-1] == ("B1", "P", Resume(2, False))


def test_an_announcement_after_the_move_is_ignored() -> None:
    move = Move()
    late = move.words.pop("B3")
    move.let_through("B1")
    move.do(move.client.woken(MOVE_TIMEOUT_US + move.stage.now_us))
    move.let_through("B1")
    move.settle()
    before = move.stage.rows()
    move.words["B3"] = late
    move.settle()
    assert move.stage.rows() == before
    assert move.publish(1) == all_but()
    assert not move.stage.refusals()
