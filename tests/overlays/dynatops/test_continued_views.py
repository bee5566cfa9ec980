"""Views that continue from one with other positions, at one broker of four."""

from __future__ import annotations

import pytest

from shoal.broker.effects import Deliver, Effect, Requested, Send, TimerFired
from shoal.broker.messages import RoutedPublication, Subscribe, Unsubscribe
from shoal.model import MessageId
from shoal.overlays.dynatops.in_views import BEGIN, InViews
from shoal.overlays.dynatops.messages import (
    Introduction,
    KnownTopics,
    RowsHandedOver,
    RowsWanted,
    ToHomes,
    TopicInterest,
    TopicRow,
    ViewSaid,
)
from shoal.overlays.dynatops.structures.chord import Chord
from shoal.overlays.dynatops.topics import interests
from shoal.overlays.dynatops.topics.interests import Interests
from shoal.overlays.dynatops.view import Age, View, ViewPlaces
from tests.broker.transcript import publication, subscription
from tests.overlays.dynatops.test_membership import MEMBERS, Stage

LIVES = {"A": 1, "B": 2, "C": 101, "D": 3}
SWAPPED = ("A", "B", "D", "C")
FIRST = (0, "")
NEXT = (1, "A")


def next_view(members: tuple[str, ...] = SWAPPED, base: tuple[int, str] = FIRST) -> View:
    lives = {each: LIVES[each] for each in members}
    return View(base[0] + 1, "A", members, lives, base=base)


def topics_at(root: str, members: tuple[str, ...], count: int) -> list[str]:
    """Topics with this root both in these positions and in the first ones."""
    views = View(0, "", MEMBERS), View(0, "", members)
    places = [ViewPlaces(view, Chord) for view in views]
    found = (str(number) for number in range(1_000))
    return [each for each in found if {place.root(each) for place in places} == {root}][:count]


class AtC(Stage):
    """Broker C in the first view, which is complete here unless some have not announced."""

    def __init__(self, silent: str = "") -> None:
        super().__init__("C")
        self.heard(TimerFired(BEGIN))
        for other in self.others:
            if other != silent:
                self.receive(other, all_of(other, FIRST))

    @property
    def interests(self) -> Interests:
        strategy = self.machine.strategy
        assert isinstance(strategy, InViews)
        return strategy.interests

    def subscribe(self, name: str, topic: str) -> list[Effect]:
        wanted = subscription(name, f"`$topic` = '{topic}'", "P")
        return self.heard(Requested("P", Subscribe(wanted)))


def all_of(home: str, age: tuple[int, str], *rows: TopicRow) -> TopicInterest:
    return TopicInterest(age, home, ("C",), len(rows), rows, (), True, False)


def announced(effects: list[Effect], target: str) -> list[TopicInterest]:
    sent = [each.message for each in effects if isinstance(each, Send)]
    return [each for each in sent if isinstance(each, TopicInterest) and target in each.targets]


