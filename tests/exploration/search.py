"""Every state that can be reached, once, nearest first; so what goes wrong is shown shortest.

Two steps that happen at different machines lead to the same state in either order, and what comes
after it is explored once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple, TypeVar

S = TypeVar("S", bound=Hashable)


class Explored(NamedTuple):
    """How much there was, and what went wrong: the shortest way there, then the problems."""

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
    """From a start over all steps to all ends, which are judged; stops at the first bad one.

    `steps` gives what may happen next, and what comes of it; a state where nothing may is an end.
    OverflowError when there are more than `most` states.
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
            except Exception as error:  # a machine that raises is what we look for
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
