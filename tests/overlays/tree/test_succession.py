"""Who takes the place of a broker that leaves: tables turn without a word, and are the oracle's."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from unittest.mock import ANY

import pytest

from shoal.broker.effects import (
    Departed,
    Effect,
    EndLink,
    Hold,
    Leave,
    Left,
    LinkChanged,
    LinkReady,
    LinkState,
    OpenLink,
    Recall,
    Received,
    Release,
    ResetLink,
    Send,
    SetTimer,
    TimerFired,
)
from shoal.broker.messages import Advertise, Goodbye, Publish, Subscribe
from shoal.matching import matches
from shoal.overlays.tree.departing.succession import behind, follow, succeed
from shoal.overlays.tree.messages import (
    Abandon,
    AdvertisementsSaid,
    Behind,
    Flushed,
    Prepare,
    Prepared,
    Refuse,
    Stop,
    Stopped,
    SubscriptionsSaid,
    Succeed,
    Succeeded,
)
from shoal.overlays.tree.system import Parameters
from tests.broker.transcript import Stage, advertisement, publication, subscription
from tests.overlays.tree.stages import busy_stage
from tests.overlays.tree.told import Told, received

UP, FAILED, ENDED = LinkState.UP, LinkState.FAILED, LinkState.ENDED


# --- how tables turn ------------------------------------------------------------------------------


@pytest.mark.parametrize("covering", [False, True], ids=["plain", "covering"])
@pytest.mark.parametrize("seed", range(15))
def test_tables_that_turn_are_the_oracles_of_the_new_tree(seed: int, covering: bool) -> None:
    random = Random(seed)
    names = [f"B{number}" for number in range(9)]
    edges = [(names[random.randrange(n)], names[n]) for n in range(1, 9)]
    stage = Stage(edges, parameters=Parameters(covering=covering))
    leaver = random.choice([name for name in names if sum(name in edge for edge in edges) > 1])
    homes = [name for name in names if name != leaver]
    advertised, interests = [], []
    for number in range(12):
        text = f"x {random.choice(['<', '>', '='])} {random.randrange(10)}"
        promise = advertisement(f"a{number}", text, publisher=f"P{number}")
        interest = subscription(f"s{number}", text, client=f"C{number}")
        advertised.append((promise, random.choice(homes)))
        interests.append((interest, random.choice(homes)))
        stage.ask(advertised[-1][1], promise.publisher, Advertise(promise))
        stage.ask(interests[-1][1], interest.client, Subscribe(interest))
    stage.settle()
    publish_fives(stage, advertised)  # routes are known that will not do any more
    stage.heard()

    tree = {name: stage.brokers[name].strategy.propagation for name in names}  # type: ignore[attr-defined]
    centre, *others = tree[leaver].neighbours
    succeed(tree[centre], leaver, [behind(tree[leaver].tables, each) for each in others])
    for other in others:
        follow(tree[other], leaver, centre)

    del stage.brokers[leaver]
    edges = [edge for edge in edges if leaver not in edge] + [(centre, other) for other in others]
    stage.links = {way: deque() for edge in edges for way in (edge, edge[::-1])}
    stage.deliveries.clear()
    published = publish_fives(stage, advertised)
    wanted = [
        (publisher, interest.id)
        for publisher in published
        for interest, _ in interests
        if matches(interest.filter, {"x": 5})
    ]
    found = [
        (row.routed.publication.publisher, id)
        for _, row in stage.deliveries
        for id in row.subscriptions
    ]
    assert sorted(found) == sorted(wanted)
    stage.heard()
    out: list[Effect] = []
    tree[centre].restate(tree[centre].neighbours, list(tree[centre].tables.subscriptions), out)
    assert covering or not out
    stage.carry_out(centre, out)
    stage.settle()
    assert not stage.problems(advertised, interests, edges)


def publish_fives(stage: Stage, advertised: list) -> list[str]:  # type: ignore[type-arg]
    """Everybody who promises it publishes x = 5; who that is."""
    able = [(row, home) for row, home in advertised if matches(row.filter, {"x": 5})]
    for promise, home in able:
        stage.ask(home, promise.publisher, Publish((publication(5, promise.publisher),)))
    stage.settle()
    return [promise.publisher for promise, _ in able]


# --- who leaves -----------------------------------------------------------------------------------


def test_a_leaf_without_clients_ends_its_link_and_has_left() -> None:
    leaf = Told("B3", "B1").hears(Leave())
    assert leaf.did == [EndLink("B1")]
    assert leaf.hears(LinkChanged("B1", ENDED)).did == [Left()]


def test_a_leaf_whose_neighbour_fails_meanwhile_waits_for_it() -> None:
    """It left, and its neighbour was back soon after, and asked for the link for ever."""
    leaf = Told("B3", "B1").hears(Leave(), LinkChanged("B1", FAILED))
    assert OpenLink("B1", is_lasting=True) in leaf.did
    assert leaf.hears(TimerFired(("leave",))).did == [SetTimer(("leave",), ANY)]
    leaf.hears(LinkChanged("B1", UP), *received("B1", AdvertisementsSaid(), SubscriptionsSaid()))
    assert leaf.hears(TimerFired(("leave",))).did == [EndLink("B1")]
    assert leaf.hears(LinkChanged("B1", ENDED)).did == [Left()]


def test_a_link_that_is_none_of_the_trees_may_fail_as_a_leafs_ends() -> None:
    leaf = Told("B3", "B1").hears(Leave(), LinkChanged("B2", FAILED))
    assert leaf.did == []
    assert leaf.hears(LinkChanged("B1", ENDED)).did == [Left()]


def test_a_broker_alone_leaves_at_once() -> None:
    assert Told("B3").hears(Leave()).did == [Left()]


@pytest.mark.parametrize("system", ["tree", "grape", "self_organising"])
def test_neighbours_that_have_left_are_not_waited_for(system: str) -> None:
    """One of several that are away must be back first; these never will be."""
    broker = Told("B3", "B1", "B2", system=system)
    broker.hears(LinkChanged("B1", FAILED), LinkChanged("B2", FAILED), Leave())
    assert broker.did == [SetTimer(("leave",), ANY)]
    broker.hears(Departed("B1"), Departed("B2"))
    assert broker.hears(TimerFired(("leave",))).did == [Left()]


def moved(system: str) -> Told:
    """B3 has moved from B2, which leaves, to B1; its link to B2 has yet to end."""
    broker = Told("B3", "B2", system=system)
    broker.hears(*received("B2", Prepare(1, "B1", ())), LinkChanged("B1", UP))
    broker.hears(*received("B2", Stop(1, 1), Flushed(1)), *received("B1", Succeeded(1, 0)))
    assert EndLink("B2") in broker.did
    return broker


def taken_place(system: str) -> Told:
    """B3 has taken the place of B2, which does not know yet whether B1 has moved."""
    broker = Told("B3", "B2", system=system)
    broker.hears(*received("B2", Prepare(1, "B3", ("B1",))), LinkChanged("B1", UP))
    broker.hears(*received("B2", Stop(1, 1), Succeed(1, (Behind("B1", (), ()),))))
    assert broker.says("B1") == [Succeeded(1, broker.now_us)]
    return broker


@pytest.mark.parametrize("begin", [moved, taken_place])
@pytest.mark.parametrize("system", ["tree", "grape", "self_organising"])
def test_who_has_part_in_a_leave_stays_until_the_leaver_has_seen_it(
    begin: Callable[[str], Told], system: str
) -> None:
    """A link that fails instead of ending says that its broker stays: and all had left but one."""
    broker = begin(system).hears(Leave())
    assert broker.did == [SetTimer(("leave",), ANY)]
    broker.hears(LinkChanged("B2", ENDED), TimerFired(("leave",)))
    assert EndLink("B1") in broker.did
    assert Left() in broker.hears(LinkChanged("B1", ENDED)).did


def test_a_broker_waits_for_its_clients_to_go() -> None:
    stage, _, _ = busy_stage()
    stage.handle("B3", Leave())
    (key,) = [key for name, key in stage.timers if name == "B3"]
    stage.fire("B3", key)
    for client in ("Q", "CB3"):
        stage.ask("B3", client, Goodbye())
    stage.settle()
    stage.now_us = stage.timers[("B3", key)]
    assert EndLink("B1") in stage.handle("B3", TimerFired(key))


def stopping(system: str = "tree") -> Told:
    """B2 leaves B1, B3 and B4, and has asked them to stop."""
    leaver = Told("B2", "B1", "B3", "B4", system=system).hears(Leave())
    assert leaver.says("B1") == []
    assert leaver.says("B3") == leaver.says("B4") == [Prepare(1, "B1", ())]
    leaver.hears(*received("B3", Prepared(1)), *received("B4", Prepared(1)))
    assert leaver.says("B1") == [Prepare(1, "B1", ("B3", "B4"))]
    leaver.hears(*received("B1", Prepared(1)))
    assert leaver.says("B1") == leaver.says("B3") == leaver.says("B4") == [Stop(1, 1)]
    return leaver


def all_stopped(leaver: Told, turn: int) -> Told:
    for name in ("B1", "B3", "B4"):
        leaver.hears(*received(name, Stopped(1, turn)))
    return leaver


def test_an_inner_broker_hands_over_to_one_of_its_neighbours() -> None:
    leaver = all_stopped(stopping(), 1)
    assert leaver.says("B3") == leaver.says("B4") == [Flushed(1)]
    (succeed_,) = leaver.says("B1")
    assert isinstance(succeed_, Succeed)
    assert [each.neighbour for each in succeed_.others] == ["B3", "B4"]
    assert leaver.hears(LinkChanged("B3", ENDED)).did == [Hold(("B4",))]
    assert leaver.hears(LinkChanged("B4", ENDED)).did == [EndLink("B1"), Release()]
    assert leaver.hears(LinkChanged("B1", ENDED)).did == [Left()]


def test_it_asks_again_when_tables_were_answered_meanwhile() -> None:
    leaver = stopping().hears(*received("B3", Subscribe(subscription("s"))))
    all_stopped(leaver, 1)
    assert leaver.says("B3") == [Stop(1, 2)]
    all_stopped(leaver, 2)
    assert leaver.says("B3") == [Flushed(1)]


@pytest.mark.parametrize(
    "trouble",
    [Received("B3", Refuse(1)), LinkChanged("B4", FAILED), LinkChanged("B5", UP)],
    ids=["refused", "failed", "joined"],
)
def test_what_goes_wrong_before_it_hands_over_changes_nothing(trouble: object) -> None:
    leaver = stopping().hears(trouble)
    assert Abandon(1) in leaver.says("B1")
    assert not [each for each in leaver.did if isinstance(each, EndLink | ResetLink)]
    assert [each for each in leaver.did if isinstance(each, SetTimer)]
    assert all_stopped(leaver, 1).says("B1") == []


@pytest.mark.parametrize("trouble", [Received("B3", Refuse(1)), LinkChanged("B3", FAILED)])
def test_who_does_not_move_stays_with_it(trouble: object) -> None:
    """The centre says its tables anew, and who has moved is gone."""
    leaver = all_stopped(stopping(), 1).hears(LinkChanged("B4", ENDED), trouble)
    assert ResetLink("B1") in leaver.did
    assert Left() not in leaver.did
    tree = leaver.machine.strategy.propagation  # type: ignore[attr-defined]
    assert "B4" not in tree.neighbours


@pytest.mark.parametrize("system", ["tree", "self_organising"])
def test_a_link_that_is_none_of_the_trees_may_fail_while_others_move(system: str) -> None:
    leaver = all_stopped(stopping(system), 1).hears(LinkChanged("B5", FAILED))
    leaver.hears(LinkChanged("B3", ENDED), LinkChanged("B4", ENDED))
    assert EndLink("B1") in leaver.did


@pytest.mark.parametrize("system", ["tree", "grape", "pop"])
def test_who_joins_as_its_last_link_ends_is_not_left_alone(system: str) -> None:
    """Those that had moved counted as its neighbours, never answered, and it never left.

    Then it left who had joined alone, when it had ended its last link.
    """
    leaver = all_stopped(stopping(system), 1)
    leaver.hears(LinkChanged("B3", ENDED), LinkChanged("B4", ENDED), LinkChanged("B5", UP))
    assert not [each for each in leaver.did if isinstance(each, Send) and each.neighbour != "B5"]
    strategy = leaver.machine.strategy
    assert [*getattr(strategy, "tree", strategy).propagation.neighbours] == ["B5"]  # type: ignore[union-attr]
    assert OpenLink("B1", is_lasting=True) in leaver.hears(LinkChanged("B1", ENDED)).did
    leaver.hears(LinkChanged("B1", UP), LinkChanged("B5", ENDED))
    assert [*getattr(strategy, "tree", strategy).propagation.neighbours] == ["B1"]  # type: ignore[union-attr]


def test_it_does_not_bring_back_the_link_to_who_has_moved() -> None:
    """A link that had come not long ago was looked after, and opened anew as it had ended."""
    leaver = all_stopped(stopping("self_organising"), 1).hears(LinkChanged("B3", ENDED))
    assert leaver.hears(TimerFired(("greet", "B3"))).did == []


# --- its neighbours -------------------------------------------------------------------------------


def test_the_centre_opens_links_and_takes_the_place() -> None:
    centre = Told("B1", "B2", "B9").hears(*received("B2", Prepare(7, "B1", ("B3", "B4"))))
    assert centre.did == [OpenLink("B3"), OpenLink("B4")]
    assert centre.hears(LinkChanged("B3", UP)).did == []
    assert centre.hears(LinkChanged("B4", UP)).says("B2") == [Prepared(7)]
    assert centre.hears(*received("B2", Stop(7, 1))).did == [
        Hold(("B2",)),
        Send("B2", Stopped(7, 1)),
    ]
    assert centre.hears(*received("B2", Stop(7, 2))).did == [Send("B2", Stopped(7, 2))]
    centre.hears(*received("B2", Succeed(7, ())))
    sends = [each for each in centre.did if isinstance(each, Send)]
    assert sends == [Send(each, Succeeded(7, centre.now_us)) for each in ("B3", "B4")]
    assert centre.did[-1] == Release()
    assert LinkReady("B3") in centre.did
    assert not [each for each in centre.did if isinstance(each, EndLink)]


def test_the_centre_counts_the_moves_that_the_leaver_has_counted() -> None:
    """Who held a publisher's rows for a while took what the centre said for an old copy of them."""
    centre = Told("B1", "B2").hears(*received("B2", Advertise(advertisement("a"))))
    centre.hears(*received("B2", Prepare(7, "B1", ("B3",))), LinkChanged("B3", UP))
    others = (Behind("B3", ("a",), ()),)
    centre.hears(*received("B2", Stop(7, 1), Succeed(7, others, (("a", 2), ("gone", 5)))))
    centre.hears(LinkChanged("B9", UP))
    assert Advertise(advertisement("a"), 2) in centre.says("B9")


