"""Brokers leave a large network during exchanges, under clocks that differ.

SHOAL_SEEDS="7" or "0-99" replays chosen seeds.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.seeds.chosen import CHOSEN, chosen
from tests.seeds.networks.leaving_exchanges import LeavingExchanges


def _leave(seeds: Iterable[int]) -> None:
    for seed in chosen(seeds):
        network = LeavingExchanges(seed)
        problems = network.run()
        assert not problems, f"SHOAL_SEEDS={seed}: " + "\n".join(problems)
        assert CHOSEN or (network.exchanges > 10 and network.world.departures)


def test_leaves_during_exchanges_lose_nothing() -> None:
    # Regression cases. 5: a link made by an exchange must not come back for a departed broker.
    # 60123: a link that comes up as the last ones end. 61015: the clock of a broker just linked to
    # the leaving one. 715: a broker of an exchange has another row of a client that moves.
    _leave((5, 715, 60123, 61015))


@pytest.mark.soak
def test_many_leaves_during_exchanges_lose_nothing() -> None:
    _leave(range(100))
