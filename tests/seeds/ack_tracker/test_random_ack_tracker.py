"""Overlays with cycles under random faults, live except for sockets and the clock: nothing is lost.

SHOAL_SEEDS="7" or "0-999" replays chosen seeds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from shoal.overlays.dynatops.messages import RowsHandedOver
from shoal.overlays.dynatops.topics.arrivals import TopicArrivals
from shoal.overlays.dynatops.topics.interests import Interests
from shoal.overlays.dynatops.topics.outbox import TopicOutbox
from tests.examples import at_length
from tests.seeds.ack_tracker.ack_tracker_networks import PLAYED
from tests.seeds.ack_tracker.random_ack_tracker import RandomAckTracker
from tests.seeds.chosen import chosen

# Regression cases. 300 (soak): a broker by which a cluster is entered restarts. 7: publications
# returned to carriers or held by a sequencer, against their host's retransmissions. 30: a cycle in
# the tree of a root's former incarnation. 66: a sequencer returns while publications take a detour.
# 31: an answer that arrives late. 40: sweeps that could wait for each other.
QUICK = {
    "dynatops": (5,),
    "octopia": (7,),
    "tid": (30,),
    # No regression cases, but brokers die in them, and they run quickly.
    "geops": (7,),
    "hybrid": (7,),
    "tco": (6,),
}
OF_OTHERS = (0,)
SOAK = range(1_000)
# Bayeux, GeoPS and hybrid are rings as DYNATOPS is.
FEW = ("bluedove", "dynatops", "octopia", "tco", "tid")
SYSTEMS = pytest.mark.parametrize(
    "system",
    [*FEW, *at_length(each for each in PLAYED if each not in FEW)],
)


# Of OctopiA: with spread publications; with sharp bits.
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
def test_settled_publications_have_arrived(system: str) -> None:
    _play(system, QUICK.get(system, OF_OTHERS))


def test_settled_spread_publications_have_arrived() -> None:
    _play("octopia", SPREAD, spreads=True)


def test_settled_publications_have_arrived_with_sharp_bits() -> None:
    _play("octopia", SHARP, sharp_bits=2)


@pytest.mark.soak
def test_settled_publications_have_arrived_with_sharp_bits_in_many_networks() -> None:
    _play("octopia", SOAK, sharp_bits=2)
    _play("octopia", SOAK, spreads=True, sharp_bits=1)


@pytest.mark.soak
def test_settled_spread_publications_have_arrived_in_many_networks() -> None:
    _play("octopia", SOAK, spreads=True)


@pytest.mark.soak
@SYSTEMS
def test_settled_publications_have_arrived_in_many_networks(system: str) -> None:
    _play(system, SOAK)


# --- mutants that the judges must find ----------------------------------------------------------


def send_before_all_subscriptions_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant: a root does not wait for subscribing brokers in a new view."""
    monkeypatch.setattr(Interests, "is_complete", True)


def hand_nothing_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant: a root at another position does not get the rows of the root before it."""

    def take_none(interests: Interests, message: RowsHandedOver) -> None:
        if interests._handing_over is not None:
            interests._handing_over.discard(message.broker)

    monkeypatch.setattr(Interests, "on_handed_over", take_none)


def let_topics_overtake(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant: publications out of turn do not wait."""
    monkeypatch.setattr(TopicArrivals, "hold", TopicArrivals.arrive)


def send_nothing_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant: in a new view an edge broker takes everything for under way."""
    monkeypatch.setattr(TopicOutbox, "begin", lambda *arguments: None)


@pytest.mark.parametrize(
    ("mutate", "seed"),
    [
        (let_topics_overtake, 6),
        *at_length(
            [
                (send_before_all_subscriptions_are_known, 5),
                (hand_nothing_over, 7),
                (send_nothing_again, 14),
            ]
        ),
    ],
)
def test_the_judges_notice_each_mutant(mutate, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    mutate(monkeypatch)
    assert RandomAckTracker(seed, "dynatops").run()
