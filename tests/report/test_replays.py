"""Replays on the page and in words: predictions beside measurements, with all faults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shoal.report.drawing.figures import MINUS, MISSING
from shoal.report.inputs import ReportError, read_runs
from shoal.report.page import render
from shoal.report.replays import (
    LINES,
    Replay,
    ReplayCell,
    ReplayFigures,
    ReplayPlace,
    cell,
    effects,
    held_back,
    moved,
    moved_sentence,
    problems,
    proof,
    read_replay,
    replays_section,
)
from tests.report.fake_runs import make_runs
from tests.report.test_page import Page

PLACES = (
    ReplayPlace(publisher="p1", first="A", predicted="A", measured="A"),
    ReplayPlace(publisher="p2", first="A", predicted="C", measured="C"),
    ReplayPlace(publisher="p3", first="A", predicted="B", measured="C"),
    ReplayPlace(publisher="p4", first="B", predicted="C", measured="B"),
    ReplayPlace(publisher="p5", first="B", predicted="C", measured=None),
)


def figures(
    messages: int, hops: float | None, moves: int, delay: float | None = None
) -> ReplayFigures:
    return ReplayFigures(
        messages=messages, seconds=10.0, hops_mean=hops, moves=moves, delay_p50_us=delay
    )


def replay(name: str, **changed: Any) -> Replay:
    given = {
        "system": "grape", "judge": "Spark", "brokers": 3, "publishers": 5, "subscriptions": 4,
        "publications": 100, "redirections": 2, "expected": 50, "delivered": 50, "lost": 0,
        "duplicated": 0, "phantom": 0, "out_of_order": 0, "controls": 0, "places": (),
        "predicted": figures(300, 2.0, 0), "measured": figures(300, 2.0, 0, 4_000.0),
    }  # fmt: skip
    return Replay(name=name, **given | changed)


TREE = replay("tree")
GRAPE = replay(
    "grape",
    predicted=figures(150, 1.0, 2),
    measured=figures(165, 1.2, 3, 3_000.0),
    controls=40,
    places=PLACES,
)


def test_measurements_are_beside_predictions() -> None:
    found = {line.label: cell(line, GRAPE) for line in LINES}
    assert found == {
        "Messages per publication": ReplayCell("1.50", "1.65", "+10.0 %"),
        "\N{HORIZONTAL ELLIPSIS} per broker": ReplayCell("5.00", "5.50", "+10.0 %"),
        "Hops per delivery": ReplayCell("1.00", "1.20", "+20.0 %"),
        "Publisher moves": ReplayCell("2", "3", "+50.0 %"),
        "Median delay": ReplayCell(MISSING, "3.00", ""),
    }


def test_unknown_figures_are_not_invented() -> None:
    unknown = replay("x", predicted=None, measured=figures(300, None, 0))
    texts = [cell(line, unknown) for line in LINES]
    assert [each.predicted for each in texts] == [MISSING] * 5
    assert [each.measured for each in texts] == ["3.00", "10.0", MISSING, "0", MISSING]
    assert effects([TREE, unknown]) == []
    nothing = replay("x", publications=0, measured=ReplayFigures(**ZERO))
    assert {cell(line, nothing).measured for line in LINES} == {MISSING}


ZERO: dict[str, Any] = {"messages": 0, "seconds": 0.0, "hops_mean": None, "moves": 0}


def test_effects_are_measured_and_predicted() -> None:
    assert effects([TREE, GRAPE]) == [
        f"grape against tree, messages per publication: {MINUS}45.0 % (predicted {MINUS}50.0 %)",
        f"grape against tree, hops per delivery: {MINUS}40.0 % (predicted {MINUS}50.0 %)",
    ]


@pytest.mark.parametrize(("seconds", "is_told"), [(9.0, False), (10.9, False), (81.3, True)])
def test_a_missed_pace_is_reported(seconds: float, is_told: bool) -> None:
    measured = msgspec.structs.replace(figures(900, 1.0, 3), seconds=seconds)
    found = held_back([replay("load", measured=measured)])
    text = "load, live: publishing took 81.3 s instead of 10.0: brokers, or this machine, could not"
    assert [each.startswith(text) for each in found] == [True] * is_told
    section = str(replays_section([replay("load", measured=measured)]))
    assert ("publishing took" in section) == is_told


def test_movers_are_actual_and_predicted_ones() -> None:
    assert moved(GRAPE) == {
        "A": {"C": ["p2", "p3 (predicted B)"]},
        "B": {"?": ["p5 (predicted C)"], "B": ["p4 (predicted C)"]},
    }
    assert moved_sentence(GRAPE) == (
        "grape: 2 of 5 publishers ended at another broker, 2 where the simulator had put them; "
        "clients followed 2 times"
    )
    assert moved(TREE) == {}


def test_the_totals_add_up_and_faults_are_reported() -> None:
    assert proof([TREE]) == (
        "deliveries expected by Spark, live: 50, "
        "delivered: 50, lost: 0, duplicated: 0, phantom: 0, out of order: 0"
    )
    wrong = replay("g", judge="the filters", lost=1, delivered=49, out_of_order=2)
    assert proof([TREE, wrong]) == (
        "deliveries expected by Spark and the filters in 2 live replays: 100, "
        "delivered: 99, lost: 1, duplicated: 0, phantom: 0, out of order: 2"
    )
    assert problems(TREE) == []
    assert problems(wrong) == ["g, live: 1 lost", "g, live: 2 out of order"]


def test_the_page_has_a_section_on_replays(tmp_path: Path) -> None:
    runs = read_runs(*make_runs(tmp_path))
    assert Page(render(runs)).count("section", id="live") == 0
    page = Page(render(runs, None, [TREE, GRAPE]))
    assert page.count("section", id="live") == 1
    assert page.count("table", **{"class": "replays"}) == 1
    assert "for 4 subscribers through 3 live brokers" in page.text
    assert f"hops per delivery: {MINUS}40.0 % (predicted {MINUS}50.0 %)." in page.text
    assert "p3 (predicted B)" in page.text
    assert "Not counted in grape: 40 messages" in page.text
    assert page.count("p", **{"class": "fault"}) == 0
    lost = Page(render(runs, None, [replay("<g>", lost=1)]))
    assert lost.count("p", **{"class": "fault"}) == 1
    assert "<g>" in lost.text
    part = replay("g", predicted=None, unfinished=("2 of 4 subscribers did not get in",))
    assert problems(part) == ["g, live, is not whole: 2 of 4 subscribers did not get in"]
    assert "not whole: 2 of 4 subscribers did not get in." in Page(render(runs, None, [part])).text


def test_files_that_are_no_replays_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "replay.json"
    path.write_bytes(msgspec.json.encode(GRAPE))
    assert read_replay(path) == GRAPE
    with pytest.raises(ReportError, match=r"none.json: cannot be read: No such file"):
        read_replay(tmp_path / "none.json")
    for text in ("{", "{}", json.dumps(msgspec.to_builtins(GRAPE) | {"lost": "x"})):
        path.write_text(text)
        with pytest.raises(ReportError, match=r"replay.json: is no replay: "):
            read_replay(path)
