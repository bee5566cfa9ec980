"""The report's page: self-contained, escaped, complete, and reproducible."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from shoal.report.comparison import GROUPS, groups_of
from shoal.report.drawing import figures
from shoal.report.inputs import ReportRun, read_runs
from shoal.report.over_time import charts_of
from shoal.report.page import render
from tests.report.fake_runs import AIRPORTS, make_runs

VOID = {"meta", "br", "input"}


class Page(HTMLParser):
    """Reads a page strictly: every tag is closed; keeps text, tags and attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "script" not in self.open and "style" not in self.open:
            self.text += data

    def count(self, tag: str, **attributes: str) -> int:
        return sum(
            name == tag and all(found.get(key) == value for key, value in attributes.items())
            for name, found in self.tags
        )


def runs_of(root: Path, **arguments: Any) -> list[ReportRun]:
    return read_runs(*make_runs(root, **arguments))


def test_the_page_loads_no_resources(tmp_path: Path) -> None:
    text = render(runs_of(tmp_path))
    page = Page(text)
    for _, attributes in page.tags:
        assert not attributes.keys() & {"src", "href", "xlink:href", "srcset", "data", "action"}
    assert not re.search(r"https?://|url\(|@import|fetch\(|import\(", text)


def test_a_metric_of_which_no_run_has_a_value_is_left_out(tmp_path: Path) -> None:
    runs = [
        replace(run, metrics={**run.metrics, "weight_mean": None, "spared": None})
        for run in runs_of(tmp_path)
    ]
    text = Page(render(runs)).text
    assert "Weight at the knee" not in text
    assert "Spared" not in text
    runs[1] = replace(runs[1], metrics={**runs[1].metrics, "spared": 0})
    assert "Spared" in Page(render(runs)).text


def test_a_group_without_metrics_has_no_heading(tmp_path: Path) -> None:
    """No publication was delivered, and the delays' heading had no rows."""
    group, metrics = GROUPS[1]
    none = dict.fromkeys(each.column for each in metrics)
    runs = [replace(run, metrics=run.metrics | none) for run in runs_of(tmp_path)]
    assert group not in [name for name, _ in groups_of(runs)]
    assert group in [name for name, _ in groups_of(runs_of(tmp_path))]


def test_runs_are_compared_with_the_first(tmp_path: Path) -> None:
    page = Page(render(runs_of(tmp_path)))
    assert "Against baseline:load100 cut the average broker message rate by 31.0 %" in page.text
    assert page.count("li") == 2  # one for each run but the first
    assert "raised the mean delivery delay by 6.00 % (64.2 → 68.1 ms)" in page.text
    assert (
        "All 393,216 expected deliveries in 3 runs arrived, each exactly once, "
        "each publisher's in order." in page.text
    )
    assert page.count("span", **{"class": "change better"}) > 10
    assert page.count("button", role="tab") == 2
    assert page.count("svg", **{"class": "map"}) == 4
    assert page.count("svg", **{"class": "lines"}) == 2


def test_losses_come_first(tmp_path: Path) -> None:
    runs = runs_of(tmp_path)
    runs[2].metrics["lost"] = 7
    text = render(runs)
    assert (
        "Of 393,216 expected deliveries in 3 runs: 7 lost, 0 duplicated, 0 phantom, 0 out of order."
        in text
    )
    assert "each exactly once" not in text
    assert '<td class="fault">7</td>' in text


def test_names_from_data_are_escaped(tmp_path: Path) -> None:
    text = render(runs_of(tmp_path), title="<script>alert(1)</script>")
    assert "<script>alert" not in text
    assert "<Intl>" not in text
    assert "Luis Munoz Marin &lt;Intl&gt; &amp; more" in text


def test_every_move_is_listed_and_marked(tmp_path: Path) -> None:
    runs = runs_of(tmp_path)
    page = Page(render(runs))
    moved = sum(len({row["publisher"] for row in run.migrations}) for run in runs)
    assert page.count("td", **{"class": "number"}) == 4 * moved
    moves = sum(len(run.migrations) for run in runs)
    ticks = [a for tag, a in page.tags if tag == "path" and str(a.get("d", "")).endswith("v9")]
    assert len(ticks) == 2 * moves


