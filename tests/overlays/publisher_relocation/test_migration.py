"""Migrations of a publisher as transcripts: two messages a link, no loss, no leftovers."""

from __future__ import annotations

from itertools import pairwise

import pytest

from shoal.broker.messages import Advertise, Subscribe, Unadvertise
from shoal.clients.messages import MigrationAdvertisement, Paused
from shoal.overlays.publisher_relocation.messages import MigrationComplete, MigrationUpdate
from shoal.overlays.publisher_relocation.migration import Migrations
from tests.broker.transcript import Stage, advertisement, publish, subscription
from tests.overlays.publisher_relocation.one_publisher import (
    BACK,
    PATH,
    SUBSCRIBERS,
    WEB,
    A,
    announce,
    assert_nothing_is_left,
    everywhere,
    interests,
    move,
    resumed,
    send_away,
    stage_with_publisher,
)


def test_the_transcript_of_a_migration() -> None:
    stage = stage_with_publisher()
    announce(stage)
    stage.ask("B1", "P", Paused(PATH, 1))
    stage.settle()
    assert [line for line in stage.take_transcript() if "ubscribe" not in line] == [
        "B1 => P: Relocate B1 B2 B3",
        "B3 -> B2: MigrationUpdate P retracted (s of S3)",
        "B2 -> B1: MigrationUpdate P retracted (s of S2 s of S3 s of S4 s of S5)",
        "B1 -> B2: MigrationComplete P",
        "B2 -> B3: MigrationComplete P",
        "B3 => P: Resume",
    ]
    assert not stage.problems([(A, "B3")], interests())
    assert_nothing_is_left(stage)
    stage.ask("B3", "P", publish(7))
    stage.settle()
    assert everywhere(stage, 7)
    assert not stage.refusals()


@pytest.mark.parametrize("bystanders", [0, 10, 40])
def test_two_messages_a_link_whatever_the_size_of_the_network(bystanders: int) -> None:
    path = ("B1", "B2", "B3", "B4")
    edges = [*pairwise(path)]
    edges += [(path[number % 4], f"X{number}") for number in range(bystanders)]
    stage = Stage(edges, "grape")
    stage.ask("B1", "P", Advertise(A))
    stage.settle()
    before = len(stage.everything_sent)
    move(stage, path)
    sent = stage.everything_sent[before:]
    assert len(sent) == 2 * 3
    assert {type(message) for _, _, message in sent} == {MigrationUpdate, MigrationComplete}


def test_publications_on_their_way_when_the_update_passes_are_delivered() -> None:
    stage = stage_with_publisher()
    stage.ask("B1", "P", publish(1))  # waits in the links from B1
    announce(stage)
    stage.carry("B3", "B2")  # the update overtakes it at B2
    stage.ask("B1", "P", Paused(PATH, 1))
    stage.settle()
    assert everywhere(stage, 1)


def test_publications_that_reach_the_source_after_the_update_are_delivered() -> None:
    stage = stage_with_publisher()
    announce(stage)
    stage.settle()  # the update is through, the publisher's last publications are not
    stage.ask("B1", "P", publish(1), publish(2), Paused(PATH, 1))
    stage.settle()
    assert everywhere(stage, 1)
    assert everywhere(stage, 2)
    assert resumed(stage) == ["P"]
    assert_nothing_is_left(stage)


