"""The machines in the simulator and the fast model: the same exchanges, the same costs."""

from __future__ import annotations

import msgspec
import pytest

from shoal.experiments.self_organising.model import Model
from shoal.experiments.self_organising.runs import first_links
from shoal.experiments.self_organising.setting import Setting
from shoal.experiments.self_organising.simulated import simulate
from tests.experiments.self_organising.test_model import workload_of

FEW = Setting(
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
# Nobody publishes before all clients are there.
QUIET = 30


@pytest.mark.xfail(
    reason="since then the machines give way when both ends propose a link; the model does not yet"
)
@pytest.mark.parametrize(
    "changes",
    [
        {"what": "ci"},
        {"what": "mst"},
        {"what": "mit", "shape": "uniform"},
        {"what": "ci", "passing": True, "seed": 4},
        {"what": "mit", "passing": True, "changes": "both"},
        {"what": "ci", "least_gain": 5, "hops": 3, "seed": 5},
        {"what": "ci", "counted": True, "seed": 6},
    ],
)
def test_the_model_does_what_the_machines_do(changes: dict[str, object]) -> None:
    setting = msgspec.structs.replace(FEW, **changes)
    workload = workload_of(setting)
    workload = workload._replace(
        publications=[[at for at in times if at > QUIET] for times in workload.publications]
    )
    links = first_links(setting)
    simulated = simulate(setting, workload, links)
    outcome = Model(setting, workload, links, simulated.broadcasts_at).run()
    assert len(outcome.swaps) > 3
    assert [swap[1:] for swap in outcome.swaps] == [swap[1:] for swap in simulated.swaps]
    for ours, theirs in zip(outcome.swaps, simulated.swaps, strict=True):
        assert 0 <= theirs.at - ours.at < 0.01
    assert sorted(map(sorted, outcome.links)) == sorted(map(sorted, simulated.links))
    for kind, windows in simulated.costs.items():
        assert outcome.costs[kind] == pytest.approx(windows), kind
