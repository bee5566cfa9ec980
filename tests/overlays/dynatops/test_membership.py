"""Views: the broker that makes the next one, its members, and brokers outside it."""

from __future__ import annotations

from random import Random

import pytest

from shoal.broker.effects import (
    Departed,
    Effect,
    Input,
    LinkChanged,
    LinkState,
    OpenLink,
    Received,
    Remember,
    Send,
    SetTimer,
    Started,
    TimerFired,
)
from shoal.broker.machine import Broker
from shoal.broker.messages import Message
from shoal.broker.strategy import ProtocolError
from shoal.overlays.dynatops.members.links import RETRY
from shoal.overlays.dynatops.members.membership import GATHER, PATIENCE
from shoal.overlays.dynatops.messages import (
    Introduction,
    JoinWanted,
    LeaveRequest,
    LinkLost,
    ViewSaid,
)
from shoal.overlays.dynatops.parameters import DynatopsParameters, EarthParameters
from shoal.overlays.dynatops.protocol import Dynatops
from shoal.overlays.dynatops.structures.chord import Chord
from shoal.overlays.dynatops.view import View, ViewPlaces, known_view, seated, with_joiners
from shoal.overlays.registry import strategy_factory

MEMBERS = ("A", "B", "C", "D")


def view_of(machine: Broker) -> View | None:
    """The view that a broker is in."""
    strategy = machine.strategy
    assert isinstance(strategy, Dynatops)
    return strategy.membership.view


class Stage:
    """One broker of a ring; the test plays all others, all of them linked and introduced."""

    def __init__(
        self, name: str, members: tuple[str, ...] = MEMBERS, dead: tuple[str, ...] = ()
    ) -> None:
        """Links with the `dead` members have not come up."""
        self.now_us = 100
        factory = strategy_factory("dynatops", DynatopsParameters(brokers=members))
        self.machine = Broker(name, (), factory)
        self.others = [each for each in members if each not in (name, *dead)]
        self.heard(Started())
        for life, other in enumerate(self.others):
            self.heard(LinkChanged(other, LinkState.UP))
            self.receive(other, Introduction(life + 1, View(0, "", members)))

    @property
    def view(self) -> View:
        found = view_of(self.machine)
        assert found is not None
        return found

    def heard(self, input: Input) -> list[Effect]:
        self.now_us += 1
        return self.machine.handle(input, self.now_us)

    def receive(self, source: str, message: Message) -> list[Effect]:
        return self.heard(Received(source, message))

    def gathered(self) -> list[Effect]:
        return self.heard(TimerFired(GATHER))


def sent(effects: list[Effect], kind: type[Message]) -> list[tuple[str, Message]]:
    found = [each for each in effects if isinstance(each, Send)]
    return [(each.neighbour, each.message) for each in found if isinstance(each.message, kind)]


def test_of_two_brokers_the_first_by_name_opens_their_link() -> None:
    opened = {}
    for name in MEMBERS:
        machine = Broker(
            name, (), strategy_factory("dynatops", DynatopsParameters(brokers=MEMBERS))
        )
        effects = machine.handle(Started(), 1)
        opened[name] = [each.neighbour for each in effects if isinstance(each, OpenLink)]
    assert opened == {"A": ["B", "C", "D"], "B": ["C", "D"], "C": ["D"], "D": []}


def test_the_first_broker_makes_a_view_without_lost_members() -> None:
    stage = Stage("A")
    effects = stage.heard(LinkChanged("C", LinkState.FAILED))
    assert any(isinstance(each, SetTimer) and each.key == GATHER for each in effects)
    effects = stage.gathered()
    assert (stage.view.version, stage.view.members) == (1, ("A", "B", "D"))
    assert stage.view.lives == {"A": 101, "B": 1, "D": 3}
    assert sent(effects, ViewSaid) == [(each, ViewSaid(stage.view)) for each in ("B", "D")]


def test_a_restarted_member_has_not_asked_to_leave() -> None:
    """Its former incarnation's request does not hold for the new one."""
    stage = Stage("A")
    stage.receive("C", LeaveRequest())
    stage.receive("C", Introduction(99, View(0, "", MEMBERS)))
    stage.gathered()
    assert stage.view.members == MEMBERS
    assert stage.view.lives["C"] == 99


def test_a_member_starts_in_its_last_view_and_a_joining_broker_in_none() -> None:
    first = Stage("A")
    first.heard(LinkChanged("C", LinkState.FAILED))
    (facts,) = [each.facts for each in first.gathered() if isinstance(each, Remember)]
    again = Broker("A", (), strategy_factory("dynatops", DynatopsParameters(brokers=MEMBERS)))
    again.handle(Started(facts=facts), 1_000)
    assert view_of(again) == View(1, "A", ("A", "B", "D"))
    joiner = Broker(
        "A", (), strategy_factory("dynatops", DynatopsParameters(brokers=MEMBERS)), is_founder=False
    )
    joiner.handle(Started(), 1_000)
    assert view_of(joiner) is None


