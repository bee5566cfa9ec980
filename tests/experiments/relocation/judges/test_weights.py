"""The figures that weights trade, and those that they do not change."""

from __future__ import annotations

import pytest

from shoal.experiments.relocation.grid import WEIGHTS, grape
from shoal.experiments.relocation.judges.weights import (
    settings_alike,
    weights_cost_alike,
    weights_trade,
)
from shoal.experiments.studies.claims import ClaimOutcome
from tests.experiments.relocation.judges.evidence import WIDE, evidence, value
from tests.experiments.relocation.summaries import spec, summary


def test_weights_trade_one_figure_for_the_other() -> None:
    runs = [
        summary(
            spec(grape(priority, weight)), delay_us=delay, message_rate_per_s=rate, overhead=0.1
        )
        for weight in WEIGHTS
        for priority, delay, rate in (("load", 100 + weight, 50), ("delay", 70, 100 + weight))
    ]
    given = evidence(*runs)
    falling, rising = ("delay_us",), ("message_rate_per_s",)
    assert value(weights_trade(WIDE, "load", falling, rising)(given)) == 1
    assert value(weights_trade(WIDE, "load", rising, falling)(given)) == 0.5
    assert value(weights_trade(WIDE, "delay", rising, ())(given)) == 1
    assert value(weights_cost_alike(WIDE, "overhead")(given)) == 0
    assert value(settings_alike(WIDE, ["overhead"])(given)) == 0
    assert value(settings_alike(WIDE, ["delay_us"])(given)) == pytest.approx(0.65)
    assert settings_alike(WIDE, ["delay_us"])(evidence(runs[0])) is None
    worse = summary(spec(grape("load", 1)), delay_us=300, message_rate_per_s=50, overhead=0.3)
    outcome = weights_trade(WIDE, "load", falling, rising)(evidence(*runs, worse))
    assert outcome == ClaimOutcome(
        "7 of 8 steps of weight; not load25 to load1 at X = 16, delivery delay", 7 / 8
    )
    assert value(weights_cost_alike(WIDE, "overhead")(evidence(*runs, worse))) == pytest.approx(0.2)
