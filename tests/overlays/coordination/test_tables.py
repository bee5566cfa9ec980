"""Tables that turn at a leave equal the oracle's tables of the new tree."""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Any

import pytest

from shoal.broker.effects import Effect, LinkChanged, LinkState
from shoal.broker.messages import Advertise, Publish, Subscribe, Unsubscribe
from shoal.matching import matches
from shoal.overlays.coordination.messages import MESSAGES, LinkChange
from shoal.overlays.registry import SYSTEMS
from shoal.overlays.tree.system import TreeParameters
from tests.broker.transcript import Stage, advertisement, publication, subscription
from tests.examples import one_in


@pytest.mark.parametrize("system", ["tree", "grape", "pop", "self_organising"])
def test_systems_on_a_tree_list_the_messages(system: str) -> None:
    assert {*MESSAGES} <= {*SYSTEMS[system].messages}


@pytest.mark.parametrize("covering", [False, True], ids=["plain", "covering"])
@pytest.mark.parametrize("seed", one_in(3, range(15)))
def test_tables_that_turn_are_the_oracles_of_the_new_tree(seed: int, covering: bool) -> None:
    random = Random(seed)
    names = [f"B{number}" for number in range(9)]
    edges = [(names[random.randrange(n)], names[n]) for n in range(1, 9)]
    stage = Stage(edges, parameters=TreeParameters(covering=covering))
    leaving_broker = random.choice(
        [name for name in names if sum(name in edge for edge in edges) > 1]
    )
    homes = [name for name in names if name != leaving_broker]
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
    publish_fives(stage, advertised)  # some known routes end with the old tree
    stage.take_transcript()

    trees: dict[str, Any] = {name: stage.brokers[name].strategy for name in names}
    decider, *others = trees[leaving_broker].neighbours
    change = LinkChange(decider, 1, leaving_broker, tuple(others))
    edges = [edge for edge in edges if leaving_broker not in edge] + [
        (decider, each) for each in others
    ]
    stage.links = {way: deque() for edge in edges for way in (edge, edge[::-1])}
    out: list[Effect] = []
    trees[decider]._contraction.succeed(change, trees[leaving_broker].facts(change), out)
    stage.carry_out(decider, out)
    for other in others:
        out = []
        trees[other]._contraction.follow(change, out)
        stage.carry_out(other, out)
    del stage.brokers[leaving_broker]
    assert not stage.take_transcript(), "tables must turn without messages"

    # Publications arrive before the ends of new links have sent their tables.
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
    for other in others:
        stage.handle(decider, LinkChanged(other, LinkState.UP))
        stage.handle(other, LinkChanged(decider, LinkState.UP))
    stage.settle()
    assert not stage.problems(advertised, interests, edges)
    # A covered subscription is not forwarded until the covering one goes.
    gone = [each for each in interests if random.random() < 0.5]
    for interest, home in gone:
        stage.ask(home, interest.client, Unsubscribe(interest.id))
    stage.settle()
    assert not stage.problems(advertised, [each for each in interests if each not in gone], edges)


def publish_fives(stage: Stage, advertised: list[Any]) -> list[str]:
    """Every publisher that advertises it publishes x = 5; return these publishers."""
    able = [(row, home) for row, home in advertised if matches(row.filter, {"x": 5})]
    for promise, home in able:
        stage.ask(home, promise.publisher, Publish((publication(5, promise.publisher),)))
    stage.settle()
    return [promise.publisher for promise, _ in able]
