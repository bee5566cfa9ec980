"""Tables that turn silently along a cycle, against the oracle's tables of the new tree."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest

from shoal.broker.messages import Advertise, Subscribe
from shoal.overlays.tree.turning import Turn, first_turn, next_turn, turn_tables
from tests.broker.transcript import Stage, advertisement, subscription
from tests.examples import examples
from tests.seeds.trees import path

FILTERS = ("x >= 0", "x < 50", "x > 90", "x = 5", "x = 'text'", "y = 1")


def exchange(stage: Stage, cycle: tuple[str, ...], remove: int) -> tuple[tuple[str, str], ...]:
    """Turn the tables of a cycle at rest, as its brokers would hand it on; the links then."""
    line = (*cycle[remove::-1], *cycle[:remove:-1])
    middle = remove + 1
    propagations = {name: stage.brokers[name].strategy.propagation for name in cycle}
    turns: dict[str, tuple[Turn, str, str]] = {}
    for side in (line[:middle], line[: middle - 1 : -1]):
        other = line[::-1] if side[0] == line[-1] else line
        turn: Turn | None = None
        before = other[-1]
        for place, name in enumerate(side):
            tables, behind = propagations[name].tables, other[place + 1]
            turn = turn or first_turn(tables, before)
            handed_on = next_turn(tables, turn, behind)
            turns[name] = (turn, before, behind)
            turn, before = handed_on, name
    for name, turned in turns.items():
        turn_tables(propagations[name], *turned)
    old, new = (cycle[remove], cycle[remove + 1]), (cycle[0], cycle[-1])
    for (here, there), is_new in ((old, False), (old[::-1], False), (new, True), (new[::-1], True)):
        propagations[here].relink(None if is_new else there, (there,) if is_new else ())
    return (*(edge for edge in stage.edges if set(edge) != set(old)), new)


@pytest.mark.parametrize("seed", range(examples(150)))
def test_tables_turn_into_those_of_the_new_tree(seed: int) -> None:
    random = Random(f"turning/{seed}")
    size = random.randint(3, 9)
    names = [f"B{number}" for number in range(size)]
    stage = Stage([(names[random.randrange(number)], names[number]) for number in range(1, size)])
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
        stage.edges = exchange(stage, cycle, random.randrange(len(cycle) - 1))
        assert not stage.problems(advertised, interests)
        after = stage.rows()
        assert elsewhere == {name: after[name] for name in elsewhere}
    assert not any(stage.links.values())
