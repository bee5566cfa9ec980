"""From costs to claims and pages: judged claims, missing runs, and kinds of runs kept apart."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import pytest

from shoal.experiments.self_organising.claims import CLAIMS
from shoal.experiments.self_organising.evidence import SelfOrganisingEvidence
from shoal.experiments.self_organising.grid import (
    EVERYTHING,
    NEAR,
    PAPER_NETWORKS,
    SCALES,
    Part,
    grid,
)
from shoal.experiments.self_organising.modelling import workload as drawing
from shoal.experiments.self_organising.modelling.setting import SelfOrganisingSetting, What
from shoal.experiments.self_organising.modelling.workload import check_measured, measured_apart
from shoal.experiments.self_organising.page import conclude
from shoal.experiments.self_organising.runs import ModelCosts, SelfOrganisingModelRun, model_runs
from shoal.experiments.studies.claims import judge_claims, mean_and_interval
from shoal.experiments.studies.runs import write_summary
from shoal.experiments.studies.study import write_conclusion
from shoal.report.study import read_study
from shoal.report.study_pages import write_pages

SHARES: dict[What, float] = {"static": 1.0, "ci": 0.5, "mst": 0.6, "mit": 0.8}
PHASE = 25


def costs(part: Part, what: What, windows: list[float], **changes: object) -> ModelCosts:
    setting = msgspec.structs.replace(SelfOrganisingSetting(what=what, seed=1), **changes)
    kinds = {"notifications": windows, "broadcasts": [10.0], "requests": [1.0], "exchanges": [1.0]}
    padded = {kind: [*some, *[0.0] * (len(windows) - len(some))] for kind, some in kinds.items()}
    counts = dict.fromkeys(("heard", "proposals", "exchanges", "kept", "refused"), 1)
    counts |= {"filter": 100, "ids": 20}
    return ModelCosts(key="", part=part, setting=setting, costs=padded, counts=counts)


def adapting(share: float, network: int) -> list[float]:
    """Costs that fall to a share in three windows, after each change again."""
    phase = [1.0, 0.9, 0.8] + [share] * (PHASE - 3)
    return [1_000.0 * (1 + network / 100) * value for value in phase * 3]


def adaptivity(networks: int = 3) -> list[ModelCosts]:
    found = []
    for network in range(networks):
        for what, share in SHARES.items():
            windows = adapting(share, network) if what != "static" else [1_000.0] * 3 * PHASE
            found.append(costs("adaptivity", what, windows, seed=network))
    return found


def verdicts(found: list[ModelCosts]) -> dict[str, tuple[str, str]]:
    evidence = SelfOrganisingEvidence(found, SCALES["small"], "a tree")
    return {one.id: (one.verdict, one.ours) for one in judge_claims(CLAIMS, evidence, "a tree")}


def test_nothing_is_judged_without_runs() -> None:
    assert {verdict for verdict, _ in verdicts([]).values()} == {"not run"}


def test_adaptivity_is_judged() -> None:
    found = verdicts(adaptivity())
    assert {found[id][0] for id in ("below-static", "soon", "rise", "fall", "lowest")} == {"met"}
    assert found["soon"][1].endswith("CI 4,000, lMST 4,000, lMIT 3,000")
    # Three networks are too few to compare intervals with the paper's.
    assert found["narrow"][0] == "not run"
    assert verdicts(adaptivity(PAPER_NETWORKS))["narrow"][0] == "met"
    worse = [one for one in adaptivity() if one.setting.what != "ci"]
    worse += [costs("adaptivity", "ci", adapting(0.7, n), seed=n) for n in range(3)]
    assert verdicts(worse)["lowest"][0] == "missed"


def test_changes_within_their_interval_are_named() -> None:
    """lMST's costs rise on half of the networks: within the interval, which four networks lack."""

    def networks(count: int) -> dict[str, tuple[str, str]]:
        found = []
        for network in range(count):
            found.append(costs("redrawn", "static", [1_000.0] * 3 * PHASE, seed=network))
            for what, rise in (("ci", 1.1 + network / 100), ("mst", (0.9, 1.12)[network % 2]),
                               ("mit", 1.2)):  # fmt: skip
                phase = [500.0] * PHASE
                later = [500.0 * rise, *phase[1:]]
                found.append(costs("redrawn", what, phase + later + later, seed=network))  # type: ignore[arg-type]
        return verdicts(found)

    assert networks(6)["rise-redrawn"] == ("met", "6 of 6; 2 within the 95 % interval (lMST)")
    assert networks(5)["rise-redrawn"] == (
        "missed", "4 of 6; not lMST; 2 within the 95 % interval (lMST)"
    )  # fmt: skip
    assert networks(4)["rise-redrawn"] == ("met", "6 of 6")
    evidence = SelfOrganisingEvidence(adaptivity(), SCALES["small"], "a tree")
    assert not any(one.turns for one in judge_claims(CLAIMS, evidence, "a tree"))


