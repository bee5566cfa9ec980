"""Breadth-first search over all reachable states, so the first fault found has the shortest path.

Steps at different machines commute and lead to one state, which is explored once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
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
    """
    came: dict[S, tuple[S, object] | None] = {start: None}
    reached = [start]
    taken = ends = 0
    while reached:
        here, reached = reached, []
        for state in here:
            problems: list[str] = []
            is_end = True
            try:
                for what, after in steps(state):
                    is_end = False
                    taken += 1
                    if after not in came:
                        came[after] = state, what
                        reached.append(after)
            except Exception as error:  # a machine that raises is a find
                problems = [repr(error)]
            if is_end and not problems:
                ends += 1
                problems = judge(state)
            if problems:
                way = [describe(what) for what in _way(came, state)]
                return Explored(len(came), taken, ends, way + problems)
        if len(came) > most:
            raise OverflowError(f"more than {most} states")
    return Explored(len(came), taken, ends, [])


def _way(came: dict[S, tuple[S, object] | None], state: S) -> list[object]:
    way: list[object] = []
    while (before := came[state]) is not None:
        state, what = before
        way.append(what)
    return way[::-1]
