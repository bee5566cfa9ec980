"""The machines in the simulator and the fast model: the same exchanges, the same costs."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest

from shoal.experiments.self_organising.grid import SCALES, grid
from shoal.experiments.self_organising.modelling.model import SelfOrganisingModel
from shoal.experiments.self_organising.modelling.setting import SelfOrganisingSetting
from shoal.experiments.self_organising.modelling.simulated import parameters_of, simulate
from shoal.experiments.self_organising.runs import broadcast_times, first_links
from shoal.overlays.self_organising.parameters import InterestMeasure, ThreeWay
from tests.examples import at_length
from tests.experiments.self_organising.test_model import workload_of

FEW = SelfOrganisingSetting(
    what="ci",
    seed=3,
    brokers=10,
    types=8,
    subscribers=3,
    ticks=2_000,
    changes_at=(1_000,),
    publication_rate=0.1,
    end_rate=0.0008,
)
# Publishing starts when all clients are connected.
QUIET = 30


@pytest.mark.parametrize(
    "changes",
    [
        {"what": "mst"},
        {"what": "mit", "passing": True, "changes": "both"},
        {"what": "ci", "counted": True, "seed": 6},
        *at_length(
            [
                {"what": "ci"},
                {"what": "mit", "shape": "uniform"},
                {"what": "ci", "passing": True, "seed": 4},
                {"what": "ci", "least_gain": 5, "hops": 3, "seed": 5},
            ]
        ),
    ],
)
def test_the_model_makes_the_machines_exchanges(changes: dict[str, object]) -> None:
    setting = msgspec.structs.replace(FEW, **changes)
    workload = workload_of(setting)
    workload = workload._replace(
        publications=[[at for at in times if at > QUIET] for times in workload.publications]
    )
    links = first_links(setting)
    simulated = simulate(setting, workload, links)
    outcome = SelfOrganisingModel(setting, workload, links, simulated.broadcasts_at).run()
    assert len(outcome.swaps) > 3
    assert [swap[1:] for swap in outcome.swaps] == [swap[1:] for swap in simulated.swaps]
    for ours, theirs in zip(outcome.swaps, simulated.swaps, strict=True):
        assert 0 <= theirs.at - ours.at < 0.01
    assert sorted(map(sorted, outcome.links)) == sorted(map(sorted, simulated.links))
    for kind, windows in simulated.costs.items():
        assert outcome.costs[kind] == pytest.approx(windows), kind


def test_the_model_broadcasts_as_often_as_the_machines() -> None:
    setting = msgspec.structs.replace(FEW, changes_at=())
    simulated = simulate(setting, workload_of(setting), first_links(setting))
    for times in (broadcast_times(setting), simulated.broadcasts_at):
        assert all(0 <= each[0] <= 250 and each[-1] > 2_000 - 275 for each in times)
        between = [later - sooner for each in times for sooner, later in pairwise(each)]
        # A tenth more or less, and hardly two alike.
        assert 225 <= min(between) < 240
        assert 260 < max(between) <= 275
        assert len(set(between)) > len(between) / 2


def test_the_papers_rows_have_the_papers_values() -> None:
    """Rows of the paper do not use our defaults."""
    rows = [cell.setting for cell in grid(SCALES["paper"], 1) if cell.part != "ours"]
    rows = [setting for setting in rows if setting.what != "static"]
    assert any(setting.passing for setting in rows)
    for setting in rows:
        parameters = parameters_of(setting)
        assert parameters.least_gain_percent == 0
        assert not parameters.exact_when_smaller
        assert parameters.three_way is ThreeWay.MEAN
        assert (parameters.interest is InterestMeasure.PASSING) == setting.passing
