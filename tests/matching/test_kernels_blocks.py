"""The blocks' kernels against a test of every box."""

from __future__ import annotations

import numpy as np
import pytest

from shoal.matching import boxes
from shoal.matching.boxes import BoxBlocks
from shoal.matching.columns import Batch
from shoal.matching.kernels_blocks import EDGES_MAXIMUM, span_blocks
from tests.matching.test_kernels_grid import naive_boxes, random_boxes, random_points


@pytest.mark.parametrize("edges", [EDGES_MAXIMUM, 7])
@pytest.mark.parametrize("dimensions", [1, 2, 4, 5])
def test_boxes_that_hold_points(
    dimensions: int, edges: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boxes, "EDGES_MAXIMUM", edges)  # fewer than bounds: codes leave some open
    monkeypatch.setattr(boxes, "GRID_MAXIMUM", 0)
    random = np.random.default_rng(dimensions)
    names = [f"a{at}" for at in range(dimensions)]
    low, high = random_boxes(random, 5000, dimensions)
    part = BoxBlocks(names, low, high, np.arange(5000))
    points = random_points(random, 60, dimensions)
    given = {
        name: np.ma.array(points[:, at], mask=np.isnan(points[:, at]))
        for at, name in enumerate(names)
    }
    kept = random.random(5000) < 0.4
    for some, allowed in ((part, np.ones(5000, bool)), (part.restricted(kept[part.rows]), kept)):
        found = some.match(Batch.of_columns(given), 0, 60, {})
        for at, point in enumerate(points):
            run = found.members[found.begins[at] : found.begins[at] + found.counts[at]]
            expected = [box for box in naive_boxes(low, high, point) if allowed[box]]
            assert sorted(some.rows[run].tolist()) == expected


def test_a_block_is_taken_whole_where_all_its_boxes_are() -> None:
    low, high = np.zeros((200, 1)), np.full((200, 1), 9.0)
    found = BoxBlocks(["a"], low, high, np.arange(200)).match(
        Batch.of_columns({"a": np.array([5.0, 9.5])}), 0, 2, {}
    )
    assert found.counts.tolist() == [200, 0]


def test_spans_are_those_of_their_boxes() -> None:
    low, high = np.random.default_rng(5).integers(0, 9, (2, 3, 130)).astype(float)
    spans = span_blocks(low, high, 64)
    cut = [slice(0, 64), slice(64, 128), slice(128, 130)]
    for given, made, reduce in zip(
        (low, high, low, high), spans, ["min", "max", "max", "min"], strict=True
    ):
        assert made.tolist() == [[getattr(row[part], reduce)() for part in cut] for row in given]
