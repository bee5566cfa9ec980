"""Life cycles as tables: the action and the next state for each state and input.

A table must have an entry for every pair; to do nothing is an entry as well. A test draws it into
the docstring of its module (`tests/broker/test_life_cycle.py`).

>>> class FrontEnd(Label):
...     OPEN = "open"
...     SHUT = "shut"
>>> class Push(Label):
...     GENTLY = "pushed gently"
...     HARD = "pushed hard"
>>> def close(): "Falls shut."
>>> front_end = LifeCycle(FrontEnd, Push, {
...     Push.GENTLY: (does(close, FrontEnd.SHUT), IGNORED),
...     Push.HARD: (does(close, FrontEnd.SHUT), to(FrontEnd.OPEN)),
... })
>>> front_end[FrontEnd.SHUT, Push.HARD]
Transition(do=None, then=<FrontEnd.OPEN: 'open'>)
>>> print(front_end.drawn())
| input | open | shut |
| --- | --- | --- |
| pushed gently | falls shut → shut | |
| pushed hard | falls shut → shut | → open |
>>> LifeCycle(FrontEnd, Push, {Push.HARD: (IGNORED, IGNORED)})
Traceback (most recent call last):
ValueError: no entries for pushed gently
>>> LifeCycle(FrontEnd, Push, {Push.GENTLY: (IGNORED,), Push.HARD: (IGNORED, IGNORED)})
Traceback (most recent call last):
ValueError: pushed gently: 1 entries for 2 states
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar


class Label(enum.Enum):
    """Base of states and inputs. An enum's own hash is that of its name, which is slower."""

    __hash__ = object.__hash__


State = TypeVar("State", bound=Label)
Input = TypeVar("Input", bound=Label)


class Transition(NamedTuple):
    """The method to call, None for none, and the next state, None for the same."""

    do: Callable[..., Any] | None
    then: Label | None


IGNORED = Transition(None, None)


def does(what: Callable[..., Any], then: Label | None = None) -> Transition:
    """The entry of an action; the table shows the first line of its docstring."""
    return Transition(what, then)


def to(then: Label) -> Transition:
    """The entry of a mere change of state."""
    return Transition(None, then)


class LifeCycle(dict[tuple[State, Input], Transition]):
    """A table with an entry for each input and state, in the order of the states."""

    def __init__(
        self,
        states: type[State],
        inputs: type[Input],
        rows: Mapping[Input, tuple[Transition, ...]],
    ) -> None:
        """Raises ValueError when an input or a state is left out."""
        super().__init__()
        self._states, self._rows = tuple(states), rows
        missing = [each.value for each in inputs if each not in rows]
        if missing:
            raise ValueError(f"no entries for {', '.join(missing)}")
        for input, entries in rows.items():
            if len(entries) != len(self._states):
                problem = f"{len(entries)} entries for {len(self._states)} states"
                raise ValueError(f"{input.value}: {problem}")
            for state, entry in zip(self._states, entries, strict=True):
                self[state, input] = entry

    def drawn(self) -> str:
        """The table as text, one line for each input."""
        states = [state.value for state in self._states]
        lines = [["input", *states], ["---" for _ in ("input", *states)]]
        lines += [[input.value, *map(_words, entries)] for input, entries in self._rows.items()]
        return "\n".join(
            "|" + "|".join(f" {cell} " if cell else " " for cell in line) + "|" for line in lines
        )


def _words(entry: Transition) -> str:
    words = []
    if entry.do is not None:
        line = (entry.do.__doc__ or entry.do.__name__).partition("\n")[0]
        words.append(line[:1].lower() + line[1:].rstrip("."))
    return " ".join(words if entry.then is None else [*words, f"→ {entry.then.value}"])
