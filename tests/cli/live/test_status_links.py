"""The form of a link in `shoal status`."""

from __future__ import annotations

import pytest

from shoal.cli.support.live.wrongs import link_words


@pytest.mark.parametrize(
    ("link", "words"),
    [
        ({"neighbour": "B2", "state": "up", "congested_us": 0}, "B2"),
        ({"neighbour": "B2", "state": "away", "congested_us": 0}, "B2 (away)"),
        (
            {"neighbour": "B2", "state": "away", "away_us": 185_000_000, "spooled_bytes": 545},
            "B2 (away for 3 min, 545 bytes wait)",
        ),
        (
            {"neighbour": "B2", "state": "idle", "away_us": 185_000_000, "connections": 0},
            "B2 (away for 3 min or longer)",
        ),
        (
            {"neighbour": "B2", "state": "up", "congested_us": 12_340_000},
            "B2 (congested for 12.3 s)",
        ),
    ],
)
def test_a_link_in_a_few_words(link: dict[str, object], words: str) -> None:
    assert link_words({"away_us": 0, "connections": 1} | link) == words
