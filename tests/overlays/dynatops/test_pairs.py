"""Brokers that propose swaps in pairs, from their own topics."""

from __future__ import annotations

from random import Random

import pytest

from shoal.broker.effects import Effect, Received, Send
from shoal.overlays.dynatops.messages import Between, SwapAnswered, SwapAsked, SwapWanted, ViewSaid
from shoal.overlays.dynatops.parameters import Managed
from shoal.overlays.dynatops.planning.costs import standing, swap_costs
from shoal.overlays.dynatops.planning.one_topic import change_of, tree_cost
from shoal.overlays.dynatops.planning.problem import inverse
from shoal.overlays.dynatops.records import ReconfigurationRecord
from shoal.overlays.dynatops.structures.chord import Chord
from shoal.overlays.dynatops.view import View
from shoal.simulation.links.overlay_link import SimulatedLink
from tests.overlays.dynatops.planning.drawing import draw_mapping, draw_problem
from tests.overlays.dynatops.test_orders import order
from tests.overlays.dynatops.test_trees import BROKERS, SECOND_US, Ring


@pytest.mark.parametrize("seed", range(6))
def test_two_brokers_estimates_equal_the_planners(seed: int) -> None:
    random, structure = Random(seed), Chord(16)
    problem, mapping = draw_problem(structure, random), draw_mapping(16, random)
    weight, brokers = problem.delay_weight, inverse(mapping)
    found = standing(problem, mapping)
    roots = problem.trees.roots[problem.trees.of].tolist()
    homes = [
        {at for at, broker in enumerate(brokers) if problem.wanted[broker, topic]}
        for topic in range(problem.topics)
    ]
    cost = sum(
        publications * tree_cost(structure, root, each, weight)
        for publications, root, each in zip(problem.publications, roots, homes, strict=True)
    )
    assert cost == pytest.approx(found.cost(weight))
    one, other = random.sample(range(16), 2)
    change = 0.0
    for publications, root, each in zip(problem.publications, roots, homes, strict=True):
        if len(each & {one, other}) == 1:
            left, right = (one, other) if one in each else (other, one)
            change += publications * change_of(structure, root, each, left, right, weight)
    assert change == pytest.approx(swap_costs(problem, found, one)[other])


def rows(ring: Ring) -> list[ReconfigurationRecord]:
    records = ring.world.trace.records
    return [row for row in records if isinstance(row, ReconfigurationRecord)]


def pairwise(**options: object) -> Ring:
    given = {"reconfigure_us": SECOND_US, "price_percent": 0} | options
    return Ring(manager=Managed.PAIRWISE, **given)


def test_pairs_swap_places_and_save_the_predicted_amount() -> None:
    ring = pairwise()
    before = standing(*ring.problem()).cost(1.0)
    for _ in range(4):
        ring.publish()
        ring.now_us += 60 * SECOND_US
        ring.world.run(ring.now_us)
    after = standing(*ring.problem()).cost(1.0)
    assert after < 0.85 * before
    done = rows(ring)
    assert done
    assert {(row.outcome, row.broker) for row in done} == {("done", "B0")}
    if all(row.moved == 2 for row in done):
        assert sum(row.benefit for row in done) == pytest.approx(before - after)
    assert len(ring.world.trace.deliveries) == 4 * sum(map(len, ring.wanted.values()))
    views = [ring.strategy(each).membership.view for each in BROKERS]
    assert len({view.age for view in views if view is not None}) == 1


def test_pinned_and_held_brokers_stay() -> None:
    ring = pairwise(pinned=BROKERS[:6], regions=(BROKERS[6:9],))
    assert order(ring, "B0", "stop") == ""
    for _ in range(2):
        ring.publish()
    assert rows(ring) == []
    assert order(ring, "B0", "go") == ""
    for _ in range(3):
        ring.publish()
    view = ring.strategy().membership.view
    assert view is not None
    assert view.members[:6] == BROKERS[:6]
    assert {*view.members[6:9]} == {*BROKERS[6:9]}


def test_a_swap_must_save_its_price() -> None:
    ring = pairwise(price_percent=100)
    for _ in range(3):
        ring.publish()
    assert rows(ring) == []


def test_brokers_receive_no_messages_about_unwanted_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    ring, said, send = pairwise(), [], SimulatedLink.send

    def noted(self, input, units, ready_us):  # type: ignore[no-untyped-def]
        if isinstance(input, Received) and isinstance(input.message, Between):
            said.append(input.message)
        return send(self, input, units, ready_us)

    monkeypatch.setattr(SimulatedLink, "send", noted)
    for _ in range(2):
        ring.publish()
    assert any(isinstance(each, SwapWanted) for each in said)
    for broker in BROKERS:
        known = ring.strategy(broker)._manager._topics  # type: ignore[union-attr]
        assert {*known} <= {topic for topic, homes in ring.wanted.items() if broker in homes}


def test_an_early_message_of_the_next_view_is_understood() -> None:
    """A neighbour in the next view asks early about a broker that is new there."""
    ring = pairwise()
    broker, view = ring.strategy("B5"), ring.strategy("B5").membership.view
    assert view is not None
    neighbour = next(iter(broker.membership.links.linked))
    later = View(view.version + 1, "B0", (*view.members, "B99"), view.lives)
    out: list[Effect] = []
    asked = SwapAsked(later.age, "B5", "B99", ("topic 1",))
    broker.receive(neighbour, asked, ring.now_us, out)
    broker.receive(neighbour, ViewSaid(later), ring.now_us, out)
    said = [each.message for each in out if isinstance(each, Send)]
    assert any(isinstance(each, SwapAnswered) for each in said) or len(broker.ways) > 0
