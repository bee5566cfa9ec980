"""Brokers leave a large network whose links are exchanged, by clocks that differ: nobody notices.

SHOAL_SEEDS="7" or "0-99" replays chosen ones.
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


def test_brokers_leave_while_links_are_exchanged() -> None:
    # A link that had come by an exchange was brought back to who had left (5).
    # 60123: a link that came up as the last ones ended left who had moved as neighbours.
    # 61015: who had just been linked to who left had the later word of it, by its clock.
    _leave((5, 60123, 61015))


@pytest.mark.soak
def test_many_leave_while_links_are_exchanged() -> None:
    _leave(range(100))
