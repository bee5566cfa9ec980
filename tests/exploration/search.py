"""Search over all reachable states: breadth-first, so that the first fault found has the shortest
path, or depth-first, which keeps only the states of one path.

Steps at different machines commute and lead to one state, which is explored once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import NamedTuple, TypeVar

S = TypeVar("S", bound=Hashable)


class Explored(NamedTuple):
    """The number of states, and the shortest path to a fault with its problems, if there is one."""

    states: int
    steps: int
    ends: int
    problems: list[str]


def explore(
    start: S,
    steps: Callable[[S], Iterable[tuple[object, S]]],
    describe: Callable[[object], str],
    judge: Callable[[S], list[str]],
    most: int = 10_000_000,
) -> Explored:
    """Explore all states from a start and judge the ends; stop at the first bad one.

    `steps` gives the possible next steps and their states; a state without one is an end.
    OverflowError beyond `most` states.

    A state that was met is kept as its hash (64 bits: among 10 million states two are taken for one
    with a probability of 3 in a million) beside the hash of the state before.
    """
    first = hash(start)
    came: dict[int, int | None] = {first: None}
    reached = [(first, start)]
    taken = ends = 0
    while reached:
        here, reached = reached, []
        for number, state in here:
            problems: list[str] = []
            is_end = True
            try:
                for _, after in steps(state):
                    is_end = False
                    taken += 1
                    if (next_number := hash(after)) not in came:
                        came[next_number] = number
                        reached.append((next_number, after))
            except Exception as error:  # a machine that raises is a find
                problems = [repr(error)]
            if is_end and not problems:
                ends += 1
                problems = judge(state)
            if problems:
                way = [describe(what) for what in _way(came, number, start, steps)]
                return Explored(len(came), taken, ends, way + problems)
        if len(came) > most:
            raise OverflowError(f"more than {most} states")
    return Explored(len(came), taken, ends, [])


def exhaust(
    start: S,
    steps: Callable[[S], Iterable[tuple[object, S]]],
    describe: Callable[[object], str],
    judge: Callable[[S], list[str]],
    most: int = 100_000_000,
) -> Explored:
    """As `explore`, depth-first: in a few GB for tens of millions of states; a fault's path is some
    path.
    """
    met = {hash(start)}
    taken = ends = 0
    # Of each state on the path: the step to it, itself, its further steps, and whether it has any.
    path: list[tuple[object, S, Iterator[tuple[object, S]], bool]]
    path = [(None, start, iter(steps(start)), False)]
    while path:
        what, state, further, _ = path[-1]
        problems: list[str] = []
        try:
            step = next(further, None)
        except Exception as error:  # a machine that raises is a find
            step, problems = None, [repr(error)]
        if step is not None:
            taken += 1
            path[-1] = what, state, further, True
            if (number := hash(step[1])) not in met:
                met.add(number)
                path.append((*step, iter(steps(step[1])), False))
                if len(met) > most:
                    raise OverflowError(f"more than {most} states")
            continue
        if not path[-1][3] and not problems:
            ends += 1
            problems = judge(state)
        if problems:
            way = [describe(each) for each, *_ in path[1:]]
            return Explored(len(met), taken, ends, way + problems)
        path.pop()
    return Explored(len(met), taken, ends, [])


def _way(
    came: dict[int, int | None],
    number: int | None,
    start: S,
    steps: Callable[[S], Iterable[tuple[object, S]]],
) -> list[object]:
    """The steps from the start to this state."""
    numbers: list[int] = []
    while number is not None:
        numbers.append(number)
        number = came[number]
    way: list[object] = []
    state = start
    for wanted in numbers[-2::-1]:
        what, state = next(each for each in steps(state) if hash(each[1]) == wanted)
        way.append(what)
    return way
