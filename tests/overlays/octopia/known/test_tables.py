"""The rows of a cluster's tables, and what one that comes may cost."""

from __future__ import annotations

import time

from shoal.overlays.octopia.known.tables import Entry, Tables
from tests.broker.transcript import advertisement, subscription
from tests.overlays.hard_pairs import MANY, hostile_one, hostile_patterns
from tests.overlays.octopia.stages import ProductStage


def test_one_row_against_many_that_are_hard_to_compare_takes_bounded_work() -> None:
    product = ProductStage().product
    rows: dict[Entry, None] = {}
    by_advertisement, by_subscription = (Tables(0, 0, product, each) for each in (rows, {}))
    for number, text in enumerate(hostile_patterns()):
        by_advertisement.advertise("a1", advertisement(f"a{number}", text))
        by_subscription.add(0, subscription(f"s{number}", text))
    good = by_advertisement.advertise("a1", advertisement("good", "x > 5"))
    started_s = time.process_time()
    entry = by_advertisement.add(0, subscription("s", hostile_one()))
    row = by_subscription.advertise("a1", advertisement("a", hostile_one()))
    assert time.process_time() - started_s < 1.0
    # What was not compared may overlap: a publication that nobody wants does no harm.
    assert len(row.overlapping) == MANY
    assert all(entry in each.overlapping for each in by_advertisement.secondary.values())
    # The next has as much again.
    other = by_advertisement.add(0, subscription("other", "x < 5 AND s = 'c'"))
    assert other not in good.overlapping
