"""Random networks with joins and leaves: nothing lost, doubled, invented or out of order.

A few seeds here, 1,000 by `make soak`; SHOAL_SEEDS="7" or "0-999" replays chosen seeds.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from shoal.overlays.tree.contraction import Contraction
from shoal.overlays.tree.routing import TreeRouting
from tests.examples import at_length, one_in
from tests.seeds.chosen import CHOSEN, chosen
from tests.seeds.networks.random_changes import ChangingNetwork
from tests.systems import TREES

# Seeds that find the mutants below, and one more.
QUICK = (1, 2, 3)
LOSSY = (2,)
SOAK = range(1_000)
# Floods over lossy links are more than these carry at times: a publication may take 16 s.
FLOOD_US = 20_000_000


def _run(seeds: Iterable[int], system: str, *, lossy: bool = False) -> int:
    """Run and judge; the number of brokers that left."""
    left = 0
    for seed in chosen(seeds):
        network = ChangingNetwork(seed, system=system, lossy=lossy)
        if lossy and system == "flooding":
            network.margin_us = FLOOD_US
        problems = network.run()
        assert not problems, f"SHOAL_SEEDS={seed}: " + "\n".join(problems)
        left += len(network.world.departures)
    return left


@pytest.mark.parametrize("system", TREES)
def test_joins_and_leaves_disturb_no_other_client(system: str) -> None:
    assert _run(QUICK, system) > 3 or CHOSEN


@pytest.mark.parametrize("system", TREES)
def test_joins_and_leaves_over_lossy_links_disturb_no_other_client(system: str) -> None:
    assert _run(LOSSY, system, lossy=True) > 1 or CHOSEN


# Publishers at a leaving broker (34, 50); several neighbours leave at once.
@pytest.mark.parametrize(
    ("system", "lossy"),
    [("flooding", False), ("tid", False), *at_length([("flooding", True), ("tid", True)])],
)
def test_joins_and_leaves_on_graphs_with_cycles_disturb_no_other_client(
    system: str, lossy: bool
) -> None:
    assert _run((0, 34, 50), system, lossy=lossy) > 3 or CHOSEN


@pytest.mark.parametrize(
    ("system", "lossy", "seed"),
    one_in(
        3,
        [
            # A publisher's source is asked to quiesce after it has moved the publisher.
            ("pop", False, 395),
            # A link opened for an aborted leave, which an exchange has made since.
            ("self_organising", False, 680),
            # A stranger's greeting over the link that replaces a leaving broker.
            ("self_organising", True, 225),
            # A leaving broker sends a change of a tree that it has not announced.
            ("tid", True, 610),
            # The successor of a leave leaves first.
            ("self_organising", True, 213),
            # A broker of a publisher's path leaves before the publisher arrives.
            ("pop", True, 690),
            ("grape", True, 813),
            # A publisher arrives at a broker whose last link is about to end.
            ("pop", True, 926),
            ("grape", True, 559),
            # A relinked neighbour and the successor leave before the departed broker has seen it.
            ("pop", True, 890),
            ("self_organising", True, 296),
        ],
    ),
)
def test_regression_seeds_lose_nothing(system: str, lossy: bool, seed: int) -> None:
    assert _run((seed,), system, lossy=lossy) or CHOSEN


def leave_at_any_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant: a broker leaves while clients, publishers or tables are on their way through it."""
    monkeypatch.setattr(TreeRouting, "obstacle_to", lambda *_, **__: "")


def take_over_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant: a neighbour brings no rows to the successor."""
    monkeypatch.setattr(Contraction, "follow", lambda *_: None)


@pytest.mark.parametrize(
    ("mutate", "system", "seed", "lossy"),
    [
        (leave_at_any_time, "tree", 34, False),
        (take_over_nothing, "tree", 2, False),
        *at_length(
            [
                (leave_at_any_time, "self_organising", 52, True),
                (take_over_nothing, "self_organising", 2, True),
            ]
        ),
    ],
)
def test_the_judges_notice_each_mutant(mutate, system, seed, lossy, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    mutate(monkeypatch)
    assert ChangingNetwork(seed, system=system, lossy=lossy).run()


@pytest.mark.soak
@pytest.mark.parametrize("lossy", [False, True])
@pytest.mark.parametrize("system", [*TREES, "flooding", "tid"])
def test_a_thousand_changing_networks_lose_nothing(system: str, lossy: bool) -> None:
    assert _run(SOAK, system, lossy=lossy) > 1_000 or CHOSEN
