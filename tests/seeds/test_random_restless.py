"""Brokers that exchange links all the time and are killed: nobody is left out of the tree."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.seeds.random_restless import RandomRestless
from tests.seeds.test_random_networks import _seeds

# What has gone wrong once: nobody connected a link that was to last, as it was made to last after
# its other end had died; a greeting was not heard, as an exchange was to open that link.
FOUND = (0, 10, 18, 33, 38, 41, 51, 53)


def _play(seeds: Iterable[int]) -> None:
    for seed in _seeds(seeds):
        problems = RandomRestless(seed).run()
        assert not problems, f"SHOAL_SEEDS={seed}: " + "\n".join(problems)


def test_exchanges_go_on_after_each_kill() -> None:
    _play(FOUND)


@pytest.mark.soak
def test_exchanges_go_on_after_many_kills() -> None:
    _play(range(500))