def test_who_leaves_says_how_often_publishers_have_moved() -> None:
    leaver = stopping().hears(*received("B3", Advertise(advertisement("a"), 2)))
    all_stopped(leaver, 1)
    (succeed_,) = all_stopped(leaver, 2).says("B1")
    assert isinstance(succeed_, Succeed)
    assert succeed_.moves == (("a", 2),)


def still(*neighbours: str) -> Told:
    """B3 is prepared to move from B2 to B1, and is still."""
    other = Told("B3", "B2", *neighbours).hears(*received("B2", Prepare(7, "B1", ())))
    assert other.did == [Send("B2", Prepared(7))]
    other.hears(LinkChanged("B1", UP), *received("B2", Stop(7, 1)))
    assert other.did == [Hold(("B2",)), Send("B2", Stopped(7, 1))]
    return other


def test_the_others_move_when_they_have_all_and_the_centres_word() -> None:
    other = still().hears(*received("B2", Flushed(7)))
    assert other.did == [Hold(("B1",))]
    other.hears(*received("B1", Succeeded(7, 0)))
    assert other.did == [
        Recall("B2"),
        Send("B1", Succeeded(7, other.now_us)),
        OpenLink("B1", is_lasting=True),
        EndLink("B2"),
        LinkReady("B1"),
        Release(),
    ]


