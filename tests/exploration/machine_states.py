"""States of machines, numbered; the effect of an input on a state is computed once.

A machine is pure, so a state is rebuilt from its inputs and nothing is copied. Two states are one
if their contents are equal (`fingerprint`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from hashlib import blake2b
from itertools import count
from random import Random
from types import BuiltinMethodType, FunctionType, MethodType
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np

from shoal.matching import MatchIndex
from shoal.matching.relations.overlap_candidates import OverlapCandidates
from shoal.model import Filter
from shoal.overlays.tree.routing_rows import AdvertisementEntry, SubscriptionEntry


class Participant(Protocol):
    """A broker or a client; `facts` is the part of its state that the explorer reads."""

    def take(self, input: Any, now_us: int) -> Iterable[Any]: ...

    def facts(self) -> Any: ...


class Step(NamedTuple):
    """The result of an input: the next state, and the effects."""

    life: int
    effects: tuple[Any, ...]


class MachineStates:
    """All states of all machines that were met, and all inputs, by number.

    `translate` makes the explorer's form of a machine's effects.
    """

    def __init__(self, translate: Callable[[Any, Iterable[Any]], tuple[Any, ...]]) -> None:
        self._translate = translate
        self.facts: list[Any] = []
        self.inputs: list[Any] = []
        self._histories: list[tuple[Any, ...]] = []
        self._numbers: dict[bytes, int] = {}
        self._input_numbers: dict[bytes, int] = {}
        self._steps: dict[tuple[int, int, int], Step] = {}

    def __len__(self) -> int:
        return len(self._histories)

    @property
    def steps(self) -> int:
        """Number of inputs that a machine really took."""
        return len(self._steps)

    def input(self, input: Any) -> int:
        """The number of an input."""
        number = self._input_numbers.setdefault(fingerprint(input), len(self.inputs))
        if number == len(self.inputs):
            self.inputs.append(input)
        return number

    def born(self, make: Callable[[], Participant]) -> int:
        """A machine's first state."""
        return self._number(make(), (make,))

    def take(self, life: int, input: int, now_us: int) -> Step:
        key = life, input, now_us
        step = self._steps.get(key)
        if step is None:
            machine, (make, *taken) = self.machine(life), self._histories[life]
            effects = self._translate(machine, machine.take(self.inputs[input], now_us))
            after = self._number(machine, (make, *taken, (input, now_us)))
            step = self._steps[key] = Step(after, effects)
        return step

    def machine(self, life: int) -> Any:
        """A machine in this state, rebuilt."""
        make, *taken = self._histories[life]
        machine: Participant = make()
        for input, now_us in taken:
            machine.take(self.inputs[input], now_us)
        return machine

    def _number(self, machine: Participant, history: tuple[Any, ...]) -> int:
        number = self._numbers.setdefault(fingerprint(machine), len(self._histories))
        if number == len(self._histories):
            self._histories.append(history)
            self.facts.append(machine.facts())
        return number


def fingerprint(root: object) -> bytes:
    """A digest that is equal for objects of equal content, and for others with negligible
    probability.

    Dictionaries count with their order, which may decide the order of messages; sets do not.
    Derived parts (an index, a row's number in its table) and constant ones (code) are left out.
    """
    digest = blake2b(digest_size=16)
    digest.update(repr(_plain(root, {})).encode())
    return digest.digest()


_ATOMS = (str, int, float, bool, bytes, type(None), type)
_CODE = (FunctionType, MethodType, BuiltinMethodType)
_ROWS = (AdvertisementEntry, SubscriptionEntry)


def _plain(value: Any, met: dict[int, tuple[int, Any]]) -> Any:
    """The object as tuples and atoms; an object met before is its number.

    `met` keeps the objects, as another object may get the id of one that is gone.
    """
    if isinstance(value, _ATOMS):
        return value
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, np.ndarray | np.generic):
        return str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, Filter):
        return repr(value.expression)
    if isinstance(value, (*_CODE, count)):
        return ()
    if isinstance(value, tuple):
        return type(value).__name__, tuple([_plain(each, met) for each in value])
    if isinstance(value, set | frozenset):
        return tuple(sorted([repr(_plain(each, met)) for each in value]))
    if id(value) in met:
        return "met", met[id(value)][0]
    met[id(value)] = len(met), value
    name = type(value).__name__
    if isinstance(value, Mapping):
        return name, tuple([(_plain(k, met), _plain(v, met)) for k, v in value.items()])
    if isinstance(value, Iterable) and not isinstance(value, msgspec.Struct):
        return name, tuple([_plain(each, met) for each in value])
    return name, tuple([_plain(each, met) for each in _parts(value)])


def _parts(value: Any) -> list[Any]:
    if isinstance(value, OverlapCandidates):
        return []
    if isinstance(value, MatchIndex):
        return list(value._filters)
    if isinstance(value, Random):
        return [hash(value.getstate())]
    if isinstance(value, msgspec.Struct):
        return [getattr(value, name) for name in value.__struct_fields__]
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    if isinstance(value, _ROWS):
        slots.remove("number")
    parts = [getattr(value, name, None) for name in slots]
    return parts + [part for _, part in sorted(getattr(value, "__dict__", {}).items())]
