"""Overlays with cycles under random faults, live but for sockets and the clock: nothing is lost.

SHOAL_SEEDS="7" or "0-999" replays chosen ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from shoal.overlays.dynatops.topics.arrivals import TopicArrivals
from shoal.overlays.dynatops.topics.interests import Interests
from shoal.overlays.dynatops.topics.outbox import TopicOutbox
from tests.seeds.ack_tracker.ack_tracker_networks import PLAYED
from tests.seeds.ack_tracker.random_ack_tracker import RandomAckTracker
from tests.seeds.chosen import chosen

# 300: a broker that entered a cluster started anew, and was told to forget what it was asked.
# 7: what came back to carriers or was held at a gate was overtaken by what its host sent again.
# 30: the tree of an earlier life of its root was a circle, and publications went round in it.
# 66: a gate that was back let in what had just come before what was on its way round.
# 31: an answer of somebody who was told no more came late; 40: sweeps waited for each other.
QUICK = {
    "dynatops": (5,),
    "octopia": (7, 300),
    "tid": (30,),
    # Not found anything, but brokers die in them, and they are played quickly.
    "geops": (7,),
    "hybrid": (7,),
    "tco": (6,),
}
OF_OTHERS = (0,)
SOAK = range(1_000)
SYSTEMS = pytest.mark.parametrize("system", PLAYED)


# Of OctopiA, where publications are spread over trees; where bits come with filters.
SPREAD = (2,)
SHARP = (3,)


def _play(system: str, seeds: Iterable[int], **options: Any) -> None:
    for seed in chosen(seeds):
        network = RandomAckTracker(seed, system, **options)
        problems = network.run()
        told = "\n".join([*network.happened, *problems[:20]])
        assert not problems, f"SHOAL_SEEDS={seed} {system}:\n{told}"
        assert network.settled > 0


@SYSTEMS
def test_what_is_settled_has_arrived(system: str) -> None:
    _play(system, QUICK.get(system, OF_OTHERS))


def test_what_is_spread_and_settled_has_arrived() -> None:
    _play("octopia", SPREAD, spreads=True)


def test_what_is_settled_has_arrived_where_bits_are_sharp() -> None:
    _play("octopia", SHARP, sharp_bits=2)


@pytest.mark.soak
def test_what_is_settled_has_arrived_where_bits_are_sharp_in_many() -> None:
    _play("octopia", SOAK, sharp_bits=2)
    _play("octopia", SOAK, spreads=True, sharp_bits=1)


@pytest.mark.soak
def test_what_is_spread_and_settled_has_arrived_in_many() -> None:
    _play("octopia", SOAK, spreads=True)


@pytest.mark.soak
@SYSTEMS
def test_what_is_settled_has_arrived_in_many(system: str) -> None:
    _play(system, SOAK)


# --- the judges bite --------------------------------------------------------------------------


def send_before_all_have_said_what_they_want(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant: a root does not wait for homes in a new view."""
    monkeypatch.setattr(Interests, "is_complete", True)


def let_topics_overtake(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant: what comes to a home before its turn does not wait."""
    monkeypatch.setattr(TopicArrivals, "hold", TopicArrivals.arrive)


def send_nothing_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant: in a new view an entry thinks that all is still under way."""
    monkeypatch.setattr(TopicOutbox, "begin", lambda self, again, out: None)


@pytest.mark.parametrize(
    ("mutate", "seed"),
    [
        (send_before_all_have_said_what_they_want, 6),
        (let_topics_overtake, 6),
        (send_nothing_again, 14),
    ],
)
def test_the_judges_notice(mutate, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    mutate(monkeypatch)
    assert RandomAckTracker(seed, "dynatops").run()
