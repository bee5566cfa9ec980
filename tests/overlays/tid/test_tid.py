"""Routing by tree identifiers: the paper's figure, both ways of routing, links that change."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.broker.effects import (
    Input,
    LinkChanged,
    LinkLoad,
    LinkState,
    Loads,
    Received,
    Requested,
    SetTimer,
    Started,
    TimerFired,
    TimerKey,
)
from shoal.broker.machine import Broker
from shoal.broker.messages import (
    Advertise,
    RoutedPublication,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from shoal.broker.wire import COMMON, Codec
from shoal.model import MessageId
from shoal.overlays.registry import strategy_factory
from shoal.overlays.tid.messages import MESSAGES, Bind, TreeChange, TreeCopy
from shoal.overlays.tid.parameters import Matching, TidParameters
from shoal.simulation.judging.checkers import check_deliveries
from tests.broker.test_machine import ANY_MESSAGE, CLIENTS
from tests.broker.test_machine import MESSAGES as STRATEGIES
from tests.broker.transcript import Stage, advertisement, publication, publish, subscription
from tests.calls import Calls
from tests.examples import examples
from tests.garbage import feed
from tests.overlays.hard_pairs import MANY, hostile_one, hostile_patterns
from tests.overlays.octopia.stages import ProductStage
from tests.seeds.networks import random_network
from tests.seeds.networks.random_network import SETTLE_US, RandomNetwork

FIGURE_1 = [tuple(pair) for pair in ("12", "23", "45", "56", "14", "25", "36")]
SQUARE = [tuple(pair) for pair in ("12", "24", "13", "34")]


def test_figure_1_an_advertisement_takes_nine_messages_of_which_four_are_dropped() -> None:
    """2 |E| - |V| + 1, where OctopiA takes one."""
    here = Stage(FIGURE_1, "tid")
    here.ask("1", "P", Advertise(advertisement("p")))
    here.settle()
    trees = [broker.strategy.trees.all for broker in here.brokers.values()]
    assert len(list(here.sent(TreeChange))) == 9
    assert sum(tree.last_hop is not None for known in trees for tree in known.values()) == 9 - 4
    there = ProductStage("abc", (0, 1), 2)
    there.ask("a0", "P", Advertise(advertisement("p")))
    there.settle()
    assert len(there.everything_sent) == 1


def test_a_subscription_is_bound_along_every_tree_that_overlaps_it() -> None:
    here = Stage(FIGURE_1, "tid")
    here.ask("1", "P", Advertise(advertisement("p", "x < 5")))
    here.ask("4", "Q", Advertise(advertisement("q", "x > 3", "Q")))
    here.ask("5", "R", Advertise(advertisement("r", "x > 9", "R")))
    here.settle()
    here.ask("6", "S", Subscribe(subscription("s", "x < 8", "S")))
    here.settle()
    assert {bind.tree[0] for _, _, bind in here.sent(Bind)} == {"1", "4"}
    here.ask("1", "P", publish(2))
    here.ask("4", "Q", publish(6, publisher="Q"), publish(9, publisher="Q"))
    here.settle()
    assert sorted(here.delivered()) == [(2, "S"), (6, "S")]
    here.ask("6", "S", Unsubscribe("s"))
    here.ask("1", "P", Unadvertise("p"))
    here.settle()
    assert not any(
        tree.entries for each in here.brokers.values() for tree in each.strategy.trees.all.values()
    )
    assert not here.refusals()


def test_a_publication_changes_to_the_tree_whose_link_carries_less() -> None:
    """And a second copy, along another tree, is dropped where it is delivered."""
    parameters = TidParameters(dynamic=True, most_hops=4)
    here = Stage(SQUARE, "tid", parameters)
    here.ask("1", "P", Advertise(advertisement("p")))
    here.carry("1", "2")
    here.carry("2", "4")
    here.settle()
    here.ask("1", "Q", Advertise(advertisement("q", publisher="Q")))
    here.carry("1", "3")
    here.carry("3", "4")
    here.settle()
    here.ask("4", "S", Subscribe(subscription("s", client="S")))
    here.settle()
    here.handle("1", Loads({"2": LinkLoad(9, 9, 0), "3": LinkLoad(1, 1, 0)}))
    here.ask("1", "P", publish(1))
    here.settle()
    assert [row[:2] for row in here.sent(TreeCopy)] == [("1", "3"), ("3", "4")]
    copy = next(each for _, _, each in here.sent(TreeCopy))
    here.tell("2", "4", copy)
    assert here.delivered() == [(1, "S")]


@pytest.mark.parametrize("matching", Matching)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_graphs_lose_and_double_nothing(
    seed: int, dynamic: bool, matching: Matching, monkeypatch: pytest.MonkeyPatch
) -> None:
    parameters = TidParameters(dynamic=dynamic, matching=matching, window_us=50_000)
    complete = parameters.for_brokers
    monkeypatch.setattr(random_network, "drawn", lambda system, random, names: complete(names))
    network = RandomNetwork(seed, system="tid")
    network.world.run()
    verdict = check_deliveries(
        network.publications,
        [interest for interest, _ in network.interests],
        sorted(network.world.trace.deliveries, key=lambda row: row.delivered_us),
        SETTLE_US,
    )
    assert (verdict.lost, verdict.duplicates, verdict.phantoms) == ((), (), ())
    assert verdict.required
    assert dynamic or not verdict.out_of_order
    assert network.table_problems() == []


def test_changed_links_rebuild_all_trees() -> None:
    here = Stage(SQUARE, "tid")
    here.ask("1", "P", Advertise(advertisement("p")))
    here.ask("4", "S", Subscribe(subscription("s", client="S")))
    here.settle()
    (tree,) = here.brokers["4"].strategy.trees.all.values()
    assert tree.last_hop is not None
    here.break_link("4", tree.last_hop)
    here.settle()
    here.fire("1", ("renew",))
    here.settle()
    here.ask("1", "P", publish(1))
    here.settle()
    assert here.delivered() == [(1, "S")]


HAPPENINGS = st.lists(
    st.one_of(
        st.builds(
            Received,
            st.sampled_from(["B0", "B2", "B3"]),
            st.one_of([STRATEGIES[kind] for kind in MESSAGES]),
        ),
        st.builds(Requested, CLIENTS, ANY_MESSAGE),
        st.builds(LinkChanged, st.sampled_from(["B0", "B2"]), st.sampled_from(LinkState)),
        st.integers(1, 2_000_000),
    ),
    max_size=40,
)


@pytest.mark.parametrize("dynamic", [False, True])
@given(HAPPENINGS)
@settings(max_examples=examples(50))
def test_no_input_raises(dynamic: bool, happenings: list[object]) -> None:
    factory = strategy_factory("tid", TidParameters(dynamic=dynamic, most_hops=3))
    machine = Broker("B1", ("B0", "B2"), factory)
    feed(machine, happenings, Codec(COMMON + MESSAGES), ("B0", "B2"))


def test_a_starting_broker_waits_for_former_neighbours_until_they_count_as_dead() -> None:
    factory = strategy_factory("tid", TidParameters(most_hops=3))
    machine = Broker("2", (), factory, expected=("1", "3"))
    timers: dict[TimerKey, int] = {}
    now_us = 0
    inputs: list[Input] = [Started(former=("3",), give_up_us=60_000_000)]
    while not machine.is_ready:
        for input in inputs:
            for effect in machine.handle(input, now_us):
                if isinstance(effect, SetTimer):
                    timers[effect.key] = effect.at_us
        assert machine.is_ready or timers
        if not machine.is_ready:
            key = min(timers, key=lambda each: timers[each])
            now_us = timers.pop(key)
            inputs = [TimerFired(key)]
    assert 60_000_000 <= now_us <= 62_000_000


def test_copies_along_different_trees_serve_different_clients() -> None:
    """One subscriber was switched to another publisher's tree, its neighbour was not."""
    here = Stage([("B1", "B2")], "tid", TidParameters(dynamic=True, most_hops=2))
    for name, promise in (("P", "x >= 0"), ("Q", "x >= 5")):
        here.ask("B1", name, Advertise(advertisement(name, promise, publisher=name)))
    here.ask("B2", "C1", Subscribe(subscription("s1", "x < 3", client="C1")))
    here.ask("B2", "C2", Subscribe(subscription("s2", "x >= 0", client="C2")))
    here.settle()
    routed = RoutedPublication(publication(1, x=1), MessageId("B1", "P", 0))
    trees = [
        next(id for id in here.brokers["B2"].strategy.trees.all if name in id) for name in "QP"
    ]
    for tree in trees:
        here.tell("B1", "B2", TreeCopy((routed,), 1, (tree,)))
    assert sorted(here.delivered()) == [(1, "C1"), (1, "C2")]


