"""Numbers of examples of property tests, by command.

`make test` takes a third of them, the same each time, `make quick` a fifth, and `make soak` ten
times as many. `make quick` also takes fewer cases of parametrised tests.
"""

from __future__ import annotations

import os
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from _pytest.mark import ParameterSet

_OF_ALL = 1 / 3
FACTOR = float(os.environ.get("SHOAL_EXAMPLES", _OF_ALL))


def examples(count: int) -> int:
    """So many examples, times the factor of the command."""
    return max(round(FACTOR * count), 1)


# Whether cases for the soak are collected; tests/conftest.py knows.
collects_soak = True


def at_length(cases: Iterable[Any]) -> list[Any]:
    """Cases for the soak only; a tuple for each if the test has several parameters.

    A tuple that is one parameter is a `pytest.param`.
    """
    return [_for_soak(each) for each in cases] if collects_soak else []


def _for_soak(case: Any) -> Any:
    if isinstance(case, ParameterSet):
        return pytest.param(*case.values, id=case.id, marks=(*case.marks, pytest.mark.soak))
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.soak)


def one_in(count: int, cases: Iterable[Any]) -> list[Any]:
    """One case in so many, from the first on; the others for the soak only."""
    every = list(cases)
    others = [each for number, each in enumerate(every) if number % count]
    return [*every[::count], *at_length(others)]


def one_form(
    kind: Callable[[str], str], cases: Iterable[ParameterSet], count: int = 1
) -> list[Any]:
    """Of one kind of cases in `count` one form, of each kind another; the others for the soak only.

    `kind` tells it from a case's name. `one_in` would take the same form of all kinds.
    """
    kinds: dict[str, list[ParameterSet]] = defaultdict(list)
    for each in cases:
        kinds[kind(str(each.id))].append(each)
    some = list(kinds.values())[::count]
    chosen = [forms[number % len(forms)] for number, forms in enumerate(some)]
    names = {each.id for each in chosen}
    others = [each for forms in kinds.values() for each in forms if each.id not in names]
    return [*chosen, *at_length(others)]


def chosen_cases(items: list[pytest.Item]) -> list[pytest.Item]:
    """All cases; in `make quick` some of each test, spread evenly, with an offset that depends on
    the test.
    """
    if FACTOR >= _OF_ALL:
        return items
    cases: dict[str, list[int]] = defaultdict(list)
    for number, item in enumerate(items):
        cases[item.nodeid.partition("[")[0]].append(number)
    chosen = []
    for name, numbers in cases.items():
        count = examples(len(numbers))
        first = zlib.crc32(name.encode()) % len(numbers)
        chosen += [
            numbers[(first + each * len(numbers) // count) % len(numbers)] for each in range(count)
        ]
    return [items[number] for number in sorted(chosen)]
