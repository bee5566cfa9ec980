"""Match indexes under random churn, against naive matching.

A few seeds here, 400 by `make soak`; SHOAL_SEEDS="7" or "0-999" replays chosen seeds.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.seeds.chosen import chosen
from tests.seeds.random_index import RandomIndex

# In 8 steps the first seed has every kind of change.
QUICK = range(1)
SOAK = range(400)


def _run(seeds: Iterable[int], steps: int = 12) -> int:
    found = 0
    for seed in chosen(seeds):
        try:
            found += RandomIndex(seed).run(steps)
        except Exception as error:
            raise AssertionError(f"SHOAL_SEEDS={seed}: {error}") from error
    return found


def test_the_index_answers_as_naive_matching() -> None:
    assert _run(QUICK, 8) > 0


@pytest.mark.soak
def test_the_index_answers_as_naive_matching_400_times() -> None:
    assert _run(SOAK) > 0
