"""Runs with exchanged links, or with recommended ones."""

from __future__ import annotations

from pathlib import Path

from shoal.report.comparison import sentences
from shoal.report.exchanges import gone_links, links_at_end, new_links
from shoal.report.inputs import ReportRun, read_runs
from shoal.report.page import render
from tests.report.fake_runs import make_runs, proposal, write_proposals
from tests.report.test_page import Page


def runs_with(folder: Path, outcome: str) -> tuple[list[ReportRun], str, str]:
    """A baseline and a run in which a link is proposed for another: those links."""
    paths, summary = make_runs(folder, names=("baseline", "links"))
    (left, middle), *others = read_runs(paths, summary)[1].links
    far = next(b if a == middle else a for a, b in others if middle in (a, b))
    new, old = f"{left}-{far}", f"{left}-{middle}"
    write_proposals(paths[1], [proposal(20, outcome, new, old), proposal(40, "kept", new, old)])
    return read_runs(paths, summary), new, old


def test_exchanged_links_are_in_the_text_the_map_and_the_timeline(tmp_path: Path) -> None:
    runs, new, old = runs_with(tmp_path, "done")
    page = Page(text := render(runs))
    assert {"-".join(link) for link in new_links(runs[1])} <= {new, "-".join(new.split("-")[::-1])}
    assert len(gone_links(runs[1])) == 1
    assert len(links_at_end(runs[1])) == len(runs[1].links)
    assert "Which links were exchanged" in page.text
    assert f"{new.replace('-', ' - ')} instead of {old.replace('-', ' - ')} at 20.0 s" in text
    assert "1 link exchanged" in page.text
    for kind in ("gone", "new"):
        assert page.count("line", **{"class": kind}) == 1


def test_recommendations_alone_made_nothing_worse(tmp_path: Path) -> None:
    runs, *_ = runs_with(tmp_path, "advised")
    object.__setattr__(runs[1], "migrations", [])
    slower = runs[1].metrics | {"message_rate_per_s": 40.0, "delay_mean_us": 90_000.0}
    runs[1].metrics.update(slower)  # type: ignore[attr-defined]
    text = " ".join(sentences(runs))
    assert "made things worse" not in text
    assert "links against baseline only recommends links, and finding them raised" in text
    assert "Which links are recommended" in Page(render(runs)).text
    assert not new_links(runs[1])
