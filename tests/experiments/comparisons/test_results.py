"""Medians, intervals and differences beside figures that were calculated by hand."""

from __future__ import annotations

import pytest

from shoal.experiments.comparisons.design import Factor
from shoal.experiments.comparisons.results import Spread, cells, reference_of
from shoal.experiments.comparisons.runs import ComparedFigures

RATE = "message_rate_per_s"
TREE, GRAPE = {"system": "tree"}, {"system": "grape", "grape.weight": "50"}


def run(setting: dict[str, str], seed: int, rate: float | None, **more: float) -> ComparedFigures:
    return ComparedFigures(
        key="", setting=setting, seed=seed, metrics={RATE: rate, **more}, costs=[]
    )


def test_seeds_are_compared_pair_by_pair() -> None:
    found = [run(TREE, seed, 10.0 * seed) for seed in range(1, 7)]
    found += [run(GRAPE, seed, 9.0 * seed) for seed in range(1, 7)]
    tree, grape = cells(found, [TREE, GRAPE])
    change = grape.change(tree, RATE)
    assert change is not None
    assert (change.median, change.low, change.high) == pytest.approx((-0.1, -0.1, -0.1))
    assert (change.seeds, change.is_sure) == (6, True)
    assert tree.spread(RATE) == Spread(35.0, 10.0, 60.0)


def test_few_seeds_have_no_interval_and_missing_ones_are_left_out() -> None:
    found = [run(TREE, 1, 10.0), run(TREE, 2, None), run(GRAPE, 1, 12.0), run(GRAPE, 3, 1.0)]
    tree, grape = cells(found, [TREE, GRAPE])
    change = grape.change(tree, RATE)
    assert change is not None
    assert (change.median, change.seeds, change.is_sure) == (pytest.approx(0.2), 1, None)
    assert tree.spread(RATE) == Spread(10.0, None, None)
    assert tree.spread("hops_mean") is None
    assert grape.change(tree, "hops_mean") is None


def test_the_reference_differs_in_the_first_factor_only() -> None:
    factor = Factor("system", ("tree", "grape"))
    settings = [
        {"system": system, "fan_out": fan_out, **more}
        for system, more in (("tree", {}), ("grape", {"grape.weight": "50"}))
        for fan_out in ("2", "4")
    ]
    found = cells([run(each, 1, 1.0) for each in settings], settings)
    references = [reference_of(cell, found, factor) for cell in found]
    assert references == [None, None, found[0], found[1]]
    # Without the reference's runs there is none.
    assert reference_of(found[2], found[1:], factor) is None


def test_wrong_deliveries_of_all_seeds_are_counted() -> None:
    (cell,) = cells([run(TREE, seed, 1.0, lost=seed, out_of_order=1.0) for seed in (1, 2)], [TREE])
    assert cell.wrong() == {"lost": 3, "duplicated": 0, "phantom": 0, "out_of_order": 2}
