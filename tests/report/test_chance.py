"""Better or worse, by how much, at what price, and whether by more than chance."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.report.chance import differences, interval, verdicts
from shoal.report.comparison import sentences
from shoal.report.inputs import ReportRun, read_runs
from shoal.report.page import render
from shoal.report.settings import without_effect
from tests.report.fake_runs import make_runs


def write_seeds(run: Path, rates: Sequence[float], delays: Sequence[float], **changes: Any) -> None:
    rows = [
        {"seed": seed, "delivered": 100, "wrong": 0, "message_rate_per_s": rate,
         "delay_mean_us": delay, "hops_mean": 2.0, "message_overhead": 0.04, "migrations": 0,
         "subscriber_moves": 0, "exchanges": 0, **changes}
        for seed, (rate, delay) in enumerate(zip(rates, delays, strict=True), 1)
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), run / "seeds.parquet")


def runs_of(
    root: Path, rates: Sequence[float], delays: Sequence[float], **changes: Any
) -> tuple[ReportRun, ReportRun]:
    """A reference with 100 messages/s and 50 ms for each seed, and a run with these."""
    folders, summary = make_runs(root, ("baseline", "load100"))
    write_seeds(folders[0], [100.0] * len(rates), [50_000.0] * len(rates))
    write_seeds(folders[1], rates, delays, **changes)
    reference, run = read_runs(folders, summary)
    return reference, run


@pytest.mark.parametrize(
    ("count", "cut"), [(2, None), (5, None), (6, 0), (8, 0), (9, 1), (12, 2), (20, 5)]
)
def test_the_interval_holds_the_median_with_95_percent(count: int, cut: int | None) -> None:
    """The figures are those of tables of the sign test."""
    values = [float(value) for value in range(count)]
    assert interval(values[::-1]) == (None if cut is None else (cut, count - 1 - cut))


def test_gains_have_their_amount_and_price(tmp_path: Path) -> None:
    rates = [90.0, 80.0, 85.0, 70.0, 95.0, 88.0]
    delays = [49_000.0, 51_000.0, 48_000.0, 53_000.0, 50_500.0, 49_900.0]
    reference, run = runs_of(tmp_path, rates, delays, migrations=3)
    verdict, rate, delay, price, proof = (
        text.replace("\N{MINUS SIGN}", "-") for text in verdicts(run, reference)
    )
    assert verdict == (
        "load100 is better in the broker message rate (-13.5 %), by more than chance, than "
        "baseline (over 6 seeds)"
    )
    assert rate == (
        "the broker message rate changes by -13.5 % (100 → 86.5 messages/s; medians; with 95 % "
        "confidence -30.0 % to -5.00 %)"
    )
    assert "the mean delivery delay changes by +0.400 %" in delay
    assert "-4.00 % to +6.00 %" in delay
    assert price.startswith("the price: 3 publisher moves, 4.00 % of all messages are control ")
    assert proof == "every seed delivers the same 100, none wrong"


@pytest.mark.parametrize(
    ("rates", "delays", "wanted"),
    [
        (
            [120.0, 110.0] * 3,
            [50_000.0, 49_999.0] * 3,
            "is worse in the broker message rate (+15.0 %), by",
        ),
        (
            [90.0, 91.0] * 3,
            [60_000.0, 61_000.0] * 3,
            "but worse in the mean delivery delay (+21.0 %), by",
        ),
        ([90.0, 110.0] * 3, [49_000.0, 51_000.0] * 3, "differs by no more than chance explains"),
        ([90.0, 91.0], [49_000.0, 48_000.0], "cannot be judged, which takes 6 seeds"),
        ([90.0] * 6, [49_000.0] * 6, "leaves nothing to chance"),
        ([100.0] * 6, [50_000.0] * 6, "is in no seed different from"),
    ],
)
def test_verdicts_follow_from_the_interval(
    tmp_path: Path, rates: list[float], delays: list[float], wanted: str
) -> None:
    reference, run = runs_of(tmp_path, rates, delays)
    assert wanted in verdicts(run, reference)[0]


def test_seeds_are_compared_in_pairs(tmp_path: Path) -> None:
    reference, run = runs_of(tmp_path, [90.0, 80.0, 70.0], [50_000.0] * 3)
    write_seeds(tmp_path / "baseline", [200.0], [1.0])
    reference, run = read_runs([tmp_path / "baseline", tmp_path / "load100"], tmp_path / "summary")
    assert differences(run, reference) == []
    assert verdicts(run, reference) == []


def test_wrong_and_lost_deliveries_are_reported(tmp_path: Path) -> None:
    reference, run = runs_of(tmp_path, [90.0] * 6, [49_000.0] * 6, wrong=2)
    assert verdicts(run, reference)[-1].startswith("12 deliveries are wrong")
    reference, run = runs_of(tmp_path, [90.0] * 6, [49_000.0] * 6, delivered=99)
    assert "one seed delivers 99, another 100" in verdicts(run, reference)[-1]


def test_the_page_and_the_terminal_have_the_verdict(tmp_path: Path) -> None:
    runs = runs_of(tmp_path, [90.0, 91.0] * 3, [60_000.0, 61_000.0] * 3)
    page = re.sub(r"<[^>]+>", "", render(runs))
    assert "By more than chance?" in page
    for text in verdicts(runs[1], runs[0]):
        assert text in page
        assert text in sentences(runs)
    # The figures of the first seed alone would confuse.
    assert "Against baseline" not in page
    assert not any("load100 against baseline" in text for text in sentences(runs))
    assert "seed 1, the first of 6" in page
    alone, summary = make_runs(tmp_path / "alone", ("baseline", "load100"))
    assert "By more than chance?" not in render(read_runs(alone, summary))


def test_the_large_figures_are_medians_over_the_seeds(tmp_path: Path) -> None:
    rates = [90.0, 80.0, 85.0, 70.0, 95.0, 88.0]
    runs = runs_of(tmp_path, rates, [49_000.0, 51_000.0, 48_000.0, 53_000.0, 50_500.0, 49_900.0])
    cards = re.findall("<article>.*?</article>", render(runs), re.DOTALL)
    before, after = (" ".join(re.sub("<[^>]*>", " ", card).split()) for card in cards)
    assert "100 messages/s broker message rate, median of 6 seeds" in before
    assert "86.5 messages/s \N{MINUS SIGN}13.5" in after.replace("\N{NO-BREAK SPACE}", " ")
    assert "50.2 ms +0.4" in after.replace("\N{NO-BREAK SPACE}", " ")
    assert "mean delivery delay, median of 6 seeds" in after
    assert "Figures of the first seed" in render(runs)
    assert "median of" not in render(runs_of_one_seed(tmp_path / "one"))


def runs_of_one_seed(root: Path) -> list[ReportRun]:
    return list(read_runs(*make_runs(root, ("baseline", "load100"))))


def test_a_setting_that_changes_no_figure_is_named(tmp_path: Path) -> None:
    reference, run = runs_of(tmp_path, [90.0, 91.0] * 3, [49_000.0] * 6)
    assert without_effect([reference, run]) == []
    scenario = {**run.scenario, "grape": {"priority": "load", "weight": 3}}
    same = type(run)(
        **{name: getattr(run, name) for name in run.__slots__}
        | {"name": "light", "scenario": scenario}
    )
    text = "grape.weight had no effect: load100 and light differ in nothing else, "
    assert without_effect([reference, run, same]) == [f"{text}and have the same figures"]
    assert text in sentences([reference, run, same])[-1]
    assert text in re.sub(r"<[^>]+>", "", render([reference, run, same]))
