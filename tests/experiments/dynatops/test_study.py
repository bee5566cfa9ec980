"""From runs to claims and pages: judged and missing claims, and pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from shoal.experiments.dynatops.claims import CLAIMS
from shoal.experiments.dynatops.evidence import DynatopsEvidence
from shoal.experiments.dynatops.grid import SCALES, DynatopsCell, Files, Part, grid
from shoal.experiments.dynatops.model import Slot
from shoal.experiments.dynatops.page import conclude
from shoal.experiments.dynatops.plans import Case, Planned, PlanScale, plan_runs
from shoal.experiments.dynatops.runs import Hours, model_runs
from shoal.experiments.dynatops.setting import What
from shoal.experiments.dynatops.study import DYNATOPS, DynatopsOptions
from shoal.experiments.studies.claims import judge_claims
from shoal.experiments.studies.study import write_conclusion
from shoal.report.study import read_study
from shoal.report.study_pages import write_pages

TINY = SCALES["small"]._replace(
    columns=6, rows=4, located=60, location_hours=4, brokers=10, topics=20, users=60, hours=4
)
FIGURES = {
    "bayeux": 1.0, "bayeux-location": 0.9, "bayeux-near": 0.8, "tco": 0.9, "geops": 0.7,
    "chash": 0.97, "bnr": 0.95, "up": 0.5, "dynatops": 0.4, "hybrid": 0.3,
}  # fmt: skip


def hours(cell: DynatopsCell, share: float) -> Hours:
    slot = Slot(
        subscribing=1_000 * share,
        changes=int(1_000 * share),
        handovers=int(2_000 * share),
        session_transfer=int(1_000 * share),
        events=10,
        messages=100 * share,
        waiting=100 * share,
        deliveries=100,
        reconfiguring=0 if cell.setting.what in ("bayeux", "up", "geops") else 1_000 * share,
        deviation=share,
    )
    return Hours(key="", part=cell.part, setting=cell.setting, slots=[slot])


def runs() -> list[Hours]:
    return [hours(cell, FIGURES[cell.setting.what]) for cell in grid(TINY, 1, "")]


def verdicts(found: list[Hours], planned: list[Planned]) -> dict[str, tuple[str, str]]:
    evidence = DynatopsEvidence(found, planned)
    return {one.id: (one.verdict, one.ours) for one in judge_claims(CLAIMS, evidence, "users")}


def test_nothing_is_judged_without_runs() -> None:
    assert {verdict for verdict, _ in verdicts([], []).values()} == {"not run"}


def test_shares_are_judged_against_the_right_system() -> None:
    found = verdicts(runs(), [])
    assert found["handovers"][1].startswith("43 % (400 against 700)")
    assert found["handovers"][0] == "missed"
    assert found["delay-bayeux"][0] == "met"
    assert found["overhead-geops"] == ("beaten", "43 % (4 against 7) (beaten by 23 points)")
    assert found["subscribing"] == ("met", "43 % against GeoPS, clusters of 2")
    # TCO, which has no trees, and slower changes do not count.
    assert found["subscribing-fast"] == ("direction only", "by changes an hour 0.1: 60 %")
    assert found["changes"][0] == "missed"  # 56 % below TCO
    assert found["patterns"][0] == "met"
    assert found["tco"][0] == "missed"  # its delay is less, not more
    assert found["hashed-overhead"][0] == "met"
    assert found["interests-overhead"][0] == "not run"
    assert found["hashed-delay"][1].endswith("with places: 59 %")
    assert found["reconfiguring"][1] == "by changes an hour 0.1: 56 %"


def test_drawn_users_are_judged_by_the_visits_of_figure_5() -> None:
    found = verdicts(runs(), [])
    assert [
        found[name][0] for name in ("visits-once", "visits-short", "visits-long", "visits")
    ] == [*("met", "met", "missed", "missed")]
    assert found["visits-once"][1].startswith("31 % ± ")
    assert found["visits"][1].startswith("3")


def test_users_of_a_file_have_runs_of_their_own() -> None:
    cells = [cell for cell in grid(TINY, 1, "", Files("tweets", "flights")) if cell.setting.trace]
    users = [cell.setting.users_are for cell in cells]
    assert sorted(set(users)) == ["aircraft", "interests"]
    assert users == [cell.part for cell in cells]
    found = verdicts([hours(cell, FIGURES[cell.setting.what]) for cell in cells], [])
    assert found["interests-overhead"] == ("met", "56 % (4 against TCO's 9)")
    assert found["interests-delay"][0] == "met"
    assert found["interests-subscribing"] == ("met", "60 % (400 against Bayeux (static)'s 1,000)")
    assert found["aircraft-overhead"] == ("met", "43 % (4 against GeoPS's 7)")
    assert found["aircraft-handovers"] == ("met", "43 % (400 against GeoPS's 700)")
    assert found["overhead"][0] == "not run"


def test_gateways_are_judged_against_dynatops_with_the_same_users() -> None:
    found = verdicts(runs(), [])
    text = "multimodal: 25 %, zipf: 25 %, uniform: 25 %, with places: 25 %"
    assert found["hybrid-overhead"] == ("met", text)
    some = [one for one in runs() if one.part != "location"]
    assert verdicts(some, [])["hybrid-delay"][0] == "not run"


def test_overhead_by_cluster_is_judged_at_the_time_between_exchanges_of_all_other_runs() -> None:
    def with_clusters(part: Part, what: What, subscribing: dict[int, float]) -> list[Hours]:
        found = []
        for one in runs():
            setting = one.setting
            if one.part == part and setting.what == what and setting.update_hours in (1, 6):
                slot = one.slots[0]._replace(subscribing=subscribing[setting.cluster])
                one = msgspec.structs.replace(one, slots=[slot])
            found.append(one)
        return found

    inside, falling = {2: 9, 5: 7, 10: 5, 20: 6, 50: 8}, {2: 9, 5: 7, 10: 5, 20: 4, 50: 3}
    found = verdicts(with_clusters("cluster", "dynatops", inside), [])["cluster"]
    assert found[0] == "met"
    assert found[1].startswith("exchanged every 1 h: least at 10 (")
    found = verdicts(with_clusters("cluster", "dynatops", falling), [])["cluster"]
    assert found[0] == "missed"
    found = verdicts(with_clusters("update", "up", inside), [])["cluster"]
    assert found[0] == "missed"
    assert "exchanged every 6 h: least at 10 (" in found[1]


def test_reconfiguring_must_fall_at_every_step_whatever_users_do() -> None:
    def with_hours(users: str, costs: dict[int, float]) -> dict[str, tuple[str, str]]:
        found = []
        for one in runs():
            if one.part == "free" and one.setting.users_are == users:
                slot = one.slots[0]._replace(reconfiguring=costs[one.setting.free_hours])
                one = msgspec.structs.replace(one, slots=[slot])
            found.append(one)
        return verdicts(found, [])

    falling, rising = {5: 9, 10: 7, 20: 5, 40: 5}, {5: 9, 10: 7, 20: 5, 40: 6}
    for users, name in (("poisson", "free-cheaper"), ("location", "free-cheaper-location")):
        assert with_hours(users, falling)[name][0] == "met"
        assert with_hours(users, rising)[name][0] == "missed"


def test_each_half_is_judged_alone() -> None:
    found = verdicts(runs(), [])
    assert found["halves"] == (
        "missed",
        "cut by DYNATOPS (UP): delay 44 %, messages 44 %; DYNATOPS (BNR): "
        "delay \N{MINUS SIGN}5.6 %, messages \N{MINUS SIGN}5.6 %",
    )
    assert found["halves-static"][0] == "met"


def test_growth_with_the_rate_of_changes_is_judged() -> None:
    """DYNATOPS' messages double from the slowest to the fastest rate, TCO's grow six times."""

    def growing(ours: float, theirs: float) -> tuple[str, str]:
        found = []
        for one in runs():
            if one.part == "poisson" and one.setting.what in ("dynatops", "tco"):
                times = ours if one.setting.what == "dynatops" else theirs
                is_fast = one.setting.change_rate == 0.1
                slot = one.slots[0]._replace(reconfiguring=100 * (times if is_fast else 1))
                one = msgspec.structs.replace(one, slots=[slot])
            found.append(one)
        return verdicts(found, [])["sensitive"]

    text = "0.33 times TCO's growth: DYNATOPS 2.00 times, TCO 6.00 times"
    assert growing(2, 6) == ("met", text)
    assert growing(6, 6)[0] == "missed"


def test_changes_of_places_are_held_against_their_bound() -> None:
    assert verdicts(runs(), [])["bound"][0] == "not run"

    def with_bounds(*bounds: float) -> tuple[str, str]:
        one = next(each for each in runs() if each.setting.what == "dynatops")
        slots = [one.slots[0]._replace(bound=bound) for bound in (0.0, *bounds)]
        return verdicts([msgspec.structs.replace(one, slots=slots)], [])["bound"]

    assert with_bounds(800.0, 4_000.0) == ("met", "2 changes took 10 % to 50 % of it")
    assert with_bounds(399.0, 800.0)[0] == "missed"


def test_the_weight_of_mending_is_judged() -> None:
    def with_deviations(by_weight: list[float], plain: float) -> str:
        found = []
        deviations = iter(by_weight)
        for one in runs():
            if one.part == "weight" or one.setting.what == "bayeux-location":
                value = next(deviations) if one.part == "weight" else plain
                slots = [one.slots[0]._replace(deviation=value)]
                one = msgspec.structs.replace(one, slots=slots)
            found.append(one)
        return verdicts(found, [])["weight"][0]

    assert with_deviations([3, 2, 1, 1.2, 1.3], 2.5) == "met"
    assert with_deviations([3, 2.9, 2.8, 2.7, 2.6], 2.5) == "missed"
    assert with_deviations([2, 1.9, 1.8, 1.7, 1.6], 2.5) == "missed"


def planned(pattern: str, brokers: int, topics: int, **values: Any) -> Planned:
    judge = "all" if "regret" in values else ""
    case = Case(brokers=brokers, topics=topics, pattern=pattern, seed=1, judge=judge)  # type: ignore[arg-type]
    given = {"before": 100.0, "after": 90.0, "seconds": 1.0} | values
    return Planned(key="", case=case, swaps=3, **given)  # type: ignore[arg-type]


def test_planners_are_judged() -> None:
    found = verdicts(
        [],
        [
            planned("uniform", 1_000, 100),
            planned("multimodal", 1_000, 100, after=80.0, seconds=3.0),
            planned("uniform", 8, 50, regret=0.02, others={"next": 0.01}),
            planned("uniform", 8, 50, regret=0.08, others={"next": 0.0}),
            planned("uniform", 8, 50, regret=0.03, others={"next": 0.0}),
        ],
    )
    assert found["chash"] == ("met", "10 % to 20 %")
    assert found["skewed"] == ("met", "1 of 1 sizes")
    assert found["seconds"] == ("not comparable", "3 s")
    assert found["million"][0] == "not run"
    assert found["regret-next"] == ("met", "0.0 %, at most 1.0 % (3 cases)")
    assert found["regret-pairs"][0] == "not run"
    assert found["regret"] == ("met", "3.0 %, at most 8.0 % (3 cases)")


def test_a_tiny_study_is_run_continued_and_shown(tmp_path: Path) -> None:
    which: dict[Part, What] = {"location": "geops", "poisson": "dynatops"}
    cells = [c for c in grid(TINY, 1, "") if which.get(c.part) == c.setting.what]
    models = model_runs(cells, tmp_path)
    plans = plan_runs(PlanScale(((10, 20),), judged=1), 1, tmp_path)
    plans = [run for run in plans if run.case.brokers <= 10]
    for run in (*models, *plans):
        assert not run.is_done
        run()
        assert run.is_done
    conclusion = conclude(models, plans, TINY, "users drawn")
    write_conclusion(tmp_path, conclusion)
    write_pages(tmp_path, read_study(tmp_path / "study.json"))
    page = (tmp_path / "index.html").read_text()
    assert "Figure 10 and table 1: plans" in page
    assert "GeoPS" in page


def test_an_invalid_file_of_users_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "checkins.parquet"
    path.write_text("nothing")
    with pytest.raises(ValueError, match="cannot be read as Parquet"):
        DYNATOPS.plan(DynatopsOptions(checkins=path), "small", tmp_path, 1)
    with pytest.raises(ValueError, match="cannot be read as Parquet"):
        DYNATOPS.plan(DynatopsOptions(interests=path), "small", tmp_path, 1)
