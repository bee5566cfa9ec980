"""Random networks whose brokers join and leave: nothing lost, doubled, made up or out of order.

A few seeds here, 1,000 by `make soak`; SHOAL_SEEDS="7" or "0-999" replays chosen ones.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from shoal.overlays.tree.contraction import Contraction
from shoal.overlays.tree.routing import TreeRouting
from tests.seeds.chosen import CHOSEN, chosen
from tests.seeds.networks.random_changes import ChangingNetwork
from tests.systems import TREES

# By which mutants below are noticed, and one more.
QUICK = (1, 2, 3)
LOSSY = (2,)
SOAK = range(1_000)


def _run(seeds: Iterable[int], system: str, *, lossy: bool = False) -> int:
    """Run and judge; how many brokers left."""
    left = 0
    for seed in chosen(seeds):
        network = ChangingNetwork(seed, system=system, lossy=lossy)
        problems = network.run()
        assert not problems, f"SHOAL_SEEDS={seed}: " + "\n".join(problems)
        left += len(network.world.departures)
    return left


@pytest.mark.parametrize("system", TREES)
def test_nobody_else_notices_brokers_that_join_and_leave(system: str) -> None:
    assert _run(QUICK, system) > 3 or CHOSEN


@pytest.mark.parametrize("system", TREES)
def test_nor_over_links_that_lose_and_reorder(system: str) -> None:
    assert _run(LOSSY, system, lossy=True) > 1 or CHOSEN


# Publishers had not gone (34, 50) where a broker left; several neighbours leave at once.
@pytest.mark.parametrize("lossy", [False, True])
@pytest.mark.parametrize("system", ["flooding", "tid"])
def test_nor_do_those_on_a_graph_with_cycles(system: str, lossy: bool) -> None:
    assert _run((0, 34, 50), system, lossy=lossy) > 3 or CHOSEN


@pytest.mark.parametrize(
    ("system", "lossy", "seed"),
    [
        # A publisher's source was asked to be still after it had sent it away.
        ("pop", False, 395),
        # A link was opened for a leave that was given up, and an exchange has made it since.
        ("self_organising", False, 680),
        # A stranger's greeting went over the link that took a leaving broker's place.
        ("self_organising", True, 225),
        # The centre of a leave left first.
        ("self_organising", True, 213),
        # A broker of a publisher's path left before it came.
        ("pop", True, 690),
        ("grape", True, 813),
        # A publisher came to a broker whose last link was about to end.
        ("pop", True, 926),
        ("grape", True, 559),
        # Who had moved from a leaving broker, and the centre, left before it had seen that.
        ("pop", True, 890),
        ("self_organising", True, 296),
    ],
)
def test_seeds_by_which_faults_were_found(system: str, lossy: bool, seed: int) -> None:
    assert _run((seed,), system, lossy=lossy) or CHOSEN


def leave_at_any_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant: a broker goes while clients, publishers or tables are on their way through it."""
    monkeypatch.setattr(TreeRouting, "obstacle_to", lambda *_, **__: "")


def take_over_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant: who comes to its new neighbour has no rows by way of it."""
    monkeypatch.setattr(Contraction, "follow", lambda *_: None)


@pytest.mark.parametrize(
    ("mutate", "system", "seed", "lossy"),
    [
        (leave_at_any_time, "tree", 34, False),
        (leave_at_any_time, "self_organising", 52, True),
        (take_over_nothing, "tree", 2, False),
        (take_over_nothing, "self_organising", 2, True),
    ],
)
def test_the_judges_notice(mutate, system, seed, lossy, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    mutate(monkeypatch)
    assert ChangingNetwork(seed, system=system, lossy=lossy).run()


@pytest.mark.soak
@pytest.mark.parametrize("lossy", [False, True])
@pytest.mark.parametrize("system", [*TREES, "flooding", "tid"])
def test_a_thousand_changing_networks(system: str, lossy: bool) -> None:
    assert _run(SOAK, system, lossy=lossy) > 1_000 or CHOSEN