def test_locality_is_judged_network_by_network() -> None:
    def with_local(shares: list[float]) -> tuple[str, str]:
        found = []
        for network, share in enumerate(shares):
            for near, part in ((0, 0.6), (NEAR, share)):
                found.append(costs("locality", "static", [1_000.0], seed=network, near=near))
                found.append(costs("locality", "ci", [1_000.0 * part], seed=network, near=near))
        return verdicts(found)["locality"]

    assert with_local([0.5, 0.52, 0.48, 0.5, 0.5])[0] == "met"
    assert with_local([0.7] * 5)[0] == "missed"
    assert with_local([])[0] == "not run"


def test_hops_and_alpha_are_judged() -> None:
    by_hops = {2: 700.0, 3: 650.0, 4: 600.0, 6: 610.0, 8: 650.0}
    found = [costs("hops", "static", [1_000.0])]
    found += [costs("hops", "ci", [cost], hops=hops) for hops, cost in by_hops.items()]
    for alpha in SCALES["small"].alphas:
        found.append(costs("alpha", "static", [1_000.0], alpha=alpha))
        for what, share in (("ci", 0.5), ("mst", 0.6 + 0.4 * alpha), ("mit", 0.7)):
            found.append(costs("alpha", what, [1_000.0 * share], alpha=alpha))  # type: ignore[arg-type]
    judged = verdicts(found)
    ids = ("best-hops", "falls-beyond", "mst-alpha", "mit-links", "mit-brokers", "ci-alpha")
    assert {id: judged[id][0] for id in ids} == dict.fromkeys(ids, "met")
    assert judged["exchanges"][0] == "met"
    dear = [msgspec.structs.replace(one, costs=one.costs | {"exchanges": [19.0]}) for one in found]
    assert verdicts(dear)["exchanges"][0] == "missed"  # 3.1 % is not less than 3
    assert "4: 40 %" in judged["best-hops"][1]


@pytest.mark.parametrize("name", SCALES)
def test_the_grid_has_every_run_once_and_each_beside_a_static_one(name: str) -> None:
    cells = grid(SCALES[name], 1)
    assert len({cell.name for cell in cells}) == len(cells)
    assert len({run.key for run in model_runs(cells, Path("x"))}) == len(cells)
    whats = {cell.setting.what for cell in cells if cell.part == "adaptivity"}
    assert whats == set(EVERYTHING)
    whats_links = [cell.setting for cell in cells]
    static = {_place(c.part, c.setting) for c in cells if c.setting.what == "static"}
    for cell in cells:
        part: Part = "hops" if cell.part == "ours" else cell.part
        assert _place(part, cell.setting) in static
    assert {one.links for one in whats_links} == {"drawn", "ways"}


def _place(part: Part, setting: SelfOrganisingSetting) -> tuple[object, ...]:
    return part, setting.links, setting.shape, setting.brokers, setting.seed


