"""BlueDove brokers killed at random, one, two or all at once, lose nothing settled.

A few seeds here, 600 by `make soak`.
"""

from __future__ import annotations

import pytest

from shoal.overlays.bluedove.absences import Absences
from shoal.overlays.bluedove.serving.handover import Handover
from tests.seeds.restarts.random_restarts import play

SOAK = (*range(6, 12), *range(1_000, 1_600))


@pytest.mark.parametrize("seed", range(6))
def test_settled_publications_survive_random_restarts(seed: int) -> None:
    cluster = play(seed)
    assert cluster.required > 0
    assert cluster.killed > 0


@pytest.mark.soak
@pytest.mark.parametrize("seed", SOAK)
def test_settled_publications_survive_many_random_restarts(seed: int) -> None:
    play(seed)


# --- mutants that the judge must find -----------------------------------------------------------


def one_of(seeds: range) -> None:
    for seed in seeds:
        play(seed)


def test_the_judge_notices_a_first_segment_matched_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Handover, "begin", lambda *_: None)
    with pytest.raises(AssertionError, match="'s"):
        one_of(range(12))


def test_the_judge_notices_a_rebuilt_segment_without_absent_dispatchers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        Absences, "disconnected", lambda self, broker, _: self._given_up.add(broker)
    )
    with pytest.raises(AssertionError, match="'s"):
        one_of(range(12))
