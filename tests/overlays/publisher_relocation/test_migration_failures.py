"""Moves that fail, as transcripts: who tells whom, and that nothing is lost or stays behind.

The network and its subscribers are those of `test_migration`; P stands at B1 and is to move over
B2 to B3.  Its side is played by the machine that every client has.
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from shoal.broker.effects import Requested
from shoal.broker.messages import (
    Advertise,
    Goodbye,
    MigrationAdvertisement,
    Paused,
    Publish,
    Relocate,
    Resume,
    Unadvertise,
)
from shoal.broker.publisher import MOVE_TIMEOUT_US, Publisher, PublisherEffect, ToBroker
from shoal.model import Advertisement
from shoal.overlays.publisher_relocation.messages import MigrationComplete, MigrationUpdate
from shoal.overlays.publisher_relocation.migration import HOLD_US, LEAVE_TIMEOUT_US
from tests.broker.transcript import Stage, advertisement, publication, publish
from tests.overlays.publisher_relocation.test_migration import (
    PATH,
    SUBSCRIBERS,
    WEB,
    A,
    assert_nothing_is_left,
    interests,
    send_away,
    stage_with_publisher,
)
from tests.systems import eager

TIMER = ("migration", "P")
B = advertisement("b", "y >= 0")


class Move:
    """P with its client, told to move; what it says waits, per broker, until it is let through."""

    def __init__(self, *advertisements: Advertisement) -> None:
        self.stage = stage_with_publisher(*advertisements)
        self.client = Publisher("P", "B1")
        for row in advertisements or (A,):
            self.client.request(Advertise(row), 0)
        self.words: dict[str, list[ToBroker]] = {}
        self.heard = 0
        self.dead: set[str] = set()
        send_away(self.stage, "P", PATH)
        self.hear()

    def hear(self) -> None:
        """What brokers have told P reaches it."""
        notified = self.stage.notified[self.heard :]
        self.heard += len(notified)
        for broker, client, message in notified:
            if client == "P":
                self.do(self.client.notified(broker, message, self.stage.now_us))

    def do(self, effects: list[PublisherEffect]) -> None:
        for effect in effects:
            if isinstance(effect, ToBroker):
                self.words.setdefault(effect.broker, []).append(effect)

    def let_through(self, *brokers: str) -> None:
        """What P has said to these brokers reaches them; the dead do not listen."""
        for broker in brokers or tuple(self.words):
            for effect in self.words.pop(broker, []):
                if broker not in self.dead:
                    self.stage.handle(broker, Requested("P", effect.request))

    def settle(self) -> None:
        """All that is said arrives."""
        self.hear()
        while self.words or any(self.stage.links.values()):
            self.let_through()
            self.stage.settle()
            self.hear()

    def die(self, broker: str) -> None:
        """The broker's neighbours notice at once, P when it is told."""
        self.dead.add(broker)
        for left, right in WEB:
            if broker in (left, right):
                self.stage.break_link(left, right)

    def lose(self, broker: str) -> None:
        self.do(self.client.lost(broker, self.stage.now_us))

    def publish(self, number: int) -> list[str]:
        """Which subscribers get what P publishes where it is now."""
        before = len(self.stage.deliveries)
        self.do(self.client.request(publish(number), self.stage.now_us))
        self.settle()
        return sorted(client for _, client in self.stage.delivered()[before:])

    def hold_expires(self) -> None:
        for broker, key in list(self.stage.timers):
            self.stage.fire(broker, key)
        self.settle()

    def problems(self, edges: tuple[tuple[str, str], ...], home: str) -> list[str]:
        """Where the tables of living brokers differ from the oracle's."""
        found = self.stage.problems([(A, home)], interests(), edges)
        return [row for row in found if row[:2] not in self.dead]

    def without_links(self, *brokers: str) -> tuple[tuple[str, str], ...]:
        return tuple(edge for edge in WEB if not set(brokers) & set(edge))


def all_but(*clients: str) -> list[str]:
    return sorted(SUBSCRIBERS.keys() - set(clients))


# --- the path breaks --------------------------------------------------------------------------

CUT = ("B1", "B2")
BEHIND = tuple(edge for edge in WEB if edge != CUT)