@pytest.mark.parametrize("silent", ["", "B"])
def test_a_broker_asks_for_confirmation_with_its_last_message_only(
    silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A confirmation of an earlier one would be taken for one of all."""
    monkeypatch.setattr(interests, "ROWS_PER_MESSAGE", 1)
    stage = AtC(silent)
    gone, *topics = topics_at("A", SWAPPED, 4)
    stage.subscribe("s", gone)
    for number, topic in enumerate(topics):
        stage.subscribe(f"s{number}", topic)
    stage.heard(Requested("P", Unsubscribe("s")))
    messages = announced(stage.receive("A", ViewSaid(next_view())), "A")
    assert sum(len(each.added) for each in messages) == len(topics)
    assert [each.removed for each in messages if each.removed] == [(1,)]
    assert [each.asks for each in messages] == [False] * (len(messages) - 1) + [True]
    stage.receive("A", KnownTopics(NEXT, "C", "A", messages[-1].number))
    stage.receive("D", RowsHandedOver(NEXT, "D", "C", (), True))
    for other in stage.others:
        stage.receive(other, all_of(other, NEXT))
    assert announced(stage.receive("A", ViewSaid(next_view(MEMBERS, NEXT))), "A") == []


def test_rows_that_came_before_a_former_broker_asked_for_its_own_stay() -> None:
    stage = AtC()
    stage.receive("A", ViewSaid(next_view()))
    assert list(stage.interests.missing) == ["D"]
    row = TopicRow(1, subscription("s", f"`$topic` = '{topic_at_last()}'").filter)
    # A does not continue, and D, which was here before, does not either.
    stage.receive("A", TopicInterest(NEXT, "A", ("C",), 1, (row,), (), False, False))
    stage.receive("D", RowsWanted(NEXT, "D", ("C",)))
    for other in stage.others:
        stage.receive(other, all_of(other, NEXT))
    assert stage.interests.is_complete
    assert list(stage.interests.rows) == [("A", 1)]


def topic_at_last() -> str:
    places = ViewPlaces(View(0, "", SWAPPED), Chord)
    return next(each for each in map(str, range(1_000)) if places.root(each) == "C")


@pytest.mark.parametrize("is_new", [False, True])
@pytest.mark.parametrize(("first_view", "is_delivered"), [(FIRST, False), (NEXT, True)])
def test_a_retransmission_is_new_to_a_member_since_its_first_view(
    first_view: Age, is_delivered: bool, is_new: bool
) -> None:
    """An earlier incarnation may have delivered an unassured publication of an earlier view; not so
    without one.
    """
    stage = AtC()
    stage.subscribe("s", "t")
    if not is_new:
        stage.receive("A", Introduction(LIVES["A"], View(0, "", MEMBERS), knows=50))
    stage.receive("A", ViewSaid(next_view()))
    stage.receive("A", ViewSaid(next_view(MEMBERS, NEXT)))
    row = RoutedPublication(publication(0, **{"$topic": "t"}), MessageId("A", "P", 0))
    effects = stage.receive("A", ToHomes((row,), (2, "A"), "A", 1, 1, 1, first_view, ("C",)))
    assert any(isinstance(each, Deliver) for each in effects) == (is_delivered or is_new)


@pytest.mark.parametrize(("first_view", "is_delivered"), [((5, "A"), False), ((8, "A"), True)])
def test_a_retransmission_is_new_to_a_member_since_it_was_let_in_again(
    first_view: Age, is_delivered: bool
) -> None:
    """Others made views without it, in which they may have had an earlier incarnation."""
    stage = AtC()
    stage.subscribe("s", "t")
    stage.receive("A", ViewSaid(next_view()))
    stage.receive("A", ViewSaid(View(7, "A", ("A", "B", "D"))))
    for version in (8, 9):
        stage.receive("A", ViewSaid(View(version, "A", MEMBERS, LIVES)))
    row = RoutedPublication(publication(0, **{"$topic": "t"}), MessageId("A", "P", 0))
    effects = stage.receive("A", ToHomes((row,), (9, "A"), "A", 1, 1, 1, first_view, ("C",)))
    assert any(isinstance(each, Deliver) for each in effects) == is_delivered


@pytest.mark.parametrize(
    "view",
    [
        next_view(("A", "B", "C")),
        View(1, "A", SWAPPED, LIVES, per_gateway=2, base=FIRST),
    ],
)
def test_a_view_of_others_does_not_continue(view: View) -> None:
    stage = AtC()
    effects = stage.receive("A", ViewSaid(view))
    assert stage.view == view
    assert [each for each in effects if isinstance(each, Send) and is_hand_over(each)] == []
    assert not stage.interests.is_complete


def test_a_view_with_a_restarted_member_does_not_continue() -> None:
    stage = AtC()
    stage.receive("A", ViewSaid(next_view(MEMBERS)))
    assert stage.interests.is_complete
    stage.receive("A", ViewSaid(View(2, "A", SWAPPED, {**LIVES, "D": 50}, base=NEXT)))
    assert {*stage.interests.missing} == {"A", "B", "D"}


def is_hand_over(sent: Send) -> bool:
    return isinstance(sent.message, RowsHandedOver)
