"""How many examples property tests take: `make quick` a fifth of them, `make soak` ten times.

Where they are fewer, so are the cases of a test that is given by its parameters.
"""

from __future__ import annotations

import os
import zlib
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pytest

FACTOR = float(os.environ.get("SHOAL_EXAMPLES", "1"))


def examples(count: int) -> int:
    """So many in `make test`."""
    return max(round(FACTOR * count), 1)


def at_length(cases: Iterable[Any]) -> list[Any]:
    """These cases of a test, a tuple for each that has several parameters, in the soak only."""
    found = (each if isinstance(each, tuple) else (each,) for each in cases)
    return [pytest.param(*each, marks=pytest.mark.soak) for each in found]


def chosen_cases(items: list[pytest.Item]) -> list[pytest.Item]:
    """At least one case of each test, spread over them all; which, differs from test to test."""
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