def test_a_restarted_broker_takes_no_place_in_its_former_tree() -> None:
    """Its way to the root would be a cycle, and so would publications' ways."""
    here = Stage([("1", "2"), ("2", "3"), ("1", "3")], "tid")
    here.ask("3", "P", Advertise(advertisement("p")))
    here.carry("3", "1")
    here.carry("1", "2")
    here.settle()
    here.brokers["3"] = Broker("3", (), here.factory)
    for left, right in (("3", "2"), ("2", "3"), ("3", "1"), ("1", "3")):
        here.links[left, right].clear()
        here.handle(left, LinkChanged(right, LinkState.UP))
    here.ask("3", "S", Subscribe(subscription("s", client="S")))
    here.settle()
    assert all(
        not (tree.advertisements or tree.entries)
        for each in here.brokers.values()
        for tree in each.strategy.trees.all.values()
    )


def test_one_subscription_among_many_trees_takes_bounded_work() -> None:
    stage = Stage([("B1", "B2")], "tid", TidParameters())
    for number, text in enumerate(hostile_patterns()):
        promised = advertisement(f"a{number}", text, publisher=f"P{number}")
        stage.ask("B1", promised.publisher, Advertise(promised))
    stage.settle()
    with Calls() as calls:
        stage.ask("B1", "S", Subscribe(subscription("s", hostile_one(), client="S")))
    assert calls.count < 800_000
    stage.settle()
    assert len(stage.brokers["B1"].strategy.trees.all) == MANY