def test_measured_round_trips_and_flights_have_runs_of_their_own(tmp_path: Path) -> None:
    rtt, flights = tmp_path / "rtt.csv", tmp_path / "flights.npz"
    for file in (rtt, flights):
        file.write_text(file.name)
    cells = grid(SCALES["small"], 1, str(rtt), str(flights))
    assert {cell.setting.links for cell in cells} == {"ways"}
    assert {cell.part for cell in cells if cell.setting.departures} == {"adaptivity", "regret"}
    runs = model_runs(cells, tmp_path)
    assert len({run.name for run in runs}) == len({run.key for run in runs}) == len(cells)
    # The content of a file counts, not its place.
    moved = rtt.rename(tmp_path / "moved.csv")
    again = model_runs(grid(SCALES["small"], 1, str(moved), str(flights)), tmp_path)
    assert [run.key for run in again] == [run.key for run in runs]


def test_a_run_leaves_its_costs_and_pages_show_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Networks of routers take a second each.
    monkeypatch.setattr(drawing, "transit_stub", lambda seed: drawing.np.random.default_rng(seed))
    monkeypatch.setattr(drawing, "place", lambda network, count, seed: count)
    monkeypatch.setattr(drawing, "distances", lambda random, count: _apart(random, count))
    runs = model_runs(grid(SCALES["small"], 1), tmp_path)
    made = [
        run
        for run in runs
        if run.part == "regret" and run.setting.brokers == 8 and run.setting.seed < 3
    ]
    for run in made:
        run()
        assert run.is_done
        assert run.summary is not None
        assert run.summary.regret is not None
        assert run.summary.regret >= -1e-9
    for one in adaptivity(2):
        run = _run_of(runs, one)
        write_summary(Path(run.file), msgspec.structs.replace(one, key=run.key))
    write_conclusion(tmp_path, conclude(runs, SCALES["small"], "somewhere"))
    write_pages(tmp_path, read_study(tmp_path / "study.json"))
    text = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    assert "recursive tree, links by ways, what passes" in text
    assert "Above the best tree" in text
    assert f"{len(made) + 2 * len(SHARES)} of {len(runs)} runs" in text
    # Interest counted by three is not tried with the other reading.
    study = read_study(tmp_path / "study.json")
    of_passing = {one.id for one in study.claims if one.dataset.endswith("passes") and one.is_own}
    assert "counted" not in of_passing
    assert "regret" in of_passing


def _apart(random: drawing.np.random.Generator, count: int) -> drawing.Floats:
    places = random.uniform(0, 1, (count, 2))
    found: drawing.Floats = drawing.np.hypot(
        *(places[:, None] - places[None, :]).transpose(2, 0, 1)
    )
    return found


def _run_of(runs: list[SelfOrganisingModelRun], one: ModelCosts) -> SelfOrganisingModelRun:
    wanted = msgspec.structs.replace(one.setting, seed=one.setting.seed + 1)
    return next(run for run in runs if (run.part, run.setting) == (one.part, wanted))


def test_intervals_are_students_t() -> None:
    assert mean_and_interval([4.0]) == (4.0, math.inf)
    for pairs, t in ((12, 2.069), (13, 2.060), (50, 1.984)):
        mean, half = mean_and_interval([0.0, 2.0] * pairs)
        expected = t / math.sqrt(2 * pairs - 1)  # the deviation is sqrt(n / (n - 1))
        assert (mean, half) == pytest.approx((1.0, expected), rel=0.004)


def test_round_trips_use_hosts_with_all_measurements(tmp_path: Path) -> None:
    path = tmp_path / "rtt.csv"
    path.write_text("src,dst,rtt_ms\na,b,3\nb,a,4\na,c,5\nc,b,6\nd,a,1\n")
    assert measured_apart(path).tolist() == [[0, 3, 5], [3, 0, 6], [5, 6, 0]]
    with pytest.raises(ValueError, match="3 hosts have a round trip to each other"):
        check_measured(path, brokers=100)
