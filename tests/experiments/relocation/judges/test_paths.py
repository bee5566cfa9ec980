"""Waits and selections over path lengths, on figures with known answers."""

from __future__ import annotations

import pytest

from shoal.experiments.relocation.grid import LOAD, RelocationSetting
from shoal.experiments.relocation.judges.paths import (
    long_moves_take,
    means_by_path,
    selections_by_path,
    selections_grow_with_paths,
    selections_ignore_paths,
    waits_grow_with_paths,
)
from shoal.experiments.relocation.measuring.summary import Migration, RunSummary
from tests.experiments.relocation.judges.evidence import WIDE, evidence, value
from tests.experiments.relocation.summaries import selection, spec, summary


def moved(hops_and_waits: list[tuple[int, int]], setting: RelocationSetting = LOAD) -> RunSummary:
    migrations = tuple(
        Migration(publisher=f"P{n}", source="A", target="B", path_hops=hops, wait_us=wait_us)
        for n, (hops, wait_us) in enumerate(hops_and_waits)
    )
    selections = tuple(
        selection(f"P{n}", "A", "B", took_us=wait_us)
        for n, (_, wait_us) in enumerate(hops_and_waits)
    )
    return summary(spec(setting), {"migrations": migrations, "selections": selections})


def test_waits_and_paths() -> None:
    given = evidence(moved([(1, 10_000), (2, 20_000), (3, 31_000), (12, 9_000_000)]))
    straight = evidence(moved([(1, 10_000), (2, 20_000), (3, 31_000)]))
    assert value(waits_grow_with_paths([WIDE], [LOAD])(straight)) > 0.99
    assert value(waits_grow_with_paths([WIDE], [LOAD])(evidence(
        moved([(1, 9_000), (2, 8_000), (3, 9_000)])))) == pytest.approx(0)  # fmt: skip
    assert value(long_moves_take([WIDE], [LOAD])(given)) == 31_000
    assert value(selections_ignore_paths([WIDE], LOAD)(straight)) > 0.99
    assert value(selections_grow_with_paths([WIDE], LOAD)(straight)) > 0.99
    assert abs(value(selections_ignore_paths([WIDE], LOAD)(evidence(
        moved([(1, 10), (2, 12), (3, 8), (4, 11)]))))) < 0.5  # fmt: skip
    assert selections_grow_with_paths([WIDE], LOAD)(evidence()) is None


def test_staying_is_a_path_of_length_nought() -> None:
    run = summary(
        spec(LOAD),
        {
            "selections": (selection("P", "A", "A", 6), selection("Q", "A", "B", 8)),
            "migrations": (
                Migration(publisher="Q", source="A", target="B", path_hops=4, wait_us=1),
            ),
        },
    )
    assert list(selections_by_path(run, with_pings=True)) == [(0, 6), (4, 8)]
    assert list(selections_by_path(run, with_pings=False)) == [(0, 3), (4, 4)]
    assert means_by_path([(2, 4), (0, 1), (2, 6)]) == {0: 1.0, 2: 5.0}