def test_they_move_also_when_the_leaver_is_lost_meanwhile() -> None:
    other = still().hears(LinkChanged("B2", FAILED))
    assert other.did == [Hold(("B1",))]
    other.hears(*received("B1", Succeeded(7, 0)))
    assert (EndLink("B2") in other.did, other.did[-1]) == (True, Release())


@pytest.mark.parametrize("state", [FAILED, ENDED])
def test_without_the_centre_they_stay(state: LinkState) -> None:
    other = still().hears(*received("B2", Flushed(7)), LinkChanged("B1", state))
    assert other.did == [Send("B2", Refuse(7)), EndLink("B1"), Release()]


def test_other_changes_wait_until_tables_have_turned() -> None:
    """Of a neighbour that fails meanwhile the centre hears, not who leaves."""
    other = still("B5").hears(*received("B2", Advertise(advertisement("a"))))
    other.hears(LinkChanged("B5", FAILED))
    assert other.did == []
    other.hears(*received("B2", Flushed(7)), *received("B1", Succeeded(7, 0)))
    tree = other.machine.strategy.propagation  # type: ignore[attr-defined]
    assert [*tree.neighbours] == ["B1"]
    assert tree.tables.advertisements["a"].last_hop == "B1"


def test_a_link_that_comes_too_late_ends() -> None:
    other = Told("B3", "B2").hears(*received("B2", Prepare(7, "B1", ()), Abandon(7)))
    assert other.hears(LinkChanged("B1", UP)).did == [LinkReady("B1"), EndLink("B1")]
    assert [*other.machine.strategy.propagation.neighbours] == ["B2"]  # type: ignore[attr-defined]


def test_who_takes_part_already_refuses() -> None:
    other = still("B5").hears(*received("B5", Prepare(9, "B6", ())))
    assert other.did == [Send("B5", Refuse(9))]


def test_two_that_leave_refuse_each_other() -> None:
    leaver = Told("B2", "B1", "B3").hears(Leave())
    assert leaver.hears(*received("B1", Prepare(9, "B0", ()))).did == [Send("B1", Refuse(9))]
