"""Brokers that exchange links and are killed: none is left out, and nothing settled is lost."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.seeds.chosen import chosen
from tests.seeds.restarts.random_restless import RandomRestless

# Regression cases. Loss: publications of a broker that has just started and does not know a
# replacing link (4), or its own decision (12). 60 s without an exchange: tables awaited over a link
# that is about to end (9). No single tree: an ended link brought back by a connection in progress
# (14).
FOUND = (4, 9, 12, 14)
# The same with several kills at once: a held answer of the first broker (0), a lost only link (9),
# and a restarted broker that learns of the exchange only from the others of the cycle (40).
FOUND_AT_ONCE = (0, 9, 40)


def _play(seeds: Iterable[int], *, most_at_once: int = 1, leaves: bool = False) -> None:
    for seed in chosen(seeds):
        problems = RandomRestless(seed, most_at_once=most_at_once, leaves=leaves).run()
        assert not problems, f"SHOAL_SEEDS={seed}: " + "\n".join(problems)


@pytest.mark.soak
def test_exchanges_continue_after_each_kill() -> None:
    _play(FOUND)


def test_exchanges_continue_after_several_kills_at_once() -> None:
    _play(FOUND_AT_ONCE, most_at_once=3)


@pytest.mark.soak
def test_exchanges_continue_after_many_kills() -> None:
    _play(range(500))


@pytest.mark.soak
def test_exchanges_continue_after_many_kills_outside_the_cycle() -> None:
    # 22 and 25: as in `tests/overlays/self_organising/test_unsettled.py`. 80066: a publisher's
    # publications that reach its subscriber in another order must not count as duplicates.
    _play([*range(30), 80_066], leaves=True)


@pytest.mark.soak
def test_exchanges_continue_after_many_kills_at_once() -> None:
    _play(range(60), most_at_once=3)