def test_a_source_without_the_marker_loses_publications(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that does not wait for the marker completes too early, and refuses later
    publications.
    """
    without_marker(monkeypatch)
    stage = stage_with_publisher()
    announce(stage)
    stage.settle()
    stage.ask("B1", "P", publish(1))
    stage.settle()
    assert stage.delivered() == []
    assert stage.refusals() == ["P has not advertised at B1"]
    assert resumed(stage) == ["P"]


def test_the_papers_order_loses_publications_on_their_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Section 3.3 removes subscriptions when the update passes; see the module's deviations."""
    in_the_papers_order(monkeypatch)
    stage = stage_with_publisher()
    stage.ask("B1", "P", publish(1))
    announce(stage)
    stage.carry("B3", "B2")
    stage.ask("B1", "P", Paused(PATH, 1))
    stage.settle()
    assert sorted(client for _, client in stage.delivered()) == ["S0", "S1", "S2", "S4", "S5"]


def without_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant: the source completes as soon as the update is there."""
    turn = Migrations._turn

    def complete_at_once(self, publisher, *rest):  # type: ignore[no-untyped-def]
        self._sent_away.pop(publisher, None)
        turn(self, publisher, *rest)

    monkeypatch.setattr(Migrations, "_turn", complete_at_once)


def in_the_papers_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant: retracted subscriptions are removed when the update passes."""

    def remove_at_once(self, neighbour, subscription_id, out):  # type: ignore[no-untyped-def]
        entry = self._tree.tables.subscriptions.get(subscription_id)
        if entry is not None and entry.last_hop == neighbour:
            self._tree.tables.remove_subscription(entry)

    monkeypatch.setattr(Migrations, "_take_back", remove_at_once)


# --- advertisements that change meanwhile -----------------------------------------------------


def test_an_advertisement_younger_than_its_flood() -> None:
    """P advertises and is moved at once: its own announcement arrives before the flood from B1."""
    stage = Stage(WEB, "grape")
    for client, broker in SUBSCRIBERS.items():
        stage.ask(broker, client, Subscribe(subscription(f"s of {client}", client=client)))
    stage.ask("B1", "P", Advertise(A))
    announce(stage)
    stage.carry("B3", "B2", len(stage.links["B3", "B2"]))
    stage.ask("B1", "P", Paused(PATH, 1))
    stage.settle()
    assert not stage.problems([(A, "B3")], interests())
    assert_nothing_is_left(stage)


@pytest.mark.parametrize("progress", range(4))
def test_an_advertisement_changed_just_before_the_move(progress: int) -> None:
    """The flood of the change is somewhere on the path when the update meets it."""
    changed = advertisement("a", "x < 50 OR y = 1")
    stage = stage_with_publisher()
    stage.ask("B1", "P", Advertise(changed))
    if progress > 0:
        stage.carry("B1", "B2")
    if progress > 1:
        stage.carry("B1", "B2")
    if progress > 2:
        stage.carry("B2", "B3")
    move(stage, PATH, changed)
    assert not stage.problems([(changed, "B3")], interests())
    stage.ask("B3", "P", publish(1))
    stage.settle()
    assert everywhere(stage, 1)


@pytest.mark.parametrize("progress", range(3))
def test_an_advertisement_withdrawn_just_before_the_move(progress: int) -> None:
    other = advertisement("b", "y > 0")
    stage = stage_with_publisher(A, other)
    stage.ask("B1", "P", Unadvertise("b"))
    for way in (("B1", "B2"), ("B2", "B3"))[:progress]:
        stage.carry(*way)
    move(stage)
    assert not stage.problems([(A, "B3")], interests())


def test_a_publisher_without_advertisements_may_still_move() -> None:
    stage = stage_with_publisher()
    stage.ask("B1", "P", Unadvertise("a"))
    send_away(stage, "P", PATH)
    stage.ask("B3", "P", MigrationAdvertisement(PATH, (), 1))
    stage.ask("B1", "P", Paused(PATH, 1))
    stage.settle()
    assert resumed(stage) == ["P"]
    assert not stage.problems([], interests())
    assert_nothing_is_left(stage)
    stage.ask("B3", "P", Advertise(A), publish(1))
    stage.settle()
    assert not stage.problems([(A, "B3")], interests())


def test_the_last_advertisement_may_arrive_after_the_update() -> None:
    """The way to the source is long: B1 learns P's advertisement from the update first."""
    b = advertisement("b", "y = 1")
    stage = stage_with_publisher()
    announce(stage, PATH, A, b)
    stage.settle()
    stage.ask("B1", "P", Advertise(b), publish(1), Paused(PATH, 1))
    stage.settle()
    assert not stage.refusals()
    assert everywhere(stage, 1)
    assert resumed(stage) == ["P"]
    assert not stage.problems([(A, "B3"), (b, "B3")], interests())


def test_the_last_unadvertisement_may_arrive_after_the_update() -> None:
    stage = stage_with_publisher()
    send_away(stage, "P", PATH)
    stage.ask("B3", "P", MigrationAdvertisement(PATH, (), 1))
    stage.settle()
    stage.ask("B1", "P", Unadvertise("a"), Paused(PATH, 1))
    stage.settle()
    assert resumed(stage) == ["P"]
    assert not stage.problems([], interests())
    assert_nothing_is_left(stage)


def test_a_publisher_with_several_advertisements_moves_with_all_of_them() -> None:
    rows = (
        advertisement("a", "x < 10"),
        advertisement("b", "x >= 10"),
        advertisement("c", "y = 1"),
    )
    stage = stage_with_publisher(*rows)
    stage.ask("B5", "N", Subscribe(narrow := subscription("narrow", "y = 1 AND z = 2", "N")))
    stage.settle()
    move(stage, PATH, *rows)
    assert not stage.problems([(row, "B3") for row in rows], [*interests(), (narrow, "B5")])
    stage.ask("B3", "P", publish(1, 20))
    stage.settle()
    assert everywhere(stage, 1)
    assert everywhere(stage, 20)


def test_a_move_and_a_move_back_restore_the_tables() -> None:
    stage = stage_with_publisher()
    before = stage.rows()
    for _ in range(3):
        move(stage, PATH)
        move(stage, BACK)
    assert stage.rows() == before
    assert_nothing_is_left(stage)
    stage.ask("B1", "P", publish(1))
    stage.settle()
    assert everywhere(stage, 1)


# --- links that break under a migration -------------------------------------------------------


def test_a_path_that_breaks_behind_the_update_ends_the_migration_there() -> None:
    stage = stage_with_publisher()
    announce(stage)
    stage.carry("B3", "B2")
    stage.break_link("B1", "B2")  # the update to B1 is lost
    stage.settle()
    assert resumed(stage) == ["P"]
    remaining = tuple(edge for edge in WEB if edge != ("B1", "B2"))
    assert [row for row in stage.problems([(A, "B3")], interests(), remaining) if row > "B2"] == []


def test_a_path_that_broke_before_the_update_ends_the_migration_there() -> None:
    stage = stage_with_publisher()
    stage.break_link("B1", "B2")
    stage.settle()
    announce(stage)
    stage.settle()
    assert resumed(stage) == ["P"]


def test_a_source_that_forgot_its_publisher_does_not_wait_for_it() -> None:
    stage = stage_with_publisher()
    fresh = Stage(WEB, "grape").brokers["B1"]
    stage.break_link("B0", "B1")
    stage.break_link("B1", "B2")
    stage.brokers["B1"] = fresh
    stage.mend_link("B0", "B1")
    stage.mend_link("B1", "B2")
    stage.ask("B1", "S1", Subscribe(subscription("s of S1", client="S1")))
    stage.settle()
    stage.ask("B3", "P", MigrationAdvertisement(PATH, (A,), 1))
    stage.settle()
    assert resumed(stage) == ["P"]
    assert not stage.problems([(A, "B3")], interests())
    assert_nothing_is_left(stage)


# --- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        (),
        ("B3",),
        ("B1", "B2"),
        ("B3", "B2", "B3"),
        ("B2", "B3", "B2", "B3"),
    ],
)
def test_a_path_that_does_not_lead_here_is_refused(path: tuple[str, ...]) -> None:
    stage = stage_with_publisher()
    before = stage.rows()
    stage.ask("B3", "P", MigrationAdvertisement(path, (A,), 1))
    assert len(stage.refusals()) == 1
    assert stage.rows() == before
    assert [line for line in stage.take_transcript() if " -> " in line] == []
    assert_nothing_is_left(stage)


