"""Tables that turn without messages along a cycle, against the oracle's tables of the new tree."""

from __future__ import annotations

from collections import deque
from itertools import combinations
from random import Random

import pytest

from shoal.broker.effects import Effect
from shoal.broker.messages import Advertise, Publish, Subscribe
from shoal.matching import matches
from shoal.model import Advertisement, Subscription
from shoal.overlays.tree.system import TreeParameters
from shoal.overlays.tree.turning import TableTurn, first_turn, next_turn
from tests.broker.transcript import Stage, advertisement, publication, subscription
from tests.examples import examples, one_in
from tests.seeds.networks.trees import path

FILTERS = ("x >= 0", "x < 50", "x > 90", "x = 5", "x = 'text'", "y = 1")


def exchange(stage: Stage, cycle: tuple[str, ...], remove: int) -> list[tuple[str, list[Effect]]]:
    """Turn the tables of a cycle at rest, as its brokers would in turn; return their messages."""
    line = (*cycle[remove::-1], *cycle[:remove:-1])
    middle = remove + 1
    turns: dict[str, tuple[TableTurn, str, str]] = {}
    for side in (line[:middle], line[: middle - 1 : -1]):
        other = line[::-1] if side[0] == line[-1] else line
        turn: TableTurn | None = None
        before = other[-1]
        for place, name in enumerate(side):
            tables, behind = stage.brokers[name].strategy.tables, other[place + 1]
            turn = turn or first_turn(tables, before)
            handed_on = next_turn(tables, turn, before, behind)
            turns[name] = (turn, before, behind)
            turn, before = handed_on, name
    old, new = {cycle[remove], cycle[remove + 1]}, {cycle[0], cycle[-1]}
    for way in (tuple(new), tuple(new)[::-1]):
        stage.links[way] = deque()
    said = []
    for name, (turn, before, behind) in turns.items():
        out: list[Effect] = []
        opens, ends = {name, behind} == new, {name, before} == old
        stage.brokers[name].strategy.turn(turn, before, behind, out, opens=opens, ends=ends)
        said.append((name, out))
    stage.edges = (*(edge for edge in stage.edges if set(edge) != old), (cycle[0], cycle[-1]))
    return said


def lost(
    stage: Stage,
    advertised: list[tuple[Advertisement, str]],
    interests: list[tuple[Subscription, str]],
) -> list[str]:
    """Publications of each kind, by each publisher, that subscribers miss."""
    problems = []
    for attributes in ({"x": 5}, {"x": 70}, {"x": 95}, {"x": "text"}, {"y": 1}):
        for promise, broker in advertised:
            if not matches(promise.filter, attributes):
                continue
            stage.deliveries.clear()
            routed = publication(1, promise.publisher, **attributes)
            stage.ask(broker, promise.publisher, Publish((routed,)))
            stage.settle()
            found = sorted(id for _, row in stage.deliveries for id in row.subscriptions)
            wanted = sorted(each.id for each, _ in interests if matches(each.filter, attributes))
            if found != wanted:
                problems.append(f"{promise.id} {attributes}: {found}, should be {wanted}")
    return problems


@pytest.mark.parametrize("covering", [False, True], ids=["plain", "covering"])
@pytest.mark.parametrize("seed", one_in(3, range(examples(75))))
def test_turned_tables_equal_those_of_the_new_tree(seed: int, covering: bool) -> None:
    random = Random(f"turning/{seed}")
    size = random.randint(3, 9)
    names = [f"B{number}" for number in range(size)]
    links = [(names[random.randrange(number)], names[number]) for number in range(1, size)]
    stage = Stage(links, parameters=TreeParameters(covering=covering))
    advertised = [
        (advertisement(f"a{number}", random.choice(FILTERS), f"P{number}"), random.choice(names))
        for number in range(random.randint(0, 6))
    ]
    interests = [
        (subscription(f"s{number}", random.choice(FILTERS), f"C{number}"), random.choice(names))
        for number in range(random.randint(0, 10))
    ]
    for promise, broker in advertised:
        stage.ask(broker, promise.publisher, Advertise(promise))
    for interest, broker in interests:
        stage.ask(broker, interest.client, Subscribe(interest))
    stage.settle()
    for _ in range(3):
        paths = [path(list(stage.edges), *pair) for pair in combinations(names, 2)]
        if not (cycles := [cycle for cycle in paths if len(cycle) > 2]):
            return
        cycle = random.choice(cycles)
        elsewhere = {name: rows for name, rows in stage.rows().items() if name not in cycle}
        said = exchange(stage, cycle, random.randrange(len(cycle) - 1))
        # Nothing is missed before they have sent what other subscriptions cover.
        assert not lost(stage, advertised, interests)
        for name, out in said:
            assert covering or not out
            stage.carry_out(name, out)
        stage.settle()
        assert not stage.problems(advertised, interests)
        assert not lost(stage, advertised, interests)
        after = stage.rows()
        assert covering or elsewhere == {name: after[name] for name in elsewhere}
    assert not any(stage.links.values())
