"""A report names the invented parts of its runs, and the weight of one seed."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from shoal.report.inputs import ReportRun, read_runs
from shoal.report.made_up import made_up, one_seed
from shoal.report.page import render
from tests.report.fake_runs import make_runs


@pytest.fixture
def runs(tmp_path: Path) -> list[ReportRun]:
    return read_runs(*make_runs(tmp_path, names=("one", "two")))


def with_checks(run: ReportRun, **checks: int) -> ReportRun:
    return dataclasses.replace(run, checks={**run.checks, **checks})


@pytest.mark.parametrize(
    ("derived", "words"),
    [
        (0, "the subscriptions are those of the workload's own files"),
        (1, r"Demand: 1 of [\d,]+ subscriptions were derived"),
        (10**6, r"Demand: All [\d,]+ subscriptions were derived"),
    ],
)
def test_the_source_of_demand_is_named(runs: list[ReportRun], derived: int, words: str) -> None:
    (first, *_) = made_up(with_checks(runs[0], derived_subscriptions=derived))
    assert re.search(words, first)


def test_invented_places_are_named(runs: list[ReportRun]) -> None:
    run = runs[0]
    nowhere = [{**row, "latitude": None, "longitude": None} for row in run.brokers]
    somewhere = [{**row, "latitude": 1.0, "longitude": 2.0} for row in run.brokers]
    for brokers, words in (
        (nowhere, "the brokers have none"),
        (somewhere, "no broker runs at the places shown"),
        ([*nowhere[:1], *somewhere[1:]], f"1 of {len(run.brokers)} brokers have none"),
    ):
        said = " ".join(made_up(dataclasses.replace(run, brokers=brokers)))
        assert words in said


def test_a_single_seed_is_named_on_the_page(runs: list[ReportRun]) -> None:
    assert "one seed is one draw" in one_seed(runs)
    page = render(runs)
    assert page.count("one seed is one draw") == 2
    assert 'id="made-up"' in page


def test_cells_have_their_headings_on_a_phone(runs: list[ReportRun]) -> None:
    """The script finds the tables by their looks, the style makes rows of them."""
    page = render(runs)
    script = page.rpartition('<script type="module">')[2]
    for looks in ("comparison", "movers", "settings", "replays", "plain"):
        assert f".{looks}" in script
    assert 'class="comparison"' in page
    assert ".stack td[data-heading]::before" in page
