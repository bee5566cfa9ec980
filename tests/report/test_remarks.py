"""Remarks: settings without effect, reasons for no moves, and worse figures, in words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shoal.report.comparison import headline, sentences
from shoal.report.inputs import ReportRun
from shoal.report.page import render
from shoal.report.remarks import remarks, why_nobody_moved
from tests.report.test_page import Page, runs_of

GRAPE = {"system": "grape", "grape": {"trace_session_length": 100, "least_gain_percent": 2}}
POP = {"system": "pop", "pop": {"threshold": 100, "least_gain_percent": 2}}


@pytest.mark.parametrize(
    ("scenario", "most", "has_decided", "why"),
    [
        (
            GRAPE,
            84,
            False,
            "Publishers publish at most 84 times; grape.trace_session_length needs 100: no "
            "publisher can move.",
        ),
        (
            POP,
            1,
            False,
            "Publishers publish at most once; pop.threshold needs 100: no publisher can move",
        ),
        (POP, 84, False, "Publishers publish at most 84 times; pop.threshold needs 100: no publ"),
        (GRAPE, 100, True, "grape decided, and moving never promised enough (grape.least_gain_per"),
        (GRAPE, 100, False, "grape decided nothing."),
        (
            {"system": "grape", "grape": GRAPE["grape"] | {"moves": "subscribers"}},
            100,
            False,
            "grape moves subscribers (grape.moves).",
        ),
        ({"system": "tree", "grape": GRAPE["grape"]}, 5, False, "tree moves no publishers."),
    ],
)
def test_the_reason_for_no_moves_is_named(
    scenario: Any, most: int, has_decided: bool, why: str
) -> None:
    found = why_nobody_moved(scenario, {"most_by_one_publisher": most}, has_decided=has_decided)
    assert found.startswith(why)


def test_faults_after_the_end_are_reported() -> None:
    faults = {"crashes": [{"at_us": 5}, {"at_us": 4_000_000}], "link_downs": [{"at_us": 9**9}]}
    assert remarks({"system": "tree", "faults": faults}, {"virtual_end_us": 4_000_000}) == [
        "faults.crashes[1].at_us: the run ended before, at 4.00 s",
        "faults.link_downs[0].at_us: the run ended before, at 4.00 s",
    ]


def test_overloaded_brokers_are_reported() -> None:
    scenario = {"system": "tree", "run": {"drain_us": 60_000_000}}
    assert remarks(scenario, {"under_way": 0, "most_behind_us": 4_000_000}) == []
    (slow,) = remarks(scenario, {"under_way": 0, "most_behind_us": 23_000_000})
    assert slow.startswith("brokers could not keep up: one was 23.0 s behind")
    slow, missing = remarks(scenario, {"under_way": 11_912, "most_behind_us": 967_000_000})
    assert missing.startswith("11,912 copies of publications were still under way 60.0 s after")


def test_a_system_of_an_unnamed_module_is_reported() -> None:
    (unknown,) = remarks({"system": "guest"}, {})
    assert unknown == (
        "guest is no system that is known here, so its brokers' records are left out: name its "
        "module in SHOAL_SYSTEMS"
    )


def changed(run: ReportRun, **metrics: float | None) -> None:
    run.metrics.update(metrics)


def test_worse_figures_are_reported_in_words(tmp_path: Path) -> None:
    runs = runs_of(tmp_path)
    changed(runs[1], message_rate_per_s=26.84, delay_mean_us=64_210.5)
    changed(runs[2], message_rate_per_s=26.84, delay_mean_us=128_421.0)
    first, second = sentences(runs)
    assert first == (
        "load100 against baseline made things worse: it raised the average broker message rate by "
        "10.0 % (24.4 → 26.8 messages/s) and left the mean delivery delay as it was"
    )
    assert second.startswith("delay100 against baseline made things worse: it raised")
    assert "and raised the mean delivery delay by 100 % (64.2 → 128 ms)" in second
    assert "load100 made things worse: it raised" in Page(render(runs)).text


def test_the_page_names_settings_without_effect(tmp_path: Path) -> None:
    runs = runs_of(tmp_path)
    run = runs[1]
    changed(run, selection_time_mean_us=None)
    run.scenario["grape"]["trace_session_length"] = 100  # type: ignore[index]
    run.checks["most_by_one_publisher"] = 84  # type: ignore[index]
    still = replace(run, migrations=())
    text = Page(render([runs[0], still])).text
    why = (
        "ublishers publish at most 84 times; grape.trace_session_length needs 100: "
        "no publisher can move"
    )
    assert f". {'P' + why}. " in text
    assert f"None of the 12 publishers moved. {'P' + why}." in text
    assert sentences([runs[0], still])[1] == f"load100: {'p' + why}"


@pytest.mark.parametrize("dispatchers", [["ANC", "ATL"], []])
def test_a_cluster_is_drawn_without_links(tmp_path: Path, dispatchers: list[str]) -> None:
    places = [(name, None, None, "") for name in ("ANC", "ATL", "EWR", "HNL", "JFK", "LAX")]
    tree, run = runs_of(tmp_path, names=["baseline", "cluster"], places=places)
    matchers = ["EWR", "HNL", "JFK", "LAX"] if dispatchers else []
    changed(run, system="bluedove")
    run.scenario["bluedove"] = {"dispatchers": dispatchers, "matchers": matchers}  # type: ignore[index]
    text = render([replace(run, links=(), migrations=(), moves=())])
    page = Page(text)
    assert "In cluster every broker may talk to every other." in page.text
    assert '<g class="links"></g>' in text
    drawn = text.partition('<g class="brokers">')[2].partition('<g class="arcs"')[0]
    assert drawn.count("<rect") == len(dispatchers)
    assert ("Square: a broker that clients connect to" in page.text) is bool(dispatchers)
    assert ("Every broker takes clients." in page.text) is not bool(dispatchers)
    assert "drawn in a circle" in page.text
    assert "drawn from its centre" in Page(render([tree])).text


@pytest.mark.parametrize("count", [1, 2])
def test_limits_of_the_first_run_are_on_the_page(tmp_path: Path, count: int) -> None:
    runs = runs_of(tmp_path)[:count]
    runs[0].checks["most_behind_us"] = 23_000_000  # type: ignore[index]
    assert str(headline(runs)).count(f"<b>{runs[0].name}</b>: brokers could not keep up: one") == 1