@pytest.mark.parametrize("path", [(), ("B2", "B1"), ("B1",), ("B1", "B2", "B1")])
def test_a_marker_for_a_path_from_elsewhere_is_refused(path: tuple[str, ...]) -> None:
    stage = stage_with_publisher()
    stage.ask("B1", "P", Paused(path, 1))
    assert len(stage.refusals()) == 1
    assert_nothing_is_left(stage)
    stage.ask("B1", "P", publish(1))
    stage.settle()
    assert everywhere(stage, 1)


def test_moving_with_others_advertisements_is_refused() -> None:
    stage = stage_with_publisher()
    before = stage.rows()
    stage.ask("B3", "Q", MigrationAdvertisement(PATH, (A,), 1))
    stage.ask("B3", "Q", MigrationAdvertisement(PATH, (advertisement("a", publisher="Q"),), 1))
    assert stage.refusals() == ["advertisement a belongs to P, not to Q"] * 2
    assert stage.rows() == before


@pytest.mark.parametrize(
    ("sender", "message"),
    [
        ("B4", MigrationUpdate("P", PATH, (A,), (), 1)),
        ("B1", MigrationUpdate("P", PATH, (A,), (), 1)),
        ("B3", MigrationComplete("P", PATH, 1, True)),
        ("B4", MigrationComplete("P", PATH, 1, True)),
        ("B3", MigrationUpdate("P", (), (A,), (), 1)),
        ("B3", MigrationUpdate("P", ("B2", "B3", "B2"), (A,), (), 1)),
        ("B1", MigrationComplete("P", ("B1", "B2", "B1", "B2"), 1, True)),
        ("stranger", MigrationUpdate("P", ("B2", "stranger"), (A,), (), 1)),
        ("stranger", MigrationComplete("P", ("stranger", "B2"), 1, True)),
    ],
)
def test_migration_messages_from_beside_the_path_are_refused(
    sender: str, message: MigrationUpdate
) -> None:
    stage = stage_with_publisher()
    before = stage.rows()
    stage.tell(sender, "B2", message)
    assert len(stage.refusals()) == 1
    assert (stage.take_transcript(), stage.rows()) == ([], before)
    assert_nothing_is_left(stage)


def test_a_resume_without_a_migration_is_refused() -> None:
    stage = stage_with_publisher()
    stage.tell("B2", "B3", MigrationComplete("P", PATH, 1, True))
    assert resumed(stage) == []