@pytest.mark.parametrize("progress", range(5))
def test_a_path_that_breaks_sends_the_publisher_back(progress: int) -> None:
    """Until the complete message has passed the break; then it has moved."""
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
    move.stage.heard()
    move.stage.break_link(*CUT)
    move.settle()
    said = [line for line in move.stage.heard() if "bscribe" not in line and "vertise" not in line]
    assert said == [
        "B2 -> B3: MigrationComplete P broken",
        "B3 => P: Resume broken",
        "B1 => P: Resume broken",
    ]


@pytest.mark.parametrize("healed_first", [True, False])
def test_a_path_that_breaks_and_heals_again_before_anybody_has_gone_back(
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
def test_a_target_that_dies_costs_nobody_else_a_publication(progress: int) -> None:
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
    move.stage.heard()
    move.lose("B3")
    move.settle()
    said = move.stage.heard()
    # P says that it stays, where it has heard that not all is whole; nothing is taken back.
    assert not [line for line in said if ": Unadvertise" in line]
    assert len([line for line in said if ": Advertise" in line]) <= len(move.without_links("B3"))
    assert move.publish(1) == all_but("S3")
    move.hold_expires()
    assert not move.problems(move.without_links("B3"), "B1")
    assert_nothing_is_left(move.stage)


@pytest.mark.parametrize("progress", range(5))
def test_a_broker_of_the_path_that_dies_costs_only_what_is_behind_it(progress: int) -> None:
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
def test_without_its_source_the_publisher_goes_on_at_the_target(told_first: bool) -> None:
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


def test_a_target_that_knows_nothing_of_the_publisher_any_more_takes_it_anew() -> None:
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


def test_when_all_are_dead_whoever_comes_back_first_has_the_publisher() -> None:
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


# --- the publisher is impatient ---------------------------------------------------------------


@pytest.mark.parametrize("progress", range(6))
def test_giving_up_costs_nothing_wherever_the_move_is(progress: int) -> None:
    """Updates that cross each other on the way; the later one turns everything back."""
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


def test_an_announcement_that_comes_after_all_is_over_is_ignored() -> None:
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


# --- the publisher goes away ------------------------------------------------------------------


@pytest.mark.parametrize("progress", range(6))
def test_a_publisher_that_goes_away_leaves_nothing_behind(progress: int) -> None:
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


def test_the_last_words_of_a_publisher_that_goes_away_are_heard() -> None:
    """It says goodbye at the target while its publications from the source are under way."""
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


def test_goodbye_takes_back_all_that_a_client_asked_for() -> None:
    stage = stage_with_publisher(A, B)
    stage.ask("B1", "P", Goodbye())
    stage.ask("B4", "S4", Goodbye())
    stage.settle()
    stayed = [row for row in interests() if row[0].client != "S4"]
    assert not stage.problems([], stayed)
    assert not stage.refusals()


def test_goodbye_of_a_publisher_told_to_go_holds_its_rows_for_the_move() -> None:
    """Its connection to the source breaks first; it may be at the target already."""
    move = Move()
    move.let_through("B3")
    move.words.clear()
    move.stage.ask("B1", "P", Goodbye())
    move.settle()
    assert move.client.broker == "B3"
    assert move.publish(1) == all_but()
    assert_nothing_is_left(move.stage)


# --- what is forgotten ------------------------------------------------------------------------


def test_a_client_that_ignores_being_told_to_go_is_traced_again() -> None:
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
    # It may still come round to it.
    stage.ask("B1", "P", Paused(PATH, 1))
    stage.ask("B3", "P", MigrationAdvertisement(PATH, (A,), 1))
    stage.settle()
    assert stage.notified[-1] == ("B3", "P", Resume(1, True))


def test_rows_whose_publisher_never_comes_anywhere_go() -> None:
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


def test_what_a_publisher_took_back_meanwhile_does_not_come_again() -> None:
    """B3 holds rows from a move that failed; P, back at B1, takes one back and comes again."""
    move = Move(A, B)
    move.let_through()
    move.stage.break_link(*CUT)
    move.settle()
    move.do(move.client.request(Unadvertise("b"), move.stage.now_us))
    move.settle()
    send_away(move.stage, "P", PATH)
    move.hear()
    move.settle()
    move.stage.mend_link(*CUT)
    move.settle()
    move.hold_expires()
    assert not move.stage.problems([(A, move.client.broker)], interests())
    assert_nothing_is_left(move.stage)


def test_no_message_number_comes_twice_and_none_is_kept_for_who_left() -> None:
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