def test_a_single_run_has_no_tabs_and_no_changes(tmp_path: Path) -> None:
    page = Page(render(runs_of(tmp_path, names=["only"])))
    assert page.count("button") == 0
    assert page.count("svg", **{"class": "map"}) == 1
    assert "Against" not in page.text
    assert "Wide bar" not in page.text
    bars = [a for tag, a in page.tags if tag == "rect" and a.get("opacity") == "0.38"]
    assert bars == []
    assert (
        "All 131,072 expected deliveries arrived, each exactly once, "
        "each publisher's in order." in page.text
    )


@pytest.mark.parametrize(
    ("places", "outlined"),
    [
        (AIRPORTS, True),
        ([("Paris", 48.9, 2.4, "Paris"), ("Berlin", 52.5, 13.4, "Berlin")], False),
        ([("north", None, None, ""), ("south", None, None, ""), ("east", 1.0, 2.0, "")], False),
        ([("alone", 40.0, -80.0, "Alone")], True),
    ],
)
def test_brokers_are_drawn_with_and_without_a_map(
    tmp_path: Path, places: Any, outlined: bool
) -> None:
    text = render(runs_of(tmp_path, places=places))
    assert len(Page(text).text) > 2000
    assert ('<g class="states"><path' in text) is outlined


def test_readings_under_the_pointer_equal_the_timeline(tmp_path: Path) -> None:
    runs = runs_of(tmp_path)
    data = re.search(r'id="readings">(.*?)</script>', render(runs))
    assert data is not None
    readings = json.loads(data[1])
    delay = readings["Delay"]["series"][0]
    assert delay["x"][:3] == [0.0, 5.0, 10.0]
    assert delay["y"][10] is None
    assert float(delay["y"][0]) == pytest.approx(
        runs[0].timeline[0]["delay_mean_us"] / 1000, rel=0.01
    )


def test_runs_that_begin_later_are_drawn_from_where_the_others_begin(tmp_path: Path) -> None:
    runs = runs_of(tmp_path)
    assert "are drawn as much to the left" not in render(runs)
    late = runs[1]
    for row in late.timeline:
        row["window_start_us"] += 20_000_000
    first = late.migrations[0]
    at_s = (first["resumed_us"] + 20_000_000) / 1e6
    for row in late.migrations:
        row["resumed_us"] += 20_000_000
    before = late.migrations[0] | {"resumed_us": 5_000_000}
    late.migrations.insert(0, before)
    text = render(runs)
    data = re.search(r'id="readings">(.*?)</script>', text)
    assert data is not None
    for series in json.loads(data[1])["Load"]["series"]:
        assert series["x"][:3] == [0.0, 5.0, 10.0]
    assert f"are drawn as much to the left: {late.name} (20.0 s)" in text
    charted = charts_of(runs, ["a", "b", "c"], "s", 1e6)[0][1][1].moves
    assert [time for time, _ in charted[:2]] == [0.0, pytest.approx(at_s - 20)]
    assert charted[0][1].endswith(" at 5.00 s")


def test_settings_of_another_system_are_not_shown(tmp_path: Path) -> None:
    runs = runs_of(tmp_path)
    for place, system in enumerate(("tree", "grape", "grape")):
        scenario = {**runs[place].scenario, "grape": {"priority": ("load", "load", "delay")[place]}}
        metrics = {**runs[place].metrics, "system": system}
        runs[place] = replace(runs[place], scenario=scenario, metrics=metrics)
    row = re.search(r"<th[^>]*>grape.priority</th>(.*?)</tr>", render(runs))
    assert row is not None
    said = re.findall(r"<td>(.*?)</td>", row[1])
    assert [each.strip('"') for each in said] == [figures.MISSING, "load", "delay"]


def test_the_same_runs_give_the_same_page(tmp_path: Path) -> None:
    assert render(runs_of(tmp_path / "a")) == render(runs_of(tmp_path / "b"))


def test_wide_tables_scroll_in_a_narrow_window(tmp_path: Path) -> None:
    """Each is in a scrolling box of its own."""
    tags = Page(render(runs_of(tmp_path))).tags
    tables = [at for at, (name, _) in enumerate(tags) if name == "table"]
    assert len(tables) >= 3
    for at in tables:
        name, attributes = tags[at - 1]
        assert (name, attributes.get("class")) in {("div", "wide"), ("div", "scroll")}