def test_lost_links_are_reported_to_the_first_broker_or_its_successor() -> None:
    stage = Stage("D")
    lost = LinkLost((0, ""), "C", True)
    assert sent(stage.heard(LinkChanged("C", LinkState.FAILED)), LinkLost) == [("A", lost)]
    told = sent(stage.heard(LinkChanged("A", LinkState.FAILED)), LinkLost)
    assert told == [("B", LinkLost((0, ""), each, True)) for each in ("A", "C")]


def test_a_broken_link_between_others_makes_a_view_of_the_same_members() -> None:
    stage = Stage("A")
    stage.receive("B", LinkLost((0, ""), "C", True))
    stage.gathered()
    assert (stage.view.version, sorted(stage.view.members)) == (1, list(MEMBERS))
    stage.receive("B", LinkLost(stage.view.age, "C", False))
    stage.gathered()
    assert stage.view.version == 1  # nothing was lost in it


# D's position has links to none of A, B and C.
SIXTEEN = tuple("DEFAGBCHIJKLMNOP")


def test_a_broker_waits_for_each_broker_that_it_takes_for_the_manager() -> None:
    """Once A and B count as lost, D takes C for the manager, which it needed no link with."""
    stage = Stage("D", SIXTEEN, dead=("A", "B", "C"))
    assert timers(stage.heard(TimerFired(PATIENCE))) == [PATIENCE]
    assert timers(stage.heard(TimerFired(PATIENCE))) == [GATHER]
    stage.gathered()
    assert stage.view.members == tuple(each for each in SIXTEEN if each not in "ABC")


def test_a_broker_waits_for_the_successor_of_managers_that_are_lost() -> None:
    stage = Stage("D", SIXTEEN, dead=("C",))
    stage.heard(TimerFired(PATIENCE))
    stage.heard(LinkChanged("A", LinkState.FAILED))
    assert timers(stage.heard(LinkChanged("B", LinkState.FAILED))) == [PATIENCE]
    assert timers(stage.heard(TimerFired(PATIENCE))) == [GATHER]
    stage.gathered()
    assert stage.view.members == tuple(each for each in SIXTEEN if each not in "ABC")


def timers(effects: list[Effect]) -> list[object]:
    return [each.key for each in effects if isinstance(each, SetTimer)]


def test_a_report_of_a_lost_link_is_forwarded_to_the_first_broker() -> None:
    """A has restarted: C has lost its link to A, B and A have not."""
    stage = Stage("B")
    lost = LinkLost((0, ""), "A", True)
    assert sent(stage.receive("C", lost), LinkLost) == [("A", lost)]
    assert sent(stage.receive("C", LinkLost((9, ""), "A", True)), LinkLost) == []
    # The next first broker is notified, too.
    effects = stage.heard(LinkChanged("A", LinkState.FAILED))
    assert sent(effects, LinkLost) == []
    assert stage.gathered()
    stage = Stage("C")
    effects = stage.receive("D", LinkLost((0, ""), "B", True))
    assert sent(effects, LinkLost) == [("A", LinkLost((0, ""), "B", True))]
    effects = stage.heard(LinkChanged("A", LinkState.FAILED))
    assert ("B", LinkLost((0, ""), "B", True)) in sent(effects, LinkLost)


def test_a_broker_killed_before_its_greeting_learns_of_its_broken_link() -> None:
    """Nothing passes that link in this view, so A makes the next view."""
    machine = Broker("B", (), strategy_factory("dynatops", DynatopsParameters(brokers=MEMBERS)))
    machine.handle(Started(), 1)
    for at_us, state in enumerate((LinkState.UP, LinkState.FAILED, LinkState.UP), 2):
        machine.handle(LinkChanged("A", state), at_us)
    effects = machine.handle(Received("A", Introduction(4, View(0, "", MEMBERS))), 5)
    assert sent(effects, LinkLost) == [("A", LinkLost((0, ""), "A", True))]
    stage = Stage("A")
    stage.receive("B", LinkLost((0, ""), "A", True))
    stage.gathered()
    assert (stage.view.version, sorted(stage.view.members)) == (1, list(MEMBERS))


def test_a_restarted_member_stays_in_the_view() -> None:
    """So its messages are retransmitted to it, instead of to all others."""
    stage = Stage("A")
    stage.heard(LinkChanged("C", LinkState.FAILED))
    stage.heard(LinkChanged("C", LinkState.UP))
    (again,) = stage.gathered()  # its greeting is on its way
    assert isinstance(again, SetTimer)
    assert stage.view.version == 0
    stage.receive("C", Introduction(77, View(0, "", MEMBERS)))
    stage.gathered()
    assert (stage.view.members, stage.view.lives["C"]) == (MEMBERS, 77)


