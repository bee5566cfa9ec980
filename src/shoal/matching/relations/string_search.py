"""Is there a string that meets these constraints and breaks one of those?

LIKE patterns mixed with comparisons are decided by walking the product of small automata, one per
constraint, over an alphabet of the characters that the constraints mention and one placeholder for
each gap between them: within a gap all characters are treated alike. The walk is exact; it gives up
when it has spent the `Work` it is given, because the product for some patterns is huge.

>>> meet = [(Like("%abc%"), True), (AtLeast("b"), True)]
>>> exists(meet), exists(meet, breaking=[(Like("b%"), True)]), exists(meet, breaking=meet)
(True, True, False)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Protocol

from shoal.matching.domains import next_character
from shoal.model.like import Wildcard, elements

# Work of a question about two filters, or one, before it is left open: some 25 ms.
MAX_WORK = 30_000

# Constraints of more characters are not walked: making their automata is too long already.
MAX_CHARACTERS = 2_000


class Work:
    """Remaining work of a question, in steps of about half a microsecond.

    Counted, not timed, so that all brokers give the same answer to the same question.
    """

    __slots__ = ("_left", "spent")

    def __init__(self, steps: int = MAX_WORK) -> None:
        self._left = steps
        self.spent = 0

    def spend(self, steps: int) -> bool:
        """Return whether there was enough left."""
        self._left -= steps
        self.spent += steps
        return self._left >= 0

    @property
    def left(self) -> int:
        """Return how many steps; below 0 when more was spent than there was."""
        return self._left

    @property
    def is_spent(self) -> bool:
        return self._left < 0


State = Any


class Constraint(Protocol):
    """A deterministic automaton over characters."""

    start: State

    def step(self, state: State, character: str) -> State:
        """The state after one more character."""

    def accepts(self, state: State) -> bool:
        """Return whether the string may end here."""

    def is_dead(self, state: State) -> bool:
        """Return whether no continuation can be accepted."""

    def is_sure(self, state: State) -> bool:
        """Return whether every continuation is accepted."""

    def characters(self) -> Iterable[str]:
        """The characters it tells apart from others."""

    def step_cost(self) -> int:
        """Steps of `Work` that one `step` is worth at most."""


Wanted = tuple[Constraint, bool]

# States of the order constraints beside the length of the prefix that is still equal.
_SURE, _DEAD = -1, -2


class _Ordered:
    """Follows a bound as long as the string is a prefix of it."""

    start = 0

    def __init__(self, bound: str) -> None:
        self._bound = bound

    def is_dead(self, state: int) -> bool:
        return state == _DEAD

    def is_sure(self, state: int) -> bool:
        return state == _SURE

    def characters(self) -> Iterable[str]:
        return self._bound

    def step_cost(self) -> int:
        return 1


class AtLeast(_Ordered):
    """Strings from a bound upwards."""

    def __init__(self, bound: str) -> None:
        super().__init__(bound)
        self.start = 0 if bound else _SURE

    def step(self, state: int, character: str) -> int:
        if state < 0:
            return state
        if character == self._bound[state]:
            return state + 1 if state + 1 < len(self._bound) else _SURE
        return _SURE if character > self._bound[state] else _DEAD

    def accepts(self, state: int) -> bool:
        return state == _SURE


class Below(_Ordered):
    """Strings below a bound."""

    def __init__(self, bound: str) -> None:
        super().__init__(bound)
        self.start = 0 if bound else _DEAD

    def step(self, state: int, character: str) -> int:
        if state < 0:
            return state
        if character == self._bound[state]:
            return state + 1 if state + 1 < len(self._bound) else _DEAD
        return _SURE if character < self._bound[state] else _DEAD

    def accepts(self, state: int) -> bool:
        return state != _DEAD


class OneOf:
    """A few strings; a state holds the possible rests."""

    def __init__(self, strings: Iterable[str]) -> None:
        self.start = frozenset(strings)

    def step(self, state: frozenset[str], character: str) -> frozenset[str]:
        return frozenset(rest[1:] for rest in state if rest.startswith(character))

    def accepts(self, state: frozenset[str]) -> bool:
        return "" in state

    def is_dead(self, state: frozenset[str]) -> bool:
        return not state

    def is_sure(self, state: frozenset[str]) -> bool:
        return False

    def characters(self) -> Iterable[str]:
        return "".join(self.start)

    def step_cost(self) -> int:
        return 1 + len(self.start) // 4


class Like:
    """A LIKE pattern; a state holds, as bits, the places in the pattern that may come next."""

    def __init__(self, pattern: str) -> None:
        self._masks: dict[str, int] = {}
        self._any_one = self._any_run = 0
        place = 1
        for element in elements(pattern):
            if element is Wildcard.ANY_RUN:
                self._any_run |= place
                place <<= 1
            elif element is Wildcard.ANY_ONE:
                self._any_one |= place
                place <<= 1
            else:
                for character in str(element):
                    self._masks[character] = self._masks.get(character, 0) | place
                    place <<= 1
        self._end = place
        self._last_run = self._any_run & (place >> 1)
        self.start = self._skip_runs(1)

    def _skip_runs(self, state: int) -> int:
        # Two runs never stand side by side, so one round is enough.
        return state | (state & self._any_run) << 1

    def step(self, state: int, character: str) -> int:
        single = state & (self._masks.get(character, 0) | self._any_one)
        return self._skip_runs(single << 1 | state & self._any_run)

    def accepts(self, state: int) -> bool:
        return bool(state & self._end)

    def is_dead(self, state: int) -> bool:
        return state == 0

    def is_sure(self, state: int) -> bool:
        return bool(state & self._last_run)

    def characters(self) -> Iterable[str]:
        return self._masks

    def step_cost(self) -> int:
        return 1


def exists(
    meeting: Sequence[Wanted],
    breaking: Sequence[Wanted] | None = None,
    work: Work | None = None,
) -> bool | None:
    """Return whether some string meets all of the first and breaks at least one of the second.

    A constraint wanted False must be rejected.  Without `breaking` the first alone count.  None
    when the answer was not found with the work there is (MAX_WORK if none is given).
    """
    if work is None:
        work = Work()
    constraints = [*meeting, *(breaking or ())]
    split = len(meeting)
    alphabet = _alphabet(c for constraint, _ in constraints for c in constraint.characters())
    steps = [constraint.step for constraint, _ in constraints]
    start = tuple(constraint.start for constraint, _ in constraints)
    # Each state is judged twice, and followed by one for each character.
    cost = (len(alphabet) + 2) * sum(constraint.step_cost() for constraint, _ in constraints)
    seen = {start}
    waiting = [start]
    while waiting:
        if not work.spend(cost):
            return None
        states = waiting.pop()
        if not _is_hopeful(states, meeting, breaking):
            continue
        if _holds(meeting, states[:split]) and not (
            breaking is not None and _holds(breaking, states[split:])
        ):
            return True
        for character in alphabet:
            following = tuple(
                step(state, character) for step, state in zip(steps, states, strict=True)
            )
            if following not in seen:
                seen.add(following)
                waiting.append(following)
    return False


def _holds(constraints: Sequence[Wanted], states: Sequence[State]) -> bool:
    return all(
        constraint.accepts(state) is wanted
        for (constraint, wanted), state in zip(constraints, states, strict=True)
    )


def _is_hopeful(
    states: Sequence[State], meeting: Sequence[Wanted], breaking: Sequence[Wanted] | None
) -> bool:
    """Return whether a continuation could still be the string we look for."""
    split = len(meeting)
    for (constraint, wanted), state in zip(meeting, states[:split], strict=True):
        if constraint.is_dead(state) if wanted else constraint.is_sure(state):
            return False
    if breaking is None:
        return True
    return not all(
        constraint.is_sure(state) if wanted else constraint.is_dead(state)
        for (constraint, wanted), state in zip(breaking, states[split:], strict=True)
    )


def _alphabet(mentioned: Iterable[str]) -> list[str]:
    """The mentioned characters and one from each gap below, between and above them."""
    characters = sorted(set(mentioned))
    if not characters:
        return ["a"]
    alphabet = list(characters)
    if characters[0] != "\0":
        alphabet.append("\0")
    for left, right in pairwise([*characters, ""]):
        between = next_character(left)
        if between is not None and between != right:
            alphabet.append(between)
    return alphabet
