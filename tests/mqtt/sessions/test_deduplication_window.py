"""The deduplication window of a session that has arrived from elsewhere."""

from __future__ import annotations

from random import Random

import pytest

from shoal.mqtt.sessions.deduplication_window import DeduplicationWindow, Gaps
from tests.examples import one_in

STREAMS = ("p", "p\0a", "q", "r")


@pytest.mark.parametrize("seed", one_in(3, range(30)))
def test_filling_gaps_together_equals_one_by_one(seed: int) -> None:
    random = Random(seed)
    gaps: dict[str, Gaps] = {}
    for stream in random.sample(STREAMS, 3):
        ends = sorted(random.sample(range(40), 4))
        gaps[stream] = ((ends[0], ends[1]), (ends[2], ends[3]))
    keys = [(random.choice("pqs"), random.randrange(50)) for _ in range(60)]
    at_once, one_by_one = DeduplicationWindow({}, gaps), DeduplicationWindow({}, gaps)
    at_once.fill_all(keys)
    for key in keys:
        one_by_one.fill(key)
    assert at_once.gaps == one_by_one.gaps