PLACES = {"A": (48.2, 16.4), "B": (52.5, 13.4), "C": (40.6, -73.8), "D": (51.5, -0.1)}


def on_earth(coordinates: dict[str, tuple[float, float]]) -> Broker:
    """Broker A of a grid of the earth, with its links up; members say their places of `PLACES`."""
    parameters = EarthParameters(brokers=MEMBERS, coordinates=coordinates)
    machine = Broker("A", (), strategy_factory("geops", parameters))
    machine.handle(Started(), 1)
    for at_us, other in enumerate(MEMBERS[1:], 2):
        machine.handle(LinkChanged(other, LinkState.UP), at_us)
        greeting = Introduction(at_us, View(0, "", MEMBERS), None, PLACES[other])
        machine.handle(Received(other, greeting), at_us)
    return machine


def places_of(machine: Broker) -> ViewPlaces:
    strategy = machine.strategy
    assert isinstance(strategy, Dynatops)
    assert strategy.membership.places is not None
    return strategy.membership.places


def test_a_joining_broker_brings_its_coordinates() -> None:
    """Its place comes with its wish to join, over another member, and all learn it in the view."""
    machine = on_earth(PLACES)
    assert places_of(machine).root("geo:48.9,2.4") == "D"
    machine.handle(Received("D", JoinWanted("E", 99, (48.8, 2.3))), 20)
    machine.handle(LinkChanged("E", LinkState.UP), 21)
    machine.handle(Received("E", Introduction(99, None, None, (48.8, 2.3))), 22)
    effects = machine.handle(TimerFired(GATHER), 23)
    view = view_of(machine)
    assert view is not None
    assert view.coordinates == PLACES | {"E": (48.8, 2.3)}
    assert places_of(machine).root("geo:48.9,2.4") == "E"
    assert {said.view.coordinates["E"] for _, said in sent(effects, ViewSaid)} == {(48.8, 2.3)}
    # A broker that restarts comes back into the view that it knows.
    (facts,) = [each.facts for each in effects if isinstance(each, Remember)]
    known = known_view(facts, 1)
    assert known is not None
    assert known.coordinates == view.coordinates


def test_paths_go_by_names_while_a_member_has_no_coordinates() -> None:
    machine = on_earth({broker: PLACES[broker] for broker in "ABC"})
    assert not places_of(machine).is_on_earth
    machine.handle(LinkChanged("C", LinkState.FAILED), 20)
    machine.handle(TimerFired(GATHER), 21)
    # D has said its own meanwhile, and C is gone.
    assert places_of(machine).is_on_earth
    assert places_of(machine).root("geo:51,0") == "D"


def test_coordinates_off_the_earth_are_refused() -> None:
    machine = on_earth(PLACES)
    bad = View(9, "D", MEMBERS, coordinates={"A": (float("nan"), 0.0)})
    for message in (JoinWanted("E", 99, (91.0, 0.0)), ViewSaid(bad)):
        before = view_of(machine)
        with pytest.raises(ProtocolError):
            machine.strategy.receive("D", message, 20, [])
        assert view_of(machine) is before
    with pytest.raises(ValueError, match="brokers with coordinates keep their places"):
        EarthParameters(coordinates=PLACES, reconfigure_us=1)
    with pytest.raises(ValueError, match="not on earth"):
        EarthParameters(coordinates={"A": (0.0, 200.0)})


def test_brokers_on_earth_keep_their_places() -> None:
    machine = on_earth(PLACES)
    strategy = machine.strategy
    with pytest.raises(ProtocolError, match="keep their places"):
        strategy.order("swap", {"brokers": "A,B"}, 20, [])
    assert strategy.survey is not None
    assert strategy.survey["pinned"] == list(MEMBERS)


def test_a_dropped_member_returns_on_request() -> None:
    stage = Stage("A")
    stage.heard(LinkChanged("C", LinkState.FAILED))
    stage.gathered()
    assert "C" not in stage.view.members
    stage.heard(LinkChanged("C", LinkState.UP))
    stage.receive("C", Introduction(77, View(0, "", MEMBERS)))
    stage.receive("C", JoinWanted("C", 77))
    stage.gathered()
    assert (stage.view.members, stage.view.lives["C"]) == (with_joiners("ABD", "C"), 77)


