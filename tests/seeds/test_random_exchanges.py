"""Random networks whose brokers exchange links, under churn, bad links, crashes and cuts.

Without faults nothing is lost; with them only what goes over what failed.  Nothing comes twice,
unasked or out of order, and in the end there is one tree, of which every broker knows the same.
SHOAL_SEEDS="7" or "0-999" replays chosen ones.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.seeds.random_exchanges import RandomExchanges
from tests.seeds.test_random_networks import CHOSEN, _seeds

QUICK = range(6)
SOAK = range(1_000)
# Few publications, so that there is time for many seeds; many, so that some are always under way.
SELDOM_US, OFTEN_US = 4_000_000, 400_000
KINDS = pytest.mark.parametrize(
    "kind", [{}, {"lossy": True}, {"patient": True}], ids=["wires", "bad links", "patient"]
)


def _exchange(seeds: Iterable[int], kind: dict[str, bool], interval_us: int) -> int:
    """Without faults, then with faults aimed at the exchanges; how many there were."""
    count = 0
    for seed in _seeds(seeds):
        network = RandomExchanges(seed, interval_us=interval_us, **kind)
        problems = network.run()
        assert not problems, f"SHOAL_SEEDS={seed}: " + "\n".join(problems)
        count += len(network.exchanged)
        faulty = RandomExchanges(seed, interval_us=interval_us, **kind)
        faulty.break_exchanges(network.exchanged, 4)
        problems = faulty.run()
        assert not problems, f"SHOAL_SEEDS={seed}, with faults: " + "\n".join(problems)
    return count


@KINDS
def test_exchanges_and_faults_on_their_cycles(kind: dict[str, bool]) -> None:
    count = _exchange(QUICK, kind, SELDOM_US)
    assert CHOSEN or count > 60


def test_exchanges_under_load() -> None:
    _exchange(range(100, 103), {}, OFTEN_US)


@pytest.mark.soak
@pytest.mark.parametrize("interval_us", [SELDOM_US, OFTEN_US])
@KINDS
def test_many_exchanges(kind: dict[str, bool], interval_us: int) -> None:
    _exchange(SOAK, kind, interval_us)


def _at_any_time(seeds: Iterable[int]) -> None:
    for seed in _seeds(seeds):
        network = RandomExchanges(seed, interval_us=SELDOM_US)
        network.break_anything(6)
        problems = network.run()
        assert not problems, f"SHOAL_SEEDS={seed}: " + "\n".join(problems)


def test_faults_at_any_time() -> None:
    _at_any_time(QUICK)


@pytest.mark.soak
def test_many_faults_at_any_time() -> None:
    _at_any_time(SOAK)
