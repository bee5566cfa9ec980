"""Life cycles as tables: what a machine does in each state with each input, and where it is then.

A table has an entry for every pair, or it cannot be made; that nothing is done is an entry as well.
It is drawn into the docstring of the module that has it (`tests/broker/test_life_cycle.py`).

>>> class Door(Label):
...     OPEN = "open"
...     SHUT = "shut"
>>> class Push(Label):
...     GENTLY = "pushed gently"
...     HARD = "pushed hard"
>>> def close(): "Falls shut."
>>> door = LifeCycle(Door, Push, {
...     Push.GENTLY: (does(close, Door.SHUT), IGNORED),
...     Push.HARD: (does(close, Door.SHUT), to(Door.OPEN)),
... })
>>> door[Door.SHUT, Push.HARD]
Entry(do=None, then=<Door.OPEN: 'open'>)
>>> print(door.drawn())
| input | open | shut |
| --- | --- | --- |
| pushed gently | falls shut → shut | |
| pushed hard | falls shut → shut | → open |
>>> LifeCycle(Door, Push, {Push.HARD: (IGNORED, IGNORED)})
Traceback (most recent call last):
ValueError: no entries for pushed gently
>>> LifeCycle(Door, Push, {Push.GENTLY: (IGNORED,), Push.HARD: (IGNORED, IGNORED)})
Traceback (most recent call last):
ValueError: pushed gently: 1 entries for 2 states
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar


class Label(enum.Enum):
    """States, or inputs.  An enum's own hash is its name's, which each step would ask for."""

    __hash__ = object.__hash__


State = TypeVar("State", bound=Label)
Input = TypeVar("Input", bound=Label)


class Entry(NamedTuple):
    """What is called, None for nothing, and the state then, None for the same."""

    do: Callable[..., Any] | None
    then: Label | None


IGNORED = Entry(None, None)


def does(what: Callable[..., Any], then: Label | None = None) -> Entry:
    """The machine does this; the table shows the first line of its docstring."""
    return Entry(what, then)


def to(then: Label) -> Entry:
    """The machine only goes to another state."""
    return Entry(None, then)


class LifeCycle(dict[tuple[State, Input], Entry]):
    """A table with an entry for each input and state, in the order of the states."""

    def __init__(
        self,
        states: type[State],
        inputs: type[Input],
        rows: Mapping[Input, tuple[Entry, ...]],
    ) -> None:
        """ValueError when an input or a state is left out."""
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


def _words(entry: Entry) -> str:
    words = []
    if entry.do is not None:
        line = (entry.do.__doc__ or entry.do.__name__).partition("\n")[0]
        words.append(line[:1].lower() + line[1:].rstrip("."))
    return " ".join(words if entry.then is None else [*words, f"→ {entry.then.value}"])