def test_a_view_with_a_broker_that_had_departed_opens_a_link_to_it() -> None:
    """It was declared dead and has come back: the failed link to it does not come up again."""
    stage = Stage("A")
    stage.heard(LinkChanged("C", LinkState.FAILED))
    effects = stage.heard(Departed("C"))
    effects += stage.heard(LinkChanged("D", LinkState.UP))
    assert not any(isinstance(each, OpenLink) for each in effects)
    stage.gathered()
    lives = {"A": 101, "B": 1, "C": 7, "D": 3}
    effects = stage.receive("B", ViewSaid(View(2, "B", MEMBERS, lives)))
    assert OpenLink("C", is_lasting=True) in effects


def test_a_broker_opens_a_link_anew_that_had_ended_before_it_came_up() -> None:
    """The other end is in the view and waits for it: no later view is about to be made."""
    stage = Stage("A", dead=("C",))
    stage.heard(LinkChanged("C", LinkState.FAILED))
    effects = stage.heard(Departed("C"))
    assert not any(isinstance(each, OpenLink) for each in effects)
    effects = stage.heard(TimerFired(RETRY))
    assert OpenLink("C", is_lasting=True) in effects


def test_a_broker_outside_a_later_view_asks_to_join_and_forwards_the_view() -> None:
    stage = Stage("C")
    without = View(3, "B", ("A", "B", "D"), {"A": 1, "B": 2, "D": 3})
    effects = stage.receive("B", ViewSaid(without))
    assert sent(effects, JoinWanted) == [("B", JoinWanted("C", 101))]
    assert sent(effects, ViewSaid) == [("A", ViewSaid(without)), ("D", ViewSaid(without))]
    assert stage.view.version == 0
    stage.receive("A", ViewSaid(View(4, "A", MEMBERS, {"A": 1, "B": 2, "C": 101, "D": 3})))
    assert stage.view.version == 4


def test_all_choose_the_same_of_two_views_of_one_version() -> None:
    one = View(1, "A", MEMBERS, {"A": 1, "B": 2, "C": 101, "D": 3})
    other = View(1, "B", ("B", "C", "D"), {"B": 2, "C": 101, "D": 3})
    for views in ((one, other), (other, one)):
        stage = Stage("C")
        for view in views:
            effects = stage.receive("B", ViewSaid(view))
        assert stage.view == other
    assert sent(effects, ViewSaid) == [("B", ViewSaid(other))]


def test_the_next_broker_of_a_cluster_replaces_a_dead_gateway() -> None:
    before = View(0, "", tuple("ABCDEFGH"), per_gateway=3)
    assert ViewPlaces(before, Chord).followed_by("D", ()) == tuple("ABCEFHG")
    assert ViewPlaces(before, Chord).followed_by("D", ("X",)) == tuple("ABCEFXGH")
    assert ViewPlaces(before, Chord).followed_by("DEF", ()) == tuple("ABCGH")
    assert ViewPlaces(before, Chord).followed_by("ABCDEFGH", ()) == ()


def test_clusters_stay_together_under_joins_and_leaves() -> None:
    for seed in range(200):
        random = Random(seed)
        names = [f"B{number}" for number in range(random.randint(1, 30))]
        per_gateway = random.randint(2, 6)
        gone = random.sample(names, random.randint(0, min(4, len(names) - 1)))
        come = [f"C{number}" for number in range(random.randint(0, 4))]
        found = seated(names, gone, come, per_gateway)
        assert sorted(found) == sorted({*names, *come} - {*gone})
        starts = range(0, len(names), per_gateway)
        rows = [set(names[start : start + per_gateway]) - set(gone) for start in starts]
        now = [
            set(found[start : start + per_gateway]) for start in range(0, len(found), per_gateway)
        ]
        # Only brokers of the last clusters, which fill gaps, may be in several.
        gaps = sum(per_gateway - len(row) for row in rows[:-1])
        split = [row for row in rows if row and not any(row <= each for each in now)]
        assert len(split) <= -(-gaps // per_gateway) + 1


def test_a_views_structure_follows_its_makers_clusters() -> None:
    """So a network whose brokers restart one by one with other clusters uses one structure."""
    stage = Stage("D")
    lives = {"A": 1, "B": 2, "C": 3, "D": 101}
    stage.receive("A", ViewSaid(View(1, "A", MEMBERS, lives, per_gateway=2)))
    strategy = stage.machine.strategy
    assert isinstance(strategy, Dynatops)
    places = strategy.membership.places
    assert places is not None
    assert [places.next_hop("D", each) for each in "ABC"] == ["C", "C", "C"]


def test_a_view_spans_all_positions_after_joins() -> None:
    random = Random(3)
    members: tuple[str, ...] = ()
    for number in range(20):
        members = with_joiners(members, [f"B{number}"])
        places = ViewPlaces(View(number, "", members), Chord)
        source, target = random.choice(members), random.choice(members)
        hop = source
        for _ in range(len(members)):
            if hop == target:
                break
            assert places.next_hop(hop, target) in places.neighbours(hop)
            hop = places.next_hop(hop, target)
        assert hop == target
